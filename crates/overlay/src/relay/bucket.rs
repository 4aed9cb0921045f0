//! Token bucket: a rate, and the burst above it.
//!
//! The state is one instant: the time at which the bucket would have been empty if nothing had been taken since. Its
//! content is what the rate has added since then, at most the burst.

use anabranch_base::{Instant, Rate};

const NS_PER_S: f64 = 1e9;

/// A token bucket of bytes. In any span of time `t` at most `rate · t + burst` is taken from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bucket {
    ns_per_byte: f64,
    bytes_per_ns: f64,
    /// Time in which it fills.
    depth_ns: i64,
    /// Time at which it was empty; before the start of the clock if it was full then.
    empty_ns: i64,
}

impl Bucket {
    /// A bucket that is full at `now`. The rate is not zero.
    pub(super) fn new(now: Instant, rate: Rate, burst_bytes: u64) -> Self {
        let bytes_per_ns = rate.as_bytes_per_s().max(1.0) / NS_PER_S;
        let depth_ns = (burst_bytes as f64 / bytes_per_ns) as i64;
        Self {
            ns_per_byte: 1.0 / bytes_per_ns,
            bytes_per_ns,
            depth_ns,
            empty_ns: ns(now).saturating_sub(depth_ns),
        }
    }

    /// Changes the rate from `now` on. The content stays, as far as it fits.
    pub(super) fn set_rate(&mut self, now: Instant, rate: Rate, burst_bytes: u64) {
        let bytes = self.bytes(now).min(burst_bytes);
        let mut changed = Self::new(now, rate, burst_bytes);
        let filled_ns = (bytes as f64 * changed.ns_per_byte) as i64;
        changed.empty_ns = ns(now).saturating_sub(filled_ns);
        *self = changed;
    }

    /// Bytes that may be taken.
    pub(super) fn bytes(&self, now: Instant) -> u64 {
        let filled_ns = ns(now)
            .saturating_sub(self.empty_ns)
            .clamp(0, self.depth_ns);
        (filled_ns as f64 * self.bytes_per_ns) as u64
    }

    /// Takes at most the bytes that [`Self::bytes`] returned.
    pub(super) fn take(&mut self, now: Instant, bytes: u64) {
        let from_ns = self.empty_ns.max(ns(now).saturating_sub(self.depth_ns));
        let taken_ns = (bytes as f64 * self.ns_per_byte).ceil() as i64;
        self.empty_ns = from_ns.saturating_add(taken_ns);
    }
}

fn ns(now: Instant) -> i64 {
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_its_rate() {
        // 1 MB/s, 10 kB.
        let at = Instant::from_secs(1);
        let mut bucket = Bucket::new(at, Rate::from_mbps(8), 10_000);
        assert_eq!(bucket.bytes(at), 10_000);
        bucket.take(at, 10_000);
        assert_eq!(bucket.bytes(at), 0);
        let later = Instant::from_millis(1005);
        assert_eq!(bucket.bytes(later), 5_000);
        assert_eq!(bucket.bytes(Instant::from_secs(9)), 10_000);
    }

    #[test]
    fn a_bucket_is_full_when_the_clock_begins() {
        let bucket = Bucket::new(Instant::EPOCH, Rate::from_kbps(64), 65_536);
        assert_eq!(bucket.bytes(Instant::EPOCH), 65_536);
    }

    #[test]
    fn a_new_rate_keeps_the_content() {
        let at = Instant::from_secs(1);
        let mut bucket = Bucket::new(at, Rate::from_mbps(8), 10_000);
        bucket.take(at, 6_000);
        bucket.set_rate(at, Rate::from_mbps(80), 10_000);
        assert!(bucket.bytes(at).abs_diff(4_000) <= 1);
        bucket.set_rate(at, Rate::from_mbps(1), 3_000);
        assert!(bucket.bytes(at).abs_diff(3_000) <= 1);
    }

    proptest! {
        /// A consumer that takes all available bytes at any time gets no more than the rate and one burst.
        #[test]
        fn no_span_exceeds_rate_and_burst(
            kbps in 64u64..10_000_000,
            burst in 1_500u64..1_000_000,
            steps in prop::collection::vec((0u64..3_000_000, 1u64..70_000), 1..200),
        ) {
            let rate = Rate::from_kbps(kbps);
            let mut now = Instant::from_secs(100);
            let mut bucket = Bucket::new(now, rate, burst);
            let mut taken: Vec<(Instant, u64)> = Vec::new();
            for (wait_ns, want) in steps {
                now += std::time::Duration::from_nanos(wait_ns);
                let bytes = bucket.bytes(now).min(want);
                bucket.take(now, bytes);
                taken.push((now, bytes));
            }
            for first in 0..taken.len() {
                let sum: u64 = taken[first..].iter().map(|(_, bytes)| bytes).sum();
                let span = now.since(taken[first].0);
                prop_assert!(sum <= burst + rate.bytes_in(span) + 2, "{} in {:?}", sum, span);
            }
        }
    }
}
