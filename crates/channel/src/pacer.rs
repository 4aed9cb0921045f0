//! Pacing: the times at which space in the window becomes slots.
//!
//! A token bucket that releases a *quantum* of traffic per wake-up: long enough that one wake-up releases many packets,
//! short enough that a burst does not fill a queue. A channel that keeps its queue short for latency-sensitive data has
//! a shorter quantum than one that carries bulk data. For evenly spaced packets the bucket holds one packet plus a
//! short quantum; and, so that the rate is held on a host whose wake-ups are late, what was due since the last one.

use std::{ops::RangeInclusive, time::Duration};

use anabranch_base::Instant;

use crate::control::QueueGoal;

/// Traffic released by one wake-up if latency-sensitive data shares the channel.
const QUANTUM_SHORT: Duration = Duration::from_millis(1);
/// Traffic released by one wake-up otherwise; at most a sixth of a round trip.
const QUANTUM_FULL: Duration = Duration::from_millis(5);
/// The same for bulk data on a path on which it is so few packets: half the wake-ups.
const QUANTUM_SLOW: Duration = Duration::from_millis(10);
/// From where it is worth it, to what a path takes at once without harm (RFC 9002 §7.7).
const QUANTUM_PACKETS: RangeInclusive<f64> = 3.0..=10.0;
/// Quanta in the bucket: a wake-up that is late by less than this loses no capacity.
const QUANTA_MAX: f64 = 2.0;
/// Lateness of a wake-up for evenly spaced packets that loses no capacity.
const LATE_MAX: Duration = Duration::from_millis(10);
/// Fewest packets in the bucket, so that slow paths are not held back by rounding.
const BURST_PACKETS_MIN: f64 = 2.0;
/// Time at a ceiling that may be made up for: who sends less than that has no part of its bursts held back.
const CEILING_BURST: Duration = Duration::from_millis(200);

/// Token bucket with a rate that may change at any time. O(1), no allocation.
#[derive(Debug)]
pub(crate) struct Pacer {
    tokens: f64,
    refilled_at: Instant,
    quantum_s: f64,
    packets_min: f64,
    ceiling: Option<Ceiling>,
}

/// Upper bound on the mean rate, beside the rate of the controller.
#[derive(Clone, Copy, Debug)]
struct Ceiling {
    /// Bytes per second.
    rate: f64,
    tokens: f64,
}

impl Ceiling {
    fn refill(&mut self, elapsed_s: f64, packet: f64) {
        let depth = (self.rate * CEILING_BURST.as_secs_f64()).max(BURST_PACKETS_MIN * packet);
        self.tokens = (self.tokens + self.rate * elapsed_s).min(depth);
    }
}

impl Pacer {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            tokens: f64::MAX,
            refilled_at: now,
            quantum_s: QUANTUM_SHORT.as_secs_f64(),
            packets_min: BURST_PACKETS_MIN,
            ceiling: None,
        }
    }

    /// Bounds the mean rate from now on, in bytes per second above zero; `None`: no bound.
    pub(crate) fn set_ceiling(&mut self, rate: Option<f64>) {
        let tokens = self.ceiling.map_or(0.0, |ceiling| ceiling.tokens);
        self.ceiling = rate.map(|rate| Ceiling { rate, tokens });
    }

    /// The bound on the mean rate, in bytes per second.
    pub(crate) fn ceiling(&self) -> Option<f64> {
        self.ceiling.map(|ceiling| ceiling.rate)
    }

    /// True if the ceiling, and not the rate of the controller, decided in the last call of [`Pacer::available`].
    pub(crate) fn is_capped(&self) -> bool {
        let ceiling = self.ceiling.as_ref();
        ceiling.is_some_and(|ceiling| ceiling.tokens < self.tokens)
    }

    /// Chooses the quantum for a channel with this queue goal and smoothed round trip, that sends so many packets a
    /// second, evenly spaced or not.
    pub(crate) fn set_quantum(&mut self, goal: QueueGoal, rtt: Duration, rate: f64, is_even: bool) {
        self.packets_min = if is_even { 1.0 } else { BURST_PACKETS_MIN };
        let most = match goal {
            _ if is_even => QUANTUM_SHORT,
            QueueGoal::Short | QueueGoal::Steady => QUANTUM_SHORT,
            QueueGoal::Within(_) => QUANTUM_FULL,
            QueueGoal::Full if QUANTUM_PACKETS.contains(&(rate * QUANTUM_SLOW.as_secs_f64())) => {
                QUANTUM_SLOW
            }
            QueueGoal::Full => QUANTUM_FULL,
        };
        self.quantum_s = (rtt / 6).clamp(QUANTUM_SHORT, most).as_secs_f64();
    }

    /// Traffic released by one wake-up, as time.
    pub(crate) fn quantum(&self) -> Duration {
        Duration::from_secs_f64(self.quantum_s)
    }

    fn depth(&self, rate: f64, packet: f64) -> f64 {
        (rate * self.quantum_s * QUANTA_MAX + packet).max(self.packets_min * packet)
    }

    /// Bytes that may leave now at `rate` bytes per second, in packets of `packet` bytes. `was_awaited`: since the last
    /// call, data has waited for the pacer only; then the lateness of this call loses no capacity.
    pub(crate) fn available(
        &mut self,
        now: Instant,
        rate: f64,
        packet: f64,
        was_awaited: bool,
    ) -> f64 {
        let elapsed = now.since(self.refilled_at).as_secs_f64();
        self.refilled_at = now;
        let late = match was_awaited {
            true => rate * LATE_MAX.as_secs_f64(),
            false => 0.0,
        };
        let most = self.depth(rate, packet) + late;
        self.tokens = (self.tokens + rate * elapsed).min(most);
        let Some(ceiling) = &mut self.ceiling else {
            return self.tokens;
        };
        ceiling.refill(elapsed, packet);
        self.tokens.min(ceiling.tokens)
    }

    /// Takes `bytes` that have left out of the bucket.
    pub(crate) fn spend(&mut self, bytes: f64) {
        self.tokens -= bytes;
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.tokens -= bytes;
        }
    }

    /// Time at which a batch worth waking up for will be available: one quantum, at least one packet, beyond the
    /// `queued` bytes that are about to leave. Later than the last call of [`Pacer::available`] unless the batch is
    /// available already.
    pub(crate) fn next_release(&self, rate: f64, packet: f64, queued: f64) -> Instant {
        let wait_s = |rate: f64, tokens: f64| {
            let missing = (rate * self.quantum_s).max(packet) + queued - tokens;
            match missing > 0.0 && rate > 0.0 {
                true => missing / rate,
                false => 0.0,
            }
        };
        let own_s = wait_s(rate, self.tokens);
        let capped_s = self.ceiling.map(|c| wait_s(c.rate, c.tokens));
        let wait_s = capped_s.map_or(own_s, |capped_s| capped_s.max(own_s));
        if wait_s <= 0.0 {
            return self.refilled_at;
        }
        // Rounded up by a nanosecond: a batch that lacks a fraction of a byte is not available yet.
        self.refilled_at + Duration::from_secs_f64(wait_s.min(60.0)) + Duration::from_nanos(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_wake_up_releases_a_quantum() {
        let rate = 12.5e6; // 100 Mbit/s
        let mut pacer = Pacer::new(Instant::EPOCH);
        let first = pacer.available(Instant::EPOCH, rate, 1500.0, false);
        assert_eq!(first, 26_500.0);
        pacer.spend(first);
        let wake = pacer.next_release(rate, 1500.0, 0.0);
        assert_eq!(wake, Instant::from_nanos(1_000_001));
        assert!((pacer.available(wake, rate, 1500.0, false) - 12_500.0).abs() < 1.0);
    }

    #[test]
    fn bulk_data_on_a_slow_path_leaves_in_few_wake_ups() {
        let mut pacer = Pacer::new(Instant::EPOCH);
        let mut quantum = |goal, rtt_ms, packets_per_s| {
            pacer.set_quantum(goal, Duration::from_millis(rtt_ms), packets_per_s, false);
            pacer.quantum().as_secs_f64() * 1e3
        };
        assert_eq!(quantum(QueueGoal::Full, 80, 999.0), 10.0);
        assert_eq!(quantum(QueueGoal::Full, 42, 999.0), 7.0);
        assert_eq!(quantum(QueueGoal::Full, 80, 1_001.0), 5.0);
        assert_eq!(quantum(QueueGoal::Full, 80, 299.0), 5.0);
        let within = QueueGoal::Within(Duration::from_millis(300));
        assert_eq!(quantum(within, 80, 999.0), 5.0);
        assert_eq!(quantum(QueueGoal::Short, 80, 999.0), 1.0);
    }

    /// Evenly spaced packets: 10 MB/s, woken every 5 ms instead of every millisecond.
    #[test]
    fn late_wake_ups_cost_no_rate_while_something_waits() {
        let (rate, packet) = (10e6, 1500.0);
        let sent = |is_awaited: bool, late: Duration| {
            let mut pacer = Pacer::new(Instant::EPOCH);
            pacer.set_quantum(QueueGoal::Full, Duration::ZERO, rate / packet, true);
            let mut sent = 0.0;
            for wake in 0..1_000 {
                let now = Instant::EPOCH + late * wake;
                while pacer.available(now, rate, packet, is_awaited) >= packet {
                    pacer.spend(packet);
                    sent += packet;
                }
            }
            sent / (rate * late.as_secs_f64() * 1e3)
        };
        assert!((0.99..1.01).contains(&sent(true, Duration::from_millis(5))));
        assert!((0.4..0.46).contains(&sent(false, Duration::from_millis(5))));
        // No burst beyond that.
        assert!((0.1..0.13).contains(&sent(true, Duration::from_millis(100))));
    }

    #[test]
    fn a_ceiling_bounds_the_mean_and_leaves_bursts_of_who_sends_less() {
        let (rate, packet) = (1e6, 1_000.0);
        let mut pacer = Pacer::new(Instant::EPOCH);
        pacer.set_ceiling(Some(1e5));
        let mut at = Instant::EPOCH;
        let mut sent = |pacer: &mut Pacer, until: Instant| {
            let mut sent = 0.0;
            while at < until {
                while pacer.available(at, rate, packet, false) >= packet {
                    pacer.spend(packet);
                    sent += packet;
                }
                assert!(pacer.is_capped());
                at = pacer.next_release(rate, packet, 0.0);
            }
            sent
        };
        let full = sent(&mut pacer, Instant::from_secs(10));
        assert!((9.9e5..1.001e6).contains(&full), "{full}");
        // After a pause, 200 ms at the ceiling leave at the rate of the controller: in 20 ms.
        let mut burst = 0.0;
        for ms in 20_000..20_025 {
            let at = Instant::from_millis(ms);
            while pacer.available(at, rate, packet, false) >= packet {
                pacer.spend(packet);
                burst += packet;
            }
        }
        assert!((20_000.0..24_000.0).contains(&burst), "{burst}");
        assert!(pacer.is_capped());
        pacer.set_ceiling(None);
        assert!(!pacer.is_capped());
    }

    proptest! {
        /// Under any polling pattern, the rate is not exceeded by more than one bucket.
        #[test]
        fn never_exceeds_the_rate(steps in prop::collection::vec(0u64..5_000_000, 1..200)) {
            let (rate, packet) = (1e6, 1500.0);
            let mut pacer = Pacer::new(Instant::EPOCH);
            let (mut now, mut sent) = (Instant::EPOCH, 0.0);
            for step in steps {
                now += Duration::from_nanos(step);
                while pacer.available(now, rate, packet, false) >= packet {
                    pacer.spend(packet);
                    sent += packet;
                }
            }
            prop_assert!(sent <= rate * now.as_secs_f64() + pacer.depth(rate, packet) + 1.0);
        }

        /// Waking at the time given makes progress, at the full rate, and never at the same instant again.
        #[test]
        fn keeps_up_with_the_rate(rate in 1e4f64..1e9) {
            let packet = 1500.0;
            let mut pacer = Pacer::new(Instant::EPOCH);
            let (mut now, mut sent) = (Instant::EPOCH, 0.0);
            for _ in 0..1000 {
                while pacer.available(now, rate, packet, false) >= packet {
                    pacer.spend(packet);
                    sent += packet;
                }
                now = pacer.next_release(rate, packet, 0.0);
            }
            prop_assert!(sent >= rate * now.as_secs_f64() * 0.99 - 2.0 * pacer.depth(rate, packet));
        }
    }
}
