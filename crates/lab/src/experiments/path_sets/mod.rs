#![doc = include_str!("plan.md")]

pub(crate) mod sets;
mod summary;

use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_base::Rate;
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    experiments::smartpointer::demand_of,
    kit::{
        parallel,
        sources::{Visualisation, visualisation::NAMES},
        streams::{
            Algorithm, Measured, Scene, Timing, measure,
            show::{mbps, rounded},
        },
    },
};
use sets::{PathSet, choose};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "path-sets",
    summary: "number of sets of recorded paths on which critical streams get their rate, by scheduling algorithm",
    plan: include_str!("plan.md"),
    folders: &["paths"],
    run,
    compare: summary::compare,
    plots: |_| Vec::new(),
};

/// Sum to which the paths are scaled down, to limit the duration of a run. At 12 Mbit/s, packets and the minimum windows of
/// controllers are so large relative to the rates of slow seconds that even `opt` misses requirements that it meets at 100.
const RECORDED_MAX: Rate = Rate::from_mbps(40);
/// Algorithms that run by default.
const USUAL: [&str; 5] = ["opt", "pgos", "priority_mean", "msfq", "wfq"];

/// A run to make.
struct Job<'a> {
    set: &'a PathSet<'a>,
    algorithm: Algorithm,
}

/// Runs every algorithm on a choice of sets.
fn run(options: &Options<'_>) -> Vec<Row> {
    let by_name = options.only.and_then(Algorithm::find);
    let algorithms = by_name.map_or_else(|| Algorithm::among(&USUAL), |one| vec![one]);
    let mut sets = choose(options.corpus, options.seed);
    if by_name.is_none() {
        sets.retain(|set| options.wants(&set.name()));
    }
    let jobs: Vec<Job<'_>> = sets
        .iter()
        .flat_map(|set| {
            let algorithms = algorithms.iter();
            algorithms.map(move |&algorithm| Job { set, algorithm })
        })
        .collect();
    let done = AtomicUsize::new(0);
    let rows = parallel::map(&jobs, |job| {
        let row = run_one(options, job);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(5) || done == jobs.len() {
            (options.progress)(&format!("path-sets: {done} of {} runs", jobs.len()));
        }
        row
    });
    let mut rows: Vec<Row> = rows.into_iter().flatten().collect();
    let summaries = summary::of(&rows);
    rows.extend(summaries);
    rows
}

/// Row of a run; `None` if the paths are too slow for any demand.
fn run_one(options: &Options<'_>, job: &Job<'_>) -> Option<Row> {
    let scene = Scene::of_recordings(&job.set.recordings, RECORDED_MAX)?;
    let demand = demand_of(&scene, options.seed, Timing::USUAL).ok()?;
    let source = Visualisation::generated(demand.rates);
    let source = Box::new(source.sharing(demand.elastic_share(demand.rates)));
    let measured = measure(options.seed, &scene, job.algorithm, Timing::USUAL, source).ok()?;
    Some(row(job, demand.rates, &measured))
}

fn row(job: &Job<'_>, rates: [Rate; 3], measured: &Measured) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!("set"));
    row.insert("set".into(), json!(job.set.name()));
    row.insert("origin".into(), json!(job.set.origin()));
    row.insert("paths".into(), json!(job.set.recordings.len()));
    row.insert("algorithm".into(), json!(job.algorithm.name()));
    let critical = rates[0].as_bps() + rates[1].as_bps();
    row.insert("critical_mbps".into(), mbps(critical as f64));
    for (stream, name) in measured.streams.iter().zip(NAMES).take(2) {
        let name = name.to_lowercase();
        row.insert(format!("{name}_met_fraction"), rounded(stream.frames.met));
        row.insert(
            format!("{name}_bytes_met_fraction"),
            rounded(stream.bytes.met),
        );
        row.insert(format!("{name}_p95_of_target"), {
            rounded(stream.frames.p95_bps / stream.target_bps)
        });
    }
    row.insert("goodput_mbps".into(), mbps(measured.goodput_bps));
    row.insert("available_mbps".into(), mbps(measured.available_bps));
    row
}
