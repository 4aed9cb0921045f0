//! Limit on the rate of a sender.

use std::time::Duration;

use anabranch_base::Rate;
use tokio::time::{Instant, sleep_until};

/// Time that one step takes at the limit.
const STEP: Duration = Duration::from_millis(50);
/// Limits on the bytes of a step: records are neither tiny nor longer than those without a limit.
const STEP_BYTES_MIN: u64 = 4 << 10;
const STEP_BYTES_MAX: u64 = 256 << 10;

/// Pauses between records, so that they do not exceed a rate over any time longer than a few steps.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Rate,
    /// Time at which the rate allows the next record.
    next: Instant,
}

impl Pace {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            rate,
            next: Instant::now(),
        }
    }

    /// Bytes of a record that fit the pace.
    pub(super) fn step_bytes(&self) -> usize {
        let bytes = self.rate.bytes_in(STEP);
        bytes.clamp(STEP_BYTES_MIN, STEP_BYTES_MAX) as usize
    }

    /// Waits until the rate allows more than the `bytes` that were sent.
    pub(super) async fn sent(&mut self, bytes: usize) {
        // Time in which the paths were slower is not made up for.
        let from = self.next.max(Instant::now());
        let pause = self.rate.time_to_send(bytes as u64);
        let Some(next) = from.checked_add(pause) else {
            return std::future::pending().await;
        };
        self.next = next;
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn records_leave_at_the_rate_whatever_their_sizes() {
        let start = Instant::now();
        let mut pace = Pace::new(Rate::from_mbps(8));
        assert_eq!(pace.step_bytes(), 50_000);
        for bytes in [50_000, 45, 9_955, 40_000] {
            pace.sent(bytes).await;
        }
        let took = start.elapsed();
        let right = Duration::from_millis(100)..Duration::from_millis(106);
        assert!(right.contains(&took), "{took:?}");
        // A pause of the paths is not made up for.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let again = Instant::now();
        pace.sent(100_000).await;
        assert!(again.elapsed() >= Duration::from_millis(100));
        let slow = Pace::new(Rate::from_bps(1));
        assert_eq!(slow.step_bytes() as u64, STEP_BYTES_MIN);
    }
}
