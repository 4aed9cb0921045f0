//! Pings: a packet on each channel whose round trip is reported to the application.
//!
//! A ping is filled with the HELLO, which may be repeated at any time (`spec/wire.md` §4), so every peer acknowledges it. What is
//! reported is the time to the acknowledgement, less the time for which the peer states that it waited before it sent that.

use std::time::Duration;

use anabranch_base::ChannelId;

use super::{
    Session,
    containers::{may_launch, touch},
    pump::Run,
};
use crate::{
    event::{Event, SessionEvent},
    flight::Packet,
    wire::{Control, VERSION},
};

impl Session {
    /// Asks for a ping on every channel, and returns them.
    pub(crate) fn ping(&mut self) -> Vec<ChannelId> {
        let channels: Vec<ChannelId> = self.channels.states.iter().map(|state| state.id).collect();
        self.channels.pings.clone_from(&channels);
        self.pump.is_due = true;
        channels
    }

    /// Sends the pings that were asked for.
    pub(super) fn send_pings(&mut self, run: &mut Run<'_>) {
        for id in std::mem::take(&mut self.channels.pings) {
            let mut channels = run.scratch.channels.iter();
            let index = channels.position(|channel| channel.id == id);
            match index.filter(|&index| may_launch(run, index)) {
                Some(index) => self.send_ping(run, index),
                None => run.events.push_back(self.pong(id, None)),
            }
        }
    }

    fn send_ping(&mut self, run: &mut Run<'_>, index: usize) {
        let (place, capacity) = run.scratch.places[index];
        let mut builder = self.begin_bare(run, place, capacity, true);
        let hello = Control::Hello {
            version: VERSION,
            stream_window_bytes: self.config.stream_window_bytes,
            session_window_bytes: self.config.session_window_bytes,
        };
        hello.write(&mut builder.bytes);
        let mut packet = Packet::new(run.now);
        packet.is_probe = true;
        packet.is_ping = true;
        self.launch(run, place, builder, packet);
        touch(run.touched, run.scratch.channels[index].id);
    }

    /// Event with the answer to a ping.
    pub(super) fn pong(&self, channel: ChannelId, round_trip: Option<Duration>) -> Event {
        Event::Session {
            session: self.id,
            event: SessionEvent::Pong {
                channel,
                round_trip,
            },
        }
    }
}
