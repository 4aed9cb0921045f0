//! Commands of the application.

use std::{collections::VecDeque, sync::Arc};

use anabranch_base::{Instant, StreamId};
use anabranch_channel::Endpoint;
use anabranch_sched::{StreamSpec, arrival, objective::Fields, spec::ADU_BYTES_MAX};
use bytes::Bytes;

use super::Session;
use crate::{
    config::{INITIAL_STREAM_CREDIT_BYTES, STREAMS_MAX},
    event::{Adu, Event, SendError, StreamError},
    objective::FieldValue,
    parameters::StreamParameters,
    recv::RecvStream,
    send::{ADU_OVERHEAD_BYTES, AduOutcome, SendStream, Settled},
    wire::Control,
};

impl Session {
    pub(crate) fn open_stream(
        &mut self,
        now: Instant,
        spec: StreamSpec,
        events: &mut VecDeque<Event>,
    ) -> Result<StreamId, StreamError> {
        spec.validate()?;
        if self.send.len() >= STREAMS_MAX {
            return Err(StreamError::TooMany(STREAMS_MAX));
        }
        let id = StreamId::new(self.next_stream, self.is_initiator);
        self.promise(now, id, &spec, events)?;
        self.next_stream += 1;
        let spec = Arc::new(spec);
        if spec.duplex {
            self.recv.insert(id, self.receiving_half(id, spec.clone()));
        }
        self.shares.note_order(id, &spec);
        let has_guarantee = spec.guarantee.is_some();
        self.send.insert(id, self.sending_half(id, spec));
        if !has_guarantee {
            self.ask_for_opened(now, id, events);
        }
        Ok(id)
    }

    pub(super) fn sending_half(&self, id: StreamId, spec: Arc<StreamSpec>) -> Box<SendStream> {
        let credit = self
            .peer_stream_window
            .unwrap_or(INITIAL_STREAM_CREDIT_BYTES);
        Box::new(SendStream::new(id, spec, credit))
    }

    pub(super) fn receiving_half(&self, id: StreamId, spec: Arc<StreamSpec>) -> Box<RecvStream> {
        let window = self.config.stream_window_bytes;
        Box::new(RecvStream::new(id, spec, window, window))
    }

    pub(crate) fn send(
        &mut self,
        now: Instant,
        stream: StreamId,
        data: Bytes,
        importance: u8,
    ) -> Result<u64, SendError> {
        let buffer = self.send_buffer;
        let half = self
            .send
            .get_mut(&stream)
            .ok_or(StreamError::UnknownStream(stream))?;
        if half.finishing {
            return Err(SendError::Closed);
        }
        if data.is_empty() {
            return Err(SendError::Empty);
        }
        if data.len() > ADU_BYTES_MAX {
            return Err(SendError::TooLarge { bytes: data.len() });
        }
        if half.held_bytes() >= buffer {
            half.blocked = true;
            return Err(SendError::Full(data));
        }
        self.dirty = true;
        if half.spec.is_latency_sensitive() {
            self.urgent_sent_at = Some(now);
        }
        if half.spec.guarantee.is_some() {
            self.arrival_periods.note(now, stream);
        }
        self.charge_max = self.charge_max.max(data.len() as u64 + ADU_OVERHEAD_BYTES);
        if let Some(lifetime) = half.spec.lifetime {
            let at = now + lifetime;
            self.expire_at = Some(self.expire_at.map_or(at, |earlier| earlier.min(at)));
            self.has_lifetimes = true;
        }
        let sequence = half.push(now, data, importance);
        self.active.insert(stream);
        Ok(sequence)
    }

    pub(crate) fn send_with_fields(
        &mut self,
        now: Instant,
        stream: StreamId,
        data: Bytes,
        importance: u8,
        fields: &[(&str, FieldValue<'_>)],
    ) -> Result<u64, SendError> {
        let fields = self.objectives.fields(&Fields::default(), fields)?;
        let sequence = self.send(now, stream, data, importance)?;
        if let Some(half) = self.send.get_mut(&stream) {
            half.set_fields(sequence, fields);
        }
        Ok(sequence)
    }

    /// Predicted time until an ADU handed over now would arrive, when that exceeds its lifetime.
    pub(crate) fn would_miss(&self, stream: StreamId, bytes: usize) -> Option<SendError> {
        let half = self.send.get(&stream)?;
        let lifetime = half.spec.lifetime?;
        let pinned = half.spec.pinned;
        let channels = self.scratch.channels.iter();
        let usable = channels.filter(|channel| pinned.is_none_or(|only| only == channel.id));
        let arrival = arrival::completion(usable, half.backlog_bytes() + bytes as u64)?;
        (arrival > lifetime).then_some(SendError::WouldMiss { arrival, lifetime })
    }

    pub(crate) fn send_room(&self, stream: StreamId) -> usize {
        self.send
            .get(&stream)
            .map_or(0, |half| self.send_buffer.saturating_sub(half.held_bytes()))
    }

    /// Changes how important an ADU is that was not settled yet.
    pub(crate) fn set_importance(
        &mut self,
        stream: StreamId,
        adu: u64,
        importance: u8,
    ) -> Result<bool, StreamError> {
        let half = self.send.get_mut(&stream);
        let half = half.ok_or(StreamError::UnknownStream(stream))?;
        Ok(half.set_importance(adu, importance))
    }

    /// Changes knobs of an open stream; those that are `None` stay as they are.
    pub(crate) fn adjust(
        &mut self,
        stream: StreamId,
        parameters: StreamParameters,
    ) -> Result<(), StreamError> {
        let half = self.send.get_mut(&stream);
        let half = half.ok_or(StreamError::UnknownStream(stream))?;
        let mut spec = (*half.spec).clone();
        parameters.apply(&mut spec);
        spec.validate()?;
        self.shares.note_order(stream, &spec);
        half.spec = Arc::new(spec);
        self.dirty = true;
        Ok(())
    }

    pub(crate) fn finish(&mut self, stream: StreamId) -> Result<(), StreamError> {
        let half = self
            .send
            .get_mut(&stream)
            .ok_or(StreamError::UnknownStream(stream))?;
        if !half.finishing {
            half.finishing = true;
            self.active.insert(stream);
            self.dirty = true;
        }
        Ok(())
    }

    pub(crate) fn reset(&mut self, stream: StreamId, code: u32) -> Result<(), StreamError> {
        let half = self
            .send
            .remove(&stream)
            .ok_or(StreamError::UnknownStream(stream))?;
        self.note_over(stream);
        self.scheduler.forget(stream);
        self.planning.forget(stream);
        self.arrival_periods.forget(stream);
        self.promises.close(stream);
        self.dirty = true;
        let is_ours = stream.is_by_initiator() == self.is_initiator;
        if is_ours && !half.announced {
            if half.sent_at.is_none() {
                // The peer has never heard of it.
                return Ok(());
            }
            self.given_up.insert(stream, half.spec);
        }
        self.control.push_back(Control::Reset {
            stream,
            code,
            charged_bytes: half.charged,
        });
        Ok(())
    }

    pub(crate) fn stop(&mut self, stream: StreamId, code: u32) -> Result<(), StreamError> {
        let accounts = self
            .drop_receiving_half(stream)
            .ok_or(StreamError::UnknownStream(stream))?;
        self.control.push_back(Control::Stop { stream, code });
        // What the application will never read must not keep the session's credit.
        self.stopped.insert(stream, accounts);
        self.dirty = true;
        Ok(())
    }

    pub(crate) fn receive(
        &mut self,
        stream: StreamId,
        events: &mut VecDeque<Event>,
    ) -> Option<Adu> {
        let half = self.recv.get_mut(&stream)?;
        let before = half.load();
        let (sequence, data, credit) = half.read()?;
        let missing = half.take_missing(sequence);
        self.load.change(before, half.load());
        if let Some(bytes) = half.next_grant() {
            self.control
                .push_back(Control::StreamCredit { stream, bytes });
            self.dirty = true;
        }
        if credit > 0 {
            self.consume(credit);
        }
        self.note_finished(stream, events);
        Some(Adu {
            sequence,
            data,
            missing,
        })
    }

    /// Hands the application what it has not read yet, because the session ends here: the peer may have
    /// been told that it was delivered.
    pub(crate) fn hand_over_remainders(&mut self, events: &mut VecDeque<Event>) {
        for (&stream, half) in &mut self.recv {
            let mut next = || {
                let (sequence, data, _) = half.read()?;
                let missing = half.take_missing(sequence);
                Some(Adu {
                    sequence,
                    data,
                    missing,
                })
            };
            let adus: Vec<Adu> = std::iter::from_fn(&mut next).collect();
            if !adus.is_empty() {
                events.push_back(Event::Remainder {
                    session: self.id,
                    stream,
                    adus,
                    is_end: half.is_finished(),
                });
            }
        }
    }

    /// Tells the application when a receiving half is over.
    pub(super) fn note_finished(&mut self, stream: StreamId, events: &mut VecDeque<Event>) {
        if self
            .recv
            .get(&stream)
            .is_some_and(|half| half.is_finished())
        {
            self.drop_receiving_half(stream);
            self.note_over(stream);
            events.push_back(Event::Finished {
                session: self.id,
                stream,
            });
        }
    }

    /// Tells the application what became of ADUs of a stream, and the peer if it must know.
    pub(super) fn settle(
        &mut self,
        stream: StreamId,
        settled: impl IntoIterator<Item = Settled>,
        events: &mut VecDeque<Event>,
    ) {
        let Some(half) = self.send.get_mut(&stream) else {
            return;
        };
        let (session, notify) = (self.id, half.spec.notify);
        for Settled {
            sequence: adu,
            outcome,
        } in settled
        {
            if self.planning.is_on {
                self.planning.note_outcome(stream, adu, &outcome);
            }
            match outcome {
                AduOutcome::Acked { age, receipt } if notify => events.push_back(Event::Acked {
                    session,
                    stream,
                    adu,
                    rtt: age,
                    channel: receipt.channel,
                    packet_rtt: receipt.rtt,
                }),
                AduOutcome::Lost { arrived, lost } => {
                    if half.spec.partial && !arrived.is_empty() {
                        self.control.push_back(Control::Skip {
                            stream,
                            sequence: adu,
                            charged_bytes: 0,
                        });
                        self.dirty = true;
                    }
                    if notify {
                        events.push_back(Event::Lost {
                            session,
                            stream,
                            adu,
                            arrived,
                            lost,
                        });
                    }
                }
                AduOutcome::Dropped => events.push_back(Event::Dropped {
                    session,
                    stream,
                    adu,
                }),
                AduOutcome::Acked { .. } => {}
                AduOutcome::Expired { skip } => {
                    events.push_back(Event::Expired {
                        session,
                        stream,
                        adu,
                    });
                    if let Some(charged_bytes) = skip {
                        self.control.push_back(Control::Skip {
                            stream,
                            sequence: adu,
                            charged_bytes,
                        });
                    }
                    self.dirty = true;
                }
            }
        }
        if half.blocked && half.held_bytes() <= self.send_buffer - self.send_buffer / 4 {
            half.blocked = false;
            events.push_back(Event::Writable { session, stream });
        }
        // An unreliable stream announces its end when everything is settled.
        if half.finishing && !half.finish_sent {
            self.active.insert(stream);
            self.dirty = true;
        }
        self.note_delivered(stream, events);
    }

    /// Ends a sending half whose every ADU is settled and whose end the peer knows.
    pub(super) fn note_delivered(&mut self, stream: StreamId, events: &mut VecDeque<Event>) {
        let over = self
            .send
            .get(&stream)
            .is_some_and(|half| half.finish_acked && half.is_settled());
        if over {
            self.send.remove(&stream);
            self.note_over(stream);
            self.promises.close(stream);
            self.arrival_periods.forget(stream);
            self.scheduler.forget(stream);
            self.planning.forget(stream);
            events.push_back(Event::Delivered {
                session: self.id,
                stream,
            });
        }
    }

    /// Drops every ADU whose lifetime is over. O(active streams) at times when one may be, else O(1).
    pub(super) fn expire(&mut self, now: Instant, events: &mut VecDeque<Event>) {
        if self.expire_at.is_none_or(|at| at > now) {
            return;
        }
        let due: Vec<StreamId> = self
            .active_halves()
            .filter(|half| half.deadline().is_some_and(|deadline| deadline <= now))
            .map(|half| half.id)
            .collect();
        for stream in due {
            let mut settled = Vec::new();
            if let Some(half) = self.send.get_mut(&stream) {
                half.expire(now, &mut settled);
            }
            self.settle(stream, settled, events);
        }
        self.expire_at = self.active_halves().filter_map(SendStream::deadline).min();
    }

    /// Ends the session: closes every channel, tells nobody.
    pub(crate) fn close_channels(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        code: u32,
        reason: &str,
    ) {
        for member in &self.members {
            if let Some(channel) = endpoint.channel(member.id) {
                channel.close(now, code, reason);
            }
        }
    }
}
