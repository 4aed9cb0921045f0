//! The scheduling loop: from slots and backlogs to containers.
//!
//! One run of the pump offers every slot there is to the policy, and fills a container for each slot
//! taken. Beside the fragment that the policy chose, a container takes along what else fits: control
//! frames first, then further ADUs of the same stream, then of streams no more important than it.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_channel::Endpoint;
use anabranch_sched::{Changes, ChannelMask, ChannelView, Coalesced, Decision, View};

use super::{
    Session,
    builder::{Builder, planned_bytes},
    limits::channel_view,
    outlook::ChannelsOutlook,
    views::Views,
};
use crate::{
    event::Event,
    flight::{Item, Packet},
    report::TIMESTAMP_PERIOD,
    send::{Piece, SendStream},
    wire::{
        self, Control, container,
        frame::{fragment_overhead, write_fragment},
    },
};

/// Most bytes of control frames in a container that carries fragments.
const CONTROL_BYTES_MAX: usize = 600;
/// A fragment smaller than this is not worth its header, unless it completes an ADU.
const FRAGMENT_BYTES_MIN: usize = 96;
/// Time between two looks for what a second copy would help.
const COPY_CHECK_PERIOD: Duration = Duration::from_millis(4);
/// Slots are not held back any longer for promised data that is later than this.
pub(super) const ARRIVAL_TOLERANCE: Duration = Duration::from_millis(1);

/// What a container is filled with.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Index of the stream's view.
    stream: usize,
    /// Its ADU; `None`: whatever it sends next.
    adu: Option<u64>,
}

/// Buffers of the pump, kept between runs.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) channels: Vec<ChannelView>,
    /// For each channel view, the index of the member, and its container size.
    pub(super) places: Vec<(usize, usize)>,
    /// Their ids as of the run before.
    pub(super) channels_before: Vec<ChannelId>,
    pub(super) streams: Views,
    pieces: Vec<Piece>,
    /// Indices of the streams that the container being filled carries.
    pub(super) filled: Vec<usize>,
}

impl Session {
    /// Offers every slot to the policy; returns channels that have something to transmit in
    /// `touched`.
    pub(crate) fn pump(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        touched: &mut VecDeque<ChannelId>,
        events: &mut VecDeque<Event>,
    ) {
        self.dirty = false;
        self.pump_at = None;
        self.expire(now, events);
        self.dirty = false;
        self.advance_caps(now);
        self.send.sort_touched();
        self.queue_finishes();
        self.sweep_active();

        let mut scratch = std::mem::take(&mut self.scratch);
        self.set_queue_goals(now, endpoint);
        self.set_rates(endpoint);
        self.couple(now, endpoint);
        self.tell_partners(now, endpoint);
        if self.promises.is_changed() {
            scratch.streams.invalidate();
            self.hand_over_plan(now);
        }
        self.view_channels(now, endpoint, &mut scratch);
        self.view_streams(&mut scratch);
        self.drop_hopeless(now, &mut scratch, events);

        let copies_due = now >= self.copy_check_at;
        if copies_due {
            let is_done = self.copy_urgent(now, endpoint, &mut scratch, touched);
            // What found no slot takes the next one there is.
            self.copy_check_at = if is_done {
                now + COPY_CHECK_PERIOD
            } else {
                now
            };
        }
        self.assign_slots(now, endpoint, &mut scratch, touched);
        if self.planning.is_on {
            self.tell_faults(events);
        }
        if copies_due {
            self.copy_tail(now, endpoint, &mut scratch, touched);
        }
        self.flush_control(now, endpoint, &scratch, touched);
        self.settle_limits(endpoint, &scratch);
        self.wait_for_caps();
        self.shed(&scratch, events);
        self.note_shares(now, &scratch, events);
        self.scratch = scratch;
    }

    /// Forgets the streams that need nothing any more.
    fn sweep_active(&mut self) {
        for stream in self.send.touched() {
            let half = self.send.get(stream);
            if !half.is_some_and(|half| half.is_active()) {
                self.active.remove(stream);
            }
        }
    }

    /// Drops what is predicted to be late and would make more of its stream late. O(streams in the view), if any
    /// stream of the session has a lifetime.
    fn drop_hopeless(&mut self, now: Instant, scratch: &mut Scratch, events: &mut VecDeque<Event>) {
        if !self.has_lifetimes {
            return;
        }
        let mut changed = std::mem::take(&mut scratch.filled);
        changed.clear();
        for (index, view) in scratch.streams.all().iter().enumerate() {
            if view.deadline.is_none() || !view.is_waiting() {
                continue;
            }
            let outlook = ChannelsOutlook {
                channels: &scratch.channels,
                stream: view,
            };
            let mut settled = Vec::new();
            if let Some(half) = self.send.peek_mut(&view.id) {
                half.drop_hopeless(now, outlook.slots_bytes(), &outlook, &mut settled);
            }
            if !settled.is_empty() {
                changed.push(index);
                self.settle(view.id, settled, events);
            }
        }
        let is_changed = !changed.is_empty();
        scratch.filled = changed;
        if is_changed {
            // What this leaves to be said goes out with this run.
            self.dirty = false;
            self.queue_finishes();
            self.refresh_streams(scratch);
        }
    }

    fn assign_slots(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        scratch: &mut Scratch,
        touched: &mut VecDeque<ChannelId>,
    ) {
        let view = View {
            now,
            channels: &scratch.channels,
            streams: scratch.streams.all(),
        };
        let changes = match scratch.streams.are_new() {
            true => Changes::Any,
            false => Changes::Only(self.send.touched()),
        };
        let look_ahead = self.scheduler.prepare(self.objectives.in_force());
        self.planning.is_on = look_ahead.is_some();
        if self.planning.is_on {
            let channels = &scratch.channels;
            self.planning.models.open(channels, self.config.model);
        } else {
            self.planning.models.clear();
        }
        self.scheduler.begin(&view, changes);
        self.scheduler
            .expect(self.arrival_periods.next(now, ARRIVAL_TOLERANCE));
        self.send.clear_touched();
        let has_slot = scratch.channels.iter().any(|channel| channel.slots > 0);
        if let Some(look_ahead) = look_ahead.filter(|_| has_slot && !scratch.streams.is_idle()) {
            self.plan(now, endpoint, scratch, look_ahead);
        }
        let mut sent_since_plan = 0;
        loop {
            let view = View {
                now,
                channels: &scratch.channels,
                streams: scratch.streams.all(),
            };
            let (stream, adu, channels) = match self.scheduler.next(&view) {
                Decision::Send { stream, channels } => (stream, None, channels),
                Decision::SendAdu {
                    stream,
                    adu,
                    channels,
                } => (stream, Some(adu), channels),
                Decision::Wait => {
                    let is_left = scratch.channels.iter().any(|channel| channel.slots > 0);
                    let Some(look_ahead) = look_ahead
                        .filter(|_| sent_since_plan > 0 && is_left && !scratch.streams.is_idle())
                    else {
                        return;
                    };
                    sent_since_plan = 0;
                    self.plan(now, endpoint, scratch, look_ahead);
                    continue;
                }
            };
            let load = Load { stream, adu };
            let sent = self.fill(now, endpoint, scratch, load, channels, touched);
            sent_since_plan += sent;
            if sent == 0 && adu.is_none() {
                // The stream turned out to have nothing that may be sent.
                self.send.get_mut(&scratch.streams.all()[stream].id);
                scratch.streams.rest(stream);
            }
        }
    }

    /// Fills one container for each of `channels`, beginning with `load`; returns its bytes sent.
    fn fill(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        scratch: &mut Scratch,
        load: Load,
        channels: ChannelMask,
        touched: &mut VecDeque<ChannelId>,
    ) -> usize {
        debug_assert!(
            channels
                .iter()
                .all(|index| scratch.channels[index].slots > 0)
        );
        let capacity = channels
            .iter()
            .map(|index| scratch.places[index].1)
            .min()
            .unwrap_or(0);
        let lead = channels.iter().next().expect("not empty");
        let mut builder = self.begin(now, endpoint, scratch.places[lead].0, capacity);
        let stream = load.stream;
        let chosen = scratch.streams.all()[stream].id;
        self.announce_in(&mut builder, chosen);

        scratch.filled.clear();
        let mut pieces = std::mem::take(&mut scratch.pieces);
        let mut first_bytes = 0;
        let mut current = Some(load);
        let mut is_first = true;
        let priority = scratch.streams.all()[stream].priority;
        while let Some(Load { stream: index, adu }) = current {
            let id = scratch.streams.all()[index].id;
            if index != stream {
                self.announce_in(&mut builder, id);
            }
            let from = pieces.len();
            let taken = self.take_pieces(now, &mut builder, (id, adu), &mut pieces);
            if self.planning.is_on {
                self.note_sent(scratch, index, channels, &pieces[from..], taken);
            }
            if taken > 0 {
                scratch.filled.push(index);
                let view = View {
                    now,
                    channels: &scratch.channels,
                    streams: scratch.streams.all(),
                };
                self.scheduler.sent(&view, index, channels, taken);
            }
            if std::mem::take(&mut is_first) {
                first_bytes = taken;
            }
            if first_bytes == 0 || builder.room() < FRAGMENT_BYTES_MIN {
                break;
            }
            if self.planning.is_on {
                // The policy has said what it wants; the views are brought up to date for its next word.
                self.refresh_stream(&mut scratch.streams, index);
                if taken == 0 && adu.is_none() {
                    break;
                }
                let view = View {
                    now,
                    channels: &scratch.channels,
                    streams: scratch.streams.all(),
                };
                let coalesce = self.scheduler.coalesce(&view, channels, builder.room());
                current = coalesce.map(|Coalesced { stream, adu }| Load { stream, adu });
                continue;
            }
            // Whatever else is waiting, is no more important, and may travel here.
            let from = if index == stream { 0 } else { index + 1 };
            let views = scratch.streams.all();
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
            scratch.pieces = pieces;
            return 0;
        }
        self.dispatch(
            now,
            endpoint,
            scratch,
            channels,
            builder,
            &mut pieces,
            touched,
        );
        scratch.pieces = pieces;
        scratch.filled.sort_unstable();
        self.refresh_streams(scratch);
        first_bytes
    }

    pub(super) fn is_sendable(&self, stream: StreamId) -> bool {
        let half = self.send.get(&stream);
        half.is_some_and(|half| self.may_send(half, self.session_credit()))
    }

    /// Whether the stream has something to send and both credit and its cap allow it.
    pub(super) fn may_send(&self, half: &SendStream, credit: u64) -> bool {
        half.is_sendable(credit) && !(half.spec.cap.is_some() && self.shares.is_spent(half.id))
    }

    /// Takes as many pieces of one stream as fit, or of one ADU of it; returns their bytes.
    fn take_pieces(
        &mut self,
        now: Instant,
        builder: &mut Builder,
        (stream, adu): (StreamId, Option<u64>),
        pieces: &mut Vec<Piece>,
    ) -> usize {
        let mut bytes = 0;
        let half = self.send.get(&stream);
        let adu = adu.map(|adu| half.map_or(adu, |half| half.instead_of(adu)));
        loop {
            let credit = self.session_credit();
            let Some(half) = self.send.get_mut(&stream) else {
                return bytes;
            };
            let room = builder.room();
            if half.spec.cap.is_some() && self.shares.is_spent(stream) {
                return bytes;
            }
            // Capacity for an explicit length is kept unless the fragment fills the container.
            let room = |place| room.saturating_sub(fragment_overhead(place, false));
            let piece = match adu {
                None => half.take_piece(now, credit, room),
                Some(adu) => half.take_piece_of(now, adu, credit, room),
            };
            let Some(piece) = piece else {
                return bytes;
            };
            self.charged += piece.charge;
            bytes += piece.data.len();
            if let Some(cap) = half.spec.cap {
                self.shares.charge(now, stream, cap, piece.data.len());
            }
            builder.add(&piece);
            pieces.push(piece);
            if builder.room() < FRAGMENT_BYTES_MIN {
                return bytes;
            }
        }
    }

    /// Starts a container: head, what introduces the channel, control frames.
    fn begin(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        member: usize,
        capacity: usize,
    ) -> Builder {
        let mut builder = self.begin_bare(now, endpoint, member, capacity, false);
        let limit = builder.bytes.len() + CONTROL_BYTES_MAX.min(builder.room());
        for own in [true, false] {
            loop {
                let queue = if own {
                    &self.members[member].control
                } else {
                    &self.control
                };
                let Some(control) = queue.front() else {
                    break;
                };
                // What is said of a stream must not come before its announcement.
                let open = control.stream().and_then(|stream| self.unannounced(stream));
                let open_bytes = open.as_ref().map_or(0, Control::size_bound);
                if builder.bytes.len() + open_bytes + control.size_bound() > limit {
                    break;
                }
                if let Some(open) = open {
                    open.write(&mut builder.bytes);
                }
                let queue = if own {
                    &mut self.members[member].control
                } else {
                    &mut self.control
                };
                let control = queue.pop_front().expect("looked at it");
                control.write(&mut builder.bytes);
                builder.controls.push(control);
            }
        }
        builder
    }

    /// Starts a container without control frames and, for a copy, without a timestamp: what filled
    /// one container must fit another.
    fn begin_bare(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        member: usize,
        capacity: usize,
        is_copy: bool,
    ) -> Builder {
        let is_initiator = self.is_initiator;
        let member = &mut self.members[member];
        let channel = endpoint
            .channel(member.id)
            .expect("only open channels are in the view");
        let mut builder = Builder::new(channel.buffer(), capacity);
        let stamp = !is_copy && now.since(member.timestamp_at) >= TIMESTAMP_PERIOD;
        if stamp {
            member.timestamp_at = now;
        }
        wire::write_header(&mut builder.bytes, stamp.then(|| container::timestamp(now)));
        if is_initiator
            && !member.introduced
            && let Some(token) = &self.token
            && let Some(proof) = token.proof(channel)
        {
            let join = Control::Join {
                session: token.session,
                proof,
            };
            join.write(&mut builder.bytes);
        }
        builder
    }

    /// Puts a stream's announcement before its fragments until the peer has acknowledged one, so
    /// that no fragment can overtake it.
    pub(super) fn announce_in(&self, builder: &mut Builder, stream: StreamId) {
        let Some(open) = self.unannounced(stream) else {
            return;
        };
        if open.size_bound() <= builder.room() {
            open.write(&mut builder.bytes);
        } else {
            builder.closed = true;
        }
    }

    /// Hands the container to its channels and remembers what is in it.
    #[allow(clippy::too_many_arguments)] // One container with everything it needs, from one caller.
    fn dispatch(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        scratch: &mut Scratch,
        channels: ChannelMask,
        builder: Builder,
        pieces: &mut Vec<Piece>,
        touched: &mut VecDeque<ChannelId>,
    ) {
        let mut builder = Some(builder);
        let mut is_copy = false;
        for index in channels.iter() {
            let member = scratch.places[index].0;
            let mut current = match builder.take() {
                Some(first) => first,
                None => {
                    // A second channel gets a container of its own with the same fragments.
                    let capacity = scratch.places[index].1;
                    let mut other = self.begin_bare(now, endpoint, member, capacity, true);
                    for piece in pieces.iter() {
                        self.announce_in(&mut other, piece.place.stream);
                    }
                    // The last fragment leaves out its length.
                    let needed = pieces.iter().map(planned_bytes).sum::<usize>();
                    let needed = needed.saturating_sub(2);
                    if other.room() < needed {
                        // Its head is longer than the first one's: no copy here this time.
                        scratch.channels[index].slots -= 1;
                        continue;
                    }
                    other
                }
            };
            let mut packet = Packet::new(now);
            let count = pieces.len();
            for (number, piece) in pieces.iter().enumerate() {
                let is_last = number + 1 == count;
                write_fragment(
                    &mut current.bytes,
                    piece.place,
                    piece.is_final,
                    !is_last,
                    &piece.data,
                );
                if is_copy && let Some(half) = self.send.get_mut(&piece.place.stream) {
                    half.copy_piece(piece.place, piece.data.len());
                }
                packet.bytes += piece.data.len();
                packet.push(Item::Fragment {
                    place: piece.place,
                    length: piece.data.len(),
                    is_copy,
                });
            }
            self.launch(endpoint, member, current, packet);
            let view = &mut scratch.channels[index];
            view.slots -= 1;
            view.in_flight_bytes += scratch.places[index].1 as u64;
            touch(touched, view.id);
            is_copy = true;
        }
        pieces.clear();
    }

    /// Hands one container to its channel.
    pub(super) fn launch(
        &mut self,
        endpoint: &mut Endpoint,
        member: usize,
        builder: Builder,
        mut packet: Packet,
    ) {
        let member = &mut self.members[member];
        for control in builder.controls {
            packet.push(Item::Control(Box::new(control)));
        }
        member.payload_sent_bytes += packet.bytes as u64;
        self.totals.payload_sent_bytes += packet.bytes as u64;
        self.copies_budget += packet.bytes as f64 * self.config.copies_max;
        let channel = endpoint
            .channel(member.id)
            .expect("only open channels are in the view");
        packet.wire_bytes = builder.bytes.len() as u64;
        member.launched += 1;
        let (sent_at, bytes) = (packet.sent_at, builder.bytes.len());
        self.measures.sent(sent_at, member.id, bytes);
        let number = channel.send(builder.bytes);
        if let Some(journal) = &mut self.journal {
            let view = channel_view(channel, (member.id, 0, 0));
            journal.note_sent(&view, number, &packet);
        }
        self.planning.models.sent(member.id, number, sent_at, bytes);
        member.flight.push(number, packet);
    }

    /// Starts a container on the channel with this view index; for copies.
    pub(super) fn begin_on(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        scratch: &Scratch,
        index: usize,
    ) -> (usize, Builder) {
        let (member, capacity) = scratch.places[index];
        (
            member,
            self.begin_bare(now, endpoint, member, capacity, true),
        )
    }

    /// Control frames that found no container to travel in get one of their own, on a channel that can send it: what is
    /// said on one that is held would be as good as lost.
    fn flush_control(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        scratch: &Scratch,
        touched: &mut VecDeque<ChannelId>,
    ) {
        let mut nearest: Option<usize> = None;
        for index in 0..scratch.places.len() {
            let (member, capacity) = scratch.places[index];
            let channel = &scratch.channels[index];
            if !may_launch(endpoint, channel.id) {
                continue;
            }
            let is_nearer =
                |other: usize| channel.rtt_smoothed < scratch.channels[other].rtt_smoothed;
            if nearest.is_none_or(is_nearer) {
                nearest = Some(index);
            }
            // A channel is introduced at once, even if there is nothing to send on it: the peer may
            // have something to say.
            let state = &self.members[member];
            let mute = self.is_initiator && !state.introduced && state.flight.is_empty();
            if mute && state.control.is_empty() {
                let builder = self.begin(now, endpoint, member, capacity);
                self.launch(endpoint, member, builder, Packet::new(now));
                touch(touched, channel.id);
            }
            while !self.members[member].control.is_empty() && may_launch(endpoint, channel.id) {
                let builder = self.begin(now, endpoint, member, capacity);
                self.launch(endpoint, member, builder, Packet::new(now));
                touch(touched, channel.id);
            }
        }
        let Some(index) = nearest else {
            return;
        };
        let (member, capacity) = scratch.places[index];
        let channel = scratch.channels[index].id;
        // What finds no room now goes out when something is acknowledged.
        while !self.control.is_empty() && may_launch(endpoint, channel) {
            let builder = self.begin(now, endpoint, member, capacity);
            self.launch(endpoint, member, builder, Packet::new(now));
            touch(touched, channel);
        }
    }

    /// Announces the ends of streams whose last ADU has been sent.
    fn queue_finishes(&mut self) {
        for index in 0..self.send.touched().len() {
            let stream = self.send.touched()[index];
            if !self.active.contains(&stream) {
                continue;
            }
            let Some(half) = self.send.get_mut(&stream) else {
                continue;
            };
            // A reliable receiver waits for what is missing; an unreliable one must not be told of
            // the end while something may still arrive.
            let is_out = half.backlog_bytes() == 0 && (half.spec.reliable || half.is_settled());
            if half.finishing && !half.finish_sent && is_out {
                half.finish_sent = true;
                self.control.push_back(Control::Finish {
                    stream: half.id,
                    end: half.end(),
                });
            }
        }
    }
}

/// Whether a container may be handed to a channel for which it has no slot.
fn may_launch(endpoint: &mut Endpoint, channel: ChannelId) -> bool {
    let channel = endpoint.channel(channel);
    channel.is_some_and(|channel| !channel.is_held() && channel.has_room())
}

pub(super) fn touch(touched: &mut VecDeque<ChannelId>, channel: ChannelId) {
    if !touched.contains(&channel) {
        touched.push_back(channel);
    }
}
