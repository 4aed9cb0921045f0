//! Delay of acknowledgements on their way back, told from the queue that packets meet.
//!
//! A round trip that grows shows a queue somewhere. If the peer's reports do not show it on the way there, acknowledgements wait on their
//! way back, behind what the peer sends. A window that holds only the product of rate and shortest round trip is too small then: less is
//! delivered in each round trip, which is taken for the path's rate.
//!
//! A report tells of the past. So only what all of the last [`PERIODS`] show counts: while a queue grows on the way there, round trips
//! show it before the reports do.

use std::time::Duration;

/// Periods of reports of which the smallest delay counts.
const PERIODS: usize = 3;
/// Shortest delay that is taken into account, in seconds: batches of acknowledgements and the times of reports leave less.
const LEAST_S: f64 = 0.02;
/// Longest delay that is taken into account, in seconds.
const MOST_S: f64 = 0.5;

/// See the module.
#[derive(Debug)]
pub(super) struct Returning {
    /// Smallest round trip since the last report.
    rtt_s: f64,
    /// Delays of the last periods, the newest first.
    delays_s: [f64; PERIODS],
}

impl Returning {
    pub(super) fn new() -> Self {
        Self {
            rtt_s: f64::INFINITY,
            delays_s: [0.0; PERIODS],
        }
    }

    /// Notes a round trip.
    pub(super) fn on_ack(&mut self, rtt_s: f64) {
        self.rtt_s = self.rtt_s.min(rtt_s);
    }

    /// Notes the queue that packets met in the period of a report; `rtt_min_s`: the round trip without any queue.
    pub(super) fn on_report(&mut self, queue: Duration, rtt_min_s: f64) {
        let delay_s = self.rtt_s - rtt_min_s - queue.as_secs_f64();
        // Without a round trip in this period, nothing is known.
        let delay_s = match delay_s.is_finite() && delay_s >= LEAST_S {
            true => delay_s,
            false => 0.0,
        };
        self.delays_s.rotate_right(1);
        self.delays_s[0] = delay_s.clamp(0.0, MOST_S);
        self.rtt_s = f64::INFINITY;
    }

    /// Delay of acknowledgements beyond that of an empty path, in seconds.
    pub(super) fn get_s(&self) -> f64 {
        self.delays_s.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_of_the_last_reports_show_counts() {
        let mut returning = Returning::new();
        let mut period = |rtt_ms: &[u64], queue_ms: u64| {
            for rtt_ms in rtt_ms {
                returning.on_ack(*rtt_ms as f64 / 1e3);
            }
            returning.on_report(Duration::from_millis(queue_ms), 0.07);
            (returning.get_s() * 1e3).round()
        };
        assert_eq!(period(&[170, 190], 0), 0.0);
        assert_eq!(period(&[180, 150], 10), 0.0);
        assert_eq!(period(&[200], 10), 70.0);
        assert_eq!(period(&[200], 10), 70.0);
        assert_eq!(period(&[230], 10), 120.0);
        assert_eq!(period(&[230], 160), 0.0, "the queue is on the way there");
        assert_eq!(period(&[230], 10), 0.0);
        assert_eq!(period(&[230], 10), 0.0);
        assert_eq!(period(&[230], 10), 150.0);
        assert_eq!(period(&[], 10), 0.0, "nothing is known");
        for _ in 0..3 {
            assert_eq!(period(&[90], 1), 0.0, "batches of acknowledgements");
        }
        for _ in 0..2 {
            assert_eq!(period(&[9_000], 0), 0.0);
        }
        assert_eq!(period(&[9_000], 0), 500.0);
    }
}
