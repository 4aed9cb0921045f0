//! Containers from the peer.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_spec::StreamSpec;
use bytes::Bytes;

use super::{ProtocolError, Session, far_end::FarEnd};
use crate::{
    config::STREAMS_MAX,
    event::Event,
    recv::Accepted,
    wire::{self, Control, Fragment, Frame, Reader},
};

/// Control frames that may wait while the peer sends more: it elicits responses, and acknowledges nothing. A conforming one
/// that opens as many streams as it may, all of which are refused, stays below.
const CONTROLS_MAX: usize = 4 * STREAMS_MAX;

/// Reports alone are reported only within this time after something else: two idle ends would report each other's reports for ever.
const BUSY_FOR: Duration = Duration::from_secs(1);

/// True if a frame is a statement about the channel, and no data.
fn is_statement(frame: &Frame) -> bool {
    matches!(
        frame,
        Frame::Control(Control::Report { .. } | Control::Promised(_) | Control::Beside { .. })
    )
}

impl Session {
    /// Handles a container that arrived on one of the session's channels.
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
        let mut is_report = true;
        let mut reader = Reader::new(container);
        while let Some(frame) = reader.next_frame()? {
            if let Some(probation) = &mut self.probation {
                probation.take(&frame)?;
            }
            is_report &= is_statement(&frame);
            match frame {
                Frame::Fragment(fragment) => self.on_fragment(now, channel, &fragment, events)?,
                Frame::Control(control) => self.on_control(now, channel, control, events)?,
            }
        }
        if let Some(state) = self.channels.get_mut(channel) {
            state.collector.on_container(now, bytes, header.timestamp);
            if !is_report {
                state.active_at = now;
            }
            if now.since(state.active_at) < BUSY_FOR {
                state.collector.schedule(now);
            }
        }
        if self.control.len() > CONTROLS_MAX {
            return Err(ProtocolError::Rule(
                "too many control frames wait to be sent in response",
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
        if let Some(state) = self.channels.get_mut(channel) {
            state.payload_received_bytes += fragment.payload.len() as u64;
        }
        let stream = fragment.stream;
        let capacity = self.recv_capacity();
        let Some(recv) = self.streams.recv.get_mut(&stream) else {
            // A stream that is over, or one whose announcement has not come: its fragments always
            // follow the announcement, so the latter is a protocol violation.
            return if self.streams.was_opened(stream) {
                Ok(())
            } else {
                Err(ProtocolError::Rule(
                    "a fragment of a stream that was never announced",
                ))
            };
        };
        if recv.spec.is_latency_sensitive() {
            self.latency.note_received(now);
        }
        let before = recv.load();
        let accepted = recv.add(now, fragment, capacity)?;
        let after = recv.load();
        self.flow.note_load(before, after)?;
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

    fn on_control(
        &mut self,
        now: Instant,
        channel: ChannelId,
        control: Control,
        events: &mut VecDeque<Event>,
    ) -> Result<(), ProtocolError> {
        self.pump.is_due = true;
        match control {
            Control::Hello {
                version,
                stream_window_bytes,
                session_window_bytes,
            } => {
                if version == 0 {
                    return Err(ProtocolError::Version(version));
                }
                self.establishment.note_version(version);
                // In a repeated HELLO the windows are larger, or the frame is late.
                if self.flow.raise_peer_stream_window(stream_window_bytes) {
                    for send in self.streams.send.values_mut() {
                        send.credit = send.credit.max(stream_window_bytes);
                    }
                }
                self.flow.raise_credit(session_window_bytes);
            }
            // The engine has checked it and added the channel to this session.
            Control::Join { .. } | Control::Replace { .. } => {}
            Control::Open { stream, spec } => self.on_open(now, stream, *spec, events)?,
            Control::StreamCredit { stream, bytes } => {
                if let Some(send) = self.streams.send.get_mut(&stream) {
                    send.credit = send.credit.max(bytes);
                }
            }
            Control::SessionCredit { bytes } => self.flow.raise_credit(bytes),
            Control::Finish { stream, end } => {
                let capacity = self.recv_capacity();
                if let Some(recv) = self.streams.recv.get_mut(&stream) {
                    let before = recv.load();
                    let is_readable = recv.set_end(end, capacity)?;
                    let after = recv.load();
                    self.flow.note_load(before, after)?;
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
                if self.streams.send.contains_key(&stream) {
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
            Control::Report {
                packets,
                delay_min,
                delay_mean,
                delay_max,
                ..
            } => {
                let delays = [delay_min, delay_max];
                self.note_report(now, channel, (packets, delays));
                if let Some(state) = self.channels.get_mut(channel) {
                    state.peer_report = Some(control);
                }
                // Zero says that none of its packets was stamped.
                if delay_max > Duration::ZERO {
                    self.channels.note_queue(channel, delay_mean);
                }
            }
            Control::Neighbours => self.establishment.is_asked = true,
            Control::Promised(list) => self.note_announced(channel, list),
            Control::Beside {
                interface,
                rate,
                busy,
                promised,
            } => self.note_far_end(
                now,
                channel,
                FarEnd {
                    interface,
                    rate,
                    busy,
                    promised,
                },
            ),
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
        let is_new = self.streams.note_opened(stream);
        if !is_new.map_err(ProtocolError::Rule)? {
            return Ok(());
        }
        if let Some(probation) = &mut self.probation {
            probation.open()?;
        }
        let shared = Arc::new(spec.clone());
        if spec.duplex {
            let mut send = self.new_send_stream(stream, shared.clone());
            send.announced = true;
            self.shares.note_order(stream, &shared);
            self.streams.send.insert(stream, send);
            self.note_opened(stream);
        }
        let is_duplex = spec.duplex;
        self.streams
            .recv
            .insert(stream, self.new_recv_stream(stream, shared));
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
        let accounts = match self.drop_recv_stream(stream) {
            Some(accounts) => {
                events.push_back(Event::Reset {
                    session: self.id,
                    stream,
                    code,
                });
                accounts
            }
            None => match self.streams.take_stopped(stream) {
                Some(accounts) => accounts,
                None => return Ok(()),
            },
        };
        self.streams.note_over(stream);
        let (seen, consumed) = accounts.settle(charged_bytes)?;
        self.flow.see(seen)?;
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
        let capacity = self.recv_capacity();
        let Some(recv) = self.streams.recv.get_mut(&stream) else {
            return Ok(());
        };
        let before = recv.load();
        let skipped = recv.skip(sequence, charged_bytes, capacity)?;
        let (after, grant) = (recv.load(), recv.next_grant());
        self.flow.note_load(before, after)?;
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
