//! Requirements on every controller that models the path, on one link in virtual time.

mod rated;
mod target;
mod window;

use proptest::prelude::*;

use super::{
    QueueGoal,
    harness::{Path, run},
};
use crate::config::Controller;

const OURS: [Controller; 2] = [Controller::Auto, Controller::Bbr3];

fn path() -> Path {
    Path::steady()
}

#[test]
fn fills_a_clean_link_without_filling_its_queue() {
    for controller in OURS {
        let out = run(controller, &path(), 20.0, 1);
        assert!(out.rate(2.0, 20.0) > 0.97 * 5e6, "{controller}");
        let late = &out.rtt_s[out.rtt_s.len() / 2..];
        let mean = late.iter().sum::<f64>() / late.len() as f64;
        assert!(mean < 0.09, "{controller}: mean round trip {mean}");
        assert!(out.lost < out.sent / 500, "{controller}: lost {}", out.lost);
    }
}

/// 100 Mbit/s at 300 ms hold 54 initial windows: three rounds of fourfold growth, and one to measure.
#[test]
fn auto_fills_a_long_pipe_in_six_round_trips() {
    let long = Path {
        rate: |_| 12.5e6,
        rtt_s: 0.3,
        queue_bytes: 3_750_000.0,
        ..path()
    };
    let out = run(Controller::Auto, &long, 4.0, 1);
    assert!(out.rate(1.8, 3.0) > 0.9 * 12.5e6, "{}", out.rate(1.8, 3.0));
}

/// Beside what the other side sends, acknowledgements wait on their way back.
#[test]
fn auto_keeps_its_rate_while_acknowledgements_are_late() {
    let slow = Path {
        rate: |_| 0.25e6,
        rtt_s: 0.07,
        queue_bytes: 100_000.0,
        returning_s: |at_s| if at_s > 3.0 { 0.15 } else { 0.0 },
        reports: true,
        goal: QueueGoal::Short,
        ..path()
    };
    let out = run(Controller::Auto, &slow, 20.0, 1);
    let rate = out.rate(8.0, 20.0);
    assert!(rate > 0.9 * 0.25e6, "{rate}");
    // And the queue on the way there stays short.
    let mean = |from: usize, to: usize| {
        let trips = &out.rtt_s[from..to];
        trips.iter().sum::<f64>() / trips.len() as f64
    };
    let late = mean(out.rtt_s.len() / 2, out.rtt_s.len());
    assert!(late < 0.07 + 0.15 + 0.04, "{late}");
}

/// A channel that has sent little since its handshake, a packet in a tenth of a second, fills its path as quickly as a
/// fresh one.
#[test]
fn auto_does_not_take_idleness_for_a_slow_path() {
    let idle = Path {
        rtt_s: 0.1,
        limited: (0.0, 3.0, 15e3),
        ..path()
    };
    let out = run(Controller::Auto, &idle, 5.0, 1);
    assert!(out.rate(3.6, 5.0) > 0.9 * 5e6, "{}", out.rate(3.6, 5.0));
}

/// A path that the first flight already fills: no overshoot that costs packets.
#[test]
fn auto_does_not_overshoot_a_slow_path() {
    let slow = Path {
        rate: |_| 1.5e6,
        rtt_s: 0.06,
        queue_bytes: 90_000.0,
        ..path()
    };
    let out = run(Controller::Auto, &slow, 3.0, 1);
    assert_eq!(out.lost, 0);
    assert!(out.rate(0.2, 3.0) > 0.97 * 1.5e6);
}

#[test]
fn one_percent_of_random_loss_costs_no_more_than_itself() {
    for controller in OURS {
        for seed in 1..=4 {
            let lossy = Path {
                loss: 0.01,
                ..path()
            };
            let rate = run(controller, &lossy, 20.0, seed).rate(2.0, 20.0);
            assert!(rate > 0.94 * 5e6, "{controller}, seed {seed}: {rate}");
        }
    }
}

#[test]
fn follows_a_rate_that_falls_and_rises() {
    for controller in OURS {
        let steps = Path {
            rate: |s| {
                if (6.0..12.0).contains(&s) {
                    1.25e6
                } else {
                    5e6
                }
            },
            ..path()
        };
        let out = run(controller, &steps, 24.0, 1);
        assert!(out.rate(9.0, 12.0) > 0.9 * 1.25e6, "{controller}");
        assert!(out.rate(18.0, 24.0) > 0.9 * 5e6, "{controller}");
    }
}

/// The largest recent rate exceeds what such a path has most of the time. A window that drains only as far as that rate
/// suggests leaves a queue, takes it for the path's own round trip, and makes the next one longer.
#[test]
fn the_shortest_round_trip_is_found_again_on_a_path_whose_rate_changes() {
    let changing = Path {
        rate: |t_s| match (t_s * 10.0) as u64 % 4 {
            0 => 5e6,
            _ => 3.5e6,
        },
        rtt_s: 0.03,
        ..path()
    };
    let out = run(Controller::Auto, &changing, 120.0, 1);
    let late = &out.rtt_s[out.rtt_s.len() / 2..];
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    assert!(mean < 0.065, "mean round trip {mean}");
}

/// A slow radio path that begins with almost no rate. A short queue of fewer packets than the path's own variation leaves the
/// window at its least for ever: each round trip is longer than the shortest one by more than the queue that the window allows.
#[test]
fn a_slow_path_with_a_short_queue_recovers_from_a_slow_beginning() {
    let rising = Path {
        rate: |t_s| match (t_s, (t_s * 10.0) as u64 % 5) {
            (..1.0, _) => 20e3,
            (_, 0) => 150e3,
            (_, 1 | 2) => 250e3,
            _ => 400e3,
        },
        rtt_s: 0.05,
        queue_bytes: 80e3,
        goal: super::QueueGoal::Short,
        ..path()
    };
    let out = run(Controller::Auto, &rising, 60.0, 1);
    let mean = (150e3 + 2.0 * 250e3 + 2.0 * 400e3) / 5.0;
    assert!(
        out.rate(10.0, 60.0) > 0.8 * mean,
        "{}",
        out.rate(10.0, 60.0)
    );
    let late = &out.rtt_s[out.rtt_s.len() / 2..];
    let rtt_s = late.iter().sum::<f64>() / late.len() as f64;
    assert!(rtt_s < 0.15, "mean round trip {rtt_s}");
}

/// A window that the largest rate of the last seconds decides holds far more than arrives in time when the rate falls to a quarter.
#[test]
fn data_with_a_lifetime_is_still_in_time_when_the_rate_falls() {
    let falling = |goal| Path {
        rate: |t_s| if t_s as u64 % 4 < 2 { 400e3 } else { 100e3 },
        rtt_s: 0.05,
        queue_bytes: 200e3,
        goal,
        ..path()
    };
    let lifetime = std::time::Duration::from_millis(300);
    let run = |goal| run(Controller::Auto, &falling(goal), 60.0, 1);
    let [full, within] = [super::QueueGoal::Full, super::QueueGoal::Within(lifetime)].map(run);
    let late = |out: &super::harness::Outcome| {
        let late = out.rtt_s.iter().filter(|&&rtt_s| rtt_s - 0.025 > 0.3);
        late.count() as f64 / out.rtt_s.len() as f64
    };
    assert!(
        late(&within) < 0.25 * late(&full),
        "{} {}",
        late(&within),
        late(&full)
    );
    let rates = [&within, &full].map(|out| out.rate(10.0, 60.0));
    assert!(rates[0] > 0.9 * 250e3, "{rates:?}");
}

#[test]
fn a_pause_is_not_taken_for_a_slow_path() {
    for controller in OURS {
        let pausing = Path {
            pause: (5.0, 8.0),
            ..path()
        };
        let out = run(controller, &pausing, 12.0, 1);
        assert!(out.rate(9.0, 12.0) > 0.9 * 5e6, "{controller}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for controller in OURS {
        let lossy = Path {
            loss: 0.02,
            ..path()
        };
        assert_eq!(
            run(controller, &lossy, 8.0, 7),
            run(controller, &lossy, 8.0, 7)
        );
    }
}

/// Bbr3 draws the times of its probes; only the seed determines them.
#[test]
fn another_seed_probes_at_another_time() {
    let of = |seed| run(Controller::Bbr3, &path(), 12.0, seed).tenths;
    assert_ne!(of(1), of(2));
}

#[test]
fn heavy_loss_and_tiny_queues_are_survived() {
    for controller in OURS {
        let hostile = Path {
            loss: 0.3,
            queue_bytes: 3_000.0,
            ..path()
        };
        let out = run(controller, &hostile, 20.0, 3);
        assert!(out.rate(5.0, 20.0) > 0.0, "{controller}");
        assert!(out.window_least >= 4 * 1_500, "{controller}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// On any link: never stuck, never below four packets, no absurd rate (the harness asserts it),
    /// never more delivered than the link carries.
    #[test]
    fn any_link_is_survived(
        rtt_ms in 1u32..400,
        queue_packets in 1u32..400,
        loss in 0.0f64..0.2,
        seed in any::<u64>(),
        bbr in any::<bool>(),
    ) {
        let controller = OURS[usize::from(bbr)];
        let path = Path {
            rate: |s| if s < 3.0 { 4e5 } else { 8e4 },
            rtt_s: f64::from(rtt_ms) * 1e-3,
            queue_bytes: f64::from(queue_packets) * 1_500.0,
            loss,
            pause: (2.0, 2.5),
            ..path()
        };
        let out = run(controller, &path, 8.0, seed);
        prop_assert!(out.window_least >= 4 * 1_500);
        prop_assert!(out.rate(4.0, 8.0) > 0.0);
        prop_assert!(out.rate(0.0, 3.0) <= 4e5 * 1.01 + 4_500.0);
    }
}
