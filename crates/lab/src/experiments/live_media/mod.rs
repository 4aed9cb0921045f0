#![doc = include_str!("plan.md")]

mod ideal;
mod links;
mod measure;

use std::time::Duration;

use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{output::Published, parallel},
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "live-media",
    summary: "live media over three recorded cellular paths that carry little more than it needs",
    plan: include_str!("plan.md"),
    folders: &["paths/nyc_cellular"],
    run,
    compare: |_| Vec::<Published>::new(),
    plots: |_| Vec::new(),
};

/// Packets of a run, their size, and the time between two.
const COUNT: u64 = 34_200;
const PACKET_BYTES: usize = 1_316;
const INTERVAL: Duration = Duration::from_micros(1_754);
/// Age from which a packet is of no use.
const LIFETIME: Duration = Duration::from_millis(300);
const RUNS: u32 = 5;

fn run(options: &Options<'_>) -> Vec<Row> {
    let Some(recordings) = links::recordings(options.corpus) else {
        return Vec::new();
    };
    let runs: Vec<u32> = (0..RUNS)
        .filter(|run| options.wants(&format!("run {}", run + 1)))
        .collect();
    parallel::map(&runs, |&run| {
        let links = links::of_run(recordings, run);
        let mut row = measure::row(options.seed.child(&run.to_string()), &links);
        let ideal = ideal::in_time(&links, |index, at| links::rate_bps(&links[index], at));
        row.insert("run".into(), json!(run + 1));
        row.insert("ideal_fraction".into(), json!(ideal));
        (options.progress)(&format!("live-media: run {}", run + 1));
        row
    })
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::kit::corpus::Corpus;

    /// Exact, in virtual time, on the recordings that travel with the program; it was 0.923 while the largest rate of the last seconds
    /// alone decided how much was in flight.
    #[test]
    fn nearly_all_media_is_in_time_where_an_ideal_sender_has_all() {
        let corpus = Corpus::bundled();
        let rows = run(&Options {
            seed: Seed(1),
            only: Some("run 1"),
            corpus: &corpus,
            progress: &|_| {},
        });
        let [row] = &rows[..] else {
            panic!("one row, not {}", rows.len());
        };
        let of = |field: &str| row[field].as_f64().expect("a number");
        assert!(of("ideal_fraction") > 0.999, "{row:?}");
        assert!(of("in_time_fraction") > 0.98, "{row:?}");
        assert!(of("in_time_fraction") <= of("ideal_fraction"), "{row:?}");
    }
}
