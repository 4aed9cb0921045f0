//! A QUIC peer bound by no rule but the keys: frames at any level, packet numbers as far apart as it likes.

use std::{num::NonZeroUsize, panic, sync::Once, time::Duration};

use anabranch_base::Instant;
use anabranch_session::{AllowList, Config, Engine, Link, SecretKey, is_contained};

use crate::{
    Input,
    bare::{Bare, Level, PINGS, STRIDE_MAX},
    counter::Meter,
    peer::{SOCKET, epoch, listener, received, remote},
};

/// Limit on the packets sent in answer to one packet or one time-out.
const ANSWERS_MAX: usize = 300;
/// Limit on the bytes that such a peer may make an engine hold.
const HELD_MAX: i64 = 1 << 20;
/// Limit on the time-outs after the last packet, until only dialling again is left.
const TIMEOUTS_MAX: usize = 200;

/// Whatever the peer sends, the engine finishes its work and holds little memory. A panic of the QUIC library is contained and
/// not a finding: the library is known to panic where acknowledgements do not fit.
pub fn bare_peer(data: &[u8]) {
    expect_contained_panics();
    let mut input = Input(data);
    let mut conversation = if input.byte().is_multiple_of(2) {
        Conversation::dialled()
    } else {
        Conversation::dialling()
    };
    while !input.is_empty() {
        conversation.step(&mut input);
    }
    conversation.end();
}

struct Conversation {
    engine: Engine,
    bare: Bare,
    now: Instant,
    numbers: [u64; 3],
    /// Packets that share a datagram with the next one.
    coalesced: Vec<u8>,
    meter: Meter,
}

impl Conversation {
    /// The engine dials.
    fn dialled() -> Self {
        let key = SecretKey::from_seed([1; 32]);
        let config = Config::default();
        let engine = Engine::new(epoch(), key, AllowList::default(), config, [1; 32]);
        let mut conversation = Self::new(engine, Bare::listener());
        let link = Link {
            socket: SOCKET,
            remote: remote(),
        };
        let peer = SecretKey::from_seed([3; 32]).node_id();
        let now = conversation.now;
        conversation
            .engine
            .connect(now, peer, vec![link])
            .expect("an address that can be dialled");
        conversation.exchange();
        conversation
    }

    /// The engine is dialled.
    fn dialling() -> Self {
        let mut conversation = Self::new(listener(Config::default()), Bare::dialler());
        let mut hello = conversation.bare.crypto_frame(Level::Initial);
        hello.resize(1200, 0);
        conversation.send(Level::Initial, 1, &hello, false);
        conversation
    }

    fn new(engine: Engine, bare: Bare) -> Self {
        Self {
            engine,
            bare,
            now: Instant::from_secs(1),
            numbers: [0; 3],
            coalesced: Vec::new(),
            meter: Meter::default(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let byte = input.byte();
        let level = [Level::Initial, Level::Handshake, Level::Data][usize::from(byte >> 3) % 3];
        let is_coalesced = byte & 0x80 != 0;
        let stride = match byte >> 5 & 3 {
            0 => 1,
            1 => 2,
            2 => 1 + u64::from(input.byte()) * 1000,
            _ => STRIDE_MAX,
        };
        match byte & 7 {
            0 => self.exchange(),
            1 => {
                if let Some(at) = self.engine.poll_timeout() {
                    self.now = self.now.max(at);
                }
                self.time_out();
            }
            2 => {
                self.now += Duration::from_millis(u64::from(input.byte()));
                self.time_out();
            }
            3 => {
                let frame = self.bare.crypto_frame(level);
                self.send(level, stride, &frame, is_coalesced);
            }
            4 => {
                for _ in 0..1 + input.byte() % 80 {
                    self.send(level, stride, &PINGS, is_coalesced);
                }
            }
            _ => {
                let length = usize::from(input.byte());
                let mut frames = input.take(length).to_vec();
                // Header protection takes its sample from here.
                frames.resize(frames.len().max(PINGS.len()), 0);
                self.send(level, stride, &frames, is_coalesced);
            }
        }
    }

    fn send(&mut self, level: Level, stride: u64, frames: &[u8], is_coalesced: bool) {
        if !self.bare.has_keys(level) {
            return;
        }
        let number = &mut self.numbers[level as usize];
        let packet = self.bare.packet(level, *number, frames);
        *number += stride;
        self.coalesced.extend(packet);
        if is_coalesced && self.coalesced.len() < 1400 {
            return;
        }
        let packet = received(&std::mem::take(&mut self.coalesced));
        let now = self.now;
        self.meter.run(|| self.engine.handle_packet(now, packet));
    }

    /// Delivers the engine's packets to the peer.
    fn exchange(&mut self) {
        for packet in self.packets() {
            self.bare.receive(&packet);
        }
    }

    fn packets(&mut self) -> Vec<Vec<u8>> {
        let (mut packets, mut buffer) = (Vec::new(), Vec::with_capacity(1 << 16));
        let ten = NonZeroUsize::new(10).expect("not zero");
        let now = self.now;
        loop {
            let sent = self.meter.run(|| {
                let transmit = self.engine.poll_transmit(now, ten, &mut buffer)?;
                Some((transmit.size, transmit.segment_size))
            });
            let Some((size, segment)) = sent else { break };
            let segment = segment.unwrap_or(size).max(1);
            packets.extend(buffer[..size].chunks(segment).map(<[u8]>::to_vec));
            assert!(packets.len() < ANSWERS_MAX, "no end of answers");
        }
        assert!(self.meter.held < HELD_MAX, "{} bytes", self.meter.held);
        while self.engine.poll_event().is_some() {}
        packets
    }

    fn time_out(&mut self) {
        let now = self.now;
        self.meter.run(|| self.engine.handle_timeout(now));
        self.exchange();
    }

    /// Silence from both ends until the engine gives up.
    fn end(mut self) {
        self.exchange();
        for _ in 0..TIMEOUTS_MAX {
            let Some(at) = self.engine.poll_timeout() else {
                return;
            };
            self.now = self.now.max(at) + Duration::from_millis(1);
            self.time_out();
        }
        // A node that dialled goes on doing so; every dial takes some seconds.
        let waited = self.now.since(Instant::from_secs(1));
        assert!(waited > Duration::from_secs(60), "busy with nothing");
    }
}

/// Silences contained panics from now on, and keeps them from ending the fuzzer.
fn expect_contained_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !is_contained() {
                hook(info);
            }
        }));
    });
}
