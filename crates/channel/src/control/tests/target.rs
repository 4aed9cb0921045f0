//! `ctcp`: requirements on a controller with a target rate.

use std::time::Duration;

use anabranch_base::Rate;
use proptest::prelude::*;

use super::super::harness::{Outcome, Path, run};
use crate::config::{Controller, Ctcp, Inner};

const TARGET: Rate = Rate::from_mbps(4);
const TARGET_BYTES: f64 = 5e5;

fn of(inner: Inner, path: &Path, seconds: f64) -> Outcome {
    let ctcp = Ctcp {
        inner,
        ..Ctcp::at(TARGET)
    };
    run(Controller::Ctcp(ctcp), path, seconds, 1)
}

/// Largest deviation of any adjustment interval after the first from `rate`, as a fraction of it.
fn farthest(out: &Outcome, rate: f64) -> f64 {
    let intervals = out.tenths.len() / 80;
    let distance = |k: usize| (out.rate(8.0 * k as f64, 8.0 * (k + 1) as f64) / rate - 1.0).abs();
    (1..intervals).map(distance).fold(0.0, f64::max)
}

/// A tenth of the link's capacity, and none of its queue.
#[test]
fn the_target_is_held_and_nothing_waits() {
    for inner in [Inner::Auto, Inner::NewReno] {
        let out = of(inner, &Path::steady(), 80.0);
        assert!(farthest(&out, TARGET_BYTES) < 0.005, "{inner:?}");
        assert!((out.rate(0.1, 8.0) / TARGET_BYTES - 1.0).abs() < 0.02);
        assert_eq!(out.lost, 0);
        let most = out.rtt_s.iter().copied().fold(0.0, f64::max);
        assert!(most < 0.05 + 2.0 * 1_500.0 / 5e6, "{inner:?}: {most}");
    }
}

/// The queue of the slow path holds two packets: one more that leaves at once with another would be lost.
#[test]
fn packets_leave_one_by_one() {
    let slow = Path {
        rate: |_| 66_000.0,
        rtt_s: 0.08,
        queue_bytes: 1_400.0,
        ..Path::steady()
    };
    for inner in [Inner::Auto, Inner::NewReno] {
        let ctcp = Ctcp {
            inner,
            ..Ctcp::at(Rate::from_kbps(520))
        };
        let out = run(Controller::Ctcp(ctcp), &slow, 80.0, 1);
        assert_eq!(out.lost, 0, "{inner:?}");
        assert!(farthest(&out, 65_000.0) < 0.02, "{inner:?}");
    }
}

/// Lost data is sent again within the target, which has a margin for it.
#[test]
fn random_loss_costs_what_is_lost() {
    let lossy = Path {
        loss: 0.03,
        ..Path::steady()
    };
    let out = of(Inner::Auto, &lossy, 160.0);
    assert!(farthest(&out, 0.97 * TARGET_BYTES) < 0.02);
    assert!((out.sent as f64 / (160.0 * TARGET_BYTES) - 1.0).abs() < 0.01);
}

/// A second almost without slots is made up for, without exceeding the target much at any time.
#[test]
fn what_an_outage_took_is_made_up_for() {
    let dark = Path {
        rate: |s| if (20.0..20.4).contains(&s) { 5e4 } else { 5e6 },
        ..Path::steady()
    };
    let out = of(Inner::Auto, &dark, 80.0);
    assert!(out.rate(20.0, 21.0) < 0.2 * TARGET_BYTES);
    let mean = out.rate(8.0, 80.0) / TARGET_BYTES;
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
    let most = out.tenths.windows(20).map(|w| w.iter().sum::<u64>()).max();
    assert!(most.unwrap_or_default() as f64 / 2.0 < 1.07 * TARGET_BYTES);
}

/// A target that the path cannot hold: the inner controller decides, and the ceiling bounds the queue.
#[test]
fn a_target_beyond_the_capacity_feeds_no_endless_queue() {
    let narrow = Path {
        rate: |_| 4e5,
        queue_bytes: 1e6,
        ..Path::steady()
    };
    for inner in [Inner::Auto, Inner::NewReno] {
        let out = of(inner, &narrow, 160.0);
        assert!(out.rate(8.0, 160.0) > 0.97 * 4e5, "{inner:?}");
        let most = out.rtt_s.iter().copied().fold(0.0, f64::max);
        // Base plus 100 ms of queue at the target, drained at four fifths of it.
        assert!(most < 0.15 / 0.8 + 0.03, "{inner:?}: {most}");
        assert_eq!(out.lost, 0, "{inner:?}");
    }
}

#[test]
fn the_target_changes_while_it_runs() {
    let changed = Path {
        change: Some((40.0, Rate::from_mbps(16))),
        ..Path::steady()
    };
    let out = of(Inner::Auto, &changed, 80.0);
    assert!((out.rate(8.0, 40.0) / TARGET_BYTES - 1.0).abs() < 0.01);
    assert!(
        (out.rate(41.0, 80.0) / 2e6 - 1.0).abs() < 0.01,
        "{}",
        out.rate(41.0, 80.0)
    );
    let changed = Path {
        change: Some((40.0, Rate::from_mbps(1))),
        ..Path::steady()
    };
    for controller in [
        Controller::Ctcp(Ctcp::at(TARGET)),
        Controller::Fixed(TARGET),
    ] {
        let out = run(controller, &changed, 80.0, 1);
        assert!(
            (out.rate(41.0, 80.0) / 125e3 - 1.0).abs() < 0.01,
            "{controller}"
        );
    }
}

/// Data that the application did not send is no deficit.
#[test]
fn a_pause_is_not_made_up_for() {
    let pausing = Path {
        limited: (20.0, 40.0, 1e5),
        ..Path::steady()
    };
    let out = of(Inner::Auto, &pausing, 60.0);
    assert!((out.rate(22.0, 40.0) / 1e5 - 1.0).abs() < 0.05);
    assert!((out.rate(40.5, 60.0) / TARGET_BYTES - 1.0).abs() < 0.01);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// On any link: never stuck, and never above the target by more than what is made up for.
    #[test]
    fn the_target_is_never_exceeded(
        rtt_ms in 1u32..400,
        queue_packets in 1u32..100,
        loss in 0.0f64..0.2,
        interval_ms in 100u64..10_000,
        seed in any::<u64>(),
        reno in any::<bool>(),
    ) {
        let ctcp = Ctcp {
            inner: if reno { Inner::NewReno } else { Inner::Auto },
            interval: Duration::from_millis(interval_ms),
            ..Ctcp::at(TARGET)
        };
        let path = Path {
            rate: |s| if s < 8.0 { 1e6 } else { 2e5 },
            rtt_s: f64::from(rtt_ms) * 1e-3,
            queue_bytes: f64::from(queue_packets) * 1_500.0,
            loss,
            ..Path::steady()
        };
        let out = run(Controller::Ctcp(ctcp), &path, 16.0, seed);
        prop_assert!(out.rate(4.0, 16.0) > 0.0);
        prop_assert!(out.sent as f64 <= 1.01 * 16.0 * TARGET_BYTES + 30_000.0);
    }
}
