//! Statistics of a link.

use std::{
    ops::{AddAssign, SubAssign},
    time::Duration,
};

use crate::DropReason;

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Number of IP packets.
    pub packets: u64,
    /// Their total size, IP headers included.
    pub bytes: u64,
}

/// Totals of one direction of a link since it was created. Owned and updated by the [`Link`](crate::Link).
///
/// At all times `offered = delivered + dropped_total`. A packet is counted when it is offered, with its outcome as
/// predicted then; cutting the link moves the packets that had not left yet from `delivered` to `down`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// All packets that the driver offered.
    pub offered: Count,
    /// Packets that have arrived or will arrive.
    pub delivered: Count,
    /// Dropped because the queue was full.
    pub queue_full: Count,
    /// Lost on the wire by the loss process.
    pub loss: Count,
    /// Offered to a link that was down, or waiting in it when it went down.
    pub down: Count,
    /// Larger than the link's MTU.
    pub too_big: Count,
    /// Of the delivered ones, those marked CE (including those cut afterwards).
    pub marked: Count,
    /// The maximum number of bytes waiting, including the packet being sent.
    pub queue_max_bytes: u64,
    /// Time during which there was something to send.
    pub busy: Duration,
}

impl Stats {
    /// Packets dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> Count {
        match reason {
            DropReason::QueueFull => self.queue_full,
            DropReason::Loss => self.loss,
            DropReason::Down => self.down,
            DropReason::TooBig => self.too_big,
        }
    }

    /// Packets dropped for any reason.
    pub fn dropped_total(&self) -> Count {
        let mut total = Count::default();
        for count in [self.queue_full, self.loss, self.down, self.too_big] {
            total += count;
        }
        total
    }

    pub(crate) fn dropped_mut(&mut self, reason: DropReason) -> &mut Count {
        match reason {
            DropReason::QueueFull => &mut self.queue_full,
            DropReason::Loss => &mut self.loss,
            DropReason::Down => &mut self.down,
            DropReason::TooBig => &mut self.too_big,
        }
    }
}

impl Count {
    pub(crate) const fn packet(bytes: u64) -> Self {
        Self { packets: 1, bytes }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, rhs: Self) {
        self.packets += rhs.packets;
        self.bytes += rhs.bytes;
    }
}

impl SubAssign for Count {
    fn sub_assign(&mut self, rhs: Self) {
        self.packets -= rhs.packets;
        self.bytes -= rhs.bytes;
    }
}
