//! Promises of a session's streams: admission, and the review at the end of windows.

use std::{cell::Cell, collections::VecDeque, sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_spec::{ChannelChoice, ChannelMask, Shares, StreamSpec, Tenant};

use super::Session;
use crate::event::{Event, PromiseEvent, StreamError};
use anabranch_admission::{Explanation, Grant, LATE, Notice, Steadiness};

/// An ADU that has been on its way for longer than [`LATE`] and two round trips is late, and so is one that has been for longer
/// than this and the shortest round trip, even in a queue.
const LATE_QUEUED: Duration = Duration::from_millis(200);

impl Session {
    /// The answer that a stream with this spec would get if it were opened.
    pub(crate) fn admit(&mut self, now: Instant, spec: &StreamSpec) -> Result<Grant, StreamError> {
        spec.validate()?;
        let channels = self.channels.of_paths();
        let permitted = self.permitted(spec);
        let answer = self.promises.admit(now, (spec, permitted), &channels);
        answer.map_err(|refusal| {
            if spec.guarantee.is_some() {
                self.note_asked(now);
            }
            StreamError::Refused(Box::new(refusal))
        })
    }

    /// The answer that the present demand of an open stream would get now.
    pub(crate) fn admit_again(
        &mut self,
        now: Instant,
        stream: StreamId,
    ) -> Result<Grant, StreamError> {
        let send = self.streams.send.get(&stream);
        let spec = send.ok_or(StreamError::UnknownStream(stream))?.spec.clone();
        let channels = self.channels.of_paths();
        let permitted = self.permitted(&spec);
        (self.promises)
            .admit_again(now, stream, (&spec, permitted), &channels)
            .map_err(|refusal| StreamError::Refused(Box::new(refusal)))
    }

    /// Has paths probed for the next seconds, because a promise was asked for.
    fn note_asked(&mut self, now: Instant) {
        self.channels.probing.note_asked(now);
        self.pump.is_due = true;
    }

    /// Sets the largest shares of tenants, for promises that are made or raised from now on.
    pub(crate) fn set_promised_shares(&mut self, shares: Arc<Shares>) {
        self.config.promised_shares = shares.clone();
        self.promises.set_shares(shares);
    }

    /// Makes the demand of a new stream's spec.
    pub(super) fn promise(
        &mut self,
        now: Instant,
        stream: StreamId,
        spec: &StreamSpec,
        events: &mut VecDeque<Event>,
    ) -> Result<(), StreamError> {
        let channels = self.channels.of_paths();
        let permitted = self.permitted(spec);
        if spec.guarantee.is_some() {
            self.note_asked(now);
        }
        match (self.promises).open(now, stream, (spec, permitted), &channels) {
            Ok(notice) => {
                self.notify(notice, events);
                self.pump.is_due = true;
                Ok(())
            }
            Err(refusal) => Err(StreamError::Refused(Box::new(refusal))),
        }
    }

    /// Changes the demand of an open stream; `None` releases its promise.
    pub(crate) fn change_guarantee(
        &mut self,
        now: Instant,
        stream: StreamId,
        guarantee: Option<anabranch_spec::Guarantee>,
        events: &mut VecDeque<Event>,
    ) -> Result<(), StreamError> {
        let send = self
            .streams
            .send
            .get(&stream)
            .ok_or(StreamError::UnknownStream(stream))?;
        let spec = StreamSpec {
            guarantee: guarantee.map(Box::new),
            ..(*send.spec).clone()
        };
        spec.validate()?;
        let channels = self.channels.of_paths();
        let permitted = self.permitted(&spec);
        let notice = self
            .promises
            .change(now, stream, (&spec, permitted), &channels)
            .map_err(|refusal| StreamError::Refused(Box::new(refusal)))?;
        self.notify(notice, events);
        if let Some(send) = self.streams.send.get_mut(&stream) {
            send.spec = Arc::new(spec);
        }
        self.pump.is_due = true;
        Ok(())
    }

    /// Gives a stream, which the peer may have opened, to a tenant, before it asks for a promise.
    pub(crate) fn set_tenant(
        &mut self,
        stream: StreamId,
        tenant: Option<Tenant>,
    ) -> Result<(), StreamError> {
        let send = self.streams.send.get_mut(&stream);
        let send = send.ok_or(StreamError::UnknownStream(stream))?;
        Arc::make_mut(&mut send.spec).tenant = tenant;
        Ok(())
    }

    /// The measured paths that the preferences of a promised stream permit.
    fn permitted(&self, spec: &StreamSpec) -> ChannelMask {
        let traits = self.channels.traits_of_paths();
        ChannelChoice::of(spec, &self.config.paths, traits.iter()).all()
    }

    /// Applies the preferences of promised streams to the paths there are now.
    pub(super) fn permit_paths(&mut self) {
        let traits = self.channels.traits_of_paths();
        let streams: Vec<StreamId> = self.promises.streams().collect();
        for stream in streams {
            if let Some(send) = self.streams.send.get(&stream) {
                let choice = ChannelChoice::of(&send.spec, &self.config.paths, traits.iter());
                self.promises.permit(stream, choice.all());
            }
        }
    }

    /// Knowledge of the interfaces of the paths: shares of the level that they kept, and the number of windows. O(n log n)
    /// for n windows of a path.
    pub(crate) fn evidence(&mut self) -> Vec<(Arc<str>, Steadiness, usize)> {
        let mut all = Vec::new();
        for state in &self.channels.states {
            let place = self.channels.estimator.place(state.id);
            if let (Some(name), Some(place)) = (&state.description.name, place)
                && let Some((shares, windows)) = self.promises.shares_kept(place)
            {
                all.push((name.clone(), shares, windows));
            }
        }
        all
    }

    /// Explanation of a stream's promise or refusal.
    pub(crate) fn explain(&self, stream: StreamId) -> Option<Explanation> {
        self.promises.explain(stream, &self.channels.of_paths())
    }

    /// Promised streams, and those that wait for a promise, with their specifications.
    pub(crate) fn explain_all(&self) -> Vec<(Arc<StreamSpec>, Explanation)> {
        let channels = self.channels.of_paths();
        let explained = |stream: StreamId| {
            let spec = self.streams.send.get(&stream)?.spec.clone();
            Some((spec, self.promises.explain(stream, &channels)?))
        };
        self.promises.streams().filter_map(explained).collect()
    }

    /// True if data of a promised stream waits, and no channel can carry it. Its windows must not go uncounted.
    fn is_cut_off(&self) -> bool {
        let waits = |stream: StreamId| {
            let send = self.streams.send.get(&stream);
            send.is_some_and(|send| send.oldest_at().is_some())
        };
        !self.promises.is_empty()
            && self.channels.in_use().next().is_none()
            && self.promises.streams().any(waits)
    }

    /// Time after which data on each path is late.
    fn late_after(&self, channels: &[Option<ChannelId>]) -> Vec<Option<Duration>> {
        let views = &self.pump.scratch.channels;
        let late_on = |channel: &Option<ChannelId>| {
            let view = views.iter().find(|view| Some(view.id) == *channel)?;
            Some((LATE + 2 * view.rtt_smoothed).min(LATE_QUEUED + view.rtt_min))
        };
        channels.iter().map(late_on).collect()
    }

    /// True if data of a promised stream is late. O(promised streams), but not again before the data that was oldest can be late.
    fn is_behind(&mut self, now: Instant) -> bool {
        let changes = self.promises.changes();
        if self.promises.is_empty() || self.neighbours.is_in_time(now, changes) {
            return false;
        }
        let oldest = Cell::new(now);
        let since = |stream: StreamId| {
            let at = self.streams.send.get(&stream)?.oldest_at();
            oldest.set(oldest.get().min(at.unwrap_or(now)));
            at
        };
        let late = self.late_after(&self.channels.of_paths());
        let is_behind = self.promises.is_behind(now, &late, since);
        if !is_behind {
            // All promises in force were examined; on no path is data late sooner, and data to come is younger.
            self.neighbours.set_in_time(oldest.get() + LATE, changes);
        }
        is_behind
    }

    pub(super) fn advance_estimates(&mut self, now: Instant, events: &mut VecDeque<Event>) {
        if self.is_cut_off() {
            self.channels.estimator.waits(now);
        }
        let is_behind = self.neighbours.are_known() && self.is_behind(now);
        self.neighbours.set_behind(is_behind);
        let (estimator, promises) = (&mut self.channels.estimator, &mut self.promises);
        let neighbours = &mut self.neighbours;
        let (mut is_over, mut is_part_over) = (false, false);
        estimator.advance(now, |row| {
            is_part_over = true;
            if neighbours.are_known() {
                let (uplinks, rates_bps) = neighbours.take_rates(now);
                promises.observe_others(uplinks, rates_bps, is_behind);
            }
            promises.note_part(now, row);
            is_over |= promises.observe(now, row);
        });
        if is_part_over {
            self.state_promises(now);
        }
        if !is_part_over || self.promises.is_empty() {
            return;
        }
        self.channels.probing.look(now);
        self.permit_paths();
        let channels = self.channels.of_paths();
        let late = self.late_after(&channels);
        let send = &self.streams.send;
        let since = |stream: StreamId| send.get(&stream).and_then(|send| send.oldest_at());
        let notices = if is_over {
            self.promises.end_window(now, &channels, &late, since)
        } else {
            self.promises.watch_window(now, &channels, &late, since)
        };
        if !is_over && notices.is_empty() {
            return;
        }
        for notice in notices {
            let closed = self.close_if_warned(&notice);
            self.notify(Some(notice), events);
            events.extend(closed);
        }
        self.pump.is_due = true;
    }

    /// Passes the mapping to the scheduler when it has changed.
    pub(super) fn hand_over_plan(&mut self, now: Instant) {
        if self.promises.is_changed() {
            let channels = self.channels.of_paths();
            if let Some(plan) = self.promises.take_plan(&channels) {
                self.scheduling.remap(now, &plan);
            }
        }
    }

    pub(super) fn notify(&self, notice: Option<Notice>, events: &mut VecDeque<Event>) {
        let session = self.id;
        events.extend(notice.map(|notice| match notice {
            Notice::Promised(stream, grant) => Event::Promise {
                session,
                stream,
                event: PromiseEvent::Promised(grant),
            },
            Notice::Warned(stream, refusal) => Event::Promise {
                session,
                stream,
                event: PromiseEvent::Warned(refusal),
            },
            Notice::Withdrawn(stream, refusal) => Event::Promise {
                session,
                stream,
                event: PromiseEvent::Withdrawn(refusal),
            },
        }));
    }
}
