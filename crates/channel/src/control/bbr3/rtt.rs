//! The shortest round trip, and the time at which it must be measured afresh [draft-ietf-ccwg-bbr, ProbeRTT Logic].

use std::time::{Duration, Instant};

/// Lifetime of the shortest round trip.
const FILTER_LENGTH: Duration = Duration::from_secs(10);
/// Time without a sample near the shortest after which ProbeRTT is due.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// A sample this little above the shortest one also shows the path without our queue.
const NEAR: f64 = 1.02;

/// Two minimum filters, of 5 s for scheduling ProbeRTT and of 10 s for the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct RttMin {
    /// The model's shortest round trip in seconds; infinite before the first sample.
    pub(super) shortest_s: f64,
    shortest_at: Instant,
    recent_s: f64,
    recent_at: Instant,
    /// The sample for ProbeRTT expired at the last update.
    pub(super) expired: bool,
}

impl RttMin {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            shortest_s: f64::INFINITY,
            shortest_at: now,
            recent_s: f64::INFINITY,
            recent_at: now,
            expired: false,
        }
    }

    pub(super) fn update(&mut self, now: Instant, rtt_s: f64) {
        let age = now.saturating_duration_since(self.recent_at);
        self.expired = self.recent_s.is_finite() && age > PROBE_INTERVAL;
        if rtt_s < self.recent_s || self.expired {
            self.recent_s = rtt_s;
            self.recent_at = now;
        } else if rtt_s <= self.recent_s * NEAR {
            // Deviation bbr3-probe-rtt: the queue was empty just now, so no probe is needed.
            self.recent_at = now;
        }
        let age = now.saturating_duration_since(self.shortest_at);
        if self.recent_s < self.shortest_s || age > FILTER_LENGTH {
            self.shortest_s = self.recent_s;
            self.shortest_at = self.recent_at;
        }
    }

    /// Records the end of ProbeRTT: the next one is due an interval from now.
    pub(super) fn probed(&mut self, now: Instant) {
        self.recent_at = now;
        self.expired = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_due_when_the_empty_path_was_not_seen_for_five_seconds() {
        let start = crate::control::test_epoch();
        let at = |ms| start + Duration::from_millis(ms);
        let mut rtt = RttMin::new(start);
        rtt.update(at(0), 0.05);
        rtt.update(at(4000), 0.0505);
        rtt.update(at(8000), 0.08);
        assert!(!rtt.expired, "seen again at 4 s");
        rtt.update(at(9001), 0.08);
        assert!(rtt.expired);
        assert_eq!(rtt.shortest_s, 0.05);
    }

    #[test]
    fn a_longer_path_is_believed_after_ten_seconds() {
        let start = crate::control::test_epoch();
        let at = |ms| start + Duration::from_millis(ms);
        let mut rtt = RttMin::new(start);
        for ms in (0..=11_000).step_by(100) {
            rtt.update(at(ms), if ms == 0 { 0.05 } else { 0.09 });
        }
        assert_eq!(rtt.shortest_s, 0.09);
    }
}
