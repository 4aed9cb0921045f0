//! Outcomes of packets: acknowledged, lost, or in flight on a silent channel. Fragments of a lost packet go back to the queue of
//! their stream here (`on_packet_lost`, then `send::stream`).

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{ChannelId, Instant, SessionId};
use anabranch_channel::{Acknowledgement, Outcome, PacketOutcome};
use anabranch_estimate::Acked;

use super::Session;
use crate::{
    event::{Event, StreamEvent},
    flight::{Item, Packet},
    journal::{Entry, What},
    send::Receipt,
    transcript::ChannelChange,
    wire::{Control, frame::Place},
};

impl Session {
    /// Handles the outcome of a container; returns its bytes if it was acknowledged, headers included. `evidence` is that of the
    /// acknowledgement.
    pub(crate) fn on_outcome(
        &mut self,
        now: Instant,
        channel: ChannelId,
        (outcome, evidence): (PacketOutcome, Acknowledgement),
        events: &mut VecDeque<Event>,
    ) -> u64 {
        let Some(state) = self.channels.get_mut(channel) else {
            return 0;
        };
        let Some(packet) = state.flight.take(outcome.container) else {
            return 0;
        };
        self.pump.is_due = true;
        if let Some(journal) = &mut self.journal {
            journal.note(Entry {
                at: now,
                channel,
                container: outcome.container,
                what: match outcome.outcome {
                    Outcome::Acked { rtt } => What::Acked { rtt },
                    Outcome::Lost => What::Lost,
                },
            });
        }
        if let Some(recorder) = &mut self.scheduling.recorder {
            let rtt = match outcome.outcome {
                Outcome::Acked { rtt } => Some(rtt),
                Outcome::Lost => None,
            };
            recorder.outcome(now, (channel, outcome.container), rtt);
        }
        let (number, sent_at) = (outcome.container, packet.sent_at);
        if packet.is_ping {
            let round_trip = match outcome.outcome {
                Outcome::Acked { rtt } => Some(evidence.round_trip(rtt)),
                Outcome::Lost => None,
            };
            events.push_back(self.pong(channel, round_trip));
        }
        let estimator = &mut self.channels.estimator;
        match outcome.outcome {
            Outcome::Acked { rtt } => {
                let acked = Acked {
                    number,
                    bytes: packet.wire_bytes,
                    sent_at,
                    rtt,
                };
                if !packet.is_probe {
                    estimator.acked(now, channel, acked);
                }
                let receipt = Receipt {
                    at: now,
                    channel,
                    rtt,
                };
                self.on_packet_acked(receipt, &packet, events);
                packet.wire_bytes
            }
            Outcome::Lost => {
                if !packet.is_probe {
                    estimator.lost(now, channel, number, sent_at);
                }
                self.on_packet_lost(channel, &packet, events);
                0
            }
        }
    }

    fn on_packet_acked(&mut self, receipt: Receipt, packet: &Packet, events: &mut VecDeque<Event>) {
        if let Some(state) = self.channels.get_mut(receipt.channel) {
            state.introduced = true;
        }
        self.establish(events);
        for item in packet.items() {
            match item {
                Item::Fragment { place, length, .. } => {
                    let Some(send) = self.streams.send.get_mut(&place.stream) else {
                        continue;
                    };
                    send.announced = true;
                    send.carried.add(receipt.channel, *place, *length);
                    if send.spec.notify_fragments {
                        let (channel, rtt) = (receipt.channel, Some(receipt.rtt));
                        events.push_back(fragment_outcome(self.id, *place, *length, channel, rtt));
                    }
                    self.promises.acked(place.stream, *length as u64);
                    if let Some(settled) = send.on_acked(receipt, *place, *length) {
                        self.settle(place.stream, [settled], events);
                    }
                }
                Item::Control(control) => self.on_control_acked(control, events),
            }
        }
    }

    fn on_control_acked(&mut self, control: &Control, events: &mut VecDeque<Event>) {
        match control {
            Control::Open { stream, .. } => {
                if let Some(send) = self.streams.send.get_mut(stream) {
                    send.announced = true;
                }
            }
            Control::Finish { stream, .. } => {
                if let Some(send) = self.streams.send.get_mut(stream) {
                    send.finish.is_acked = true;
                    self.note_delivered(*stream, events);
                }
            }
            Control::Reset { stream, .. } => {
                self.streams.forget_given_up(*stream);
            }
            _ => {}
        }
    }

    fn on_packet_lost(
        &mut self,
        channel: ChannelId,
        packet: &Packet,
        events: &mut VecDeque<Event>,
    ) {
        for item in packet.items() {
            match item {
                // Fragments of reliable streams that were moved are sent on other channels now; those of
                // unreliable streams stay with this packet.
                Item::Fragment { place, length, .. } => {
                    let Some(send) = self.streams.send.get_mut(&place.stream) else {
                        continue;
                    };
                    if packet.moved && send.spec.reliable {
                        continue;
                    }
                    if send.spec.notify_fragments {
                        events.push_back(fragment_outcome(self.id, *place, *length, channel, None));
                    }
                    let settled = send.on_lost(*place, *length);
                    self.streams.active.insert(place.stream);
                    if let Some(settled) = settled {
                        self.settle(place.stream, [settled], events);
                    }
                }
                Item::Control(control) if !packet.moved => self.resend(control),
                Item::Control(_) => {}
            }
        }
    }

    /// Queues a control frame again, unless a newer one replaces it.
    fn resend(&mut self, control: &Control) {
        let obsolete = match control {
            Control::Report { .. }
            | Control::Join { .. }
            | Control::Promised(_)
            | Control::Beside { .. } => true,
            Control::StreamCredit { stream, .. } => !self.streams.recv.contains_key(stream),
            Control::SessionCredit { bytes } => *bytes < self.flow.granted(),
            _ => false,
        };
        if !obsolete {
            self.control.push_front(control.clone());
            self.pump.is_due = true;
        }
    }

    /// Handles the silence of a channel: all reliable data in flight on it is sent on other channels, without
    /// waiting for its outcome.
    pub(crate) fn on_suspected(&mut self, channel: ChannelId) {
        let mut fragments = Vec::new();
        let mut controls = Vec::new();
        let Some(state) = self.channels.get_mut(channel) else {
            return;
        };
        state.suspected = true;
        if let Some(recorder) = &mut self.scheduling.recorder {
            recorder.channel(None, channel, ChannelChange::Suspected);
        }
        for packet in state.flight.iter_mut() {
            if packet.moved {
                continue;
            }
            packet.moved = true;
            for item in packet.items() {
                match item {
                    Item::Fragment { place, length, .. } => fragments.push((*place, *length)),
                    Item::Control(control) => controls.push(control.clone()),
                }
            }
        }
        for (place, length) in fragments {
            if let Some(send) = self.streams.send.get_mut(&place.stream)
                && send.spec.reliable
            {
                send.on_moved(place, length);
                self.streams.active.insert(place.stream);
            }
        }
        for control in controls.into_iter().rev() {
            self.resend(&control);
        }
        self.pump.is_due = true;
    }

    /// Handles the recovery of a silent channel.
    pub(crate) fn on_recovered(&mut self, channel: ChannelId) {
        if let Some(state) = self.channels.get_mut(channel) {
            state.suspected = false;
        }
        if let Some(recorder) = &mut self.scheduling.recorder {
            recorder.channel(None, channel, ChannelChange::Recovered);
        }
        self.pump.is_due = true;
    }
}

fn fragment_outcome(
    session: SessionId,
    place: Place,
    length: usize,
    channel: ChannelId,
    rtt: Option<Duration>,
) -> Event {
    let from = place.offset as u64;
    Event::Stream {
        session,
        stream: place.stream,
        event: StreamEvent::Fragment {
            adu: place.sequence,
            bytes: from..from + length as u64,
            channel,
            rtt,
        },
    }
}
