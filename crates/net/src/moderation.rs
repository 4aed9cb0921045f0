//! Interrupt moderation: the time for which packets gather, so that one wake-up serves many.
//!
//! A wake-up costs several microseconds, about as much as ten packets. When packets arrive in quick
//! succession, the driver lets them gather for a moment; when they arrive one by one, as in a dialogue,
//! it receives each at once. Network cards do the same with interrupts.

use std::time::Duration;

use anabranch_base::Instant;

/// Number of packets that justifies a wake-up.
const PACKETS_PER_WAKE: f64 = 96.0;
/// Minimum number of packets in a full hold-off; with fewer, gathering saves nothing.
const PACKETS_MIN: f64 = 3.0;
/// Time constant of the average packet rate.
const MEMORY: Duration = Duration::from_millis(8);
/// Minimum sleep; shorter ones cost more than they save.
const HOLD_OFF_MIN: Duration = Duration::from_micros(30);

/// Moderator, which decides when the sockets are read again.
#[derive(Debug, Default)]
pub(crate) struct Moderation {
    served_at: Instant,
    /// Packets per second, smoothed over [`MEMORY`].
    rate: f64,
}

impl Moderation {
    /// Notes that `packets` were received and sent at `now`. Returns the time for which the next ones may gather, at
    /// most `delay_max`; zero: receive the first at once.
    pub(crate) fn served(&mut self, now: Instant, packets: usize, delay_max: Duration) -> Duration {
        let gap = now.since(self.served_at).as_secs_f64().max(1e-6);
        self.served_at = now;
        // Exponential average with time constant MEMORY, exact for uneven gaps.
        let keep = (-gap / MEMORY.as_secs_f64()).exp();
        let latest = packets as f64 / gap;
        self.rate = keep * self.rate + (1.0 - keep) * latest;
        self.hold_off(latest, delay_max)
    }

    /// Time to gather, by the average and the latest rate: a rising rate fills the kernel's buffer before the average follows.
    fn hold_off(&self, latest: f64, delay_max: Duration) -> Duration {
        if self.rate * delay_max.as_secs_f64() < PACKETS_MIN {
            return Duration::ZERO;
        }
        let enough = Duration::from_secs_f64(PACKETS_PER_WAKE / self.rate.max(latest));
        let hold_off = enough.min(delay_max);
        if hold_off < HOLD_OFF_MIN {
            return Duration::ZERO;
        }
        hold_off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY_MAX: Duration = Duration::from_millis(1);

    /// Receives at `packets_per_s` until `end`, as a driver would; wake-ups and the longest wait.
    fn run(packets_per_s: f64, end: Duration) -> (u32, Duration) {
        let mut moderation = Moderation::default();
        let every = Duration::from_secs_f64(1.0 / packets_per_s);
        let (mut wakes, mut longest, mut arrival) = (0, Duration::ZERO, Instant::EPOCH);
        let mut resume_at = Instant::EPOCH;
        while arrival.since_epoch() < end {
            let now = arrival.max(resume_at);
            longest = longest.max(now.since(arrival));
            let mut packets = 0;
            while arrival <= now {
                arrival += every;
                packets += 1;
            }
            resume_at = now + moderation.served(now, packets, DELAY_MAX);
            wakes += 1;
        }
        (wakes, longest)
    }

    #[test]
    fn a_stream_of_packets_is_gathered() {
        let (wakes, longest) = run(12_500.0, Duration::from_secs(1));
        assert!(wakes < 1_200, "{wakes}");
        assert!(longest <= DELAY_MAX);
    }

    #[test]
    fn rare_packets_are_taken_at_once() {
        let (_, longest) = run(500.0, Duration::from_secs(1));
        assert_eq!(longest, Duration::ZERO);
    }

    #[test]
    fn a_flood_is_not_left_to_overflow() {
        let (wakes, longest) = run(500_000.0, Duration::from_millis(200));
        assert!(longest < Duration::from_micros(400), "{longest:?}");
        assert!(wakes > 1_000, "{wakes}");
    }

    #[test]
    fn without_a_delay_nothing_waits() {
        let mut moderation = Moderation::default();
        for turn in 1..1000 {
            let now = Instant::from_nanos(turn * 100_000);
            assert_eq!(moderation.served(now, 10, Duration::ZERO), Duration::ZERO);
        }
    }
}
