//! Two ends without a network in between: an engine under test and its peer.

use std::{net::SocketAddr, num::NonZeroUsize, sync::OnceLock, time::Duration};

use anabranch_base::{ChannelId, Instant, SocketId};
use anabranch_channel::{Channel, Config as ChannelConfig, Endpoint};
use anabranch_session::{AllowList, Config, Engine, Received, SecretKey};
use bytes::BytesMut;

use crate::counter::Meter;

pub(crate) const SOCKET: SocketId = SocketId(0);
const BATCH: NonZeroUsize = NonZeroUsize::new(10).expect("not zero");
/// One-way delay between the ends.
pub(crate) const DELAY: Duration = Duration::from_millis(5);

/// Time that `Instant::EPOCH` stands for; its value influences nothing.
pub(crate) fn epoch() -> std::time::Instant {
    static EPOCH: OnceLock<std::time::Instant> = OnceLock::new();
    *EPOCH.get_or_init(std::time::Instant::now)
}

/// Address at which each end believes the other to be.
pub(crate) fn remote() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 4433))
}

pub(crate) fn received(data: &[u8]) -> Received {
    Received {
        socket: SOCKET,
        remote: remote(),
        local_ip: None,
        ecn: None,
        data: BytesMut::from(data),
    }
}

/// An engine that accepts every peer.
pub(crate) fn listener(config: Config) -> Engine {
    let key = SecretKey::from_seed([1; 32]);
    Engine::new(epoch(), key, AllowList::everyone_listed(), config, [1; 32])
}

/// All packets that the engine has to send now.
pub(crate) fn packets_of(engine: &mut Engine, now: Instant) -> Vec<Vec<u8>> {
    let (mut packets, mut buffer) = (Vec::new(), Vec::new());
    while let Some(transmit) = engine.poll_transmit(now, BATCH, &mut buffer) {
        let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
        packets.extend(buffer[..transmit.size].chunks(segment).map(<[u8]>::to_vec));
    }
    packets
}

/// A bare channel to an engine: authenticated, and free to put anything into its containers.
pub(crate) struct Peer {
    endpoint: Endpoint,
    id: ChannelId,
    pub(crate) now: Instant,
    /// Allocations of the engine while it worked.
    pub(crate) meter: Meter,
}

impl Peer {
    /// Completes a handshake with `engine`.
    pub(crate) fn connect(engine: &mut Engine) -> Self {
        let key = SecretKey::from_seed([2; 32]);
        let config = ChannelConfig::default();
        let mut endpoint = Endpoint::new(epoch(), key, AllowList::default(), config, [2; 32]);
        let now = Instant::from_secs(1);
        let id = endpoint
            .connect(now, SOCKET, remote(), engine.node_id(), None)
            .expect("an address that can be dialled");
        let mut peer = Self {
            endpoint,
            id,
            now,
            meter: Meter::default(),
        };
        for _ in 0..4 {
            peer.exchange(engine);
        }
        let connected = peer.channel().is_some_and(|channel| channel.is_connected());
        assert!(connected, "the handshake takes two round trips");
        peer
    }

    /// The channel, while it is open.
    pub(crate) fn channel(&mut self) -> Option<&mut Channel> {
        self.endpoint.channel(self.id)
    }

    /// One round trip: the peer's packets, then the engine's answers.
    pub(crate) fn exchange(&mut self, engine: &mut Engine) {
        for packet in self.packets() {
            let (now, packet) = (self.now + DELAY, received(&packet));
            self.meter.run(|| engine.handle_packet(now, packet));
        }
        self.wait(engine, DELAY * 2);
    }

    /// Lets time pass at both ends; the packets of each arrive at the other.
    pub(crate) fn wait(&mut self, engine: &mut Engine, duration: Duration) {
        self.now += duration;
        let now = self.now;
        self.meter.run(|| engine.handle_timeout(now));
        let mut response = Vec::new();
        let mut buffer = Vec::with_capacity(1 << 16);
        loop {
            let sent = self.meter.run(|| {
                let transmit = engine.poll_transmit(now, BATCH, &mut buffer)?;
                Some((transmit.size, transmit.segment_size))
            });
            let Some((size, segment)) = sent else { break };
            for packet in buffer[..size].chunks(segment.unwrap_or(size).max(1)) {
                self.endpoint
                    .handle_packet(now, received(packet), &mut response);
            }
        }
        if let Some(channel) = self.channel() {
            channel.handle_timeout(now);
        }
        for packet in self.packets() {
            let packet = received(&packet);
            self.meter.run(|| engine.handle_packet(now, packet));
        }
    }

    fn packets(&mut self) -> Vec<Vec<u8>> {
        let now = self.now;
        let (mut packets, mut buffer) = (Vec::new(), Vec::new());
        let Some(channel) = self.channel() else {
            return packets;
        };
        while let Some(transmit) = channel.poll_transmit(now, BATCH, &mut buffer) {
            let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
            packets.extend(buffer[..transmit.size].chunks(segment).map(<[u8]>::to_vec));
        }
        self.endpoint.settle_channel(self.id);
        packets
    }
}
