//! Pump: the scheduling loop, from slots and backlogs to containers.
//!
//! One run of the pump offers every slot to the policy, and fills a container for each slot
//! taken. Beside the fragment that the policy chose, a container carries coalesced data: control
//! frames first, then further ADUs of the same stream, then of streams no more important than it.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_channel::Endpoint;
use anabranch_sched::{Changes, ChannelView, Coalesced, Decision, Scheduler, View};
use anabranch_spec::{ChannelMask, PathTraits};

use super::{Session, builder::Builder, outlook::ChannelsOutlook, views::Views};
use crate::{
    event::Event,
    send::{Piece, SendStream},
    wire::frame::fragment_overhead,
};

/// A fragment smaller than this is not worth its header, unless it completes an ADU.
const FRAGMENT_BYTES_MIN: usize = 96;
/// Slots are no longer held back for promised data that is later than this.
pub(super) const ARRIVAL_TOLERANCE: Duration = Duration::from_millis(1);

/// Content with which a container is filled.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Index of the stream's view.
    stream: usize,
    /// Its ADU; `None`: the one that it sends next.
    adu: Option<u64>,
}

/// Buffers of the pump, kept between runs.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) channels: Vec<ChannelView>,
    /// For each channel view, the index of its state in [`Channels::states`](super::channels::Channels), and its container size.
    pub(super) places: Vec<(usize, usize)>,
    /// Ids of the channels in the run before.
    pub(super) channels_before: Vec<ChannelId>,
    /// For each channel view, the properties of its path that preferences select by.
    pub(super) traits: Vec<PathTraits>,
    pub(super) streams: Views,
    pieces: Vec<Piece>,
    /// Indices of the streams that the container being filled carries.
    pub(super) filled: Vec<usize>,
}

/// One run of the pump: the time, and its context.
pub(super) struct Run<'a> {
    pub(super) now: Instant,
    pub(super) endpoint: &'a mut Endpoint,
    /// Channels that have something to transmit.
    pub(super) touched: &'a mut VecDeque<ChannelId>,
    pub(super) events: &'a mut VecDeque<Event>,
    pub(super) scratch: Scratch,
}

impl Run<'_> {
    /// The view of the policy.
    pub(super) fn view(&self) -> View<'_> {
        View {
            now: self.now,
            channels: &self.scratch.channels,
            streams: self.scratch.streams.all(),
        }
    }
}

/// The pump of a session: the times at which it has to run, and its buffers. Key: session.
#[derive(Debug)]
pub(crate) struct Pump {
    /// True if it has to run now.
    pub(crate) is_due: bool,
    /// Time at which it has to run again.
    pub(super) due_at: Option<Instant>,
    pub(super) scratch: Scratch,
}

impl Default for Pump {
    fn default() -> Self {
        Self {
            is_due: true,
            due_at: None,
            scratch: Scratch::default(),
        }
    }
}

impl Pump {
    /// Schedules a run at `at`, or earlier.
    pub(super) fn wake_at(&mut self, at: Instant) {
        self.due_at = Some(self.due_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Makes a run due whose time has come.
    pub(super) fn advance(&mut self, now: Instant) {
        self.is_due |= self.due_at.is_some_and(|at| at <= now);
    }
}

impl Session {
    /// Offers every slot to the policy; adds channels that have something to transmit to `touched`.
    pub(crate) fn pump(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        touched: &mut VecDeque<ChannelId>,
        events: &mut VecDeque<Event>,
    ) {
        let mut run = Run {
            now,
            endpoint,
            touched,
            events,
            scratch: std::mem::take(&mut self.pump.scratch),
        };
        self.prepare_streams(&mut run);
        self.steer_channels(&mut run);
        self.view(&mut run);
        self.fill_slots(&mut run);
        self.flush_control(&mut run);
        self.send_probes(&mut run);
        self.send_pings(&mut run);
        self.conclude(&mut run);
        self.pump.scratch = run.scratch;
    }

    /// Drops expired ADUs, lets capped streams send again, and announces ends of streams.
    fn prepare_streams(&mut self, run: &mut Run<'_>) {
        self.pump.due_at = None;
        self.expire(run.now, run.events);
        self.advance_caps(run);
        self.streams.send.sort_touched();
        self.queue_finishes();
        self.streams.sweep_active();
        // This run does all for which one was due.
        self.pump.is_due = false;
    }

    /// Sets the channels' queue goals, rates and shares of a flow.
    fn steer_channels(&mut self, run: &mut Run<'_>) {
        let traffic = self.latency.traffic(run.now);
        let (channels, promises) = (&mut self.channels, &self.promises);
        let is_new = self.neighbours.take_new();
        let neighbours = &mut self.neighbours;
        channels.set_queue_goals(run.endpoint, traffic, |id| {
            promises.is_on(id) || neighbours.are_promised_beside(id)
        });
        channels.give_rates(run.endpoint);
        channels.give_queues(run.endpoint);
        let part_of = |id: ChannelId, bps: f64| neighbours.part_of(id, bps);
        let coupling = self.config.coupling;
        channels.couple(run.now, run.endpoint, coupling, (is_new, part_of));
        channels.notify_partners(run.now, run.endpoint);
    }

    /// Updates the views of channels and streams, and drops ADUs that would arrive too late.
    fn view(&mut self, run: &mut Run<'_>) {
        if self.promises.is_changed() {
            run.scratch.streams.invalidate();
            self.hand_over_plan(run.now);
        }
        self.view_channels(run);
        let scratch = &mut run.scratch;
        self.view_streams(&mut scratch.streams, (&scratch.channels, &scratch.traits));
        self.drop_hopeless(run);
    }

    /// Fills slots: urgent copies first, because bulk traffic leaves no slots; then the decisions of the policy; then copies into
    /// slots that are not used otherwise.
    fn fill_slots(&mut self, run: &mut Run<'_>) {
        let copies_due = self.copies.are_due(run.now);
        if copies_due {
            let is_done = self.copy_urgent(run);
            self.copies.note_check(run.now, is_done);
        }
        self.assign_slots(run);
        if self.scheduling.planning.is_on {
            self.report_faults(run.events);
        }
        if copies_due {
            self.copy_tail(run);
        }
    }

    /// Reports to channels whether the network limits them, and to streams the rate that they may send; counts objectives over
    /// streams.
    fn conclude(&mut self, run: &mut Run<'_>) {
        self.settle_limits(run);
        for stream in self.streams.drained() {
            let session = self.id;
            run.events.push_back(Event::Writable { session, stream });
        }
        self.wait_for_caps();
        self.shed(run);
        self.note_shares(run);
        self.note_stream_objectives(run.now);
    }

    /// Drops ADUs that are [predicted](ChannelsOutlook) to be late and would make more of their stream late. O(streams in the view), if any
    /// stream of the session has a lifetime.
    fn drop_hopeless(&mut self, run: &mut Run<'_>) {
        if !self.streams.has_lifetimes {
            return;
        }
        let mut changed = std::mem::take(&mut run.scratch.filled);
        changed.clear();
        for (index, view) in run.scratch.streams.all().iter().enumerate() {
            if view.deadline.is_none() || !view.is_waiting() {
                continue;
            }
            let outlook = ChannelsOutlook {
                channels: &run.scratch.channels,
                stream: view,
            };
            let mut settled = Vec::new();
            if let Some(send) = self.streams.send.peek_mut(&view.id) {
                send.drop_hopeless(run.now, outlook.slots_bytes(), &outlook, &mut settled);
            }
            if !settled.is_empty() {
                changed.push(index);
                self.settle(view.id, settled, run.events);
            }
        }
        let is_changed = !changed.is_empty();
        run.scratch.filled = changed;
        if is_changed {
            // Control frames that result are sent in this run.
            self.pump.is_due = false;
            self.queue_finishes();
            self.refresh_streams(&mut run.scratch.streams, &run.scratch.filled);
        }
    }

    fn assign_slots(&mut self, run: &mut Run<'_>) {
        let view = run.view();
        let changes = match run.scratch.streams.are_new() {
            true => Changes::Any,
            false => Changes::Only(self.streams.send.touched()),
        };
        let look_ahead = self
            .scheduling
            .scheduler
            .prepare(self.scheduling.objectives.in_force());
        self.scheduling.planning.is_on = look_ahead.is_some();
        if self.scheduling.planning.is_on {
            let channels = run.scratch.channels.iter().map(|view| view.id);
            self.channels.estimator.model(channels, self.config.model);
        } else {
            self.channels.estimator.drop_models();
        }
        let expected = (self.scheduling.arrival_periods).next(run.now, ARRIVAL_TOLERANCE);
        if let Some(recorder) = &mut self.scheduling.recorder {
            let is_planned = look_ahead.is_some();
            recorder.run(
                run.now,
                (view.channels, view.streams),
                changes,
                (expected, is_planned),
            );
        }
        self.scheduling.scheduler.begin(&view, changes);
        self.scheduling.scheduler.expect(expected);
        self.streams.send.clear_touched();
        let has_slot = run.scratch.channels.iter().any(|channel| channel.slots > 0);
        if let Some(look_ahead) = look_ahead.filter(|_| has_slot && !run.scratch.streams.is_idle())
        {
            self.plan_if_due(run, look_ahead);
        }
        let mut sent_since_plan = 0;
        loop {
            let decision = self.scheduling.scheduler.next(&run.view());
            if let Some(recorder) = &mut self.scheduling.recorder {
                recorder.decision(decision);
            }
            let (stream, adu, channels) = match decision {
                Decision::Send { stream, channels } => (stream, None, channels),
                Decision::SendAdu {
                    stream,
                    adu,
                    channels,
                } => (stream, Some(adu), channels),
                Decision::Wait => {
                    let is_left = run.scratch.channels.iter().any(|channel| channel.slots > 0);
                    let Some(look_ahead) = look_ahead.filter(|_| {
                        sent_since_plan > 0 && is_left && !run.scratch.streams.is_idle()
                    }) else {
                        return;
                    };
                    if !self.plan_if_due(run, look_ahead) {
                        return;
                    }
                    sent_since_plan = 0;
                    continue;
                }
            };
            let load = Load { stream, adu };
            let sent = self.fill(run, load, channels);
            sent_since_plan += sent;
            if sent == 0 && adu.is_none() {
                // It turned out that the stream has nothing that may be sent.
                self.streams
                    .send
                    .get_mut(&run.scratch.streams.all()[stream].id);
                run.scratch.streams.rest(stream);
                if let Some(recorder) = &mut self.scheduling.recorder {
                    recorder.rested(stream);
                }
            }
        }
    }

    /// Fills one container for each of `channels`, beginning with `load`; returns its bytes sent.
    fn fill(&mut self, run: &mut Run<'_>, load: Load, channels: ChannelMask) -> usize {
        debug_assert!(
            channels
                .iter()
                .all(|index| run.scratch.channels[index].slots > 0)
        );
        let capacity = channels
            .iter()
            .map(|index| run.scratch.places[index].1)
            .min()
            .unwrap_or(0);
        let lead = channels.iter().next().expect("not empty");
        let mut builder = self.begin(run, run.scratch.places[lead].0, capacity);
        let stream = load.stream;
        let chosen = run.scratch.streams.all()[stream].id;
        self.announce_in(&mut builder, chosen);

        run.scratch.filled.clear();
        let mut pieces = std::mem::take(&mut run.scratch.pieces);
        let mut first_bytes = 0;
        let mut current = Some(load);
        let mut is_first = true;
        let priority = run.scratch.streams.all()[stream].priority;
        while let Some(Load { stream: index, adu }) = current {
            let id = run.scratch.streams.all()[index].id;
            if index != stream {
                self.announce_in(&mut builder, id);
            }
            let from = pieces.len();
            let taken = self.take_pieces(run, &mut builder, (id, adu), &mut pieces);
            if self.scheduling.planning.is_on {
                self.note_sent(run, index, channels, &pieces[from..], taken);
            }
            if taken > 0 {
                run.scratch.filled.push(index);
                if let Some(recorder) = &mut self.scheduling.recorder {
                    recorder.took(index, taken);
                }
                let view = run.view();
                self.scheduling
                    .scheduler
                    .sent(&view, index, channels, taken);
            }
            if std::mem::take(&mut is_first) {
                first_bytes = taken;
            }
            if first_bytes == 0 || builder.remaining() < FRAGMENT_BYTES_MIN {
                break;
            }
            if self.scheduling.planning.is_on {
                // The policy has decided; the views are updated for its next decision.
                self.refresh_stream(&mut run.scratch.streams, index);
                if taken == 0 && adu.is_none() {
                    break;
                }
                let view = run.view();
                let coalesce =
                    self.scheduling
                        .scheduler
                        .coalesce(&view, channels, builder.remaining());
                current = coalesce.map(|Coalesced { stream, adu }| Load { stream, adu });
                continue;
            }
            // Further waiting data that is no more important and may be sent on these channels.
            let from = if index == stream { 0 } else { index + 1 };
            let views = run.scratch.streams.all();
            let other = (from..views.len()).find(|&other| {
                let view = &views[other];
                other != stream
                    && view.is_waiting()
                    && view.priority <= priority
                    && channels.iter().all(|channel| view.may_use(channel))
                    && self.is_sendable(view.id)
            });
            current = other.map(|stream| Load { stream, adu: None });
        }
        if first_bytes == 0 && pieces.is_empty() && builder.is_empty() {
            run.scratch.pieces = pieces;
            if let Some(recorder) = &mut self.scheduling.recorder {
                recorder.filled((&[], &[]), &[], None);
            }
            return 0;
        }
        self.dispatch(run, channels, builder, &mut pieces);
        run.scratch.pieces = pieces;
        run.scratch.filled.sort_unstable();
        let scratch = &mut run.scratch;
        self.refresh_streams(&mut scratch.streams, &scratch.filled);
        if let Some(recorder) = &mut self.scheduling.recorder {
            let views = (&scratch.channels[..], scratch.streams.all());
            recorder.filled(views, &scratch.filled, Some(channels));
        }
        first_bytes
    }

    pub(super) fn is_sendable(&self, stream: StreamId) -> bool {
        let send = self.streams.send.get(&stream);
        send.is_some_and(|send| self.may_send(send, self.flow.credit_left()))
    }

    /// True if the stream has something to send and both credit and its cap allow it.
    pub(super) fn may_send(&self, send: &SendStream, credit: u64) -> bool {
        send.is_sendable(credit) && !(send.spec.cap.is_some() && self.shares.is_spent(send.id))
    }

    /// Takes as many pieces of one stream as fit, or of one ADU of it; returns their bytes.
    fn take_pieces(
        &mut self,
        run: &mut Run<'_>,
        builder: &mut Builder,
        (stream, adu): (StreamId, Option<u64>),
        pieces: &mut Vec<Piece>,
    ) -> usize {
        let mut bytes = 0;
        let send = self.streams.send.get(&stream);
        let adu = adu.map(|adu| send.map_or(adu, |send| send.instead_of(adu)));
        loop {
            let credit = self.flow.credit_left();
            let Some(send) = self.streams.send.get_mut(&stream) else {
                return bytes;
            };
            let left = builder.remaining();
            if send.spec.cap.is_some() && self.shares.is_spent(stream) {
                return bytes;
            }
            // Capacity for an explicit length is kept unless the fragment fills the container.
            let capacity = |place| left.saturating_sub(fragment_overhead(place, false));
            let piece = match adu {
                None => send.take_piece(run.now, credit, capacity),
                Some(adu) => send.take_piece_of(run.now, adu, credit, capacity),
            };
            let Some(piece) = piece else {
                return bytes;
            };
            self.flow.charge(piece.charge);
            bytes += piece.data.len();
            if send.spec.lifetime.is_none() {
                self.latency.note_lasting_sent(run.now);
            }
            if let Some(cap) = send.spec.cap {
                self.shares.charge(run.now, stream, cap, piece.data.len());
            }
            builder.add(&piece);
            pieces.push(piece);
            if builder.remaining() < FRAGMENT_BYTES_MIN {
                return bytes;
            }
        }
    }

    /// Announces the ends of streams whose last ADU has been sent.
    fn queue_finishes(&mut self) {
        let control = &mut self.control;
        self.streams
            .take_finishes(|finish| control.push_back(finish));
    }
}
