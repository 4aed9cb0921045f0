//! One path: whose turn it is on it, and whether it is blocked.

use std::collections::BinaryHeap;

use anabranch_base::ChannelId;

use super::share::{Nanos, Share, Turn};

/// First time for which nothing is bound to a path that data had to be taken away from.
const BACKOFF_MIN: Nanos = 20e6;
/// The longest such time.
const BACKOFF_MAX: Nanos = 1e9;

/// The shares of one path that have something to send, in the order of their turns.
///
/// Packets that are not late go by their virtual deadlines. When the path is behind, the deadlines have
/// passed, and going by them would spread the shortage over all streams; late packets go by precedence
/// instead, so that streams of lower probability yield first.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) channel: ChannelId,
    /// Virtual deadline of the path's next packet: paths are visited in this order (the paper's VP).
    pub(super) due: Nanos,
    nanos_per_byte: f64,
    early: BinaryHeap<Turn>,
    late: BinaryHeap<Turn>,
    backoff: Nanos,
    backoff_until: Nanos,
}

impl Path {
    /// Of a path that is to carry `bytes_per_nano` of promised streams, in `shares` parts.
    pub(super) fn new(channel: ChannelId, now: Nanos, bytes_per_nano: f64, shares: usize) -> Self {
        Self {
            channel,
            due: now,
            nanos_per_byte: bytes_per_nano.recip(),
            early: BinaryHeap::with_capacity(shares),
            late: BinaryHeap::with_capacity(shares),
            backoff: BACKOFF_MIN,
            backoff_until: 0.0,
        }
    }

    /// Carries on where `before` was.
    pub(super) fn resume(&mut self, before: &Self) {
        self.due = before.due;
        self.backoff = before.backoff;
        self.backoff_until = before.backoff_until;
    }

    pub(super) fn clear(&mut self) {
        self.early.clear();
        self.late.clear();
    }

    /// The share with this index has something to send.
    pub(super) fn enter(&mut self, index: usize, share: &Share, constraint: f64) {
        self.early.push(Turn {
            key: share.due.round(),
            constraint,
            owner: share.owner,
            share: index,
        });
    }

    /// Whose turn it is: an index into `shares`. O(log shares), amortised over packets.
    pub(super) fn peek(&mut self, shares: &[Share], now: Nanos) -> Option<usize> {
        while let Some(&turn) = self.early.peek() {
            let due = shares[turn.share].due.round();
            if due > turn.key {
                // It was sent along with another stream's packet.
                self.early.pop();
                self.early.push(Turn { key: due, ..turn });
            } else if due < now {
                self.early.pop();
                self.late.push(Turn {
                    key: turn.owner as f64,
                    ..turn
                });
            } else {
                break;
            }
        }
        while let Some(&turn) = self.late.peek() {
            let due = shares[turn.share].due;
            if due < now {
                return Some(turn.share);
            }
            self.late.pop();
            self.early.push(Turn {
                key: due.round(),
                ..turn
            });
        }
        let turn = self.early.peek()?;
        shares[turn.share].is_scheduled(now).then_some(turn.share)
    }

    /// Takes out the one that [`Path::peek`] found, until it enters again.
    pub(super) fn take(&mut self, share: usize) {
        if self.late.peek().is_some_and(|turn| turn.share == share) {
            self.late.pop();
        } else if self.early.peek().is_some_and(|turn| turn.share == share) {
            self.early.pop();
        }
    }

    /// `bytes` of promised streams were sent on it.
    pub(super) fn charge(&mut self, now: Nanos, bytes: usize) {
        // A path that was idle does not make up for it.
        self.due = self.due.max(now - 1e9) + self.nanos_per_byte * bytes as f64;
    }

    /// Whether data bound to it may be taken elsewhere without waiting for it.
    pub(super) fn is_backing_off(&self, now: Nanos) -> bool {
        now < self.backoff_until
    }

    /// Something that was due here had to be sent elsewhere.
    pub(super) fn back_off(&mut self, now: Nanos) {
        if self.is_backing_off(now) {
            return;
        }
        self.backoff_until = now + self.backoff;
        self.backoff = (2.0 * self.backoff).min(BACKOFF_MAX);
    }

    /// It carried a packet that was not late.
    pub(super) fn recover(&mut self) {
        self.backoff = BACKOFF_MIN;
    }
}
