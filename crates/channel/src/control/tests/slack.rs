//! A window that is used up before it is acknowledged, on a path that carries more.

use std::time::{Duration, Instant};

use anabranch_base::Seed;

use crate::{
    config::Config,
    control::{Ack, Control, QueueGoal, build, test_epoch},
};

const MTU: f64 = 1_400.0;
/// Packets of a round.
const PACKETS: u32 = 20;

/// Bytes in flight after so many rounds in which the whole window is used. Packets take from `smallest_ms` to 26 ms more, and the
/// shortest round trip was 91 ms.
fn window_after(rounds: u32, smallest_ms: f64) -> f64 {
    let mut control = build(&Config::default(), Seed(1), test_epoch(), MTU as u16);
    control.set_queue_goal(QueueGoal::Steady);
    let mut state = Rounds {
        now: test_epoch(),
        delivered: 0,
    };
    // The start ends on a path of 1 MB/s: rounds without growth.
    for _ in 0..8 {
        state.run(&mut *control, 91.0, Some(100_000.0));
    }
    let before = control.window() as f64;
    for _ in 0..rounds {
        state.run(&mut *control, smallest_ms, None);
    }
    control.window() as f64 / before
}

struct Rounds {
    now: Instant,
    delivered: u64,
}

impl Rounds {
    /// A round with the window in flight, or so many bytes.
    fn run(&mut self, control: &mut dyn Control, smallest_ms: f64, in_flight: Option<f64>) {
        let in_flight = in_flight.unwrap_or(control.window() as f64);
        let bytes = (in_flight / f64::from(PACKETS)) as u64;
        let at_sent = self.delivered;
        let mean_s = (smallest_ms + 13.0) / 1e3;
        for packet in 0..PACKETS {
            self.delivered += bytes;
            let rtt_ms = smallest_ms + 26.0 * f64::from(packet) / f64::from(PACKETS - 1);
            control.on_ack(&Ack {
                now: self.now,
                sent: self.now - Duration::from_secs_f64(rtt_ms / 1e3),
                bytes,
                packet: 0,
                app_limited: false,
                is_capped: false,
                rate_sample: Some(in_flight / mean_s),
                delivered_at_sent: at_sent,
                delivered: self.delivered,
                in_flight_at_sent: in_flight as u64,
                lost_since_sent: 0,
                // A round with few packets, before, met none of the delay.
                rtt_excess_s: 0.005,
                rtt: None,
            });
        }
        self.now += Duration::from_secs_f64(mean_s);
    }
}

#[test]
fn a_window_without_a_queue_grows() {
    let grown = window_after(60, 91.5);
    assert!(grown > 3.0, "{grown}");
}

#[test]
fn a_queue_that_stands_ends_the_growth() {
    let grown = window_after(60, 100.0);
    assert!(grown < 1.05, "{grown}");
}
