#![doc = include_str!("plan.md")]

use anabranch_base::Rate;
use anabranch_sim::topology::figure8;

use crate::{
    Experiment, Options, Row,
    kit::{
        experiment::WHEN_NAMED,
        output::Plot,
        parallel,
        sources::{
            Visualisation,
            visualisation::{NAMES, PUBLISHED},
        },
        streams::{
            Algorithm, Scene, Timing, measure,
            show::{
                distinct, distribution_plot, find, late_rows, path_rows, stream_rows, time_plot,
                window_rows,
            },
        },
    },
};

mod demand;
mod live_run;
mod published;

pub use demand::{Demand, demand_of};
pub use live_run::LiveRun;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "smartpointer",
    summary: "atoms and bonds at 25 frames/s over two paths, by scheduling algorithm [IQ-Paths Table III]",
    plan: include_str!("plan.md"),
    folders: WHEN_NAMED,
    run,
    compare: published::compare,
    plots,
};

/// Sum to which recorded paths are scaled down, to limit the duration of a run.
const RECORDED_MAX: Rate = Rate::from_mbps(100);

/// Paths, and the server over them: at the paper's rates on its testbed, or at rates that are as demanding on recordings.
fn setting(options: &Options<'_>) -> Result<(Scene, Visualisation), String> {
    let recordings: Vec<_> = options.corpus.recordings.iter().collect();
    let scene = if recordings.is_empty() {
        Scene::Network(figure8())
    } else {
        let scene = Scene::of_recordings(&recordings, RECORDED_MAX);
        scene.ok_or("a recording has no bandwidth above 0")?
    };
    let demand = demand_of(&scene, options.seed, Timing::USUAL)?;
    let rates = if recordings.is_empty() {
        PUBLISHED
    } else {
        demand.rates
    };
    let source = Visualisation::generated(rates).sharing(demand.elastic_share(rates));
    Ok((scene, source))
}

/// Runs every algorithm.
fn run(options: &Options<'_>) -> Vec<Row> {
    let (scene, source) = match setting(options) {
        Ok(setting) => setting,
        Err(reason) => {
            (options.progress)(&format!("smartpointer: {reason}"));
            return Vec::new();
        }
    };
    let mut algorithms = Algorithm::all();
    algorithms.retain(|algorithm| options.wants(algorithm.name()));
    if algorithms.is_empty() {
        return Vec::new();
    }
    let runs = parallel::map(&algorithms, |&algorithm| {
        let source = Box::new(source.clone());
        let measured = measure(options.seed, &scene, algorithm, Timing::USUAL, source);
        (options.progress)(&format!("smartpointer: {}", algorithm.name()));
        measured.ok()
    });
    let mut rows = path_rows(&scene, options.seed, Timing::USUAL);
    for (algorithm, measured) in algorithms.iter().zip(&runs) {
        let labels = [("algorithm", algorithm.name())];
        rows.extend(
            measured
                .iter()
                .flat_map(|m| stream_rows(&labels, &scene, m)),
        );
    }
    for (algorithm, measured) in algorithms.iter().zip(&runs) {
        let labels = [("algorithm", algorithm.name())];
        rows.extend(measured.iter().flat_map(|m| late_rows(&labels, m)));
        rows.extend(measured.iter().flat_map(|m| window_rows(&labels, m)));
    }
    rows
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let algorithms = distinct(rows, "algorithm");
    let over_time = algorithms
        .iter()
        .map(|word| time_plot(rows, ("algorithm", word), &NAMES));
    let distributions = NAMES
        .iter()
        .map(|stream| distribution_plot(rows, ("algorithm", &algorithms), stream));
    over_time.chain(distributions).collect()
}
