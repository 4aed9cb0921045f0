//! State of one ADU of a send stream.

use std::ops::Range;

use anabranch_base::Instant;
use anabranch_sched::objective::Fields;
use bytes::Bytes;

use crate::ranges::Ranges;

/// Key: stream, sequence. Lives from `send` until its outcome is known.
#[derive(Debug)]
pub(super) struct SendAdu {
    pub data: Bytes,
    /// Bytes sent at least once.
    pub sent: usize,
    /// Bytes acknowledged; empty until the first partial acknowledgement. Invariant: `acked_bytes ≤ sent`.
    pub acked: Ranges,
    pub acked_bytes: u64,
    /// Bytes of a broken ADU that will not arrive any more; an ADU has at most 16 MiB.
    pub lost_bytes: u32,
    /// True if a fragment of an unreliable ADU was lost.
    pub broken: bool,
    /// True if the outcome is known; the entry only waits for those before it.
    pub done: bool,
    /// True if the credit for it has been used: it, or one after it, has been begun.
    pub is_charged: bool,
    /// Header fields; they are not sent.
    pub fields: Fields,
    /// Importance that the application gave it; the smallest is dropped first if the stream's drop order is by importance.
    pub importance: u8,
    pub deadline: Option<Instant>,
    pub queued_at: Instant,
    /// Ranges of which more than one copy is in flight, with the number of extra copies.
    pub copies: Vec<(Range<u64>, u32)>,
}

impl SendAdu {
    pub(super) fn new(
        now: Instant,
        data: Bytes,
        deadline: Option<Instant>,
        importance: u8,
    ) -> Self {
        Self {
            data,
            sent: 0,
            acked: Ranges::default(),
            acked_bytes: 0,
            lost_bytes: 0,
            broken: false,
            done: false,
            is_charged: false,
            fields: Fields::default(),
            importance,
            deadline,
            queued_at: now,
            copies: Vec::new(),
        }
    }

    pub(super) fn unsent(&self) -> usize {
        self.data.len() - self.sent
    }

    /// Notes an acknowledgement; true when the ADU is complete.
    pub(super) fn acknowledge(&mut self, range: Range<u64>) -> bool {
        let whole = self.data.len() as u64;
        if range == (0..whole) {
            self.acked_bytes = whole;
        } else {
            self.acked_bytes += self.acked.insert(range.clone());
        }
        debug_assert!(self.acked_bytes <= self.sent as u64, "only what was sent");
        self.copies.retain(|(copied, _)| *copied != range);
        self.acked_bytes == whole
    }

    /// Notes the loss of one copy of `range`; true when no other copy is in flight.
    pub(super) fn lose_copy(&mut self, range: &Range<u64>) -> bool {
        let Some(index) = self.copies.iter().position(|(copied, _)| copied == range) else {
            return true;
        };
        let extra = &mut self.copies[index].1;
        *extra -= 1;
        if *extra == 0 {
            self.copies.swap_remove(index);
        }
        false
    }

    /// Notes that one more copy of `range` has been sent.
    pub(super) fn add_copy(&mut self, range: Range<u64>) {
        match self.copies.iter_mut().find(|(copied, _)| *copied == range) {
            Some((_, extra)) => *extra += 1,
            None => self.copies.push((range, 1)),
        }
    }

    /// Frees the bytes; only a marker remains.
    pub(super) fn release(&mut self) {
        self.done = true;
        self.data = Bytes::new();
        self.sent = 0;
        self.acked = Ranges::default();
        self.copies = Vec::new();
        self.fields = Fields::default();
    }
}
