//! Pace: the rate at which several senders together may send, as a token bucket. Its content may fall below zero, by one batch of each.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_base::Rate;
use tokio::time::Instant;

/// Time for which the bucket holds the rate.
const DEPTH: Duration = Duration::from_millis(250);
/// Bytes that it holds at least, so that a slow sender can send a message at once.
const DEPTH_BYTES_MIN: i64 = 16 << 10;

/// Pace of senders that share a rate.
#[derive(Debug, Default)]
pub struct Pace(Mutex<Bucket>);

impl Pace {
    fn lock(&self) -> MutexGuard<'_, Bucket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is something in the bucket. `rate` is asked for the rate in force; `None`: any. A wait that is given up and
    /// begun again loses nothing.
    pub async fn ready(&self, rate: impl Fn() -> Option<Rate>) {
        while let Some(rate) = rate() {
            let wait = self.lock().wait(Instant::now(), rate);
            if wait.is_zero() {
                return;
            }
            // Another rate may be in force by then.
            tokio::time::sleep(wait.min(Duration::from_secs(1))).await;
        }
    }

    /// True if there is something in the bucket.
    pub fn is_ready(&self, rate: Rate) -> bool {
        self.lock().wait(Instant::now(), rate).is_zero()
    }

    /// Counts bytes that were sent.
    pub fn sent(&self, rate: Rate, bytes: u64) {
        self.lock().take(Instant::now(), rate, bytes);
    }
}

/// A token bucket of bytes.
#[derive(Debug, Default)]
struct Bucket {
    /// Bytes that may be sent; below zero after a batch.
    balance: i64,
    /// Time of `balance`; `None` before its first use.
    at: Option<Instant>,
}

impl Bucket {
    fn fill(&mut self, now: Instant, rate: Rate) {
        let depth = i64::try_from(rate.bytes_in(DEPTH)).unwrap_or(i64::MAX);
        let depth = depth.max(DEPTH_BYTES_MIN);
        let Some(at) = self.at else {
            (self.balance, self.at) = (depth, Some(now));
            return;
        };
        let bytes = rate.bytes_in(now.saturating_duration_since(at));
        if bytes > 0 {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            self.balance = self.balance.saturating_add(bytes).min(depth);
            self.at = Some(now);
        }
    }

    /// Time until something may be sent.
    fn wait(&mut self, now: Instant, rate: Rate) -> Duration {
        self.fill(now, rate);
        if self.balance > 0 {
            return Duration::ZERO;
        }
        let missing = self.balance.unsigned_abs() + 1;
        rate.time_to_send(missing).max(Duration::from_millis(1))
    }

    fn take(&mut self, now: Instant, rate: Rate, bytes: u64) {
        self.fill(now, rate);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.balance = self.balance.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_long_run_no_more_than_the_rate_is_sent() {
        let rate = Rate::from_mbps(8);
        let start = Instant::now();
        let (mut bucket, mut now, mut sent) = (Bucket::default(), start, 0);
        // Batches larger than the bucket, smaller ones, and pauses.
        for batch in [1_000_000, 10, 300_000, 50_000, 1, 700_000].repeat(20) {
            now += bucket.wait(now, rate);
            assert!(bucket.wait(now, rate).is_zero());
            bucket.take(now, rate, batch);
            sent += batch;
        }
        let seconds = (now - start).as_secs_f64();
        let allowed = 1e6 * seconds + 250_000.0 + 1_000_000.0;
        assert!(sent as f64 <= allowed, "{sent} in {seconds} s");
        assert!(sent as f64 >= 1e6 * seconds, "{sent} in {seconds} s");
        // A pause is worth the depth of the bucket.
        now += Duration::from_secs(100);
        bucket.take(now, rate, 250_000);
        assert!(!bucket.wait(now, rate).is_zero());
    }
}
