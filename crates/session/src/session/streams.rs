//! Streams of a session: send and receive streams by id, those that the peer opened, and those that may need attention.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anabranch_base::{Instant, StreamId};
use anabranch_spec::StreamSpec;

use super::send_streams::SendStreams;
use crate::{
    config::STREAMS_MAX,
    ranges::Ranges,
    recv::{Accounts, RecvStream},
    send::{ADU_OVERHEAD_BYTES, SendStream},
    stats::{DroppedAdus, StreamStats},
    wire::Control,
};

/// Streams of both directions. Key: session.
#[derive(Debug)]
pub(super) struct Streams {
    /// True if this side initiated the session: the streams that it opens have ids of the initiator.
    is_initiator: bool,
    pub(super) send: SendStreams,
    /// Send streams with something to send, to give up or to announce; others may linger until the next sweep. The cost of a
    /// run of the pump depends on these, not on how many streams are open.
    pub(super) active: BTreeSet<StreamId>,
    pub(super) recv: BTreeMap<StreamId, Box<RecvStream>>,
    /// Index of the next stream that this side opens.
    next: u64,
    /// Indices of streams that the peer opened, those that are over included.
    seen: Ranges,
    /// Streams that this side stopped reading, with their credit, until the peer's reset states what they had used.
    stopped: BTreeMap<StreamId, Accounts>,
    /// Number of streams of the peer of which any state is kept: a send or receive stream, or a record that it was stopped.
    of_peer: usize,
    /// Streams reset before the peer acknowledged their announcement.
    given_up: BTreeMap<StreamId, Arc<StreamSpec>>,
    /// Bytes that one send stream may hold: as configured, or more where long fat paths have more in flight.
    pub(super) buffer_bytes: usize,
    /// Time before which no ADU expires; `None`: none expires at all.
    pub(super) expire_at: Option<Instant>,
    /// True if a stream with a lifetime has sent.
    pub(super) has_lifetimes: bool,
    /// Streams with a limit on what waits unsent whose applications are held back.
    pub(super) held_back: Vec<StreamId>,
    /// The most credit that any ADU handed over so far may need.
    pub(super) charge_max: u64,
    /// ADUs dropped of streams that are over.
    dropped_before: DroppedAdus,
}

impl Streams {
    pub(super) fn new(is_initiator: bool, buffer_bytes: usize) -> Self {
        Self {
            is_initiator,
            send: SendStreams::default(),
            active: BTreeSet::new(),
            recv: BTreeMap::new(),
            next: 0,
            seen: Ranges::default(),
            stopped: BTreeMap::new(),
            of_peer: 0,
            given_up: BTreeMap::new(),
            buffer_bytes,
            expire_at: None,
            has_lifetimes: false,
            held_back: Vec::new(),
            charge_max: 0,
            dropped_before: DroppedAdus::default(),
        }
    }

    fn is_ours(&self, stream: StreamId) -> bool {
        stream.is_by_initiator() == self.is_initiator
    }

    /// Id that the next stream of this side gets.
    pub(super) fn next_id(&self) -> StreamId {
        StreamId::new(self.next, self.is_initiator)
    }

    /// Uses up [`next_id`](Self::next_id).
    pub(super) fn advance_id(&mut self) {
        self.next += 1;
    }

    /// True if the stream was opened, by either side; it may be over.
    pub(super) fn was_opened(&self, stream: StreamId) -> bool {
        let index = stream.0 >> 1;
        if self.is_ours(stream) {
            index < self.next
        } else {
            self.seen.contains(index)
        }
    }

    /// Notes a stream that the peer opens. `Ok(false)`: it was opened before.
    ///
    /// # Errors
    /// The rule that the peer broke.
    pub(super) fn note_opened(&mut self, stream: StreamId) -> Result<bool, &'static str> {
        if self.is_ours(stream) {
            return Err("a stream id that belongs to this node");
        }
        let index = stream.0 >> 1;
        if self.seen.contains(index) {
            return Ok(false);
        }
        if self.of_peer >= STREAMS_MAX || self.seen.len() > STREAMS_MAX {
            return Err("too many open streams");
        }
        self.seen.insert(index..index + 1);
        self.of_peer += 1;
        Ok(true)
    }

    /// Notes that one direction of a stream is over; perhaps all of it.
    pub(super) fn note_over(&mut self, stream: StreamId) {
        let is_kept = self.recv.contains_key(&stream)
            || self.send.contains_key(&stream)
            || self.stopped.contains_key(&stream);
        if !self.is_ours(stream) && !is_kept {
            self.of_peer = self.of_peer.saturating_sub(1);
        }
    }

    /// Keeps the credit of a stream that this side stopped reading.
    pub(super) fn note_stopped(&mut self, stream: StreamId, accounts: Accounts) {
        self.stopped.insert(stream, accounts);
    }

    /// Takes the credit of a stream that was stopped and that the peer has now reset.
    pub(super) fn take_stopped(&mut self, stream: StreamId) -> Option<Accounts> {
        self.stopped.remove(&stream)
    }

    /// Notes that a send stream was reset. False: the peer has never received anything of it, and need not know.
    pub(super) fn give_up(&mut self, stream: &SendStream) -> bool {
        if !self.is_ours(stream.id) || stream.announced {
            return true;
        }
        if stream.sent_at.is_none() {
            return false;
        }
        self.given_up.insert(stream.id, stream.spec.clone());
        true
    }

    /// Notes that the peer has acknowledged the reset of a stream.
    pub(super) fn forget_given_up(&mut self, stream: StreamId) {
        self.given_up.remove(&stream);
    }

    /// Announcement of a stream that the peer may not know yet: one of this side, whose announcement was not acknowledged.
    pub(super) fn unannounced(&self, stream: StreamId) -> Option<Control> {
        if !self.is_ours(stream) {
            return None;
        }
        let spec = match self.send.get(&stream) {
            Some(send) if send.announced => return None,
            Some(send) => (*send.spec).clone(),
            None => (**self.given_up.get(&stream)?).clone(),
        };
        let spec = Box::new(spec);
        Some(Control::Open { stream, spec })
    }

    /// Notes an ADU of `bytes` that was handed over to a stream, and expires at `expire_at`.
    pub(super) fn note_sent(&mut self, stream: StreamId, bytes: usize, expire_at: Option<Instant>) {
        self.active.insert(stream);
        self.charge_max = self.charge_max.max(bytes as u64 + ADU_OVERHEAD_BYTES);
        if let Some(at) = expire_at {
            self.expire_at = Some(self.expire_at.map_or(at, |earlier| earlier.min(at)));
            self.has_lifetimes = true;
        }
    }

    /// Bytes that the send buffer of a stream will take.
    pub(super) fn buffer_left(&self, stream: StreamId) -> usize {
        let send = self.send.get(&stream);
        send.map_or(0, |send| send.space(self.buffer_bytes))
    }

    /// Send streams that may need attention.
    pub(super) fn active(&self) -> impl Iterator<Item = &SendStream> {
        self.active
            .iter()
            .filter_map(|stream| self.send.get(stream).map(|send| &**send))
    }

    /// Streams of `held_back` whose applications may go on. O(streams held back).
    pub(super) fn drained(&mut self) -> Vec<StreamId> {
        let mut drained = Vec::new();
        self.held_back.retain(|&stream| {
            let send = self.send.get(&stream);
            // One that is over, or was released when an ADU was settled, is held back no longer.
            let Some(send) = send.filter(|send| send.blocked) else {
                return false;
            };
            let is_drained = send.has_drained(self.buffer_bytes);
            if is_drained {
                drained.push(stream);
            }
            !is_drained
        });
        for stream in &drained {
            if let Some(send) = self.send.get_mut(stream) {
                send.blocked = false;
            }
        }
        drained
    }

    /// Removes active streams that need no attention any more. O(streams that changed).
    pub(super) fn sweep_active(&mut self) {
        for stream in self.send.touched() {
            let send = self.send.get(stream);
            if !send.is_some_and(|send| send.is_active()) {
                self.active.remove(stream);
            }
        }
    }

    /// Streams of which an ADU has expired. O(active streams) at times when one may have, else O(1).
    pub(super) fn expired(&self, now: Instant) -> Vec<StreamId> {
        if self.expire_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.active()
            .filter(|send| send.deadline().is_some_and(|deadline| deadline <= now))
            .map(|send| send.id)
            .collect()
    }

    /// Finds the next ADU to expire, if one may have by `now`.
    pub(super) fn advance_expiry(&mut self, now: Instant) {
        if self.expire_at.is_some_and(|at| at <= now) {
            self.expire_at = self.active().filter_map(SendStream::deadline).min();
        }
    }

    /// Takes the ends of streams whose last ADU has been sent since the last call.
    pub(super) fn take_finishes(&mut self, mut announce: impl FnMut(Control)) {
        for index in 0..self.send.touched().len() {
            let stream = self.send.touched()[index];
            if !self.active.contains(&stream) {
                continue;
            }
            let Some(send) = self.send.get_mut(&stream) else {
                continue;
            };
            // The receiver of a reliable stream waits for missing data; that of an unreliable one must not be notified of
            // the end while data may still arrive.
            let is_out = send.backlog_bytes() == 0 && (send.spec.reliable || send.is_settled());
            if send.finish.is_asked && !send.finish.is_sent && is_out {
                send.finish.is_sent = true;
                announce(Control::Finish {
                    stream: send.id,
                    end: send.end(),
                });
            }
        }
    }

    /// Number of open streams.
    pub(super) fn count(&self) -> usize {
        let ids = self.send.keys().chain(self.recv.keys());
        ids.collect::<BTreeSet<_>>().len()
    }

    /// Removes a send stream. Its drops remain counted.
    pub(super) fn remove_send(&mut self, stream: StreamId) -> Option<Box<SendStream>> {
        let send = self.send.remove(&stream)?;
        self.dropped_before.add_sent(&send.counters);
        Some(send)
    }

    /// Removes a receive stream. Its drops remain counted.
    pub(super) fn remove_recv(&mut self, stream: StreamId) -> Option<Box<RecvStream>> {
        let recv = self.recv.remove(&stream)?;
        self.dropped_before.add_received(&recv.counters);
        Some(recv)
    }

    /// ADUs dropped so far.
    pub(super) fn dropped(&self) -> DroppedAdus {
        let mut dropped = self.dropped_before;
        for stream in self.send.values() {
            dropped.add_sent(&stream.counters);
        }
        for stream in self.recv.values() {
            dropped.add_received(&stream.counters);
        }
        dropped
    }

    /// Statistics of all open streams, by id.
    pub(super) fn stats(&self) -> Vec<StreamStats> {
        let mut all: BTreeMap<StreamId, StreamStats> = BTreeMap::new();
        for stream in self.send.values() {
            let counters = stream.counters;
            all.insert(
                stream.id,
                StreamStats {
                    sent_adus: counters.adus,
                    sent_bytes: counters.bytes,
                    acked_adus: counters.acked_adus,
                    lost_adus: counters.lost_adus,
                    expired_adus: counters.expired_adus,
                    shed_adus: counters.shed_adus,
                    repaired_bytes: counters.repaired_bytes,
                    copied_bytes: counters.copied_bytes,
                    backlog_bytes: stream.backlog_bytes(),
                    acked_by_channel: stream.carried.by_channel().to_vec(),
                    ..StreamStats::new(stream.id, (*stream.spec).clone())
                },
            );
        }
        for stream in self.recv.values() {
            let entry = all
                .entry(stream.id)
                .or_insert_with(|| StreamStats::new(stream.id, (*stream.spec).clone()));
            let counters = stream.counters;
            entry.received_adus = counters.received_adus;
            entry.received_bytes = counters.received_bytes;
            entry.arrived_bytes = stream.arrived_bytes();
            entry.duplicate_bytes = counters.duplicate_bytes;
            entry.dropped_adus = counters.dropped_adus;
            entry.expired_adus += counters.expired_adus;
            entry.partial_adus = counters.partial_adus;
        }
        all.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_streams_that_are_over_remain_counted() {
        let spec = Arc::new(StreamSpec::default());
        let mut streams = Streams::new(true, 1 << 20);
        for (id, lost) in [(0, 3), (4, 10)] {
            let mut send = Box::new(SendStream::new(StreamId(id), spec.clone(), 0));
            send.counters.lost_adus = lost;
            send.counters.shed_adus = 1;
            streams.send.insert(StreamId(id), send);
        }
        let all = DroppedAdus {
            lost: 13,
            shed: 2,
            ..DroppedAdus::default()
        };
        assert_eq!(streams.dropped(), all);
        assert!(streams.remove_send(StreamId(4)).is_some());
        assert!(streams.remove_send(StreamId(4)).is_none());
        assert_eq!(streams.dropped(), all);
    }
}
