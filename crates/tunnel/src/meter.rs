//! Meter of flows: tells those that send little from those that fill the paths.

use std::time::Duration;

use anabranch::base::Instant;

use crate::packet::BUCKETS;

/// Time in which the bytes of a flow are counted.
const WINDOW: Duration = Duration::from_millis(100);
/// A flow sends little up to this part of what the paths carry.
const SHARE: f64 = 1.0 / 8.0;
/// Bytes in a window that are always little: 1.2 Mbit/s.
const LITTLE_BYTES: f64 = 15_000.0;

/// Place of a bucket: buckets of classes share those of others.
fn place(bucket: u16) -> usize {
    usize::from(bucket % BUCKETS)
}

/// Bytes of each bucket in the current window and in the one before. Empty until it is used.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    windows: [Vec<u32>; 2],
    since: Instant,
    /// Bytes in a window that are little.
    little_bytes: f64,
}

impl Meter {
    /// Begins a new window when it is time; `bytes_per_s`: what the paths carry.
    pub(crate) fn advance(&mut self, now: Instant, bytes_per_s: f64) {
        self.little_bytes = (bytes_per_s * WINDOW.as_secs_f64() * SHARE).max(LITTLE_BYTES);
        let passed = now.since(self.since);
        if passed < WINDOW {
            return;
        }
        self.since = now;
        self.windows.swap(0, 1);
        self.windows[0].fill(0);
        if passed >= 2 * WINDOW {
            self.windows[1].fill(0);
        }
    }

    /// Notes a packet of a flow.
    pub(crate) fn note(&mut self, bucket: u16, bytes: usize) {
        for window in &mut self.windows {
            if window.is_empty() {
                *window = vec![0; BUCKETS.into()];
            }
        }
        let count = &mut self.windows[0][place(bucket)];
        *count = count.saturating_add(bytes as u32);
    }

    /// True if the flow sends little.
    pub(crate) fn is_sparse(&self, bucket: u16) -> bool {
        let bytes = |window: &Vec<u32>| window.get(place(bucket)).copied().unwrap_or(0);
        // The windows before and now together are as long as one and a half, in the mean.
        let sum = self.windows.iter().map(bytes).max().unwrap_or(0);
        f64::from(sum) <= self.little_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_told_apart_by_their_rate() {
        let mut meter = Meter::default();
        // 40 Mbit/s: little is an eighth, 62,500 bytes in a window.
        let at = |meter: &mut Meter, millis: u64| {
            meter.advance(Instant::from_millis(millis), 5e6);
        };
        at(&mut meter, 1000);
        assert!(meter.is_sparse(1), "nothing is known");
        for millis in 1000..1400 {
            at(&mut meter, millis);
            meter.note(1, 250);
            meter.note(2, 4000);
        }
        assert!(meter.is_sparse(1) && !meter.is_sparse(2));
        // It is quiet for a while.
        at(&mut meter, 1450);
        assert!(!meter.is_sparse(2));
        at(&mut meter, 1800);
        assert!(meter.is_sparse(2));
    }

    #[test]
    fn a_little_is_allowed_on_slow_paths() {
        let mut meter = Meter::default();
        meter.advance(Instant::from_millis(1000), 1000.0);
        meter.note(1, 15_000);
        assert!(meter.is_sparse(1));
        meter.note(1, 1);
        assert!(!meter.is_sparse(1));
        // A flow that had a class.
        let classed = crate::numbers::BUCKETS_ALL - 1;
        meter.note(classed, 15_001);
        assert!(!meter.is_sparse(classed));
    }
}
