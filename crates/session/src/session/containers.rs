//! Containers of a session: header, control frames and fragments, from the policy's choice to the channel.

use std::collections::VecDeque;

use anabranch_base::{ChannelId, StreamId};
use anabranch_spec::ChannelMask;

use super::{
    Session,
    builder::{Builder, planned_bytes},
    limits::channel_view,
    pump::Run,
};
use crate::{
    flight::{Item, Packet},
    report::TIMESTAMP_PERIOD,
    send::Piece,
    wire::{self, Control, container, frame::write_fragment},
};

/// Most bytes of control frames in a container that carries fragments.
const CONTROL_BYTES_MAX: usize = 600;

impl Session {
    /// Starts a container: header, introduction of the channel, control frames.
    pub(super) fn begin(&mut self, run: &mut Run<'_>, place: usize, capacity: usize) -> Builder {
        let mut builder = self.begin_bare(run, place, capacity, false);
        let limit = builder.bytes.len() + CONTROL_BYTES_MAX.min(builder.remaining());
        for own in [true, false] {
            loop {
                let queue = if own {
                    &self.channels.states[place].control
                } else {
                    &self.control
                };
                let Some(control) = queue.front() else {
                    break;
                };
                // Control frames of a stream must not precede its announcement.
                let open = control
                    .stream()
                    .and_then(|stream| self.streams.unannounced(stream));
                let open_bytes = open.as_ref().map_or(0, Control::size_bound);
                if builder.bytes.len() + open_bytes + control.size_bound() > limit {
                    break;
                }
                if let Some(open) = open {
                    open.write(&mut builder.bytes);
                }
                let queue = if own {
                    &mut self.channels.states[place].control
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

    /// Starts a container without control frames and, for a copy, without a timestamp: the fragments of
    /// one container must fit another.
    pub(super) fn begin_bare(
        &mut self,
        run: &mut Run<'_>,
        place: usize,
        capacity: usize,
        is_copy: bool,
    ) -> Builder {
        let is_initiator = self.is_initiator;
        let state = &mut self.channels.states[place];
        let channel = run
            .endpoint
            .channel(state.id)
            .expect("only open channels are in the view");
        let mut builder = Builder::new(channel.buffer(), capacity);
        let stamp = !is_copy && run.now.since(state.timestamp_at) >= TIMESTAMP_PERIOD;
        if stamp {
            state.timestamp_at = run.now;
        }
        wire::write_header(
            &mut builder.bytes,
            stamp.then(|| container::timestamp(run.now)),
        );
        if is_initiator
            && !state.introduced
            && let Some(token) = &self.establishment.token
            && let Some(proof) = token.proof(channel)
        {
            let join = Control::Join {
                session: token.session,
                proof,
            };
            join.write(&mut builder.bytes);
            for replace in self.establishment.replacements() {
                replace.write(&mut builder.bytes);
            }
        }
        builder
    }

    /// Puts a stream's announcement before its fragments until the peer has acknowledged one, so
    /// that no fragment can overtake it.
    pub(super) fn announce_in(&self, builder: &mut Builder, stream: StreamId) {
        let Some(open) = self.streams.unannounced(stream) else {
            return;
        };
        if open.size_bound() <= builder.remaining() {
            open.write(&mut builder.bytes);
        } else {
            builder.closed = true;
        }
    }

    /// Passes the container to its channels and records its content.
    pub(super) fn dispatch(
        &mut self,
        run: &mut Run<'_>,
        channels: ChannelMask,
        builder: Builder,
        pieces: &mut Vec<Piece>,
    ) {
        let mut builder = Some(builder);
        let mut is_copy = false;
        for index in channels.iter() {
            let place = run.scratch.places[index].0;
            let mut current = match builder.take() {
                Some(first) => first,
                None => {
                    // A second channel gets a container of its own with the same fragments.
                    let capacity = run.scratch.places[index].1;
                    let mut other = self.begin_bare(run, place, capacity, true);
                    for piece in pieces.iter() {
                        self.announce_in(&mut other, piece.place.stream);
                    }
                    // The last fragment omits its length.
                    let needed = pieces.iter().map(planned_bytes).sum::<usize>();
                    let needed = needed.saturating_sub(2);
                    if other.remaining() < needed {
                        // Its header is longer than the first one's: no copy here this time.
                        run.scratch.channels[index].slots -= 1;
                        continue;
                    }
                    other
                }
            };
            let mut packet = Packet::new(run.now);
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
                if is_copy && let Some(send) = self.streams.send.get_mut(&piece.place.stream) {
                    send.copy_piece(piece.place, piece.data.len());
                }
                packet.bytes += piece.data.len();
                packet.push(Item::Fragment {
                    place: piece.place,
                    length: piece.data.len(),
                    is_copy,
                });
            }
            self.launch(run, place, current, packet);
            let view = &mut run.scratch.channels[index];
            view.slots -= 1;
            view.in_flight_bytes += run.scratch.places[index].1 as u64;
            touch(run.touched, view.id);
            is_copy = true;
        }
        pieces.clear();
    }

    /// Passes one container to its channel.
    pub(super) fn launch(
        &mut self,
        run: &mut Run<'_>,
        place: usize,
        builder: Builder,
        mut packet: Packet,
    ) {
        let state = &mut self.channels.states[place];
        for control in builder.controls {
            packet.push(Item::Control(Box::new(control)));
        }
        state.payload_sent_bytes += packet.bytes as u64;
        self.totals.payload_sent_bytes += packet.bytes as u64;
        self.copies.earn(packet.bytes, self.config.copies_max);
        let channel = run
            .endpoint
            .channel(state.id)
            .expect("only open channels are in the view");
        packet.wire_bytes = builder.bytes.len() as u64;
        state.launched += 1;
        let (sent_at, bytes) = (packet.sent_at, builder.bytes.len());
        let number = channel.send(builder.bytes);
        state.launched_at = Some(sent_at);
        if packet.bytes > 0 || packet.is_probe {
            state.active_at = sent_at;
        }
        if !packet.is_probe {
            self.channels
                .estimator
                .sent(sent_at, state.id, number, bytes);
        }
        if let Some(journal) = &mut self.journal {
            let view = channel_view(run.now, channel, (state.id, 0, 0));
            journal.note_sent(&view, number, &packet);
        }
        if let Some(recorder) = &mut self.scheduling.recorder {
            let fragments = packet.items().filter_map(Item::recorded);
            recorder.packet((state.id, number), bytes as u64, fragments);
        }
        state.flight.push(number, packet);
    }

    /// Starts a container on the channel with this view index; for copies.
    pub(super) fn begin_on(&mut self, run: &mut Run<'_>, index: usize) -> (usize, Builder) {
        let (place, capacity) = run.scratch.places[index];
        (place, self.begin_bare(run, place, capacity, true))
    }

    /// Sends control frames that no container had space for, on a channel that can carry them: on a channel that is held
    /// they would be as good as lost.
    pub(super) fn flush_control(&mut self, run: &mut Run<'_>) {
        let mut nearest: Option<usize> = None;
        for index in 0..run.scratch.places.len() {
            if !may_launch(run, index) {
                continue;
            }
            let rtt = |index: usize| run.scratch.channels[index].rtt_smoothed;
            if nearest.is_none_or(|other| rtt(index) < rtt(other)) {
                nearest = Some(index);
            }
            // A channel is introduced at once, even if there is nothing to send on it: the peer may
            // have something to send.
            let (place, _) = run.scratch.places[index];
            let state = &self.channels.states[place];
            let is_mute = self.is_initiator && !state.introduced && state.flight.is_empty();
            if is_mute && state.control.is_empty() {
                self.send_control(run, index);
            }
            while !self.channels.states[place].control.is_empty() && may_launch(run, index) {
                self.send_control(run, index);
            }
        }
        let Some(index) = nearest else {
            return;
        };
        // Frames that do not fit now are sent when something is acknowledged.
        while !self.control.is_empty() && may_launch(run, index) {
            self.send_control(run, index);
        }
    }

    /// Sends a container of control frames, as many as fit, on the channel with this view index.
    fn send_control(&mut self, run: &mut Run<'_>, index: usize) {
        let (place, capacity) = run.scratch.places[index];
        let builder = self.begin(run, place, capacity);
        self.launch(run, place, builder, Packet::new(run.now));
        touch(run.touched, run.scratch.channels[index].id);
    }
}

/// True if a container may be handed to the channel with this view index, although it may have no slot.
pub(super) fn may_launch(run: &mut Run<'_>, index: usize) -> bool {
    let channel = run.endpoint.channel(run.scratch.channels[index].id);
    channel.is_some_and(|channel| !channel.is_held() && channel.has_capacity())
}

pub(super) fn touch(touched: &mut VecDeque<ChannelId>, channel: ChannelId) {
    if !touched.contains(&channel) {
        touched.push_back(channel);
    }
}
