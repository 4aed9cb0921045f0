//! Receive streams on which ADUs wait for earlier ones for a limited time, and when the first of them is over.

use std::collections::{BTreeSet, VecDeque};

use anabranch_base::{Instant, StreamId};

use super::Session;
use crate::{event::Event, recv::RecvStream};

/// Unreliable ordered streams that wait. Key: session.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// All that wait; others may linger until the next release.
    streams: BTreeSet<StreamId>,
    /// Time before which none has to be released.
    due: Option<Instant>,
}

impl Waits {
    /// Takes note of a stream, which something has arrived on.
    pub(super) fn note(&mut self, stream: &RecvStream) {
        if let Some(at) = stream.release_at() {
            self.streams.insert(stream.id);
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
    }

    /// Time before which none has to be released.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Forgets all, and returns them.
    fn take(&mut self) -> BTreeSet<StreamId> {
        self.due = None;
        std::mem::take(&mut self.streams)
    }
}

impl Session {
    /// Hands over ADUs that have waited long enough for earlier ones. O(streams that wait) at times when one may be due, else
    /// O(1).
    pub(super) fn release_waiting(&mut self, now: Instant, events: &mut VecDeque<Event>) {
        if self.streams.waits.due().is_none_or(|due| due > now) {
            return;
        }
        for stream in self.streams.waits.take() {
            let Some(recv) = self.streams.recv.get_mut(&stream) else {
                continue;
            };
            if recv.release(now) {
                events.push_back(Event::Readable {
                    session: self.id,
                    stream,
                });
            }
            self.streams.waits.note(recv);
        }
    }
}
