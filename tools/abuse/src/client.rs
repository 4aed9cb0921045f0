//! A channel to the victim that may carry arbitrary frames.
//!
//! Written from `spec/wire.md` §6: it derives the session's token itself. It sends from any loopback address, so that it can
//! pose as many hosts.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    num::NonZeroUsize,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant as Clock,
};

use anabranch_base::{ChannelId, Instant, NodeId, SocketId};
use anabranch_channel::{AllowList, Channel, Config, Endpoint, Event, Received, SecretKey};
use anabranch_session::wire::{Control, VERSION};
use bytes::BytesMut;

use crate::tally::{Failure, Tally};

const SOCKET: SocketId = SocketId(0);
const BATCH: NonZeroUsize = NonZeroUsize::new(8).expect("not zero");
/// First half byte of a Retry: long header, type 3 (RFC 9000 §17.2.5).
const RETRY: u8 = 0xf0;
/// Windows that the client grants: it reads nothing, so their size does not matter.
const WINDOW_BYTES: u64 = 32 << 20;

/// Loopback address number `n`, while there are any: 127.1.0.0 to 127.255.255.255.
pub(crate) fn host(n: u32) -> Ipv4Addr {
    let n = n % (254 << 16);
    Ipv4Addr::from(0x7f01_0001_u32.wrapping_add(n))
}

/// First number that this process counts from, so that two runs do not repeat each other's connection IDs.
static FIRST: LazyLock<u64> = LazyLock::new(|| u64::from(std::process::id()) << 32);
/// Number of clients so far.
static NEXT: AtomicU64 = AtomicU64::new(0);

fn seed(number: u64) -> [u8; 32] {
    let mut seed = [0xab; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    seed
}

/// Key number `number`.
pub(crate) fn key(number: u64) -> SecretKey {
    SecretKey::from_seed(seed(number))
}

/// One connection.
pub(crate) struct Client {
    socket: UdpSocket,
    endpoint: Endpoint,
    channel: ChannelId,
    target: SocketAddr,
    epoch: Clock,
    is_over: bool,
    was_connected: bool,
    has_joined: bool,
    buffer: Vec<u8>,
}

impl Client {
    /// Begins a handshake, from `host` and with the key of number `key`.
    pub(crate) fn new(
        (node, target): (NodeId, SocketAddr),
        host: IpAddr,
        key: u64,
        tally: &mut Tally,
    ) -> Result<Self, Failure> {
        let socket = UdpSocket::bind((host, 0))?;
        socket.set_nonblocking(true)?;
        let epoch = Clock::now();
        // Two clients with one key differ in connection IDs and secrets.
        let entropy = seed(*FIRST + NEXT.fetch_add(1, Ordering::Relaxed));
        let mut endpoint = Endpoint::new(
            epoch,
            self::key(key),
            AllowList::default(),
            Config::default(),
            entropy,
        );
        let channel = endpoint.connect(Instant::EPOCH, SOCKET, target, node, None)?;
        tally.attempts += 1;
        Ok(Self {
            socket,
            endpoint,
            channel,
            target,
            epoch,
            is_over: false,
            was_connected: false,
            has_joined: false,
            buffer: Vec::new(),
        })
    }

    fn now(&self) -> Instant {
        Instant::EPOCH + self.epoch.elapsed()
    }

    /// True if the victim, or a time-out, has ended the connection.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// True if the client has sent JOIN.
    pub(crate) fn has_joined(&self) -> bool {
        self.has_joined
    }

    /// True if the handshake is complete and neither end has closed the channel.
    pub(crate) fn is_connected(&mut self) -> bool {
        self.channel().is_some_and(|channel| channel.is_connected())
    }

    /// First packets of the handshake, returned instead of sent.
    pub(crate) fn first_packets(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let now = self.now();
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(channel) = self.channel()
            && let Some(transmit) = channel.poll_transmit(now, BATCH, &mut buffer)
        {
            packets.push(buffer[..transmit.size].to_vec());
        }
        packets
    }

    /// Like [`Client::exchange`], but of the victim's packets only a Retry is processed: the address is proven, and the
    /// handshake goes no further.
    pub(crate) fn exchange_until_proven(&mut self, tally: &mut Tally) -> Result<(), Failure> {
        let mut first = [0];
        match self.socket.peek(&mut first) {
            // On Linux a longer packet is cut without an error.
            Ok(_) if first[0] & 0xf0 == RETRY => self.exchange(tally),
            Ok(_) => {
                let length = self.socket.recv(&mut [0; 2048])?;
                tally.packets_received += 1;
                tally.bytes_received += length as u64;
                Ok(())
            }
            Err(_) => self.flush(tally),
        }
    }

    /// Carries packets in both directions, as long as there are any.
    pub(crate) fn exchange(&mut self, tally: &mut Tally) -> Result<(), Failure> {
        let mut packet = [0; 2048];
        let mut response = Vec::new();
        loop {
            let length = match self.socket.recv(&mut packet) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The victim's port is closed for a moment, or its queue is full.
                Err(_) => break,
            };
            tally.packets_received += 1;
            tally.bytes_received += length as u64;
            tally.retries += u64::from(packet[0] & 0xf0 == RETRY);
            let received = Received {
                socket: SOCKET,
                remote: self.target,
                local_ip: None,
                ecn: None,
                data: BytesMut::from(&packet[..length]),
            };
            let now = self.now();
            self.endpoint.handle_packet(now, received, &mut response);
        }
        let now = self.now();
        if let Some(channel) = self.endpoint.channel(self.channel) {
            if channel.poll_timeout().is_some_and(|at| at <= now) {
                channel.handle_timeout(now);
            }
            while let Some(event) = channel.poll_event() {
                match event {
                    Event::Connected => {
                        tally.connected += u64::from(!self.was_connected);
                        self.was_connected = true;
                    }
                    Event::Closed(_) => {
                        tally.closed += 1;
                        self.is_over = true;
                    }
                    _ => {}
                }
            }
            while channel.receive().is_some() {}
            channel.take_outcomes(&mut Vec::new());
        }
        self.endpoint.settle_channel(self.channel);
        self.flush(tally)
    }

    /// Sends the packets that the channel has ready.
    fn flush(&mut self, tally: &mut Tally) -> Result<(), Failure> {
        let now = self.now();
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(channel) = self.endpoint.channel(self.channel)
            && let Some(transmit) = channel.poll_transmit(now, BATCH, &mut buffer)
        {
            let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
            for packet in buffer[..transmit.size].chunks(segment) {
                // A full socket buffer loses the packet, as a network would.
                let _ = self.socket.send_to(packet, self.target);
                tally.packets_sent += 1;
                tally.bytes_sent += packet.len() as u64;
            }
        }
        self.buffer = buffer;
        Ok(())
    }

    fn channel(&mut self) -> Option<&mut Channel> {
        self.endpoint.channel(self.channel)
    }

    /// Puts frames on the channel behind an empty head; false if they do not fit or the channel is over.
    pub(crate) fn send_frames(&mut self, frames: &[u8]) -> bool {
        let Some(channel) = self.channel() else {
            return false;
        };
        let fits = channel
            .container_bytes_max()
            .is_some_and(|limit| frames.len() < limit);
        if fits {
            let mut container = Vec::with_capacity(frames.len() + 1);
            container.push(0);
            container.extend_from_slice(frames);
            channel.send(container);
        }
        fits
    }

    /// Sends JOIN and HELLO: establishes a session on this channel.
    pub(crate) fn join(&mut self) -> bool {
        let Some(channel) = self.channel() else {
            return false;
        };
        let secret = channel.export_secret(b"EXPORTER anabranch session");
        let binding = channel.export_secret(b"EXPORTER anabranch join");
        let (Some(secret), Some(binding)) = (secret, binding) else {
            return false;
        };
        let id = blake3::derive_key("anabranch 2026-11 session id", &secret);
        let key = blake3::derive_key("anabranch 2026-11 join key", &secret);
        let proof = blake3::keyed_hash(&key, &binding);
        let mut frames = Vec::new();
        let mut session = [0; 16];
        session.copy_from_slice(&id[..16]);
        let mut short = [0; 16];
        short.copy_from_slice(&proof.as_bytes()[..16]);
        Control::Join {
            session,
            proof: short,
        }
        .write(&mut frames);
        Control::Hello {
            version: VERSION,
            stream_window_bytes: WINDOW_BYTES,
            session_window_bytes: WINDOW_BYTES,
        }
        .write(&mut frames);
        self.has_joined = self.send_frames(&frames);
        self.has_joined
    }
}
