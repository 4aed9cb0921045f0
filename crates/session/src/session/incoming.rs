//! Containers from the peer.

use std::{collections::VecDeque, sync::Arc};

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_sched::StreamSpec;
use bytes::Bytes;

use super::{ProtocolError, Session};
use crate::{
    config::STREAMS_MAX,
    event::Event,
    recv::Accepted,
    wire::{self, Control, Fragment, Frame, Reader, VERSION},
};

/// Control frames that may wait while the peer says more: it makes us answer, and acknowledges nothing. An honest one that
/// opens as many streams as it may, all of which are refused, stays below.
const CONTROLS_MAX: usize = 4 * STREAMS_MAX;

impl Session {
    /// Takes in a container that arrived on one of the session's channels.
    pub(crate) fn on_container(
        &mut self,
        now: Instant,
        channel: ChannelId,
        mut container: Bytes,
        events: &mut VecDeque<Event>,
    ) -> Result<(), ProtocolError> {
        self.establish(events);
        let bytes = container.len();
        let header = wire::read_header(&mut container)?;
        if let Some(member) = self.member(channel) {
            member.collector.on_container(now, bytes, header.timestamp);
        }
        let mut reader = Reader::new(container);
        while let Some(frame) = reader.next_frame()? {
            if let Some(probation) = &mut self.probation {
                probation.take(&frame)?;
            }
            match frame {
                Frame::Fragment(fragment) => self.on_fragment(now, channel, &fragment, events)?,
                Frame::Control(control) => self.on_control(now, channel, control, events)?,
            }
        }
        if self.control.len() > CONTROLS_MAX {
            return Err(ProtocolError::Rule(
                "more has to be answered than is let through",
            ));
        }
        Ok(())
    }

    fn on_fragment(
        &mut self,
        now: Instant,
        channel: ChannelId,
        fragment: &Fragment,
        events: &mut VecDeque<Event>,
    ) -> Result<(), ProtocolError> {
        if let Some(member) = self.member(channel) {
            member.payload_received_bytes += fragment.payload.len() as u64;
        }
        let stream = fragment.stream;
        let room = self.recv_capacity();
        let Some(half) = self.recv.get_mut(&stream) else {
            // A stream that is over, or one whose announcement has not come: its fragments always
            // travel behind the announcement, so the latter breaks the protocol.
            return if self.was_opened(stream) {
                Ok(())
            } else {
                Err(ProtocolError::Rule(
                    "a fragment of a stream never announced",
                ))
            };
        };
        if half.spec.is_latency_sensitive() {
            self.urgent_received_at = Some(now);
        }
        let before = half.load();
        let accepted = half.add(now, fragment, room)?;
        let after = half.load();
        self.note_load(before, after)?;
        if accepted == Accepted::Readable {
            events.push_back(Event::Readable {
                session: self.id,
                stream,
            });
        } else {
            self.note_finished(stream, events);
        }
        Ok(())
    }

    fn was_opened(&self, stream: StreamId) -> bool {
        if stream.is_by_initiator() == self.is_initiator {
            stream.0 >> 1 < self.next_stream
        } else {
            self.seen_streams.contains(stream.0 >> 1)
        }
    }

    fn on_control(
        &mut self,
        now: Instant,
        channel: ChannelId,
        control: Control,
        events: &mut VecDeque<Event>,
    ) -> Result<(), ProtocolError> {
        self.dirty = true;
        match control {
            Control::Hello {
                version,
                stream_window_bytes,
                session_window_bytes,
            } => {
                if version != VERSION {
                    return Err(ProtocolError::Version(version));
                }
                // The windows of an end that says it again are larger, or the frame is late.
                if self.peer_stream_window < Some(stream_window_bytes) {
                    self.peer_stream_window = Some(stream_window_bytes);
                    for half in self.send.values_mut() {
                        half.credit = half.credit.max(stream_window_bytes);
                    }
                }
                self.credit = self.credit.max(session_window_bytes);
            }
            // The engine has checked it and put the channel here.
            Control::Join { .. } => {}
            Control::Replace { session } => self.replaced.push(session),
            Control::Open { stream, spec } => self.on_open(now, stream, *spec, events)?,
            Control::StreamCredit { stream, bytes } => {
                if let Some(half) = self.send.get_mut(&stream) {
                    half.credit = half.credit.max(bytes);
                }
            }
            Control::SessionCredit { bytes } => self.credit = self.credit.max(bytes),
            Control::Finish { stream, end } => {
                let room = self.recv_capacity();
                if let Some(half) = self.recv.get_mut(&stream) {
                    let before = half.load();
                    let is_readable = half.set_end(end, room)?;
                    let after = half.load();
                    self.note_load(before, after)?;
                    self.note_readable(stream, is_readable, events);
                    self.note_finished(stream, events);
                }
            }
            Control::Reset {
                stream,
                code,
                charged_bytes,
            } => self.on_reset(stream, code, charged_bytes, events)?,
            Control::Stop { stream, code } => {
                if self.send.contains_key(&stream) {
                    let _ = self.reset(stream, code);
                    events.push_back(Event::Stopped {
                        session: self.id,
                        stream,
                        code,
                    });
                }
            }
            Control::Skip {
                stream,
                sequence,
                charged_bytes,
            } => self.on_skip(stream, sequence, charged_bytes, events)?,
            Control::Report { .. } => {
                if let Some(member) = self.member(channel) {
                    member.peer_report = Some(control);
                }
            }
        }
        Ok(())
    }

    fn on_open(
        &mut self,
        now: Instant,
        stream: StreamId,
        spec: StreamSpec,
        events: &mut VecDeque<Event>,
    ) -> Result<(), ProtocolError> {
        if stream.is_by_initiator() == self.is_initiator {
            return Err(ProtocolError::Rule("a stream id of this node's side"));
        }
        let index = stream.0 >> 1;
        if self.seen_streams.contains(index) {
            return Ok(());
        }
        if self.peer_streams >= STREAMS_MAX || self.seen_streams.len() > STREAMS_MAX {
            return Err(ProtocolError::Rule("too many open streams"));
        }
        if let Some(probation) = &mut self.probation {
            probation.open()?;
        }
        self.seen_streams.insert(index..index + 1);
        self.peer_streams += 1;
        let shared = Arc::new(spec.clone());
        if spec.duplex {
            let mut half = self.sending_half(stream, shared.clone());
            half.announced = true;
            self.shares.note_order(stream, &shared);
            self.send.insert(stream, half);
        }
        let is_duplex = spec.duplex;
        self.recv
            .insert(stream, self.receiving_half(stream, shared));
        events.push_back(Event::StreamOpened {
            session: self.id,
            stream,
            spec,
        });
        if is_duplex {
            self.ask_for_opened(now, stream, events);
        }
        Ok(())
    }

    fn on_reset(
        &mut self,
        stream: StreamId,
        code: u32,
        charged_bytes: u64,
        events: &mut VecDeque<Event>,
    ) -> Result<(), ProtocolError> {
        let accounts = match self.drop_receiving_half(stream) {
            Some(accounts) => {
                events.push_back(Event::Reset {
                    session: self.id,
                    stream,
                    code,
                });
                accounts
            }
            None => match self.stopped.remove(&stream) {
                Some(accounts) => accounts,
                None => return Ok(()),
            },
        };
        self.note_over(stream);
        let (seen, consumed) = accounts.settle(charged_bytes)?;
        self.see(seen)?;
        self.consume(consumed);
        Ok(())
    }

    fn on_skip(
        &mut self,
        stream: StreamId,
        sequence: u64,
        charged_bytes: u64,
        events: &mut VecDeque<Event>,
    ) -> Result<(), ProtocolError> {
        let room = self.recv_capacity();
        let Some(half) = self.recv.get_mut(&stream) else {
            return Ok(());
        };
        let before = half.load();
        let skipped = half.skip(sequence, charged_bytes, room)?;
        let (after, grant) = (half.load(), half.next_grant());
        self.note_load(before, after)?;
        if let Some(bytes) = grant {
            self.control
                .push_back(Control::StreamCredit { stream, bytes });
        }
        self.consume(skipped.credit);
        self.note_readable(stream, skipped.is_readable, events);
        self.note_finished(stream, events);
        Ok(())
    }

    fn note_readable(&self, stream: StreamId, is_readable: bool, events: &mut VecDeque<Event>) {
        if is_readable {
            events.push_back(Event::Readable {
                session: self.id,
                stream,
            });
        }
    }
}
