//! Random worlds with faults; more of them with `make storm SEEDS=2000`.

use anabranch_sim::storm;

/// Storms in every test run.
const SEEDS: u64 = 300;

#[test]
fn every_promise_holds_in_every_storm() {
    let broken: Vec<String> = (0..SEEDS)
        .map(|seed| storm::run(seed, false))
        .filter(|report| !report.broken.is_empty())
        .map(|report| format!("seed {}: {}", report.seed, report.broken.join("; ")))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_storm_is_the_same_every_time() {
    for seed in [1, 5, 11] {
        let (first, second) = (storm::run(seed, true), storm::run(seed, true));
        assert!(first.packets > 500, "seed {seed} hardly does anything");
        assert_eq!(first.log, second.log, "seed {seed}");
    }
}
