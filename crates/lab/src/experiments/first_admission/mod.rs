#![doc = include_str!("plan.md")]

mod ages;
mod runs;
mod shares;
mod stands;

use std::time::Duration;

use serde_json::json;

use crate::{
    Experiment, Options, Row,
    experiments::path_sets::sets::{Choice, choose_as},
    kit::{output::Published, parallel},
};
use runs::Early;
use stands::Stood;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "first-admission",
    summary: "what is promised five seconds after connecting, and whether it is kept",
    plan: include_str!("plan.md"),
    folders: &["paths"],
    run,
    compare: |_| Vec::<Published>::new(),
    plots: |_| Vec::new(),
};

const SETS: Choice = Choice {
    name: "first-admission",
    together: &[(2, 60), (3, 40)],
    apart: &[(2, 60), (3, 40)],
};
/// Probabilities that are asked for.
const PROBABILITIES: [f64; 3] = [0.75, 0.9, 0.95];
/// Time at which the early session is asked again, and the time of the same recorded second in the late one.
const EARLY: Duration = Duration::from_secs(5);
const LATE: Duration = Duration::from_secs(65);
/// Time for which a promised stream sends.
const SENDS_FOR: Duration = Duration::from_secs(25);
/// Recordings are longer, so that none begins again.
const LEAST: Duration = Duration::from_secs(120);

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    if options.wants("ages") {
        rows.extend(ages::rows(options.corpus));
    }
    if options.wants("shares") {
        rows.extend(shares::rows(options.corpus, options.seed));
    }
    let sets = choose_as(SETS, LEAST, options.corpus, options.seed);
    let stand: Vec<_> = sets
        .iter()
        .filter(|set| options.wants(&format!("stands/{}", set.name())))
        .collect();
    let stood = parallel::map(&stand, |set| {
        let stood = stands::of_set(set, options.seed);
        (options.progress)(&format!("first-admission: stands, {}", set.name()));
        stood
    });
    let stood: Vec<Stood> = stood.into_iter().flatten().collect();
    rows.extend(stood.iter().map(Stood::row));
    rows.extend(stands::summaries(&stood));
    let sets: Vec<_> = sets
        .iter()
        .filter(|set| options.wants(&format!("set/{}", set.name())))
        .collect();
    let of_sets = parallel::map(&sets, |set| {
        let rows = runs::of_set(set, options.seed);
        (options.progress)(&format!("first-admission: {}", set.name()));
        rows
    });
    let all: Vec<Early> = of_sets.into_iter().flatten().collect();
    rows.extend(all.iter().map(Early::row));
    rows.extend(
        PROBABILITIES
            .iter()
            .filter_map(|&probability| summary(&all, probability)),
    );
    rows
}

/// Figures over all sets at one probability; `None` without any.
fn summary(all: &[Early], probability: f64) -> Option<Row> {
    let of: Vec<&Early> = all
        .iter()
        .filter(|early| early.probability == probability)
        .collect();
    let mut ratios: Vec<f64> = of.iter().filter_map(|early| early.ratio()).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let median = ratios.get(ratios.len() / 2)?;
    let (kept, broken) = of.iter().fold((0, 0), |(kept, broken), early| {
        (kept + early.kept, broken + early.broken)
    });
    let promised = of.iter().filter(|early| early.early_bps > 0).count();
    let late = of.iter().filter(|early| early.late_bps > 0).count();
    let sum = |bps: fn(&Early) -> u64| of.iter().map(|early| bps(early) as f64).sum::<f64>();
    let mut row = Row::new();
    row.extend(
        [
            ("kind", json!("summary")),
            ("probability", json!(probability)),
            ("sets", json!(of.len())),
            ("promised_early", json!(promised)),
            ("promised_late", json!(late)),
            ("ratio_median", json!(median)),
            (
                "ratio_of_sums",
                json!(sum(|early| early.early_bps) / sum(|early| early.late_bps)),
            ),
            (
                "ratio_at_least_half_fraction",
                json!(
                    ratios.iter().filter(|ratio| **ratio >= 0.5).count() as f64
                        / ratios.len() as f64
                ),
            ),
            ("windows_kept", json!(kept)),
            ("windows_broken", json!(broken)),
            (
                "kept_fraction",
                json!(kept as f64 / (kept + broken).max(1) as f64),
            ),
            (
                "probe_bytes_max",
                json!(of.iter().map(|early| early.probe_bytes).max()),
            ),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    Some(row)
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::kit::corpus::Corpus;

    /// On the recordings that travel with the program.
    #[test]
    fn an_early_promise_is_made_from_few_probes_and_its_windows_are_counted() {
        let corpus = Corpus::bundled();
        let rows = run(&Options {
            seed: Seed(1),
            only: Some("set/"),
            corpus: &corpus,
            progress: &|_| {},
        });
        let at_90 = rows
            .iter()
            .find(|row| row["kind"] == json!("summary") && row["probability"] == json!(0.9));
        let of = |field: &str| at_90.expect("a summary")[field].as_f64().expect("a number");
        assert!(of("promised_early") >= 1.0, "{at_90:?}");
        let windows = of("windows_kept") + of("windows_broken");
        assert!((10.0..=25.0).contains(&windows), "{at_90:?}");
        assert!((0.3..1.2).contains(&of("ratio_of_sums")), "{at_90:?}");
        assert!(of("probe_bytes_max") < 90_000.0, "{at_90:?}");
    }
}
