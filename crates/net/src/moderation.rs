//! How long to leave packets in the kernel, so that one wake-up serves many.
//!
//! A wake-up costs several microseconds, about as much as ten packets. When packets come in quick
//! succession the driver lets them gather for up to a millisecond; when they come one by one, as in a
//! dialogue, it takes each at once. Network cards do the same with interrupts.

use std::time::Duration;

use anabranch_base::Instant;

/// Packets worth a wake-up.
const PACKETS_PER_WAKE: f64 = 24.0;
/// Below this many packets in a full hold-off, gathering them saves nothing.
const PACKETS_MIN: f64 = 3.0;
/// Time over which the packet rate is judged.
const MEMORY: Duration = Duration::from_millis(8);

/// Decides when the sockets are read again.
#[derive(Debug)]
pub(crate) struct Moderation {
    hold_off_max: Duration,
    resume_at: Instant,
    received_at: Instant,
    /// Packets per second, smoothed over [`MEMORY`].
    rate: f64,
}

impl Moderation {
    /// `hold_off_max` bounds the delay added to a packet; zero switches moderation off.
    pub(crate) fn new(hold_off_max: Duration) -> Self {
        Self {
            hold_off_max,
            resume_at: Instant::EPOCH,
            received_at: Instant::EPOCH,
            rate: 0.0,
        }
    }

    pub(crate) fn may_receive(&self, now: Instant) -> bool {
        now >= self.resume_at
    }

    pub(crate) fn resume_at(&self) -> Instant {
        self.resume_at
    }

    /// Whether packets come so rarely that a hold-off of full length does not gather too many.
    pub(crate) fn is_moderate(&self) -> bool {
        self.rate * self.hold_off_max.as_secs_f64() < PACKETS_PER_WAKE
    }

    /// `packets` were taken from the sockets at `now`.
    pub(crate) fn received(&mut self, now: Instant, packets: usize) {
        let gap = now.since(self.received_at).as_secs_f64().max(1e-6);
        self.received_at = now;
        // Exponential average with time constant MEMORY, exact for uneven gaps.
        let keep = (-gap / MEMORY.as_secs_f64()).exp();
        let latest = packets as f64 / gap;
        self.rate = keep * self.rate + (1.0 - keep) * latest;
        self.resume_at = now + self.hold_off(latest);
    }

    /// A rate that rises fills the kernel's buffer before the average knows, so the latest counts, too.
    fn hold_off(&self, latest: f64) -> Duration {
        if self.rate * self.hold_off_max.as_secs_f64() < PACKETS_MIN {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(PACKETS_PER_WAKE / self.rate.max(latest)).min(self.hold_off_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives at `packets_per_s` until `end`, as a driver would; wake-ups and the longest wait.
    fn run(packets_per_s: f64, end: Duration) -> (u32, Duration) {
        let mut moderation = Moderation::new(Duration::from_millis(1));
        let every = Duration::from_secs_f64(1.0 / packets_per_s);
        let (mut wakes, mut longest, mut arrival) = (0, Duration::ZERO, Instant::EPOCH);
        while arrival.since_epoch() < end {
            let now = arrival.max(moderation.resume_at());
            longest = longest.max(now.since(arrival));
            let mut packets = 0;
            while arrival <= now {
                arrival += every;
                packets += 1;
            }
            moderation.received(now, packets);
            wakes += 1;
        }
        (wakes, longest)
    }

    #[test]
    fn a_stream_of_packets_is_gathered() {
        let (wakes, longest) = run(12_500.0, Duration::from_secs(1));
        assert!(wakes < 1_200, "{wakes}");
        assert!(longest <= Duration::from_millis(1));
    }

    #[test]
    fn rare_packets_are_taken_at_once() {
        let (_, longest) = run(500.0, Duration::from_secs(1));
        assert_eq!(longest, Duration::ZERO);
    }

    #[test]
    fn a_flood_is_not_left_to_overflow() {
        let (wakes, longest) = run(500_000.0, Duration::from_millis(200));
        assert!(longest < Duration::from_micros(200), "{longest:?}");
        assert!(wakes > 2_000, "{wakes}");
    }
}
