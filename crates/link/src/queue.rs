//! The drop-tail queue: its limits, and the packets that wait in it.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{Instant, Rate};

use crate::limits::{self, ConfigError};

/// The largest queue that a config accepts, in bytes. No interface holds 4 GiB; larger values are typing errors.
pub const QUEUE_MAX_BYTES: u64 = 1 << 32;

/// Limit on the bytes that wait to be sent.
///
/// All bytes accepted and not yet entirely on the wire count, including the packet being sent. An idle link accepts any
/// packet, so a limit below one packet still lets packets through one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// The limit beyond which packets are dropped.
    pub limit: Limit,
    /// ECN-capable packets with more than this many bytes before them are marked CE (congestion experienced); `None`
    /// never marks. The limit applies to them as well.
    pub mark_above_bytes: Option<u64>,
}

/// The size of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// A number of bytes.
    Bytes(u64),
    /// Bytes that the link sends at its mean rate in this time, at least two of the largest packets. The limit follows
    /// the rate when the rate source is replaced.
    Time(Duration),
}

impl Default for Queue {
    /// 100 ms at the mean rate: the order of magnitude of the queues of home routers and base stations.
    fn default() -> Self {
        Self::time(Duration::from_millis(100))
    }
}

impl Queue {
    /// A queue of this number of bytes, without marking.
    pub const fn bytes(bytes: u64) -> Self {
        Self {
            limit: Limit::Bytes(bytes),
            mark_above_bytes: None,
        }
    }

    /// A queue of this time at the mean rate, without marking.
    pub const fn time(time: Duration) -> Self {
        Self {
            limit: Limit::Time(time),
            mark_above_bytes: None,
        }
    }

    /// A queue of one bandwidth-delay product: `rate · rtt / 8` bytes, rounded down.
    pub fn bdp(rate: Rate, rtt: Duration) -> Self {
        Self::bytes(rate.bytes_in(rtt))
    }

    /// The same queue, marking above this many bytes.
    #[must_use]
    pub const fn marking_above(mut self, bytes: u64) -> Self {
        self.mark_above_bytes = Some(bytes);
        self
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let bytes = match self.limit {
            Limit::Bytes(bytes) => bytes,
            Limit::Time(time) => {
                limits::at_most("queue", time, limits::DURATION_MAX)?;
                0
            }
        };
        let value = bytes.max(self.mark_above_bytes.unwrap_or(0));
        if value > QUEUE_MAX_BYTES {
            return Err(ConfigError::QueueTooLarge {
                value,
                most: QUEUE_MAX_BYTES,
            });
        }
        Ok(())
    }

    /// The limit in bytes on a link of this mean rate (`None`: unlimited) and packet limit.
    pub fn limit_bytes(&self, rate_mean: Option<Rate>, mtu_bytes: usize) -> u64 {
        match (self.limit, rate_mean) {
            (Limit::Bytes(bytes), _) => bytes,
            (Limit::Time(_), None) => QUEUE_MAX_BYTES,
            (Limit::Time(time), Some(rate)) => rate
                .bytes_in(time)
                .clamp(2 * mtu_bytes as u64, QUEUE_MAX_BYTES),
        }
    }
}

/// The packets accepted and not yet entirely on the wire, oldest first.
///
/// Invariant: departure times never decrease from front to back. Its length is bounded by the queue
/// limit, as a packet counts at least one byte.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backlog {
    waiting: VecDeque<Waiting>,
    bytes: u64,
}

/// One packet of the backlog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    /// Time at which its last bit leaves.
    pub(crate) departs: Instant,
    /// Its size.
    pub(crate) bytes: u64,
    /// Time at which it arrives at the other end; `None` when it is already known to be lost.
    pub(crate) arrives: Option<Instant>,
}

impl Backlog {
    pub(crate) fn push(&mut self, packet: Waiting) {
        self.bytes += packet.bytes;
        self.waiting.push_back(packet);
    }

    /// Removes the oldest packet if it has left by `now`.
    pub(crate) fn pop_departed(&mut self, now: Instant) -> Option<Waiting> {
        let packet = *self.waiting.front().filter(|p| p.departs <= now)?;
        self.waiting.pop_front();
        self.bytes -= packet.bytes;
        Some(packet)
    }

    /// Removes all packets.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Waiting> + '_ {
        self.bytes = 0;
        self.waiting.drain(..)
    }

    /// The bytes in it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes still in it at a later time, if nothing more is accepted. Linear in the packets
    /// that leave until then.
    pub(crate) fn bytes_at(&self, now: Instant) -> u64 {
        let leaving = self.waiting.iter().take_while(|p| p.departs <= now);
        self.bytes() - leaving.map(|p| p.bytes).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_by_hand() {
        // 50 Mbit/s times 60 ms = 3 Mbit = 375 kB.
        let queue = Queue::bdp(Rate::from_mbps(50), Duration::from_millis(60));
        assert_eq!(queue, Queue::bytes(375_000));
        // 8 Mbit/s for 100 ms = 100 kB.
        let queue = Queue::default();
        assert_eq!(queue.limit_bytes(Some(Rate::from_mbps(8)), 1500), 100_000);
        // 8 kbit/s for 100 ms = 100 bytes, raised to two packets.
        assert_eq!(queue.limit_bytes(Some(Rate::from_kbps(8)), 1500), 3_000);
        assert!(Queue::bytes(u64::MAX).validate().is_err());
    }

    #[test]
    fn the_backlog_counts_packets_that_have_not_left() {
        let mut backlog = Backlog::default();
        for ms in 1..=3 {
            backlog.push(Waiting {
                departs: Instant::from_millis(ms),
                bytes: 100 * ms,
                arrives: None,
            });
        }
        assert_eq!(backlog.bytes(), 600);
        assert_eq!(backlog.bytes_at(Instant::from_millis(2)), 300);
        assert!(backlog.pop_departed(Instant::from_micros(999)).is_none());
        assert!(backlog.pop_departed(Instant::from_millis(1)).is_some());
        assert_eq!(backlog.bytes(), 500);
        assert_eq!(backlog.drain().count(), 2);
        assert_eq!(backlog.bytes(), 0);
    }
}
