//! Meter of flows: tells those that send little from those that fill the paths.

use std::time::Duration;

use anabranch::base::Instant;

use crate::packet::BUCKETS;

/// Time in which the bytes of a flow are counted.
const WINDOW: Duration = Duration::from_millis(100);
/// A flow sends little up to this part of what the paths carry: a call beside a download, on paths that just carry both,
const SHARE: f64 = 1.0 / 4.0;
/// as long as all such flows together send up to this part.
const SHARE_OF_ALL: f64 = 1.0 / 2.0;
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
    /// Bytes in each of them of flows that sent little.
    little: [u32; 2],
    since: Instant,
    /// Bytes in a window that are little, of a flow and of all.
    limits: [f64; 2],
}

impl Meter {
    /// Begins a new window when it is time; `bytes_per_s`: what the paths carry.
    pub(crate) fn advance(&mut self, now: Instant, bytes_per_s: f64) {
        self.limits = [SHARE, SHARE_OF_ALL]
            .map(|share| (bytes_per_s * WINDOW.as_secs_f64() * share).max(LITTLE_BYTES));
        let passed = now.since(self.since);
        if passed < WINDOW {
            return;
        }
        self.since = now;
        self.windows.swap(0, 1);
        self.windows[0].fill(0);
        self.little = [0, self.little[0]];
        if passed >= 2 * WINDOW {
            self.windows[1].fill(0);
            self.little[1] = 0;
        }
    }

    /// Notes a packet of a flow; `is_little`: it was taken for one that sends little.
    pub(crate) fn note(&mut self, bucket: u16, bytes: usize, is_little: bool) {
        for window in &mut self.windows {
            if window.is_empty() {
                *window = vec![0; BUCKETS.into()];
            }
        }
        let count = &mut self.windows[0][place(bucket)];
        *count = count.saturating_add(bytes as u32);
        if is_little {
            self.little[0] = self.little[0].saturating_add(bytes as u32);
        }
    }

    /// True if the flow sends little.
    pub(crate) fn is_sparse(&self, bucket: u16) -> bool {
        let bytes = |window: &Vec<u32>| window.get(place(bucket)).copied().unwrap_or(0);
        // The windows before and now together are as long as one and a half, in the mean.
        let sum = self.windows.iter().map(bytes).max().unwrap_or(0);
        let all = self.little[0].max(self.little[1]);
        let [one_limit, all_limit] = self.limits;
        f64::from(sum) <= one_limit && f64::from(all) <= all_limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_told_apart_by_their_rate() {
        let mut meter = Meter::default();
        // 40 Mbit/s: little is a quarter, 125,000 bytes in a window.
        let at = |meter: &mut Meter, millis: u64| {
            meter.advance(Instant::from_millis(millis), 5e6);
        };
        at(&mut meter, 1000);
        assert!(meter.is_sparse(1), "nothing is known");
        for millis in 1000..1400 {
            at(&mut meter, millis);
            meter.note(1, 500, true);
            meter.note(2, 4000, false);
        }
        assert!(meter.is_sparse(1) && !meter.is_sparse(2));
        // It is quiet for a while.
        at(&mut meter, 1450);
        assert!(!meter.is_sparse(2));
        at(&mut meter, 1800);
        assert!(meter.is_sparse(2));
    }

    #[test]
    fn many_flows_do_not_send_little_together() {
        let mut meter = Meter::default();
        // 250,000 bytes in a window are half of what the paths carry.
        meter.advance(Instant::from_millis(1000), 5e6);
        for bucket in 0..5 {
            assert!(meter.is_sparse(bucket));
            meter.note(bucket, 50_000, true);
        }
        assert!(meter.is_sparse(5));
        meter.note(5, 1, true);
        assert!(!meter.is_sparse(6) && !meter.is_sparse(0));
        // In the window after the next one, they begin again.
        meter.advance(Instant::from_millis(1100), 5e6);
        assert!(!meter.is_sparse(6));
        meter.advance(Instant::from_millis(1200), 5e6);
        assert!(meter.is_sparse(6));
    }

    #[test]
    fn a_little_is_allowed_on_slow_paths() {
        let mut meter = Meter::default();
        meter.advance(Instant::from_millis(1000), 1000.0);
        meter.note(1, 15_000, true);
        assert!(meter.is_sparse(1));
        meter.note(1, 1, false);
        assert!(!meter.is_sparse(1));
        // A flow that had a class.
        let classed = crate::numbers::BUCKETS_ALL - 1;
        meter.note(classed, 15_001, false);
        assert!(!meter.is_sparse(classed));
    }
}
