//! Share of one path in one promised stream, and the time of its next packet.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant};

/// Time in nanoseconds since the epoch, finer than a packet and without bounds.
pub(super) type Nanos = f64;

/// `at` as nanoseconds.
pub(super) fn nanos(at: Instant) -> Nanos {
    at.since_epoch().as_nanos() as f64
}

/// Part of a promised stream. Of x packets in a window `t_w`, packet k has the virtual deadline
/// `t_w/x·(k − 1)` after the window's beginning [IQ-Paths §V-B.2b]; here a clock runs instead, which each
/// byte moves on by `t_w/bytes`, so that packets may have any size and nothing is built for a window.
#[derive(Clone, Debug)]
pub(super) struct Share {
    /// Index of the stream among those promised, in order of precedence.
    pub(super) owner: usize,
    pub(super) channel: ChannelId,
    /// Index of its path, and its number among the shares there; meaningless for a share that is on none.
    pub(super) path: usize,
    pub(super) number: usize,
    window: Nanos,
    /// Nanoseconds of the window that a byte stands for.
    nanos_per_byte: f64,
    /// Virtual deadline of the next packet.
    pub(super) due: Nanos,
    /// Since when the stream has had something to send.
    pub(super) ready_at: Nanos,
}

impl Share {
    /// Of `bytes` in each `window`; the first packet is due at `now`.
    pub(super) fn new(
        now: Instant,
        owner: usize,
        channel: ChannelId,
        window: Duration,
        bytes: f64,
    ) -> Self {
        let window = window.as_nanos() as f64;
        Self {
            owner,
            channel,
            path: usize::MAX,
            number: 0,
            window,
            nanos_per_byte: window / bytes.max(1.0),
            due: nanos(now),
            ready_at: nanos(now),
        }
    }

    /// Carries on where `before` was, for another number of bytes or another path.
    pub(super) fn resume(&mut self, before: &Self) {
        self.due = before.due;
        self.ready_at = before.ready_at;
    }

    /// Data that were not sent when they were due may be sent later, but no more than one window's worth.
    pub(super) fn catch_up(&mut self, now: Nanos) {
        self.due = self.due.max(now - self.window);
    }

    /// True if the next packet belongs to the running window, or to an earlier one.
    pub(super) fn is_scheduled(&self, now: Nanos) -> bool {
        if self.due < now {
            return true;
        }
        // Without a call of `floor`: times are not negative.
        let windows = (now / self.window) as u64 as f64;
        self.due < (windows + 1.0) * self.window
    }

    /// `bytes` of it were sent.
    pub(super) fn charge(&mut self, bytes: usize) {
        self.due += self.nanos_per_byte * bytes as f64;
    }

    /// By how much the next packet is late: since it was due, and there.
    pub(super) fn lateness(&self, now: Nanos) -> Nanos {
        now - self.due.max(self.ready_at)
    }
}
