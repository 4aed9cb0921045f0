//! `verb`: requirements on a rate controller on the channels that it is made for.

use proptest::prelude::*;

use super::super::{
    QueueGoal,
    harness::{Outcome, Path, run},
};
use crate::config::{Controller, Plateaus, Step, Verb};

const FAST: [Verb; 3] = [Verb::LTE, Verb::NR, Verb::SATELLITE];

/// 130 kbit/s with five seconds of queue behind a round trip of 350 ms [Horde Appendix A].
fn cdma() -> Path {
    Path {
        rate: |_| 16_250.0,
        rtt_s: 0.35,
        queue_bytes: 80e3,
        ..Path::steady()
    }
}

fn of(verb: Verb, path: &Path, seconds: f64) -> Outcome {
    run(Controller::Verb(verb), path, seconds, 1)
}

fn rtt_quantile(out: &Outcome, q: f64) -> f64 {
    let mut sorted = out.rtt_s.clone();
    sorted.sort_by(f64::total_cmp);
    sorted[(q * (sorted.len() - 1) as f64) as usize]
}

#[test]
fn a_cdma_channel_is_filled_without_a_loss() {
    let out = of(Verb::CDMA2000, &cdma(), 300.0);
    assert!(out.rate(60.0, 300.0) > 0.95 * 16_250.0);
    assert_eq!(out.lost, 0);
    // Its queue could hold five seconds.
    assert!(
        rtt_quantile(&out, 0.95) < 1.2,
        "{}",
        rtt_quantile(&out, 0.95)
    );
}

/// Above the top plateau there is nothing to gain by definition: probing is off.
#[test]
fn the_top_plateau_is_the_end() {
    let fast = Path {
        rate: |_| 20_000.0,
        ..cdma()
    };
    let out = of(Verb::CDMA2000, &fast, 120.0);
    let top = 133_000.0 / 8.0;
    assert!((out.rate(60.0, 120.0) - top).abs() < 0.01 * top);
    assert!(rtt_quantile(&out, 0.95) < 0.36 + 1_500.0 / 20_000.0);
}

#[test]
fn a_fast_link_is_filled_within_seconds() {
    for verb in FAST {
        let out = of(verb, &Path::steady(), 60.0);
        assert!(out.rate(0.0, 5.0) > 0.85 * 5e6, "{verb}");
        assert!(out.rate(5.0, 60.0) > 0.95 * 5e6, "{verb}");
        // Its queue is shorter than the growth that they tolerate.
        assert!(out.lost < out.sent / 50, "{verb}: lost {}", out.lost);
    }
}

/// A queue of a second: it backs off at the tolerated growth of the round trip, long before the queue is full.
#[test]
fn a_deep_queue_is_not_filled() {
    let deep = Path {
        queue_bytes: 5e6,
        ..Path::steady()
    };
    for verb in FAST {
        let out = of(verb, &deep, 60.0);
        assert_eq!(out.lost, 0, "{verb}");
        assert!(out.rate(5.0, 60.0) > 0.88 * 5e6, "{verb}");
        assert!(rtt_quantile(&out, 0.5) < 0.05 + 0.06, "{verb}");
        assert!(rtt_quantile(&out, 0.95) < 0.05 + 0.2, "{verb}");
    }
}

#[test]
fn a_short_queue_is_asked_for_and_kept() {
    let with = |goal| {
        let deep = Path {
            queue_bytes: 5e6,
            goal,
            ..Path::steady()
        };
        let out = of(Verb::LTE, &deep, 60.0);
        assert!(out.rate(5.0, 60.0) > 0.8 * 5e6, "{goal:?}");
        rtt_quantile(&out, 0.95)
    };
    let (short, full) = (with(QueueGoal::Short), with(QueueGoal::Full));
    assert!(short < full, "{short} {full}");
}

#[test]
fn a_rate_that_falls_and_rises_is_followed() {
    let steps = Path {
        rate: |s| {
            if (20.0..40.0).contains(&s) { 1e6 } else { 5e6 }
        },
        queue_bytes: 1e6,
        ..Path::steady()
    };
    for verb in FAST {
        let out = of(verb, &steps, 60.0);
        assert!(out.rate(22.0, 40.0) > 0.85 * 1e6, "{verb}");
        assert!(out.rate(42.0, 60.0) > 0.85 * 5e6, "{verb}");
        assert!(out.lost < out.sent / 100, "{verb}");
    }
}

#[test]
fn one_percent_of_random_loss_is_tolerated() {
    for verb in FAST {
        let lossy = Path {
            loss: 0.01,
            ..Path::steady()
        };
        let rate = of(verb, &lossy, 60.0).rate(5.0, 60.0);
        assert!(rate > 0.8 * 5e6, "{verb}: {rate}");
    }
    let lossy = Path {
        loss: 0.01,
        ..cdma()
    };
    let rate = of(Verb::CDMA2000, &lossy, 300.0).rate(60.0, 300.0);
    assert!(rate > 0.9 * 16_250.0, "{rate}");
}

#[test]
fn a_blackout_is_survived() {
    for verb in FAST {
        let dark = Path {
            blackout: (10.0, 14.0),
            ..Path::steady()
        };
        let out = of(verb, &dark, 40.0);
        assert_eq!(out.rate(11.0, 14.0), 0.0, "{verb}");
        assert!(out.rate(15.0, 20.0) > 0.7 * 5e6, "{verb}");
        assert!(out.rate(20.0, 40.0) > 0.9 * 5e6, "{verb}");
    }
}

#[test]
fn a_phase_without_data_changes_nothing() {
    for verb in FAST {
        let limited = Path {
            limited: (20.0, 40.0, 5e5),
            ..Path::steady()
        };
        let out = of(verb, &limited, 60.0);
        let during = out.rate(22.0, 40.0);
        assert!((during - 5e5).abs() < 0.02 * 5e5, "{verb}: {during}");
        assert!(out.rate(40.0, 60.0) > 0.93 * 5e6, "{verb}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// On any link with any parameters: the rate within the plateaus, the window finite and no less than four
    /// packets (the harness asserts that rates are finite), never stuck.
    #[test]
    fn any_parameters_survive_any_link(
        first_kbps in 1u64..100,
        span in 1u64..1_000,
        step in 1.01f64..3.0,
        start in 1u64..10_000,
        period_ms in 50u64..4_000,
        rise_ms in 1u64..2_000,
        share in 0.01f64..=1.0,
        rtt_ms in 1u32..400,
        queue_packets in 1u32..400,
        loss in 0.0f64..0.3,
        seed in any::<u64>(),
    ) {
        use std::time::Duration;
        use anabranch_base::Rate;
        let verb = Verb {
            plateaus: Plateaus {
                first: Rate::from_kbps(first_kbps),
                last: Rate::from_kbps(first_kbps * span),
                step: Step::Times(step),
            },
            start: Rate::from_kbps(start),
            period: Duration::from_millis(period_ms),
            rise: Duration::from_millis(rise_ms),
            ..Verb::LTE
        };
        let path = Path {
            rate: |s| if s < 3.0 { 4e5 } else { 8e4 },
            rtt_s: f64::from(rtt_ms) * 1e-3,
            queue_bytes: f64::from(queue_packets) * 1_500.0,
            loss,
            pause: (2.0, 2.5),
            blackout: (4.0, 4.5),
            share,
            ..Path::steady()
        };
        let out = run(Controller::Verb(verb), &path, 60.0, seed);
        prop_assert!(out.window_least >= 4 * 1_500);
        prop_assert!(out.window_most < 1 << 40);
        prop_assert!(out.rate(30.0, 60.0) > 0.0);
        let top = (first_kbps * span) as f64 * 125.0;
        prop_assert!(out.rate(30.0, 60.0) <= top * 1.01 + 1_500.0);
    }
}
