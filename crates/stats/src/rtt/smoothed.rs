//! Smoothed round-trip time and its variation.

use std::time::Duration;

/// Weight of a new sample in the smoothed RTT: 1/8 [RFC 6298 §2.3, RFC 9002 §5.3].
const ALPHA_INVERSE: u32 = 8;
/// Weight of a new deviation in the variation: 1/4 [RFC 6298 §2.3, RFC 9002 §5.3].
const BETA_INVERSE: u32 = 4;
/// K of RFC 6298 §2.2: the time-out lies four variations above the mean.
const K: u32 = 4;
/// kGranularity of RFC 9002 §6.1.2.
const GRANULARITY: Duration = Duration::from_millis(1);
/// Least retransmission time-out [RFC 6298 §2.4].
const RTO_MIN: Duration = Duration::from_secs(1);
/// Retransmission time-out before the first sample [RFC 6298 §2.1].
const RTO_INITIAL: Duration = Duration::from_secs(1);

/// Exponentially weighted mean and mean deviation of round-trip times.
///
/// The recursion is that of RFC 6298 §2 and RFC 9002 §5.3: after the first sample R,
/// `smoothed = R`, `variation = R/2`; then
/// `variation ← 3/4·variation + 1/4·|smoothed − R|` and `smoothed ← 7/8·smoothed + 1/8·R`, in this order
/// (the variation uses the old mean). O(1) time and space; arithmetic in whole nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SmoothedRtt {
    estimate: Option<Estimate>,
    samples: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Estimate {
    smoothed: Duration,
    variation: Duration,
    min: Duration,
    latest: Duration,
}

impl SmoothedRtt {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a sample: the time from sending a packet to receiving its acknowledgement.
    pub fn observe(&mut self, rtt: Duration) {
        self.observe_delayed(rtt, Duration::ZERO);
    }

    /// Takes a sample that contains `ack_delay`, the time for which the peer reports to have held the
    /// acknowledgement back [RFC 9002 §5.3].
    ///
    /// The delay is subtracted unless that would put the sample below the minimum; the minimum itself
    /// ignores it [RFC 9002 §5.2], so a lying peer cannot push it down.
    pub fn observe_delayed(&mut self, rtt: Duration, ack_delay: Duration) {
        self.samples = self.samples.saturating_add(1);
        let Some(estimate) = &mut self.estimate else {
            self.estimate = Some(Estimate {
                smoothed: rtt,
                variation: rtt / 2,
                min: rtt,
                latest: rtt,
            });
            return;
        };
        estimate.latest = rtt;
        estimate.min = estimate.min.min(rtt);
        let adjusted = rtt
            .checked_sub(ack_delay)
            .filter(|&adjusted| adjusted >= estimate.min)
            .unwrap_or(rtt);
        let deviation = estimate.smoothed.abs_diff(adjusted);
        estimate.variation = blend(estimate.variation, deviation, BETA_INVERSE);
        estimate.smoothed = blend(estimate.smoothed, adjusted, ALPHA_INVERSE);
    }

    /// The smoothed RTT; `None` before the first sample.
    pub fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(|e| e.smoothed)
    }

    /// The smoothed mean deviation; `None` before the first sample.
    pub fn variation(&self) -> Option<Duration> {
        self.estimate.map(|e| e.variation)
    }

    /// The smallest sample since the start; `None` before the first sample.
    pub fn min(&self) -> Option<Duration> {
        self.estimate.map(|e| e.min)
    }

    /// The last sample, with its acknowledgement delay; `None` before the first.
    pub fn latest(&self) -> Option<Duration> {
        self.estimate.map(|e| e.latest)
    }

    /// Samples taken.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Retransmission time-out `SRTT + max(G, 4·RTTVAR)`, at least one second [RFC 6298 §2]; one second
    /// before the first sample. `granularity` is G, the resolution of the clock.
    pub fn retransmission_timeout(&self, granularity: Duration) -> Duration {
        self.estimate.map_or(RTO_INITIAL, |e| {
            let margin = e.variation.saturating_mul(K).max(granularity);
            e.smoothed.saturating_add(margin).max(RTO_MIN)
        })
    }

    /// Probe time-out `smoothed + max(4·variation, 1 ms) + max_ack_delay` [RFC 9002 §6.2.1]; `None` before
    /// the first sample.
    pub fn probe_timeout(&self, max_ack_delay: Duration) -> Option<Duration> {
        self.estimate.map(|e| {
            let margin = e.variation.saturating_mul(K).max(GRANULARITY);
            e.smoothed
                .saturating_add(margin)
                .saturating_add(max_ack_delay)
        })
    }
}

/// `(1 − 1/n)·old + new/n`, rounded down, without overflow.
fn blend(old: Duration, new: Duration, n: u32) -> Duration {
    let sum = old.as_nanos() * u128::from(n - 1) + new.as_nanos();
    let nanos = sum / u128::from(n);
    let per_s = 1_000_000_000;
    // Lies between two durations, so it is one.
    Duration::new((nanos / per_s) as u64, (nanos % per_s) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(value: f64) -> Duration {
        Duration::from_secs_f64(value / 1e3)
    }

    #[test]
    fn worked_by_hand() {
        let mut rtt = SmoothedRtt::new();
        assert_eq!(rtt.smoothed(), None);
        assert_eq!(rtt.probe_timeout(Duration::ZERO), None);
        assert_eq!(rtt.retransmission_timeout(Duration::ZERO), RTO_INITIAL);
        rtt.observe(ms(100.0));
        assert_eq!(rtt.variation(), Some(ms(50.0)));
        rtt.observe(ms(180.0));
        // variation 3/4·50 + 1/4·80 = 57.5; smoothed 7/8·100 + 1/8·180 = 110.
        assert_eq!(rtt.variation(), Some(ms(57.5)));
        assert_eq!(rtt.smoothed(), Some(ms(110.0)));
        assert_eq!(rtt.probe_timeout(ms(25.0)), Some(ms(110.0 + 230.0 + 25.0)));
        assert_eq!(rtt.retransmission_timeout(ms(10.0)), RTO_MIN);
        assert_eq!(
            (rtt.min(), rtt.latest()),
            (Some(ms(100.0)), Some(ms(180.0)))
        );
    }

    #[test]
    fn ack_delay_never_pushes_below_the_minimum() {
        let mut rtt = SmoothedRtt::new();
        rtt.observe_delayed(ms(100.0), ms(20.0));
        assert_eq!(
            rtt.smoothed(),
            Some(ms(100.0)),
            "the first sample counts whole"
        );
        rtt.observe_delayed(ms(110.0), ms(20.0));
        assert_eq!(
            rtt.smoothed(),
            Some(ms(101.25)),
            "110 − 20 would be below 100"
        );
        rtt.observe_delayed(ms(180.0), ms(20.0));
        assert_eq!(rtt.smoothed(), Some(ms((101.25 * 7.0 + 160.0) / 8.0)));
        assert_eq!(rtt.min(), Some(ms(100.0)));
    }

    #[test]
    fn extreme_samples_do_not_overflow() {
        let mut rtt = SmoothedRtt::new();
        for _ in 0..4 {
            rtt.observe_delayed(Duration::MAX, Duration::MAX);
        }
        assert_eq!(rtt.smoothed(), Some(Duration::MAX));
        assert_eq!(rtt.retransmission_timeout(Duration::MAX), Duration::MAX);
    }

    proptest! {
        #[test]
        fn follows_the_naive_recursion(samples in prop::collection::vec(1u64..10_000_000, 1..200)) {
            let mut rtt = SmoothedRtt::new();
            let mut naive: Option<(f64, f64)> = None;
            for &us in &samples {
                rtt.observe(Duration::from_micros(us));
                let r = us as f64 * 1e-6;
                naive = Some(naive.map_or((r, r / 2.0), |(s, v)| {
                    (0.875 * s + 0.125 * r, 0.75 * v + 0.25 * (s - r).abs())
                }));
            }
            let (smoothed, variation) = naive.unwrap();
            prop_assert!((rtt.smoothed().unwrap().as_secs_f64() - smoothed).abs() < 1e-6);
            prop_assert!((rtt.variation().unwrap().as_secs_f64() - variation).abs() < 1e-6);
            let lowest = Duration::from_micros(*samples.iter().min().unwrap());
            prop_assert_eq!(rtt.min(), Some(lowest));
            prop_assert!(rtt.smoothed().unwrap() >= lowest);
        }
    }
}
