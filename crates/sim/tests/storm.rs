//! Random worlds with faults; more of them with `make storm SEEDS=2000`.

use std::thread;

use anabranch_sim::storm;

/// Storms in every test run.
const SEEDS: u64 = 300;

#[test]
fn every_promise_holds_in_every_storm() {
    // A storm is a world of its own: as many at a time as there are cores.
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let broken_of = |first: usize| -> Vec<String> {
        (first as u64..SEEDS)
            .step_by(threads)
            .map(|seed| storm::run(seed, false))
            .filter(|report| !report.broken.is_empty())
            .map(|report| format!("seed {}: {}", report.seed, report.broken.join("; ")))
            .collect()
    };
    let broken = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || broken_of(first)))
            .collect();
        let joined = running
            .into_iter()
            .flat_map(|one| one.join().expect("no storm panics"));
        joined.collect::<Vec<_>>()
    });
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
