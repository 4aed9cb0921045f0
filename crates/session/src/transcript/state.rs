//! Views of a policy at a record: channels and streams, kept up to date as records are read.

use std::collections::BTreeMap;

use anabranch_base::{Instant, StreamId};
use anabranch_sched::{Changes, ChannelView, StreamView, View};
use anabranch_spec::ChannelMask;

use super::record::Record;

/// Views of a run of decisions.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) now: Instant,
    pub(super) channels: Vec<ChannelView>,
    pub(super) streams: Vec<StreamView>,
    pub(super) changed: Option<Vec<StreamId>>,
    pub(super) expected: Option<Instant>,
    /// Channels of the decision that is carried out.
    pub(super) decided: ChannelMask,
}

/// A record contradicts those before it.
#[derive(Debug)]
pub(super) struct Contradiction;

impl State {
    pub(super) fn view(&self) -> View<'_> {
        View {
            now: self.now,
            channels: &self.channels,
            streams: &self.streams,
        }
    }

    pub(super) fn changes(&self) -> Changes<'_> {
        match &self.changed {
            None => Changes::Any,
            Some(changed) => Changes::Only(changed),
        }
    }

    /// Begins a run.
    pub(super) fn begin(&mut self, run: &Record) -> Result<(), Contradiction> {
        let Record::Run {
            at,
            channels,
            views,
            are_all,
            changed,
            expected,
            ..
        } = run
        else {
            return Err(Contradiction);
        };
        self.now = *at;
        self.channels.clone_from(channels);
        self.changed.clone_from(changed);
        self.expected = *expected;
        if *are_all {
            self.streams.clone_from(views);
        } else {
            let views: BTreeMap<StreamId, &StreamView> =
                views.iter().map(|view| (view.id, view)).collect();
            for stream in changed.iter().flatten() {
                self.put(*stream, views.get(stream).copied());
            }
        }
        let is_sound = |view: &StreamView| {
            view.pinned
                .flatten()
                .is_none_or(|index| index < self.channels.len())
        };
        match self.streams.iter().all(is_sound) {
            true => Ok(()),
            false => Err(Contradiction),
        }
    }

    fn put(&mut self, stream: StreamId, view: Option<&StreamView>) {
        let place = self.streams.binary_search_by_key(&stream, |view| view.id);
        match (place, view) {
            (Ok(at), None) => self.streams[at].backlog_bytes = 0,
            (Ok(at), Some(view)) => self.streams[at] = view.clone(),
            (Err(at), Some(view)) => self.streams.insert(at, view.clone()),
            (Err(_), None) => {}
        }
    }

    /// Notes a decision: it must name a stream that waits, and channels with a slot.
    pub(super) fn decide(&mut self, stream: usize, on: ChannelMask) -> Result<(), Contradiction> {
        let has_slot = |index: usize| self.channels.get(index).is_some_and(|view| view.slots > 0);
        if stream >= self.streams.len() || on.is_empty() || !on.iter().all(has_slot) {
            return Err(Contradiction);
        }
        self.decided = on;
        Ok(())
    }

    /// Updates the views after a decision was carried out.
    pub(super) fn fill(
        &mut self,
        views: &[(usize, u64, Option<Instant>)],
        in_flight: &[u64],
    ) -> Result<(), Contradiction> {
        for &(index, backlog_bytes, deadline) in views {
            let view = self.streams.get_mut(index).ok_or(Contradiction)?;
            view.backlog_bytes = backlog_bytes;
            view.deadline = deadline;
        }
        for (index, &bytes) in self.decided.iter().zip(in_flight) {
            let view = self.channels.get_mut(index).ok_or(Contradiction)?;
            view.slots = view.slots.checked_sub(1).ok_or(Contradiction)?;
            view.in_flight_bytes = bytes;
        }
        Ok(())
    }

    pub(super) fn rest(&mut self, stream: usize) -> Result<(), Contradiction> {
        let view = self.streams.get_mut(stream).ok_or(Contradiction)?;
        view.backlog_bytes = 0;
        Ok(())
    }
}
