//! Thread of the UDP emulator: receives packets from sockets, passes them through links, and sends them on.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anabranch_base::{Instant, SocketId};
use anabranch_session::{Received, Transmit};
use bytes::BytesMut;

use super::{
    control::{EmulateError, Entrance, PathSpec, Shared},
    line::{Arrived, Line},
};
use crate::{
    inbox::Inbox,
    moderation::Moderation,
    socket::{BindError, Socket},
};

/// Senders remembered at one entrance; beyond that, the least recently active one is forgotten.
const CLIENTS_MAX: usize = 64;
/// Time by which a packet may leave early, so that one wake-up serves several.
const EARLY: Duration = Duration::from_micros(100);
/// Coalescing delay: the time for which packets may gather before they enter their links.
const COALESCE: Duration = Duration::from_micros(400);
/// Packets received from one socket before the next is served.
const RECEIVED_PER_TURN: usize = 512;
/// Bytes in one batch to the kernel.
const BATCH_BYTES_MAX: usize = 60_000;
/// Packets in one batch to the kernel.
const BATCH_PACKETS_MAX: usize = 40;
/// ECN codepoint CE, "congestion experienced" (RFC 3168).
const CE: u8 = 0b11;

/// A packet with the socket and address to which it is sent.
#[derive(Debug)]
struct Packet {
    socket: SocketId,
    remote: SocketAddr,
    ecn: Option<u8>,
    data: BytesMut,
}

#[derive(Debug)]
struct PathState {
    /// Its own entrance first.
    entrances: Vec<EntranceState>,
    forward: Line<Arrived<Packet>>,
    backward: Line<Arrived<Packet>>,
}

/// A listening port, the target to which it leads, and the senders that use it.
#[derive(Debug)]
struct EntranceState {
    listener: Socket,
    target: SocketAddr,
    clients: Vec<Client>,
}

/// One sender, with a separate socket towards the target, by which replies are assigned to it.
#[derive(Debug)]
struct Client {
    address: SocketAddr,
    socket: Socket,
    last_received_at: Instant,
}

#[derive(Debug)]
pub(super) struct Relay {
    shared: Arc<Shared>,
    paths: Vec<PathState>,
    inbox: Inbox,
    sockets_opened: u64,
    /// Listening addresses of the paths, and those of further entrances.
    addresses: Vec<SocketAddr>,
    entrances: Vec<SocketAddr>,
}

impl Relay {
    /// Opens the listening ports.
    pub(super) fn open(
        shared: Arc<Shared>,
        specs: &[PathSpec],
        entrances: &[Entrance],
    ) -> Result<Self, EmulateError> {
        let mut relay = Self {
            shared,
            paths: Vec::new(),
            inbox: Inbox::default(),
            sockets_opened: 0,
            addresses: Vec::new(),
            entrances: Vec::new(),
        };
        for spec in specs {
            let own = relay.enter_at(spec.listen, spec.target)?;
            relay.addresses.push(own.listener.local);
            relay.paths.push(PathState {
                entrances: vec![own],
                forward: Line::default(),
                backward: Line::default(),
            });
        }
        for entrance in entrances {
            let further = relay.enter_at(entrance.listen, entrance.target)?;
            relay.entrances.push(further.listener.local);
            let paths = relay.paths.len();
            let path = relay.paths.get_mut(entrance.path);
            let path = path.ok_or(EmulateError::Entrance {
                path: entrance.path,
                paths,
            })?;
            path.entrances.push(further);
        }
        Ok(relay)
    }

    fn enter_at(
        &mut self,
        listen: SocketAddr,
        target: SocketAddr,
    ) -> Result<EntranceState, BindError> {
        let listener = Socket::bind(SocketId(self.sockets_opened), listen.into(), None)?;
        self.sockets_opened += 1;
        Ok(EntranceState {
            listener,
            target,
            clients: Vec::new(),
        })
    }

    /// Addresses on which the paths listen, in order.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Addresses on which further entrances listen, in order.
    pub(super) fn entrances(&self) -> &[SocketAddr] {
        &self.entrances
    }

    /// Runs until the emulator is dropped.
    pub(super) fn run(mut self) {
        let shared = self.shared.clone();
        let clock = shared.clock;
        let mut moderation = Moderation::default();
        let mut packets = Vec::new();
        while !shared.lock().is_over {
            let received = self.receive(&mut packets);
            self.enter(&mut packets);
            self.leave();
            let now = clock.now();
            let hold_off = moderation.served(now, received, COALESCE);
            let next = self.paths.iter().flat_map(PathState::next_at).min();
            let is_gathering = !hold_off.is_zero();
            let until = if is_gathering {
                Some(now + hold_off)
            } else {
                next
            };
            let sockets = self.paths.iter().flat_map(PathState::sockets);
            let watched = sockets.map(|socket| socket.watch(!is_gathering));
            let most = until.map(|until| until.since(clock.now()));
            shared.waker.sleep(watched, most);
        }
    }

    fn receive(&mut self, packets: &mut Vec<(usize, Received)>) -> usize {
        let mut taken = Vec::new();
        for (index, path) in self.paths.iter_mut().enumerate() {
            for socket in path.sockets_mut() {
                socket.flush();
                self.inbox.receive(socket, RECEIVED_PER_TURN, &mut taken);
            }
            packets.extend(taken.drain(..).map(|packet| (index, packet)));
        }
        packets.len()
    }

    /// Passes received packets to their links.
    fn enter(&mut self, packets: &mut Vec<(usize, Received)>) {
        let shared = self.shared.clone();
        let now = shared.clock.now();
        let mut state = shared.lock();
        for (index, received) in packets.drain(..) {
            let path = &mut self.paths[index];
            let link = &mut state.links[index];
            let ip_bytes = received.data.len() + header_bytes(received.remote);
            let is_ecn_capable = received.ecn.is_some_and(|bits| bits & CE != 0);
            let mut entrances = path.entrances.iter_mut();
            let entrance = entrances.find(|entrance| entrance.has(received.socket));
            let Some(entrance) = entrance else {
                continue;
            };
            if received.socket == entrance.listener.id {
                let next_id = SocketId(self.sockets_opened);
                let Some((socket, is_new)) = entrance.client(received.remote, now, next_id) else {
                    continue;
                };
                self.sockets_opened += u64::from(is_new);
                let packet = Packet {
                    socket,
                    remote: entrance.target,
                    ecn: received.ecn,
                    data: received.data,
                };
                path.forward
                    .offer(&mut link.forward, now, ip_bytes, is_ecn_capable, packet);
            } else {
                let client = entrance
                    .clients
                    .iter()
                    .find(|client| client.socket.id == received.socket);
                let Some(client) = client.filter(|_| received.remote == entrance.target) else {
                    continue;
                };
                let packet = Packet {
                    socket: entrance.listener.id,
                    remote: client.address,
                    ecn: received.ecn,
                    data: received.data,
                };
                path.backward
                    .offer(&mut link.backward, now, ip_bytes, is_ecn_capable, packet);
            }
        }
    }

    /// Sends the packets whose time has come.
    fn leave(&mut self) {
        let shared = self.shared.clone();
        let now = shared.clock.now() + EARLY;
        let mut leaving = Vec::new();
        for (index, path) in self.paths.iter_mut().enumerate() {
            {
                let state = shared.lock();
                let link = &state.links[index];
                while let Some(arrived) = path.forward.arrived(&link.forward, now) {
                    leaving.push(arrived);
                }
                while let Some(arrived) = path.backward.arrived(&link.backward, now) {
                    leaving.push(arrived);
                }
            }
            send_in_batches(path, leaving.drain(..));
        }
    }
}

impl PathState {
    fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.entrances.iter().flat_map(EntranceState::sockets)
    }

    fn sockets_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        let entrances = self.entrances.iter_mut();
        entrances.flat_map(EntranceState::sockets_mut)
    }

    fn next_at(&self) -> Option<Instant> {
        [self.forward.next_at(), self.backward.next_at()]
            .into_iter()
            .flatten()
            .min()
    }

    fn socket(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.sockets_mut().find(|socket| socket.id == id)
    }
}

impl EntranceState {
    fn sockets(&self) -> impl Iterator<Item = &Socket> {
        let clients = self.clients.iter().map(|client| &client.socket);
        std::iter::once(&self.listener).chain(clients)
    }

    fn sockets_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        let clients = self.clients.iter_mut().map(|client| &mut client.socket);
        std::iter::once(&mut self.listener).chain(clients)
    }

    fn has(&self, id: SocketId) -> bool {
        self.sockets().any(|socket| socket.id == id)
    }

    /// The socket that represents the sender at `address`, and whether it was opened just now.
    fn client(
        &mut self,
        address: SocketAddr,
        now: Instant,
        next_id: SocketId,
    ) -> Option<(SocketId, bool)> {
        if let Some(client) = self
            .clients
            .iter_mut()
            .find(|client| client.address == address)
        {
            client.last_received_at = now;
            return Some((client.socket.id, false));
        }
        if self.clients.len() >= CLIENTS_MAX {
            let oldest =
                (0..self.clients.len()).min_by_key(|&index| self.clients[index].last_received_at);
            self.clients
                .swap_remove(oldest.expect("the list is full, so not empty"));
        }
        let any: IpAddr = match (self.target, self.target.ip().is_loopback()) {
            (SocketAddr::V4(_), true) => Ipv4Addr::LOCALHOST.into(),
            (SocketAddr::V4(_), false) => Ipv4Addr::UNSPECIFIED.into(),
            (SocketAddr::V6(_), true) => Ipv6Addr::LOCALHOST.into(),
            (SocketAddr::V6(_), false) => Ipv6Addr::UNSPECIFIED.into(),
        };
        match Socket::bind(next_id, SocketAddr::new(any, 0).into(), None) {
            Ok(socket) => {
                self.clients.push(Client {
                    address,
                    socket,
                    last_received_at: now,
                });
                Some((next_id, true))
            }
            Err(error) => {
                crate::limited!(warn, %error, "cannot open a socket for a sender on an emulated path");
                None
            }
        }
    }
}

fn header_bytes(address: SocketAddr) -> usize {
    match address {
        SocketAddr::V4(_) => 28,
        SocketAddr::V6(_) => 48,
    }
}

/// Sends packets; consecutive ones of equal size and destination leave in one call.
fn send_in_batches(path: &mut PathState, packets: impl Iterator<Item = Arrived<Packet>>) {
    let mut batch: Option<Batch> = None;
    for Arrived {
        mut packet,
        is_marked,
    } in packets
    {
        if is_marked {
            packet.ecn = Some(CE);
        }
        if let Some(open) = &mut batch
            && open.append(&packet)
        {
            continue;
        }
        if let Some(full) = batch.replace(Batch::of(packet)) {
            full.send(path);
        }
    }
    if let Some(last) = batch {
        last.send(path);
    }
}

struct Batch {
    first: Packet,
    segment: usize,
    packets: usize,
    /// A shorter packet can only be the last.
    is_complete: bool,
}

impl Batch {
    fn of(first: Packet) -> Self {
        Self {
            segment: first.data.len(),
            first,
            packets: 1,
            is_complete: false,
        }
    }

    /// Appends a packet. Returns false if it does not belong to this batch.
    fn append(&mut self, packet: &Packet) -> bool {
        let is_alike = packet.socket == self.first.socket
            && packet.remote == self.first.remote
            && packet.ecn == self.first.ecn
            && packet.data.len() <= self.segment
            && !packet.data.is_empty();
        let fits = self.packets < BATCH_PACKETS_MAX
            && self.first.data.len() + packet.data.len() <= BATCH_BYTES_MAX;
        if self.is_complete || !is_alike || !fits {
            return false;
        }
        self.is_complete = packet.data.len() < self.segment;
        self.first.data.extend_from_slice(&packet.data);
        self.packets += 1;
        true
    }

    fn send(self, path: &mut PathState) {
        let transmit = Transmit {
            socket: self.first.socket,
            remote: self.first.remote,
            local_ip: None,
            size: self.first.data.len(),
            segment_size: (self.packets > 1).then_some(self.segment),
            ecn: self.first.ecn,
        };
        if let Some(socket) = path.socket(self.first.socket) {
            // The returned buffer is not reused.
            let _ = socket.send(transmit, self.first.data.into());
        }
    }
}
