//! One path: whose turn it is on it, and whether it is blocked.

use std::collections::BinaryHeap;

use anabranch_base::ChannelId;

use super::share::{Nanos, Share, Turn};

/// First time for which nothing is bound to a path that data had to be taken away from.
const BACKOFF_MIN: Nanos = 20e6;
/// The longest such time.
const BACKOFF_MAX: Nanos = 1e9;

/// Packets with deadlines nearer than this are due together: a frame of live media.
const DUE: Nanos = 50e6;

/// The shares of one path that have something to send, in the order of their turns.
///
/// Packets go by their virtual deadlines, but those that are due by precedence. When the path is behind, all
/// are; going by deadlines would spread the shortage over all streams, and this way streams of lower
/// probability yield first. Nor does a small frame wait for a large one that came with it.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) channel: ChannelId,
    /// Virtual deadline of the path's next packet: paths are visited in this order (the paper's VP).
    pub(super) due: Nanos,
    nanos_per_byte: f64,
    later: BinaryHeap<Turn>,
    due_now: BinaryHeap<Turn>,
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
            later: BinaryHeap::with_capacity(shares),
            due_now: BinaryHeap::with_capacity(shares),
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
        self.later.clear();
        self.due_now.clear();
    }

    /// The share with this index has something to send.
    pub(super) fn enter(&mut self, index: usize, share: &Share, constraint: f64) {
        self.later.push(Turn {
            key: share.due.round(),
            constraint,
            owner: share.owner,
            share: index,
        });
    }

    /// Whose turn it is: an index into `shares`. O(log shares), amortised over packets.
    pub(super) fn peek(&mut self, shares: &[Share], now: Nanos) -> Option<usize> {
        while let Some(&turn) = self.later.peek() {
            let due = shares[turn.share].due.round();
            if due > turn.key {
                // It was sent along with another stream's packet.
                self.later.pop();
                self.later.push(Turn { key: due, ..turn });
            } else if due < now + DUE {
                self.later.pop();
                self.due_now.push(Turn {
                    key: turn.owner as f64,
                    ..turn
                });
            } else {
                break;
            }
        }
        while let Some(&turn) = self.due_now.peek() {
            let due = shares[turn.share].due;
            if due < now + DUE {
                return Some(turn.share);
            }
            self.due_now.pop();
            self.later.push(Turn {
                key: due.round(),
                ..turn
            });
        }
        let turn = self.later.peek()?;
        shares[turn.share].is_scheduled(now).then_some(turn.share)
    }

    /// Takes out the one that [`Path::peek`] found, until it enters again.
    pub(super) fn take(&mut self, share: usize) {
        if self.due_now.peek().is_some_and(|turn| turn.share == share) {
            self.due_now.pop();
        } else if self.later.peek().is_some_and(|turn| turn.share == share) {
            self.later.pop();
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
