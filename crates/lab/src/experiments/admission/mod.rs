#![doc = include_str!("plan.md")]

mod customers;
mod engine;
pub mod exact;
mod fluid;
mod foresight;
mod levels;
mod records;
mod rows;
mod summary;
mod warnings;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anabranch_base::Rate;

use crate::{
    Experiment, Options, Row,
    experiments::path_sets::sets::{Choice, PathSet, choose_as},
    kit::{
        parallel,
        streams::{RecordedPath, Scene},
    },
};
use customers::Crowd;
use engine::Sessions;
use records::Outcome;

pub use rows::Rows;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "admission",
    summary: "random streams on recorded paths: what is admitted, and how well promises hold",
    plan: include_str!("plan.md"),
    folders: &["paths"],
    run,
    compare: summary::compare,
    plots: |_| Vec::new(),
};

const WINDOW: Duration = Duration::from_secs(1);
/// Windows before the first customer arrives.
const BEFORE: usize = 60;
/// Limit on the windows of a fluid run.
const WINDOWS_MAX: usize = 1_200;
/// The sets of fluid runs, and the shortest recording.
const FLUID: Choice = Choice {
    name: "admission, fluid",
    together: &[(2, 8), (3, 8), (4, 6)],
    apart: &[(2, 8), (3, 8), (4, 4)],
};
const FLUID_LEAST: Duration = Duration::from_secs(590);
/// Sets of the engine and its twin.
const ENGINE: Choice = Choice {
    name: "admission, engine",
    together: &[(2, 3), (3, 2), (4, 1)],
    apart: &[(2, 2), (3, 2)],
};
/// Seconds of a run of the engine.
const ENGINE_SECONDS: usize = 400;
/// Sum to which the paths of the engine are scaled down: more would only add packets.
const ENGINE_MAX: Rate = Rate::from_mbps(12);

/// Implementation that serves the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// [`fluid`].
    Fluid,
    /// [`mod@engine`], with one session.
    Engine,
    /// [`mod@engine`], with several sessions that share the paths.
    Node,
    /// [`fluid`], on the sets and customers of the engine.
    Twin,
    /// [`levels`], on the sets of [`fluid`].
    Levels,
}

impl Mode {
    const ALL: [Self; 5] = [
        Self::Fluid,
        Self::Engine,
        Self::Node,
        Self::Twin,
        Self::Levels,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Fluid => "fluid",
            Self::Engine => "engine",
            Self::Node => "node",
            Self::Twin => "twin",
            Self::Levels => "levels",
        }
    }
}

/// A run to make.
struct Job<'a> {
    mode: Mode,
    set: PathSet<'a>,
}

/// A completed run.
struct Done<'a> {
    job: &'a Job<'a>,
    windows: usize,
    outcome: Outcome,
}

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut jobs = Vec::new();
    let least = Duration::from_secs(ENGINE_SECONDS as u64);
    // Long runs first, so that all cores are busy until the end.
    for (mode, choice, least) in [
        (Mode::Node, ENGINE, least),
        (Mode::Engine, ENGINE, least),
        (Mode::Fluid, FLUID, FLUID_LEAST),
        (Mode::Twin, ENGINE, least),
        (Mode::Levels, FLUID, FLUID_LEAST),
    ] {
        for set in choose_as(choice, least, options.corpus, options.seed) {
            let name = format!("{}/{}", mode.name(), set.name());
            if options.wants(&name) {
                jobs.push(Job { mode, set });
            }
        }
    }
    let done = AtomicUsize::new(0);
    let results = parallel::map(&jobs, |job| {
        let result = run_one(options, job);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(5) || done == jobs.len() {
            (options.progress)(&format!("admission: {done} of {} runs", jobs.len()));
        }
        result
    });
    let results: Vec<Done<'_>> = jobs
        .iter()
        .zip(results)
        .filter_map(|(job, result)| {
            let (windows, outcome) = result?;
            Some(Done {
                job,
                windows,
                outcome,
            })
        })
        .collect();
    let has_customers = |done: &&Done<'_>| done.job.mode != Mode::Levels;
    let with_customers = results.iter().filter(has_customers);
    let mut rows: Vec<Row> = with_customers.map(summary::of_set).collect();
    for mode in Mode::ALL {
        let own: Vec<&Done<'_>> = results
            .iter()
            .filter(|done| done.job.mode == mode)
            .collect();
        if own.is_empty() {
            continue;
        }
        if mode == Mode::Levels {
            rows.extend(levels::rows(&own));
        } else {
            rows.extend(summary::of_levels(mode, &own));
            rows.push(summary::of_mode(mode, &own));
        }
    }
    rows
}

/// Number of its windows and its outcome; `None` if a recording is no path.
fn run_one(options: &Options<'_>, job: &Job<'_>) -> Option<(usize, Outcome)> {
    let most = match job.mode {
        Mode::Fluid | Mode::Levels => Rate::from_mbps(1_000_000),
        Mode::Engine | Mode::Node | Mode::Twin => ENGINE_MAX,
    };
    let scene = Scene::of_recordings(&job.set.recordings, most)?;
    let Scene::Recorded(paths) = &scene else {
        return None;
    };
    let shortest = paths.iter().map(RecordedPath::duration).min()?;
    let windows = match job.mode {
        Mode::Fluid | Mode::Levels => WINDOWS_MAX.min(shortest.as_secs() as usize),
        Mode::Engine | Mode::Node | Mode::Twin => ENGINE_SECONDS,
    };
    let means: Vec<f64> = paths.iter().map(RecordedPath::mean_bps).collect();
    // The engine and its twin have the same customers.
    let who = format!("customers of {}", job.set.name());
    let crowd = match job.mode {
        Mode::Node => Crowd::OF_A_NODE,
        Mode::Fluid | Mode::Engine | Mode::Twin | Mode::Levels => Crowd::OF_A_SESSION,
    };
    let customers = customers::draw(options.seed, &who, crowd, &means, BEFORE..windows);
    let held = || -> Vec<Vec<f64>> {
        let held = paths.iter().map(|path| path.windows_bps(WINDOW, windows));
        let held: Vec<Vec<f64>> = held.collect();
        let row = |at: usize| held.iter().map(|path| path[at]).collect();
        (0..windows).map(row).collect()
    };
    let outcome = match job.mode {
        Mode::Engine => {
            let sessions = (Sessions::ONE, windows);
            engine::run(options.seed, &scene, &customers, sessions)?
        }
        Mode::Node => {
            let sessions = (Sessions::SEVERAL, windows);
            let mut outcome = engine::run(options.seed, &scene, &customers, sessions)?;
            outcome.rates.clairvoyant = foresight::in_force(&held(), &customers, windows);
            outcome
        }
        Mode::Fluid | Mode::Twin => fluid::run(&held(), &customers),
        Mode::Levels => Outcome {
            levels: levels::run(options.seed, &job.set.name(), &held()),
            ..Outcome::default()
        },
    };
    Some((windows, outcome))
}
