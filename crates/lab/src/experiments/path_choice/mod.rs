#![doc = include_str!("plan.md")]

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_link::{
    Traffic,
    traffic::{ParetoOnOff, Sizes},
};
use anabranch_sim::topology::{PATH_A, PATH_B, figure8_with};
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Plot, Published},
        parallel,
        sources::{
            Visualisation,
            visualisation::{NAMES, PUBLISHED},
        },
        streams::{
            Algorithm, Scene, Timing, measure,
            show::{
                STREAM, distribution_plot, find, path_rows, stream_rows, time_plot, window_rows,
            },
        },
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "path-choice",
    summary: "a steady, slower path against a noisy, faster one, for critical streams [IQ-Paths Table II]",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// Algorithm on a single path, where there is little to decide.
const ON_ONE: &str = "default";
/// Name in the rows of a run over both paths.
const BOTH: &str = "both";

/// The testbed with the cross-traffic of Table II: 71 Mbit/s that hardly vary on path A, 68.8 that vary much on path B.
fn scene() -> Scene {
    let users = |sources, bps| {
        Traffic::ParetoOnOff(ParetoOnOff {
            sources,
            peak: Rate::from_bps(bps),
            on_mean: Duration::from_millis(500),
            off_mean: Duration::from_millis(500),
            shape: 1.5,
            sizes: Sizes::Fixed(1_000),
        })
    };
    Scene::Network(figure8_with(
        [(); 3].map(|()| users(400, 118_300)),
        [(); 3].map(|()| users(11, 4_170_000)),
    ))
}

/// A run to make: paths and algorithm.
struct Job {
    path: &'static str,
    scene: Scene,
    algorithm: Algorithm,
}

fn jobs(options: &Options<'_>) -> Vec<Job> {
    let both = scene();
    let on_one = [PATH_A, PATH_B].into_iter().enumerate();
    let on_one = on_one.filter_map(|(index, path)| {
        Some(Job {
            path,
            scene: both.only(index),
            algorithm: Algorithm::find(ON_ONE)?,
        })
    });
    let on_both = Algorithm::all().into_iter().map(|algorithm| Job {
        path: BOTH,
        scene: both.clone(),
        algorithm,
    });
    let wanted = |job: &Job| options.wants(&format!("{} {}", job.path, job.algorithm.name()));
    on_one.chain(on_both).filter(wanted).collect()
}

/// Runs both paths alone, then every algorithm over both.
fn run(options: &Options<'_>) -> Vec<Row> {
    let jobs = jobs(options);
    if jobs.is_empty() {
        return Vec::new();
    }
    let [atoms, seen, _] = PUBLISHED;
    let runs = parallel::map(&jobs, |job| {
        let source = Box::new(Visualisation::generated([atoms, seen, Rate::ZERO]));
        let measured = measure(
            options.seed,
            &job.scene,
            job.algorithm,
            Timing::USUAL,
            source,
        );
        (options.progress)(&format!(
            "path-choice: {} {}",
            job.path,
            job.algorithm.name()
        ));
        measured.ok()
    });
    let mut rows = path_rows(&scene(), options.seed, Timing::USUAL);
    for (job, measured) in jobs.iter().zip(&runs) {
        let Some(measured) = measured else { continue };
        let labels = [("paths", job.path), ("algorithm", job.algorithm.name())];
        let mut streams = stream_rows(&labels, &job.scene, measured);
        for row in &mut streams {
            row.insert("run".into(), json!(run_name(job)));
        }
        rows.extend(streams);
    }
    for (job, measured) in jobs.iter().zip(&runs) {
        let Some(measured) = measured else { continue };
        let name = run_name(job);
        rows.extend(window_rows(&[("run", &name)], measured));
    }
    rows
}

/// Short name of a run, for plots.
fn run_name(job: &Job) -> String {
    if job.path == BOTH {
        format!("both, {}", job.algorithm.name())
    } else {
        job.path.to_owned()
    }
}

/// Rows of Table II: stream, path, rates in 95 % and 99 % of the time, share of the time in which the
/// requirement was met (§VI-B.1), mean and deviation of the jitter in milliseconds.
const TABLE_II: [(&str, &str, [f64; 5]); 4] = [
    ("Atom", PATH_A, [3.2336, 3.2322, 0.91, 0.82, 1.3]),
    ("Bond1", PATH_A, [22.0442, 22.0303, 0.90, 0.83, 1.3]),
    ("Atom", PATH_B, [2.4748, 1.927, 0.44, 1.7, 6.1]),
    ("Bond1", PATH_B, [17.2284, 13.0244, 0.59, 1.7, 6.1]),
];

fn compare(rows: &[Row]) -> Vec<Published> {
    let fields = [
        "bytes_p95_mbps",
        "bytes_p99_mbps",
        "bytes_met_fraction",
        "jitter_ms",
        "jitter_std_ms",
    ];
    let lines = TABLE_II.iter().filter_map(|(stream, path, figures)| {
        let wanted = [("kind", STREAM), ("paths", *path), ("stream", *stream)];
        let ours: Option<Vec<f64>> = fields.iter().map(|f| find(rows, &wanted, f)).collect();
        Some(Published::new(
            format!("{stream} over {path}: Mbit/s in 95 % and 99 %, share met, jitter and its deviation, ms"),
            "IQ-Paths Table II, §VI-B.1",
            join(figures),
            join(&ours?),
        ))
    });
    lines.collect()
}

fn join(figures: &[f64]) -> String {
    let words: Vec<String> = figures
        .iter()
        .map(|figure| format!("{figure:.3}"))
        .collect();
    words.join(", ")
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let paths = [PATH_A, PATH_B];
    let over_time = paths.map(|path| time_plot(rows, ("run", path), &NAMES[..2]));
    let distributions = NAMES[..2]
        .iter()
        .map(|stream| distribution_plot(rows, ("run", &paths), stream));
    over_time.into_iter().chain(distributions).collect()
}
