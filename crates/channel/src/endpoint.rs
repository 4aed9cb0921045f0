//! Endpoint: all channels of a node, and the routing of packets to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch_base::{ChannelId, Instant, NodeId, Seed, SocketId};
use bytes::BytesMut;
use noq_proto::{
    AckFrequencyConfig, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent,
    EcnCodepoint, EndpointConfig, EndpointEvent, FourTuple, IdleTimeout, MtuDiscoveryConfig,
    NoneTokenStore, TransportConfig, VarInt,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

#[cfg(feature = "qlog")]
use crate::qlog::{self, Traced, Traces};
use crate::{
    allow::AllowList,
    channel::{Channel, DATAGRAM_SEND_BYTES, Parts, Transmit},
    config::Config,
    epoch::Epoch,
    gate::{self, Gate, Subnet, Verdict},
    identity::SecretKey,
    resets::{self, Resets, is_reset},
    retry::{self, TokenKey},
    tap::{Factory, Shared},
    tls::{self, Refused},
};

/// Length of our connection IDs: enough for billions of channels, and short because every packet carries one.
const CONNECTION_ID_BYTES: usize = 5;
/// Limit on received containers waiting for the session, which drains them after every packet, so there is one packet's
/// worth.
const DATAGRAM_RECEIVE_BYTES: usize = 32 << 10;
/// Maximum number of channels; beyond it, handshakes of peers are refused.
pub const CHANNELS_MAX: usize = 4096;
/// Smallest UDP payload of a QUIC path (RFC 9000 §14).
const MTU_MIN_BYTES: u16 = 1200;

/// A packet that arrived.
#[derive(Debug)]
pub struct Received {
    /// The socket it arrived on.
    pub socket: SocketId,
    /// The address that it came from.
    pub remote: SocketAddr,
    /// The local address it was sent to, if the socket has several.
    pub local_ip: Option<IpAddr>,
    /// The two ECN bits of its IP header, if known.
    pub ecn: Option<u8>,
    /// The UDP payload.
    pub data: BytesMut,
}

/// Outcome of handling a packet.
#[derive(Debug)]
pub enum Handled {
    /// It belonged to this channel, which may now have events, containers and outcomes.
    Channel(ChannelId),
    /// It opened a channel, whose handshake has begun.
    Accepted {
        /// The channel.
        channel: ChannelId,
        /// The channel that was evicted for it, and is forgotten: an older handshake that was not completed.
        instead_of: Option<ChannelId>,
    },
    /// It requires a stateless answer, which is in the buffer.
    Respond(Transmit),
    /// It was not for this node, malformed, or replayed; it changed nothing.
    Ignored,
}

/// Reason why a channel could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The address cannot be dialled.
    #[error("cannot dial {0}: the address needs a host and a port above 0")]
    Address(SocketAddr),
    /// QUIC refused for another reason.
    #[error("cannot open a channel: {0}")]
    Other(String),
}

/// Every channel of a node, over all its sockets.
#[derive(Debug)]
pub struct Endpoint {
    epoch: Epoch,
    key: SecretKey,
    inner: noq_proto::Endpoint,
    server: Arc<noq_proto::ServerConfig>,
    /// Keys that the server refuses.
    refused: Refused,
    ids: Arc<Mutex<StdRng>>,
    config: Config,
    /// Seed of the channels' congestion controllers.
    control_seed: Seed,
    handles: BTreeMap<ChannelId, ConnectionHandle>,
    /// Indexed by connection handle.
    channels: Vec<Option<Box<Channel>>>,
    next_id: u64,
    /// Handshakes that peers began.
    gate: Gate,
    resets: Resets,
    /// Sockets on which peers open no channels.
    closed: BTreeSet<SocketId>,
    /// Clock for the tokens of Retry packets.
    time: retry::Time,
    #[cfg(feature = "qlog")]
    traces: Option<Arc<dyn Traces>>,
}

impl Endpoint {
    /// An endpoint for the node with `key`, which accepts channels from the nodes on `allowed`.
    ///
    /// `epoch` is the moment that [`Instant::EPOCH`] stands for; `entropy` must come from a
    /// cryptographic generator, except in a simulation, where it makes runs repeatable.
    pub fn new(
        epoch: std::time::Instant,
        key: SecretKey,
        allowed: AllowList,
        config: Config,
        entropy: [u8; 32],
    ) -> Self {
        let mut rng = StdRng::from_seed(entropy);
        let mut quic_seed = [0; 32];
        rng.fill_bytes(&mut quic_seed);
        let control_seed = Seed(rng.next_u64());
        let ids = Arc::new(Mutex::new(rng));

        let mut quic = EndpointConfig::new(Arc::new(key.reset_key()));
        let generator_ids = ids.clone();
        quic.cid_generator(Arc::new(move || {
            Box::new(SeededIds(generator_ids.clone())) as Box<dyn ConnectionIdGenerator>
        }));
        quic.rng_seed(Some(quic_seed));
        quic.min_reset_interval(resets::INTERVAL);
        quic.max_udp_payload_size(config.mtu_max_bytes.max(MTU_MIN_BYTES))
            .expect("at least 1200 bytes");

        let time = retry::Time::default();
        let refused = Refused::default();
        let mut server = noq_proto::ServerConfig::new(
            tls::server_config(&key, allowed, refused.clone()),
            Arc::new(TokenKey::new(&entropy)),
        );
        server.migration(false);
        // Only Retry packets carry tokens: channels are few and long-lived.
        server.validation_token.sent(0);
        server.retry_token_lifetime(retry::LIFETIME);
        server.time_source(Arc::new(time.clone()));
        let server = Arc::new(server);
        let inner = noq_proto::Endpoint::new(Arc::new(quic), Some(server.clone()), true);
        Self {
            epoch: Epoch(epoch),
            key,
            inner,
            server,
            refused,
            ids,
            config,
            control_seed,
            handles: BTreeMap::new(),
            channels: Vec::new(),
            next_id: 0,
            gate: Gate::default(),
            resets: Resets::default(),
            closed: BTreeSet::new(),
            time,
            #[cfg(feature = "qlog")]
            traces: None,
        }
    }

    /// Traces channels that begin from now on; `None`: no longer.
    #[cfg(feature = "qlog")]
    pub fn set_traces(&mut self, traces: Option<Arc<dyn Traces>>) {
        self.traces = traces;
    }

    /// This node's identity.
    pub fn node_id(&self) -> NodeId {
        self.key.node_id()
    }

    /// Default settings of channels, which an argument of [`Endpoint::connect`] overrides.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Replaces the default settings for channels that begin from now on. The largest payload stays, for which the endpoint is made.
    pub fn set_config(&mut self, mut config: Config) {
        config.mtu_max_bytes = self.config.mtu_max_bytes;
        self.config = config;
    }

    /// Sets if peers may open channels on a local socket, which they may unless this is called. Where they may not, their first
    /// packets get no answer, as at an address where no node is; channels that exist stay.
    pub fn set_accepting(&mut self, socket: SocketId, accepts: bool) {
        match accepts {
            true => self.closed.remove(&socket),
            false => self.closed.insert(socket),
        };
    }

    /// The channel `id`; `None` once it is over and forgotten.
    pub fn channel(&mut self, id: ChannelId) -> Option<&mut Channel> {
        let handle = self.handles.get(&id)?;
        self.channels.get_mut(handle.0)?.as_deref_mut()
    }

    /// The channel `id`, read-only.
    pub fn peek(&self, id: ChannelId) -> Option<&Channel> {
        let handle = self.handles.get(&id)?;
        self.channels.get(handle.0)?.as_deref()
    }

    /// Ids of all channels, oldest first.
    pub fn channel_ids(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.handles.keys().copied()
    }

    /// Starts opening a channel to `peer` at `remote`, from `socket`.
    ///
    /// # Errors
    /// The address cannot be dialled.
    pub fn connect(
        &mut self,
        now: Instant,
        socket: SocketId,
        remote: SocketAddr,
        peer: NodeId,
        config: Option<Config>,
    ) -> Result<ChannelId, ConnectError> {
        let config = config.unwrap_or_else(|| self.config.clone());
        let std_now = self.epoch.to_std(now);
        let tap = self.tap(&config, std_now);
        let refused = Refused::default();
        let mut client =
            noq_proto::ClientConfig::new(tls::client_config(&self.key, peer, refused.clone()));
        let transport = transport_config(&config, &tap);
        #[cfg(feature = "qlog")]
        let transport = self.traced(transport, (socket, remote), true);
        client.transport_config(Arc::new(transport));
        client.token_store(Arc::new(NoneTokenStore));
        let ids = self.ids.clone();
        client.initial_dst_cid_provider(Arc::new(move || random_id(&ids, 8)));
        let (handle, connection) = self
            .inner
            .connect(std_now, client, remote, "anabranch")
            .map_err(|error| match error {
                noq_proto::ConnectError::InvalidRemoteAddress(address) => {
                    ConnectError::Address(address)
                }
                other => ConnectError::Other(other.to_string()),
            })?;
        let parts = Parts {
            id: self.take_id(),
            socket,
            remote,
            config,
            epoch: self.epoch,
            connection,
            tap,
            is_dialled: true,
            refused,
        };
        Ok(self.insert(now, handle, parts))
    }

    /// Handles a packet. An answer that belongs to no channel is written to `response`.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        packet: Received,
        response: &mut Vec<u8>,
    ) -> Handled {
        self.time.set(now);
        let bytes = packet.data.len();
        let path = FourTuple::new(packet.remote, packet.local_ip);
        let ecn = packet.ecn.and_then(EcnCodepoint::from_bits);
        response.clear();
        let event = self
            .inner
            .handle(self.epoch.to_std(now), path, ecn, packet.data, response);
        match event {
            None => Handled::Ignored,
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(channel) = self.channels.get_mut(handle.0).and_then(Option::as_mut) else {
                    return Handled::Ignored;
                };
                if !channel.takes_in(now, bytes) {
                    return Handled::Ignored;
                }
                channel.handle_event(event);
                channel.drain(now);
                let id = channel.id();
                self.settle(handle);
                Handled::Channel(id)
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.meet(now, packet.socket, incoming, response)
            }
            Some(DatagramEvent::Response(transmit)) => {
                if is_reset(response) && !self.resets.admit(now, transmit.destination) {
                    return Handled::Ignored;
                }
                Handled::Respond(stateless(packet.socket, &transmit))
            }
        }
    }

    /// The tap of the next channel.
    fn tap(&self, config: &Config, now: std::time::Instant) -> Shared {
        let seed = self.control_seed.child(&self.next_id.to_string());
        Shared::new(config, seed, now, MTU_MIN_BYTES)
    }

    /// Has the next channel traced.
    #[cfg(feature = "qlog")]
    fn traced(
        &self,
        mut transport: TransportConfig,
        (socket, remote): (SocketId, SocketAddr),
        is_dialled: bool,
    ) -> TransportConfig {
        let channel = Traced {
            channel: ChannelId(self.next_id),
            socket,
            remote,
            is_dialled,
        };
        qlog::trace(&mut transport, self.traces.as_ref(), self.epoch, channel);
        transport
    }

    /// Decides how to answer a peer's first packet.
    fn meet(
        &mut self,
        now: Instant,
        socket: SocketId,
        incoming: noq_proto::Incoming,
        response: &mut Vec<u8>,
    ) -> Handled {
        if self.closed.contains(&socket) {
            self.inner.ignore(incoming);
            return Handled::Ignored;
        }
        if self.handles.len() >= CHANNELS_MAX {
            let transmit = self.inner.refuse(incoming, response);
            return Handled::Respond(stateless(socket, &transmit));
        }
        let subnet = Subnet::from(incoming.remote_address().ip());
        let is_proved = incoming.remote_address_validated();
        let instead_of = match self.gate.judge(now, subnet, is_proved) {
            Verdict::Accept => None,
            Verdict::AcceptInsteadOf(oldest) => {
                self.abandon(oldest);
                Some(oldest)
            }
            Verdict::Retry => {
                return match self.inner.retry(incoming, response) {
                    Ok(transmit) => Handled::Respond(stateless(socket, &transmit)),
                    Err(proved) => {
                        self.inner.ignore(proved.into_incoming());
                        Handled::Ignored
                    }
                };
            }
            Verdict::Ignore => {
                self.inner.ignore(incoming);
                return Handled::Ignored;
            }
        };
        let handled = self.accept(now, socket, incoming, response);
        if let Ok(id) = handled {
            self.gate.enter(now, id, subnet, is_proved);
            // It may be over already.
            self.settle_channel(id);
        }
        match (handled, instead_of) {
            (Ok(channel), instead_of) => Handled::Accepted {
                channel,
                instead_of,
            },
            (Err(Some(transmit)), _) => Handled::Respond(stateless(socket, &transmit)),
            (Err(None), _) => Handled::Ignored,
        }
    }

    /// Reserves handshake capacity for the addresses of this channel's peer from now on: its identity is known.
    pub fn remember_peer_of(&mut self, id: ChannelId) {
        if let Some(channel) = self.peek(id) {
            let subnet = Subnet::from(channel.remote().ip());
            self.gate.remember(subnet);
        }
    }

    fn accept(
        &mut self,
        now: Instant,
        socket: SocketId,
        incoming: noq_proto::Incoming,
        response: &mut Vec<u8>,
    ) -> Result<ChannelId, Option<noq_proto::Transmit>> {
        let remote = incoming.remote_address();
        let config = self.config.clone();
        let std_now = self.epoch.to_std(now);
        let tap = self.tap(&config, std_now);
        let mut server = (*self.server).clone();
        let transport = transport_config(&config, &tap);
        #[cfg(feature = "qlog")]
        let transport = self.traced(transport, (socket, remote), false);
        server.transport_config(Arc::new(transport));
        match self
            .inner
            .accept(incoming, std_now, response, Some(Arc::new(server)))
        {
            Ok((handle, connection)) => {
                let parts = Parts {
                    id: self.take_id(),
                    socket,
                    remote,
                    config,
                    epoch: self.epoch,
                    connection,
                    tap,
                    is_dialled: false,
                    refused: self.refused.clone(),
                };
                let id = self.insert(now, handle, parts);
                if let Some(channel) = self.channel(id) {
                    channel.limit_input(Some(gate::INPUT_BEFORE_TRUST_BYTES));
                    channel.drain(now);
                }
                Ok(id)
            }
            Err(error) => Err(error.response),
        }
    }

    fn take_id(&mut self) -> ChannelId {
        let id = ChannelId(self.next_id);
        self.next_id += 1;
        id
    }

    fn insert(&mut self, now: Instant, handle: ConnectionHandle, parts: Parts) -> ChannelId {
        let id = parts.id;
        let channel = Channel::new(now, parts);
        if self.channels.len() <= handle.0 {
            self.channels.resize_with(handle.0 + 1, || None);
        }
        if let Some(drained) = self.channels[handle.0].replace(Box::new(channel)) {
            // QUIC reuses the handle before the channel that had it was forgotten.
            self.handles.remove(&drained.id());
            self.gate.leave(drained.id());
        }
        self.handles.insert(id, handle);
        id
    }

    /// Exchanges pending events between the channel's connection and the endpoint (connection IDs, reset tokens). Call
    /// it after any call that may have changed the channel's state.
    pub fn settle_channel(&mut self, id: ChannelId) {
        if let Some(&handle) = self.handles.get(&id) {
            self.settle(handle);
        }
    }

    fn settle(&mut self, handle: ConnectionHandle) {
        let Some(channel) = self.channels[handle.0].as_mut() else {
            return;
        };
        if !channel.is_handshaking() {
            self.gate.leave(channel.id());
        }
        if channel.is_broken() {
            // A broken connection cannot report that it is drained; a second report would concern the next owner of the
            // handle.
            if channel.give_up() {
                self.inner.handle_event(handle, EndpointEvent::drained());
            }
            return;
        }
        while let Some(event) = channel.connection.poll_endpoint_events() {
            let is_drained = event.is_drained();
            if let Some(answer) = self.inner.handle_event(handle, event) {
                channel.handle_event(answer);
            }
            if is_drained {
                channel.give_up();
                break;
            }
        }
    }

    /// Forgets a channel that is drained and whose events have been taken.
    pub fn forget(&mut self, id: ChannelId) {
        if let Some(handle) = self.handles.remove(&id) {
            self.channels[handle.0] = None;
            self.gate.leave(id);
        }
    }

    /// Forgets a channel at once, whatever its state: packets that still arrive for it are answered as if it had never
    /// existed.
    pub fn abandon(&mut self, id: ChannelId) {
        let Some(&handle) = self.handles.get(&id) else {
            return;
        };
        self.settle(handle);
        let channel = self.channels[handle.0].as_ref();
        if channel.is_some_and(|channel| !channel.is_drained()) {
            let drained = EndpointEvent::drained();
            let _ = self.inner.handle_event(handle, drained);
        }
        self.forget(id);
    }
}

fn stateless(socket: SocketId, transmit: &noq_proto::Transmit) -> Transmit {
    Transmit {
        socket,
        remote: transmit.destination,
        local_ip: transmit.src_ip,
        size: transmit.size,
        segment_size: transmit.segment_size,
        ecn: transmit.ecn.map(|ecn| ecn as u8),
    }
}

/// Twice the largest packet, with what QUIC counts for storing it.
fn datagram_receive_bytes(config: &Config) -> usize {
    DATAGRAM_RECEIVE_BYTES.max(2 * usize::from(config.mtu_max_bytes))
}

fn transport_config(config: &Config, tap: &Shared) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(config.mtu_max_bytes.max(MTU_MIN_BYTES))
        .minimum_change(4);
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(config.ack_every_packets.saturating_sub(1)))
        .max_ack_delay(Some(config.ack_delay_max))
        .reordering_threshold(VarInt::from_u32(2));
    let idle = IdleTimeout::try_from(config.idle_timeout.min(Duration::from_secs(3600)))
        .expect("an hour fits");
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(Some(datagram_receive_bytes(config)))
        .datagram_send_buffer_size(DATAGRAM_SEND_BYTES)
        .mtu_discovery_config(Some(mtu))
        .ack_frequency_config(Some(acks))
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(config.idle_timeout / 3))
        .initial_rtt(Duration::from_millis(100))
        .congestion_controller_factory(Arc::new(Factory(tap.clone())));
    transport
}

/// Connection IDs from the endpoint's own generator, so that a simulation is repeatable.
#[derive(Debug)]
struct SeededIds(Arc<Mutex<StdRng>>);

fn random_id(ids: &Mutex<StdRng>, length: usize) -> ConnectionId {
    let mut bytes = [0; 8];
    ids.lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .fill_bytes(&mut bytes);
    ConnectionId::new(&bytes[..length])
}

impl ConnectionIdGenerator for SeededIds {
    fn generate_cid(&mut self) -> ConnectionId {
        random_id(&self.0, CONNECTION_ID_BYTES)
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
