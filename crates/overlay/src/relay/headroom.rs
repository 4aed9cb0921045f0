//! Headroom of a relay, as a low percentile of what it had left in the last minute.
//!
//! A mean hides the seconds in which nothing was left, and capacity that every source sees is taken by all of them at
//! once. So the relay advertises what was left in nine seconds out of ten, and a circuit counts with its whole grant
//! while it is too young for its use to be known.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{Instant, Rate};

/// Length of a window.
const WINDOW: Duration = Duration::from_secs(1);
/// Number of windows considered.
const WINDOWS: usize = 60;
/// Fraction of the windows that had no more left than is advertised.
const LEVEL: f64 = 0.1;

/// Age at which a circuit counts with its use rather than with its grant.
pub(super) const GROWN_AFTER: Duration = Duration::from_secs(WINDOW.as_secs() * WINDOWS as u64);

/// Bytes forwarded in each of the last windows.
#[derive(Clone, Debug)]
pub(super) struct Headroom {
    /// Complete windows, oldest first.
    windows: VecDeque<u64>,
    began: Instant,
    bytes: u64,
}

impl Headroom {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            windows: VecDeque::with_capacity(WINDOWS + 1),
            began: now,
            bytes: 0,
        }
    }

    /// Counts bytes that were forwarded.
    pub(super) fn forwarded(&mut self, now: Instant, bytes: u64) {
        self.roll(now);
        self.bytes += bytes;
    }

    /// Takes back bytes that could not be forwarded.
    pub(super) fn returned(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn roll(&mut self, now: Instant) {
        while now.since(self.began) >= WINDOW {
            if now.since(self.began) >= GROWN_AFTER + WINDOW {
                // There was no traffic for longer than the windows remember.
                self.windows.clear();
                self.began = now - GROWN_AFTER;
                self.bytes = 0;
            }
            self.windows.push_back(self.bytes);
            if self.windows.len() > WINDOWS {
                self.windows.pop_front();
            }
            self.bytes = 0;
            self.began += WINDOW;
        }
    }

    /// Bandwidth used in all but the busiest tenth of the windows; zero before the first is over.
    pub(super) fn used(&mut self, now: Instant) -> Rate {
        self.roll(now);
        let mut sorted: Vec<u64> = self.windows.iter().copied().collect();
        sorted.sort_unstable();
        // The lower quantile of what is left is the upper one of what is used.
        let rank = (sorted.len() as f64 * (1.0 - LEVEL)).ceil() as usize;
        let bytes = rank
            .checked_sub(1)
            .and_then(|index| sorted.get(index))
            .copied();
        Rate::from_bytes_per(bytes.unwrap_or(0), WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(mut bytes: impl FnMut(u64) -> u64, windows: u64) -> (Headroom, Instant) {
        let mut headroom = Headroom::new(Instant::EPOCH);
        for second in 0..windows {
            headroom.forwarded(Instant::from_millis(second * 1000 + 500), bytes(second));
        }
        (headroom, Instant::from_secs(windows))
    }

    #[test]
    fn a_busy_sixth_of_the_time_counts_although_the_mean_is_low() {
        // 10 Mbit/s in every sixth second, else nothing: the mean is 1.7 Mbit/s.
        let (mut headroom, now) = run(|s| if s % 6 == 0 { 1_250_000 } else { 0 }, 60);
        assert_eq!(headroom.used(now), Rate::from_mbps(10));
    }

    #[test]
    fn a_rare_burst_does_not() {
        let (mut headroom, now) = run(|s| if s % 20 == 0 { 1_250_000 } else { 125_000 }, 60);
        assert_eq!(headroom.used(now), Rate::from_mbps(1));
    }

    #[test]
    fn old_traffic_is_forgotten() {
        let (mut headroom, now) = run(|_| 1_250_000, 60);
        assert_eq!(headroom.used(now), Rate::from_mbps(10));
        assert_eq!(headroom.used(now + Duration::from_secs(61)), Rate::ZERO);
        let far = Instant::from_secs(1 << 32);
        assert_eq!(headroom.used(far), Rate::ZERO);
        assert!(headroom.windows.len() <= WINDOWS);
    }
}
