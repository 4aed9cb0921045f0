//! One path: whose turn it is on it, and whether it is blocked.

use anabranch_base::ChannelId;

use super::{
    share::{Nanos, Share},
    turns::Turns,
};
use crate::view::View;

/// First time for which nothing is bound to a path that data had to be taken away from.
const BACKOFF_MIN: Nanos = 20e6;
/// The longest such time.
const BACKOFF_MAX: Nanos = 1e9;

/// Packets with deadlines nearer than this are due together: a frame of live media.
pub(super) const DUE: Nanos = 50e6;

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
    backoff: Nanos,
    backoff_until: Nanos,
    turns: Turns,
    /// The shares of this path, by number in `turns`, as indices.
    shares: Vec<u32>,
    /// Place where its channel was in the last view.
    place: usize,
    /// The share whose turn it is.
    pub(super) head: Head,
}

/// The answer to whose turn it is: it holds for a run of decisions, while nothing enters or is taken out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Head {
    Unknown,
    /// Nothing is scheduled now.
    Nobody,
    Is {
        share: usize,
        /// The stream's place in the view.
        stream: usize,
    },
}

impl Path {
    /// Of a path that is to carry `bytes_per_nano` of promised streams, in these shares, given as index and window
    /// constraint, in order of precedence.
    pub(super) fn new(
        channel: ChannelId,
        now: Nanos,
        bytes_per_nano: f64,
        shares: &[(usize, f64)],
    ) -> Self {
        let constraints: Vec<f64> = shares.iter().map(|&(_, constraint)| constraint).collect();
        Self {
            channel,
            due: now,
            nanos_per_byte: bytes_per_nano.recip(),
            backoff: BACKOFF_MIN,
            backoff_until: 0.0,
            turns: Turns::new(&constraints),
            shares: shares.iter().map(|&(share, _)| share as u32).collect(),
            place: 0,
            head: Head::Unknown,
        }
    }

    /// Carries on where `before` was.
    pub(super) fn resume(&mut self, before: &Self) {
        self.due = before.due;
        self.backoff = before.backoff;
        self.backoff_until = before.backoff_until;
    }

    /// The place of its channel in the view. O(1) while channels neither come nor go.
    pub(super) fn place(&mut self, view: &View<'_>) -> Option<usize> {
        let is_here = |place: usize| {
            view.channels
                .get(place)
                .is_some_and(|c| c.id == self.channel)
        };
        if !is_here(self.place) {
            self.place = (0..view.channels.len()).find(|&place| is_here(place))?;
        }
        Some(self.place)
    }

    /// The share has something to send, or its deadline has changed.
    pub(super) fn enter(&mut self, share: &Share, now: Nanos) {
        self.head = Head::Unknown;
        self.turns.enter(share.number, share.due, now + DUE);
    }

    /// True if the share has entered, and has not been taken out since.
    pub(super) fn holds(&self, share: &Share) -> bool {
        self.turns.contains(share.number)
    }

    /// The share whose turn it is: an index into `shares`. O(1), amortised over packets.
    pub(super) fn peek(&mut self, shares: &[Share], now: Nanos) -> Option<usize> {
        let (number, is_due) = self.turns.first(now + DUE)?;
        let share = self.shares[number] as usize;
        (is_due || shares[share].is_scheduled(now)).then_some(share)
    }

    /// Takes the share out until it enters again.
    pub(super) fn take(&mut self, share: &Share) {
        self.head = Head::Unknown;
        self.turns.leave(share.number);
    }

    /// `bytes` of promised streams were sent on it.
    pub(super) fn charge(&mut self, now: Nanos, bytes: usize) {
        // A path that was idle does not make up for it.
        self.due = self.due.max(now - 1e9) + self.nanos_per_byte * bytes as f64;
    }

    /// True if data bound to it may be taken elsewhere without waiting for it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_backs_off_twice_as_long_each_time_until_it_recovers() {
        let mut path = Path::new(ChannelId(1), 0.0, 1.0, &[(0, 1.0)]);
        let mut now = 0.0;
        // Milliseconds for which it backs off when it has to at once, and again when that is over.
        let mut next = |path: &mut Path| {
            path.back_off(now);
            let until = path.backoff_until;
            path.back_off(now + 1e6);
            assert_eq!(path.backoff_until, until, "it is backing off already");
            let length = until - now;
            now = until;
            assert!(!path.is_backing_off(now));
            length / 1e6
        };
        assert_eq!([(); 3].map(|()| next(&mut path)), [20.0, 40.0, 80.0]);
        path.recover();
        assert_eq!(next(&mut path), 20.0);
        for _ in 0..9 {
            next(&mut path);
        }
        assert_eq!(next(&mut path), 1_000.0);
    }
}
