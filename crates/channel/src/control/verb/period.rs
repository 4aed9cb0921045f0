//! The coarse timer: result of the sending rate over one period.

use std::time::{Duration, Instant};

/// Fewest packets by which goodput is judged.
const PACKETS_MIN: f64 = 8.0;
/// Multiple of its length after which a period without so many ends.
const PERIODS_MAX: u32 = 4;
/// Goodput this much below the sending rate still confirms it; one packet more, as packets are not
/// divisible.
const SLACK: f64 = 0.05;

/// Counters of what was sent since the rate was set. Goodput is measured between acknowledgements, so it does not
/// depend on the round trip.
#[derive(Debug, Clone, Copy)]
pub(super) struct Period {
    /// Time at which the rate was set; packets sent before it do not count.
    pub(super) since: Instant,
    /// That rate, in bytes per second.
    pub(super) rate: f64,
    first_at: Option<Instant>,
    last_at: Instant,
    bytes: u64,
    lost: u64,
    acked_packets: u32,
    lost_packets: u32,
    /// The application was the limit.
    pub(super) is_limited: bool,
}

/// Result of a period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Verdict {
    /// Bytes per second acknowledged.
    pub(super) goodput: f64,
    /// As much came out of the network, lost packets included, as was sent.
    pub(super) keeps_up: bool,
}

impl Period {
    pub(super) fn new(now: Instant, rate: f64) -> Self {
        Self {
            since: now,
            rate,
            first_at: None,
            last_at: now,
            bytes: 0,
            lost: 0,
            acked_packets: 0,
            lost_packets: 0,
            is_limited: false,
        }
    }

    pub(super) fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, is_limited: bool) {
        if sent < self.since {
            return;
        }
        self.is_limited |= is_limited;
        if self.first_at.is_none() {
            self.first_at = Some(now);
            return;
        }
        self.bytes += bytes;
        self.acked_packets += 1;
        self.last_at = now;
    }

    pub(super) fn on_lost(&mut self, bytes: u64) {
        if self.first_at.is_some() {
            self.lost += bytes;
            self.lost_packets += 1;
        }
    }

    /// True if more than the fraction `tolerated` was lost, by more than chance explains: twice the deviation of
    /// a Poisson number.
    pub(super) fn is_lossy(&self, tolerated: f64) -> bool {
        let expected = tolerated * f64::from(self.acked_packets + self.lost_packets);
        f64::from(self.lost_packets) > expected + 2.0 * expected.max(1.0).sqrt()
    }

    /// Verdict once the period has lasted for `length` and holds enough packets of `mtu` bytes, else `None`. The rate
    /// is `rate` now.
    pub(super) fn end(
        &self,
        now: Instant,
        length: Duration,
        rate: f64,
        mtu: f64,
    ) -> Option<Verdict> {
        let first_at = self.first_at?;
        let taken = now.saturating_duration_since(first_at);
        let is_rich = (self.bytes + self.lost) as f64 >= PACKETS_MIN * mtu;
        if taken < length || !(is_rich || taken >= length * PERIODS_MAX) || self.bytes == 0 {
            return None;
        }
        let seconds = self
            .last_at
            .saturating_duration_since(first_at)
            .as_secs_f64()
            .max(1e-6);
        let out = (self.bytes + self.lost) as f64 / seconds;
        // It has increased evenly, if at all.
        let sent = (self.rate + rate) / 2.0;
        let slack = SLACK + mtu / (sent * seconds);
        Some(Verdict {
            goodput: self.bytes as f64 / seconds,
            keeps_up: out >= sent * (1.0 - slack),
        })
    }
}
