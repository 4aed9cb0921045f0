//! Start-up losses of a fresh channel while it finds the rate of its path.
//!
//! Its window grows by a factor in every round trip until it holds bandwidth × round trip, so the start takes
//! log(b·RTT)/log(growth) + c round trips. Messages timed on fresh channels over a *link* include it in their least
//! delay: d_min exceeds the delay of a one-packet message by it. A *path* of several links has a longer round trip and
//! more to find, so the sum of its links' least delays [Daemons §4] is too early: on random overlays, a third of the
//! short transfers were more than 10 % later (`docs/results/routes.md`). For channels that have carried data before, the sum is
//! right.

use std::time::Duration;

use anabranch_base::Rate;

/// A link as measured on fresh channels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// EBW.
    pub bandwidth: Rate,
    /// d_min of the line through messages on fresh channels.
    pub delay_min: Duration,
    /// Delay of a one-packet message.
    pub delay_small: Duration,
}

/// Model of start-up times, learnt from links.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Start {
    growth: f64,
    /// c, in round trips.
    rounds: f64,
}

impl Start {
    /// Takes the median over links. `growth` is the factor by which the transport's window grows per round trip, above 1:
    /// 4 for `auto`, 2 for CUBIC and NewReno. `None` without a link of positive bandwidth and delay. O(links · log
    /// links).
    ///
    /// # Panics
    /// `growth` is not above 1.
    pub fn learn(growth: f64, links: &[Sample]) -> Option<Self> {
        assert!(growth > 1.0, "windows grow");
        let rounds = links.iter().map(|link| {
            let small_s = link.delay_small.as_secs_f64();
            let start_s = link.delay_min.as_secs_f64() - small_s;
            start_s / (2.0 * small_s) - to_find(growth, link.bandwidth, small_s)
        });
        let mut rounds: Vec<f64> = rounds.filter(|rounds| rounds.is_finite()).collect();
        rounds.sort_by(f64::total_cmp);
        let rounds = *rounds.get(rounds.len() / 2)?;
        Some(Self { growth, rounds })
    }

    /// Least delay of a path for its first message: that of a one-packet message (the sum over its links), plus the
    /// start.
    pub fn delay_min(&self, bandwidth: Rate, delay_small: Duration) -> Duration {
        let small_s = delay_small.as_secs_f64();
        let rounds = (to_find(self.growth, bandwidth, small_s) + self.rounds).max(0.0);
        if !rounds.is_finite() {
            return delay_small;
        }
        Duration::try_from_secs_f64(small_s * (1.0 + 2.0 * rounds)).unwrap_or(Duration::MAX)
    }
}

/// log(b·RTT)/log(growth), with b in bytes per second and a round trip of twice the delay of one packet.
fn to_find(growth: f64, bandwidth: Rate, delay_small_s: f64) -> f64 {
    (bandwidth.as_bytes_per_s() * 2.0 * delay_small_s).ln() / growth.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transport whose window is 15,000 bytes at first and quadruples in each round trip.
    fn sample(mbps: u64, small_ms: u64) -> Sample {
        let delay_small = Duration::from_millis(small_ms);
        let bandwidth = Rate::from_mbps(mbps);
        let product = bandwidth.as_bytes_per_s() * 2.0 * delay_small.as_secs_f64();
        let rounds = (product / 15_000.0).ln() / 4f64.ln();
        Sample {
            bandwidth,
            delay_min: delay_small.mul_f64(1.0 + 2.0 * rounds.max(0.0)),
            delay_small,
        }
    }

    #[test]
    fn paths_have_starts_of_their_own() {
        let links = [sample(10, 20), sample(20, 30), sample(40, 50)];
        let start = Start::learn(4.0, &links).expect("links");
        for link in links.iter().chain([&sample(8, 100)]) {
            let delay = start.delay_min(link.bandwidth, link.delay_small);
            assert!(delay.abs_diff(link.delay_min) < Duration::from_micros(10));
        }
        // Over all three: 100 ms, and more than the sum of the parts.
        let whole = start.delay_min(Rate::from_mbps(10), Duration::from_millis(100));
        let parts: Duration = links.iter().map(|link| link.delay_min).sum();
        assert!(whole > parts, "{whole:?} {parts:?}");
        // A message that fits the first window needs no start.
        let slow = start.delay_min(Rate::from_kbps(100), Duration::from_millis(10));
        assert_eq!(slow, Duration::from_millis(10));
    }

    #[test]
    fn absurd_links_teach_nothing() {
        let mut absurd = sample(10, 20);
        absurd.bandwidth = Rate::ZERO;
        let mut still = sample(10, 20);
        still.delay_small = Duration::ZERO;
        assert_eq!(Start::learn(4.0, &[absurd, still]), None);
        assert_eq!(Start::learn(4.0, &[]), None);
        let start = Start::learn(2.0, &[sample(10, 20)]).expect("a link");
        assert_eq!(
            start.delay_min(Rate::ZERO, Duration::from_secs(1)),
            Duration::from_secs(1)
        );
        assert_eq!(
            start.delay_min(Rate::from_mbps(1), Duration::ZERO),
            Duration::ZERO
        );
    }
}
