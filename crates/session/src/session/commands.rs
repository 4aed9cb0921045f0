//! Commands of the application to a session.

use std::{collections::VecDeque, sync::Arc};

use anabranch_base::{Instant, StreamId};
use anabranch_sched::{arrival, objective::Fields};
use anabranch_spec::{ADU_BYTES_MAX, ChannelChoice, StreamSpec};
use bytes::Bytes;

use super::Session;
use crate::{
    config::STREAMS_MAX,
    event::{Adu, Event, SendError, StreamError, StreamEvent},
    objective::FieldValue,
    parameters::StreamParameters,
    recv::RecvStream,
    send::{AduOutcome, SendStream, Settled},
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
        if self.streams.send.len() >= STREAMS_MAX {
            return Err(StreamError::TooMany(STREAMS_MAX));
        }
        let id = self.streams.next_id();
        self.promise(now, id, &spec, events)?;
        self.streams.advance_id();
        let spec = Arc::new(spec);
        if spec.duplex {
            self.streams
                .recv
                .insert(id, self.new_recv_stream(id, spec.clone()));
        }
        self.shares.note_order(id, &spec);
        let has_guarantee = spec.guarantee.is_some();
        if let Some(recorder) = &mut self.scheduling.recorder {
            recorder.opened(now, id, &spec);
        }
        self.streams.send.insert(id, self.new_send_stream(id, spec));
        self.note_opened(id);
        if !has_guarantee {
            self.ask_for_opened(now, id, events);
        }
        Ok(id)
    }

    pub(super) fn new_send_stream(&self, id: StreamId, spec: Arc<StreamSpec>) -> Box<SendStream> {
        let credit = self.flow.initial_stream_credit();
        Box::new(SendStream::new(id, spec, credit))
    }

    pub(super) fn new_recv_stream(&self, id: StreamId, spec: Arc<StreamSpec>) -> Box<RecvStream> {
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
        let buffer = self.streams.buffer_bytes;
        let send = self
            .streams
            .send
            .get_mut(&stream)
            .ok_or(StreamError::UnknownStream(stream))?;
        if send.finish.is_asked {
            return Err(match &send.finish.warning {
                Some(refusal) => SendError::Warned(refusal.clone()),
                None => SendError::Closed,
            });
        }
        if data.is_empty() {
            return Err(SendError::Empty);
        }
        if data.len() > ADU_BYTES_MAX {
            return Err(SendError::TooLarge { bytes: data.len() });
        }
        if send.space(buffer) == 0 {
            if send.unsent_max.is_some() && !send.blocked {
                self.streams.held_back.push(stream);
            }
            send.blocked = true;
            return Err(SendError::Full(data));
        }
        self.pump.is_due = true;
        if send.spec.is_latency_sensitive() {
            self.latency.note_sent(now, send.spec.lifetime);
        }
        if send.spec.guarantee.is_some() {
            self.scheduling.arrival_periods.note(now, stream);
        }
        let expire_at = send.spec.lifetime.map(|lifetime| now + lifetime);
        let bytes = data.len();
        let sequence = send.push(now, data, importance);
        self.streams.note_sent(stream, bytes, expire_at);
        if let Some(recorder) = &mut self.scheduling.recorder {
            recorder.adu(now, stream, sequence, bytes);
        }
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
        let fields = self
            .scheduling
            .objectives
            .fields(&Fields::default(), fields)?;
        let sequence = self.send(now, stream, data, importance)?;
        if let Some(send) = self.streams.send.get_mut(&stream) {
            send.set_fields(sequence, fields);
        }
        Ok(sequence)
    }

    /// Predicted time until an ADU handed over now would arrive, when that exceeds its lifetime.
    pub(crate) fn would_miss(&self, stream: StreamId, bytes: usize) -> Option<SendError> {
        let send = self.streams.send.get(&stream)?;
        let lifetime = send.spec.lifetime?;
        let pinned = send.spec.pinned;
        let scratch = &self.pump.scratch;
        let choice = ChannelChoice::of(&send.spec, &self.config.paths, scratch.traits.iter());
        let usable = (scratch.channels.iter().enumerate())
            .filter(|(place, _)| choice.all().contains(*place))
            .map(|(_, channel)| channel)
            .filter(|channel| pinned.is_none_or(|only| only == channel.id));
        let arrival = arrival::completion(usable, send.ahead_bytes() + bytes as u64)?;
        (arrival > lifetime).then_some(SendError::WouldMiss { arrival, lifetime })
    }

    pub(crate) fn send_capacity(&self, stream: StreamId) -> usize {
        self.streams.buffer_left(stream)
    }

    /// Changes the importance of an ADU that is not settled yet.
    pub(crate) fn set_importance(
        &mut self,
        stream: StreamId,
        adu: u64,
        importance: u8,
    ) -> Result<bool, StreamError> {
        let send = self.streams.send.get_mut(&stream);
        let send = send.ok_or(StreamError::UnknownStream(stream))?;
        Ok(send.set_importance(adu, importance))
    }

    /// Changes parameters of an open stream; those that are `None` stay as they are.
    pub(crate) fn adjust(
        &mut self,
        stream: StreamId,
        parameters: StreamParameters,
    ) -> Result<(), StreamError> {
        let send = self.streams.send.get_mut(&stream);
        let send = send.ok_or(StreamError::UnknownStream(stream))?;
        let mut spec = (*send.spec).clone();
        parameters.apply(&mut spec);
        spec.validate()?;
        self.shares.note_order(stream, &spec);
        self.promises.set_divisible(stream, spec.is_divisible());
        send.spec = Arc::new(spec);
        if let Some(unsent_max) = parameters.unsent_max {
            send.unsent_max = unsent_max;
        }
        self.pump.is_due = true;
        Ok(())
    }

    pub(crate) fn finish(&mut self, stream: StreamId) -> Result<(), StreamError> {
        let send = self
            .streams
            .send
            .get_mut(&stream)
            .ok_or(StreamError::UnknownStream(stream))?;
        if !send.finish.is_asked {
            send.finish.is_asked = true;
            self.streams.active.insert(stream);
            self.pump.is_due = true;
        }
        Ok(())
    }

    pub(crate) fn reset(&mut self, stream: StreamId, code: u32) -> Result<(), StreamError> {
        let send = self
            .streams
            .remove_send(stream)
            .ok_or(StreamError::UnknownStream(stream))?;
        self.streams.note_over(stream);
        self.scheduling.forget(stream);
        self.promises.close(stream);
        self.pump.is_due = true;
        if !self.streams.give_up(&send) {
            return Ok(());
        }
        self.control.push_back(Control::Reset {
            stream,
            code,
            charged_bytes: send.charged,
        });
        Ok(())
    }

    pub(crate) fn stop(&mut self, stream: StreamId, code: u32) -> Result<(), StreamError> {
        let accounts = self
            .drop_recv_stream(stream)
            .ok_or(StreamError::UnknownStream(stream))?;
        self.control.push_back(Control::Stop { stream, code });
        // Data that the application will never read must not keep the session's credit.
        self.streams.note_stopped(stream, accounts);
        self.pump.is_due = true;
        Ok(())
    }

    pub(crate) fn receive(
        &mut self,
        stream: StreamId,
        events: &mut VecDeque<Event>,
    ) -> Option<Adu> {
        let recv = self.streams.recv.get_mut(&stream)?;
        let before = recv.load();
        let (sequence, data, credit) = recv.read()?;
        let missing = recv.take_missing(sequence);
        self.flow.change_load(before, recv.load());
        if let Some(bytes) = recv.next_grant() {
            self.control
                .push_back(Control::StreamCredit { stream, bytes });
            self.pump.is_due = true;
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

    /// Hands the data that the application has not read yet over to it, because the session ends here: the peer may have
    /// been informed that it was delivered.
    pub(crate) fn hand_over_remainders(&mut self, events: &mut VecDeque<Event>) {
        for (&stream, recv) in &mut self.streams.recv {
            let mut next = || {
                let (sequence, data, _) = recv.read()?;
                let missing = recv.take_missing(sequence);
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
                    is_end: recv.is_finished(),
                });
            }
        }
    }

    /// Notifies the application when a receive stream is over.
    pub(super) fn note_finished(&mut self, stream: StreamId, events: &mut VecDeque<Event>) {
        if self
            .streams
            .recv
            .get(&stream)
            .is_some_and(|recv| recv.is_finished())
        {
            self.drop_recv_stream(stream);
            self.streams.note_over(stream);
            events.push_back(Event::Finished {
                session: self.id,
                stream,
            });
        }
    }

    /// Reports outcomes of ADUs of a stream to the application, and to the peer if it must know.
    pub(super) fn settle(
        &mut self,
        stream: StreamId,
        settled: impl IntoIterator<Item = Settled>,
        events: &mut VecDeque<Event>,
    ) {
        let Some(send) = self.streams.send.get_mut(&stream) else {
            return;
        };
        let (session, notify) = (self.id, send.spec.notify);
        for Settled {
            sequence: adu,
            outcome,
        } in settled
        {
            if self.scheduling.planning.is_on {
                self.scheduling.planning.note_outcome(stream, adu, &outcome);
            }
            match outcome {
                AduOutcome::Acked { age, receipt } if notify => events.push_back(Event::Stream {
                    session,
                    stream,
                    event: StreamEvent::Acked {
                        adu,
                        rtt: age,
                        channel: receipt.channel,
                        packet_rtt: receipt.rtt,
                    },
                }),
                AduOutcome::Lost { arrived, lost } => {
                    if send.spec.partial && !arrived.is_empty() {
                        self.control.push_back(Control::Skip {
                            stream,
                            sequence: adu,
                            charged_bytes: 0,
                        });
                        self.pump.is_due = true;
                    }
                    if notify {
                        events.push_back(Event::Stream {
                            session,
                            stream,
                            event: StreamEvent::Lost { adu, arrived, lost },
                        });
                    }
                }
                AduOutcome::Acked { .. } => {}
                AduOutcome::Expired { skip } | AduOutcome::Dropped { skip } => {
                    let event = match outcome {
                        AduOutcome::Dropped { .. } => StreamEvent::Dropped { adu },
                        _ => StreamEvent::Expired { adu },
                    };
                    events.push_back(Event::Stream {
                        session,
                        stream,
                        event,
                    });
                    if let Some(charged_bytes) = skip {
                        self.control.push_back(Control::Skip {
                            stream,
                            sequence: adu,
                            charged_bytes,
                        });
                    }
                    self.pump.is_due = true;
                }
            }
        }
        if send.blocked && send.has_drained(self.streams.buffer_bytes) {
            send.blocked = false;
            events.push_back(Event::Writable { session, stream });
        }
        // An unreliable stream announces its end when everything is settled.
        if send.finish.is_asked && !send.finish.is_sent {
            self.streams.active.insert(stream);
            self.pump.is_due = true;
        }
        self.note_delivered(stream, events);
    }

    /// Ends a send stream of which all ADUs are settled and the peer knows the end.
    pub(super) fn note_delivered(&mut self, stream: StreamId, events: &mut VecDeque<Event>) {
        let over = self
            .streams
            .send
            .get(&stream)
            .is_some_and(|send| send.finish.is_acked && send.is_settled());
        if over {
            self.streams.remove_send(stream);
            self.streams.note_over(stream);
            self.promises.close(stream);
            self.scheduling.forget(stream);
            events.push_back(Event::Delivered {
                session: self.id,
                stream,
            });
        }
    }

    /// Drops every ADU whose lifetime is over. O(active streams) at times when one may be, else O(1).
    pub(super) fn expire(&mut self, now: Instant, events: &mut VecDeque<Event>) {
        for stream in self.streams.expired(now) {
            let mut settled = Vec::new();
            if let Some(send) = self.streams.send.get_mut(&stream) {
                send.expire(now, &mut settled);
            }
            self.settle(stream, settled, events);
        }
        self.streams.advance_expiry(now);
    }
}
