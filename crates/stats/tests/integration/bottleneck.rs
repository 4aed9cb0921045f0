//! Shared-bottleneck detection over 480 random topologies (`topology/mod.rs`), half of them with a
//! shared bottleneck.
//!
//! `cargo test -p anabranch-stats --test integration bottleneck:: -- --nocapture` prints the table of
//! `docs/results/path-estimators.md`.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // A test that prints its table.

use crate::topology;

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::Instant;
use anabranch_stats::bottleneck::{Detector, Verdict, detector::Config};
use topology::{Case, World};

const TOPOLOGIES: u64 = 480;
/// The thresholds were chosen on seeds below 100; these are others.
const SEED_FIRST: u64 = 5000;
const SECONDS: f64 = 120.0;
/// Outcomes are known this long after sending.
const KNOWN_AFTER_S: f64 = 2.0;

#[derive(Default)]
struct Tally {
    worlds: u32,
    shared: u32,
    separate: u32,
    ever_shared: u32,
    rfc_shared: u32,
    /// Worlds in which RFC 8382 finds a path without a bottleneck.
    rfc_blind: u32,
    first_right_s: Vec<f64>,
}

fn instant(seconds: f64) -> Instant {
    Instant::EPOCH + Duration::from_secs_f64(seconds.max(0.0))
}

fn case_of(seed: u64) -> Case {
    let of_kind = |shared: bool| {
        Case::ALL
            .into_iter()
            .filter(move |case| case.is_shared() == shared)
            .collect::<Vec<_>>()
    };
    let cases = of_kind(seed.is_multiple_of(2));
    cases[(seed / 2) as usize % cases.len()]
}

fn judge(case: Case, seed: u64, tally: &mut Tally) {
    let probes = World::new(case, seed).run(SECONDS);
    let mut detector = Detector::new(Config::new(2)).unwrap();
    let wanted = if case.is_shared() {
        Verdict::Shared
    } else {
        Verdict::Separate
    };
    let (mut ever_shared, mut right_since) = (false, None);
    for probe in probes {
        match probe.delay_s {
            Some(delay_s) => detector
                .observe_delay(probe.channel, instant(probe.sent_s), delay_s)
                .unwrap(),
            None => detector.observe_loss(probe.channel).unwrap(),
        }
        detector.advance(instant(probe.sent_s - KNOWN_AFTER_S));
        let verdict = detector.verdict(0, 1).unwrap();
        ever_shared |= verdict == Verdict::Shared;
        if verdict != wanted {
            right_since = None;
        } else if right_since.is_none() {
            right_since = Some(probe.sent_s);
        }
    }
    let verdict = detector.verdict(0, 1).unwrap();
    let mut groups = [None; 2];
    detector.groups_rfc8382(&mut groups);
    tally.worlds += 1;
    tally.shared += u32::from(verdict == Verdict::Shared);
    tally.separate += u32::from(verdict == Verdict::Separate);
    tally.ever_shared += u32::from(ever_shared);
    tally.rfc_shared += u32::from(groups[0].is_some() && groups[0] == groups[1]);
    tally.rfc_blind += u32::from(groups.contains(&None));
    tally.first_right_s.extend(right_since);
    if verdict != wanted {
        println!(
            "wrong: {case:?}, seed {seed}: {verdict:?}, {:?}",
            detector.coherence(0, 1)
        );
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[test]
fn random_topologies() {
    let mut tallies = BTreeMap::<Case, Tally>::new();
    for seed in SEED_FIRST..SEED_FIRST + TOPOLOGIES {
        let case = case_of(seed);
        judge(case, seed, tallies.entry(case).or_default());
    }
    println!(
        "case                    worlds  Shared  Separate  ever Shared  RFC 8382  RFC blind  right after (median)"
    );
    let (mut right, mut worlds, mut alarms, mut separate, mut rfc_right, mut rfc_alarms) =
        (0, 0, 0, 0, 0, 0);
    for (case, tally) in &mut tallies {
        println!(
            "{:<22} {:>7} {:>7} {:>9} {:>12} {:>9} {:>10} {:>10.1} s",
            format!("{case:?}"),
            tally.worlds,
            tally.shared,
            tally.separate,
            tally.ever_shared,
            tally.rfc_shared,
            tally.rfc_blind,
            median(&mut tally.first_right_s)
        );
        worlds += tally.worlds;
        if case.is_shared() {
            right += tally.shared;
            rfc_right += tally.rfc_shared;
        } else {
            separate += tally.worlds;
            right += tally.separate;
            alarms += tally.shared;
            rfc_right += tally.worlds - tally.rfc_shared;
            rfc_alarms += tally.rfc_shared;
        }
    }
    println!("right {right} of {worlds}, false alarms {alarms} of {separate}");
    println!(
        "RFC 8382 alone: right {rfc_right} of {worlds}, false alarms {rfc_alarms} of {separate}"
    );
    assert!(right * 100 >= worlds * 95, "right {right} of {worlds}");
    assert!(
        alarms * 100 <= separate * 2,
        "false alarms {alarms} of {separate}"
    );
}

/// Number of times that the end of a run finds the two paths sharing.
fn shared_share(
    seconds: f64,
    config: Config,
    knows_own: bool,
    worlds: impl Iterator<Item = World>,
) -> f64 {
    let (mut shared, mut all) = (0, 0);
    for world in worlds {
        let mut detector = Detector::new(config).unwrap();
        let (probes, own) = world.run_loaded(seconds);
        let mut own = own.into_iter().filter(|_| knows_own).peekable();
        for probe in probes {
            while let Some((channel, sent_s, bytes)) = own.next_if(|load| load.1 <= probe.sent_s) {
                detector
                    .observe_sent(channel, instant(sent_s), bytes)
                    .unwrap();
            }
            if let Some(delay_s) = probe.delay_s {
                detector
                    .observe_delay(probe.channel, instant(probe.sent_s), delay_s)
                    .unwrap();
            }
        }
        detector.advance(instant(seconds));
        shared += u32::from(detector.verdict(0, 1).unwrap() == Verdict::Shared);
        all += 1;
    }
    f64::from(shared) / f64::from(all)
}

/// Place where it ends: prints how the answer degrades. `cargo test -p anabranch-stats --test bottleneck --
/// --ignored --nocapture`
#[test]
#[ignore = "prints the limits, about half a minute"]
fn limits() {
    let worlds = |case: Case| (7000..7040u64).map(move |seed| World::new(case, seed));
    for seconds in [10.0, 20.0, 40.0, 80.0] {
        println!(
            "{seconds} s: shared found {}",
            shared_share(seconds, Config::new(2), false, worlds(Case::Shared))
        );
    }
    for jitter_s in [0.001, 0.005, 0.02, 0.05] {
        let noisy = worlds(Case::Shared).map(|world| world.with_probes(jitter_s, 0.01));
        println!(
            "jitter {jitter_s} s, 100 probes/s: shared found {}",
            shared_share(SECONDS, Config::new(2), false, noisy)
        );
    }
    for interval_s in [0.02, 0.05, 0.1, 0.2] {
        let sparse = worlds(Case::Shared).map(|world| world.with_probes(0.001, interval_s));
        println!(
            "a probe every {interval_s} s: shared found {}",
            shared_share(SECONDS, Config::new(2), false, sparse)
        );
    }
    for share in [0.0, 0.1, 0.2, 0.3, 0.5] {
        let common =
            (7000..7040).map(|seed| World::with_common(Case::SeparateCommonTraffic, seed, share));
        println!(
            "{share} of the rate crosses both: false alarms {}",
            shared_share(SECONDS, Config::new(2), false, common)
        );
    }
    for share in [0.1, 0.2, 0.3, 0.5, 0.8] {
        let own = || {
            (7000..7040).map(|seed| World::with_common(Case::SeparateCommonTraffic, seed, share))
        };
        let known = shared_share(SECONDS, Config::new(2), true, own());
        let unknown = shared_share(SECONDS, Config::new(2), false, own());
        let shared = (7000..7040).map(|seed| World::shared_with_own(seed, share));
        let found = shared_share(SECONDS, Config::new(2), true, shared);
        println!("own bursts of {share} of the rate on one shared link: found {found} known");
        println!(
            "own bursts of {share} of the rate on both: false alarms {known} known, {unknown} unknown"
        );
    }
    for trend_ms in [200, 500, 1000, 2000] {
        let config = Config {
            trend: Duration::from_millis(trend_ms),
            ..Config::new(2)
        };
        let alike = (0..100).map(|seed| World::new(Case::SeparateAlike, seed));
        let alarms = shared_share(SECONDS, config, false, alike);
        println!("trend {trend_ms} ms: false alarms among equal links {alarms} (tuning seeds)");
    }
}
