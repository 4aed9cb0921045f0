//! World of the tests: an engine under test, the bytes it holds, and peers that use QUIC but follow no other rule.

use std::{
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    sync::OnceLock,
    time::Duration,
};

use anabranch_base::{ChannelId, Instant, NodeId, SocketId};
use anabranch_channel::{Channel, Config as ChannelConfig, Endpoint};
use anabranch_session::{AllowList, Config, Engine, Event, Received, SecretKey, wire::Control};
use bytes::BytesMut;

pub(crate) const SOCKET: SocketId = SocketId(0);
const BATCH: NonZeroUsize = NonZeroUsize::new(10).expect("not zero");
/// One-way delay of every path.
pub(crate) const DELAY: Duration = Duration::from_millis(5);

/// Wall-clock time of `Instant::EPOCH`; its value influences nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "QUIC's types hold an instant that cannot be made out of nothing"
)]
pub(crate) fn epoch() -> std::time::Instant {
    static EPOCH: OnceLock<std::time::Instant> = OnceLock::new();
    *EPOCH.get_or_init(std::time::Instant::now)
}

pub(crate) fn key(seed: u64) -> SecretKey {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    SecretKey::from_seed(bytes)
}

/// The address of the node under test.
pub(crate) fn victim_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 4433))
}

/// One of many addresses, each in a subnet of its own.
pub(crate) fn address(number: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0a00_0001 + number), 4433))
}

pub(crate) fn received(from: SocketAddr, data: &[u8]) -> Received {
    Received {
        socket: SOCKET,
        remote: from,
        local_ip: None,
        ecn: None,
        data: BytesMut::from(data),
    }
}

fn split(buffer: &[u8], segment: Option<usize>) -> impl Iterator<Item = Vec<u8>> {
    let segment = segment.unwrap_or(buffer.len()).max(1);
    buffer.chunks(segment).map(<[u8]>::to_vec)
}

/// The node under test, and the bytes it holds.
pub(crate) struct Victim {
    pub(crate) engine: Engine,
    pub(crate) held: i64,
    pub(crate) events: Vec<Event>,
}

impl Victim {
    pub(crate) fn new(allowed: AllowList) -> Self {
        let engine = Engine::new(epoch(), key(0), allowed, Config::default(), [1; 32]);
        Self {
            engine,
            held: 0,
            events: Vec::new(),
        }
    }

    pub(crate) fn node_id(&self) -> NodeId {
        self.engine.node_id()
    }

    /// Runs `work` and counts the bytes that it leaves allocated.
    pub(crate) fn charged<T>(&mut self, work: impl FnOnce(&mut Engine) -> T) -> T {
        let mut result = None;
        let used = allocation_counter::measure(|| result = Some(work(&mut self.engine)));
        self.held += used.bytes_current;
        result.expect("it ran")
    }

    pub(crate) fn receive(&mut self, now: Instant, from: SocketAddr, packet: &[u8]) {
        // The host's buffer is charged as well: QUIC may keep it.
        self.charged(|engine| engine.handle_packet(now, received(from, packet)));
    }

    /// Advances the time to `now`; returns the packets of the engine, with their destinations.
    pub(crate) fn pass(&mut self, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut packets = Vec::new();
        let mut buffer = Vec::with_capacity(1 << 16);
        if self
            .charged(Engine::poll_timeout)
            .is_some_and(|at| at <= now)
        {
            self.charged(|engine| engine.handle_timeout(now));
        }
        while let Some(transmit) =
            self.charged(|engine| engine.poll_transmit(now, BATCH, &mut buffer))
        {
            let all = split(&buffer[..transmit.size], transmit.segment_size);
            packets.extend(all.map(|packet| (transmit.remote, packet)));
        }
        while let Some(event) = self.charged(Engine::poll_event) {
            self.events.push(event);
        }
        packets
    }
}

/// A key at an address with one channel to the victim: authenticated, and free to put anything into its containers.
pub(crate) struct Peer {
    pub(crate) endpoint: Endpoint,
    pub(crate) id: ChannelId,
    pub(crate) address: SocketAddr,
    pub(crate) has_joined: bool,
}

impl Peer {
    pub(crate) fn dial(now: Instant, seed: u64, address: SocketAddr, victim: &Victim) -> Self {
        let (key, config) = (key(seed), ChannelConfig::default());
        let mut entropy = [3; 32];
        entropy[..8].copy_from_slice(&seed.to_le_bytes());
        let mut endpoint = Endpoint::new(epoch(), key, AllowList::default(), config, entropy);
        let id = endpoint
            .connect(now, SOCKET, victim_address(), victim.node_id(), None)
            .expect("an address that can be dialled");
        Self {
            endpoint,
            id,
            address,
            has_joined: false,
        }
    }

    pub(crate) fn channel(&mut self) -> Option<&mut Channel> {
        self.endpoint.channel(self.id)
    }

    pub(crate) fn is_connected(&mut self) -> bool {
        self.channel().is_some_and(|channel| channel.is_connected())
    }

    pub(crate) fn packets(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let (mut packets, mut buffer) = (Vec::new(), Vec::new());
        let Some(channel) = self.channel() else {
            return packets;
        };
        if channel.poll_timeout().is_some_and(|at| at <= now) {
            channel.handle_timeout(now);
        }
        while let Some(transmit) = channel.poll_transmit(now, BATCH, &mut buffer) {
            packets.extend(split(&buffer[..transmit.size], transmit.segment_size));
        }
        self.endpoint.settle_channel(self.id);
        packets
    }

    pub(crate) fn receive(&mut self, now: Instant, packet: &[u8]) {
        let mut response = Vec::new();
        self.endpoint
            .handle_packet(now, received(victim_address(), packet), &mut response);
    }

    /// The frame with which a channel establishes a session (`spec/wire.md` §6).
    pub(crate) fn join(&mut self) -> Control {
        let channel = self.channel().expect("connected");
        let secret = channel
            .export_secret(b"EXPORTER anabranch session")
            .expect("the handshake is complete");
        let binding = channel
            .export_secret(b"EXPORTER anabranch join")
            .expect("the handshake is complete");
        let id = blake3::derive_key("anabranch 2026-11 session id", &secret);
        let key = blake3::derive_key("anabranch 2026-11 join key", &secret);
        let proof = blake3::keyed_hash(&key, &binding);
        Control::Join {
            session: id[..16].try_into().expect("16 bytes"),
            proof: proof.as_bytes()[..16].try_into().expect("16 bytes"),
        }
    }

    /// Puts frames into a container, behind a JOIN.
    pub(crate) fn send_frames(&mut self, frames: &[u8]) {
        let mut container = vec![0];
        self.join().write(&mut container);
        container.extend_from_slice(frames);
        if let Some(channel) = self.channel()
            && channel.is_connected()
        {
            channel.send(container);
        }
    }
}

/// The victim and its peers, without losses.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) victim: Victim,
    pub(crate) peers: Vec<Peer>,
}

impl World {
    pub(crate) fn new(allowed: AllowList) -> Self {
        Self {
            now: Instant::from_secs(1),
            victim: Victim::new(allowed),
            peers: Vec::new(),
        }
    }

    pub(crate) fn dial(&mut self, seed: u64, address: SocketAddr) -> usize {
        let peer = Peer::dial(self.now, seed, address, &self.victim);
        self.peers.push(peer);
        self.peers.len() - 1
    }

    /// Delivers one packet of every peer to the victim, and its responses.
    pub(crate) fn round(&mut self) {
        for peer in &mut self.peers {
            for packet in peer.packets(self.now) {
                self.victim.receive(self.now + DELAY, peer.address, &packet);
            }
        }
        self.now += DELAY;
        let answers = self.victim.pass(self.now);
        self.now += DELAY;
        for (to, packet) in answers {
            for peer in self.peers.iter_mut().filter(|peer| peer.address == to) {
                peer.receive(self.now, &packet);
            }
        }
    }

    pub(crate) fn rounds(&mut self, number: usize) {
        for _ in 0..number {
            self.round();
        }
    }

    /// Lets time pass for the victim only.
    pub(crate) fn wait(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.now < until {
            self.now = (self.now + Duration::from_millis(50)).min(until);
            self.victim.pass(self.now);
        }
    }
}
