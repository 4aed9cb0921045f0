//! A plan that stands: nothing has changed that could let data be sent which it left waiting.
//!
//! Most runs of a session follow an acknowledgement, and change nothing for ADUs that wait for a better slot than those that exist. So a
//! cycle is planned again only when more or other data wait, a channel has a slot that had none to spare, the expected outcome of a
//! channel has moved, other objectives are in force, or the time has come for which the plan waits. Data are only ever sent by a plan of
//! that moment: one that stands can delay them, by no more than the time until the policy is asked again in any case. None stands while
//! a stream waits that no objective is about: the default policy may send its data at any time.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_hose::{ObjectiveId, Objectives};

use crate::{
    objective::{Cycle, Schedule},
    view::View,
};

/// Part of its smoothed round trip by which that of a channel may move.
const TRIP_PART: u32 = 8;
/// Least amount by which it may move.
const TRIP_MIN: Duration = Duration::from_millis(5);
/// Amount by which the fraction lost on a channel may move.
const LOSS: f64 = 0.02;

/// Number of objectives in force, and the one that came last: both are the same only for the same set.
type InForce = (usize, Option<ObjectiveId>);

/// Data that wait, and channels, as the last plan left them.
#[derive(Debug)]
pub(super) struct Standing {
    /// False: something is not as the plan had it, so that the next cycle is planned in any case.
    is_known: bool,
    until: Instant,
    in_force: InForce,
    channels: Vec<Seen>,
    streams: Vec<Left>,
}

/// A channel when the plan was made.
#[derive(Clone, Copy, Debug)]
struct Seen {
    id: ChannelId,
    /// Slots that exist, and to which the plan assigned nothing.
    spare: usize,
    rtt: Duration,
    loss: f64,
}

/// Bytes of a stream that the plan leaves waiting.
#[derive(Clone, Copy, Debug)]
struct Left {
    stream: StreamId,
    bytes: u64,
    /// Bytes that wait, what was sent since taken off, unless others came.
    waiting: u64,
    /// Objectives are about it; otherwise the default policy sends its data.
    is_planned: bool,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            is_known: false,
            until: Instant::EPOCH,
            in_force: (0, None),
            channels: Vec::new(),
            streams: Vec::new(),
        }
    }
}

impl Standing {
    /// Records a plan: which slots it used, and what it left waiting. `until`: time until which it stands at most.
    ///
    /// O(channels + streams + ADUs).
    pub(super) fn record(
        &mut self,
        view: &View<'_>,
        (cycle, schedule): (&Cycle, &Schedule),
        until: Instant,
        is_planned: impl Fn(StreamId) -> bool,
    ) {
        self.until = until;
        self.channels.clear();
        self.channels
            .extend(view.channels.iter().map(|channel| Seen {
                id: channel.id,
                spare: channel.slots,
                rtt: channel.rtt_smoothed,
                loss: channel.loss,
            }));
        self.streams.clear();
        let waiting = view.streams.iter().filter(|stream| stream.is_waiting());
        self.streams.extend(waiting.map(|stream| Left {
            stream: stream.id,
            bytes: stream.backlog_bytes,
            waiting: stream.backlog_bytes,
            is_planned: is_planned(stream.id),
        }));
        // Bytes that wait and are in no ADU of the cycle might have taken a slot that is spare. An application that is held back is
        // shown with more than any has.
        let bytes = self.streams.iter().map(|left| left.bytes);
        let mut unseen = bytes.fold(0, u64::saturating_add);
        for (adu, slot) in cycle.adus.iter().zip(schedule) {
            unseen = unseen.saturating_sub(u64::from(adu.bytes));
            let slot = slot.map(|slot| &cycle.slots[slot as usize]);
            let Some(slot) = slot.filter(|slot| !slot.is_phantom()) else {
                continue;
            };
            let seen = &mut self.channels[slot.channel as usize];
            seen.spare = seen.spare.saturating_sub(1);
            let at = (self.streams).binary_search_by_key(&adu.stream, |left| left.stream);
            if let Ok(at) = at {
                let left = &mut self.streams[at].bytes;
                *left = left.saturating_sub(u64::from(adu.bytes));
            }
        }
        self.is_known = unseen == 0;
    }

    /// Records that bytes of a stream were sent.
    pub(super) fn sent(&mut self, stream: StreamId, bytes: usize) {
        let at = (self.streams).binary_search_by_key(&stream, |left| left.stream);
        if let Ok(at) = at {
            let waiting = &mut self.streams[at].waiting;
            *waiting = waiting.saturating_sub(bytes as u64);
        }
    }

    /// The next cycle is planned in any case.
    pub(super) fn forget(&mut self) {
        self.is_known = false;
    }

    /// Forgets the plan if other objectives are in force.
    pub(super) fn compare(&mut self, objectives: &Objectives) {
        let ids = objectives.iter().map(|(id, _)| id);
        let in_force = ids.fold((0, None), |(count, _), id| (count + 1, Some(id)));
        if std::mem::replace(&mut self.in_force, in_force) != in_force {
            self.forget();
        }
    }

    /// True if a plan of this moment would leave waiting what waits: only what the recorded plan left is there, and only slots of
    /// channels that had some to spare.
    ///
    /// O(channels + streams).
    pub(super) fn holds(&self, view: &View<'_>) -> bool {
        self.is_known
            && view.now < self.until
            && view.channels.len() == self.channels.len()
            && view.channels.iter().zip(&self.channels).all(|(now, then)| {
                let moved = now.rtt_smoothed.abs_diff(then.rtt);
                now.id == then.id
                    && (now.slots == 0 || then.spare > 0)
                    && moved <= TRIP_MIN.max(then.rtt / TRIP_PART)
                    && (now.loss - then.loss).abs() <= LOSS
            })
            && self.has_left(view)
    }

    fn has_left(&self, view: &View<'_>) -> bool {
        let mut known = self.streams.iter().peekable();
        for stream in view.streams.iter().filter(|stream| stream.is_waiting()) {
            // Of a planned stream that is not there, what was left is gone.
            while known.next_if(|left| left.stream < stream.id).is_some() {}
            let left = known.next_if(|left| left.stream == stream.id);
            // A packet may take more than the plan had for it: then less is left, and nothing else.
            let is_left = left.is_some_and(|left| {
                left.is_planned
                    && stream.backlog_bytes == left.waiting
                    && left.waiting <= left.bytes
            });
            if !is_left {
                return false;
            }
        }
        true
    }
}
