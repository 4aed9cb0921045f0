//! A channel: a QUIC connection on one path.

mod capacity;
mod end;
#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroUsize,
    time::Duration,
};

use anabranch_base::{ChannelId, Instant, NodeId, Rate, SocketId, duration, text};
use bytes::Bytes;
use noq_proto::{ConnectionError, ConnectionEvent, PathId};

use self::end::End;
use crate::{
    config::Config,
    control::QueueGoal,
    epoch::Epoch,
    liveness::{Due, Liveness, Signs},
    pacer::Pacer,
    round_trip::{self, Acknowledgement},
    stats::Stats,
    tap::{PacketOutcome, Shared},
    tls::{self, Refused},
};

/// Limit on containers that QUIC has not put into packets yet.
pub(crate) const DATAGRAM_SEND_BYTES: usize = 4 << 20;

/// Event on a channel.
#[derive(Debug)]
pub enum Event {
    /// The handshake is complete: the peer has the expected identity, and slots exist.
    Connected,
    /// Acknowledgements have stopped; whatever is in flight should move elsewhere.
    Suspected,
    /// Acknowledgements arrive again after a suspicion.
    Recovered {
        /// Time for which the channel was suspected.
        silence: Duration,
    },
    /// The channel is over. All outcomes have been reported.
    Closed(CloseReason),
}

/// Reason why a channel ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// This node closed it.
    #[error("closed by this node")]
    Local,
    /// The peer closed it.
    #[error(
        "closed by the peer (code {code}): {}",
        text::printable(reason, text::REASON_CHARS)
    )]
    Peer {
        /// The peer's application code.
        code: u64,
        /// The reason that the peer gave.
        reason: String,
    },
    /// Nothing was received for the idle time-out.
    #[error("no reply from the peer within the idle time-out")]
    TimedOut,
    /// The peer has no such connection any more; it was restarted.
    #[error("the peer no longer has this channel; it may have been restarted")]
    Reset,
    /// Nothing answered the handshake for this time.
    #[error("no reply in {}", duration::format_seconds(*.0))]
    NoReply(Duration),
    /// The network reported that nothing can be delivered to the address.
    #[error("{0}")]
    Undeliverable(Undeliverable),
    /// Another node than the one that was dialled answered the handshake.
    #[error("another node answers there: {0}")]
    OtherNode(NodeId),
    /// The peer proved its identity, and does not accept the key of this node.
    #[error("the peer does not accept the key of this node; it has to list it")]
    NotListed,
    /// The node that opened the channel is not on the allow-list of this node. It has not proved that it has the key.
    #[error("the node {0} is not on the allow-list")]
    Stranger(NodeId),
    /// The handshake failed because one side refused the other's key; it is not known which.
    #[error("the peer's key was refused, or it refused ours; check both allow-lists")]
    Unauthorized,
    /// The handshake failed because the nodes have no wire format in common.
    #[error(
        "the peer has no wire format in common with this node, which has anabranch/1; upgrade the older of the two programs"
    )]
    WireFormat,
    /// Any other error that QUIC detected.
    #[error("protocol error: {}", text::printable(.0, text::REASON_CHARS))]
    Protocol(String),
    /// The QUIC library, or code that it calls back, panicked, usually because of what the peer sent; other channels
    /// continue.
    #[error("internal error of the QUIC library: {}", text::printable(.0, text::REASON_CHARS))]
    Fault(String),
}

/// Smallest container size that a peer must accept; a peer with a lower limit is sent none, because frames have to fit one.
pub const CONTAINER_BYTES_MIN: usize = 1024;
/// Bytes by which containers without a slot may exceed the congestion window.
const BEYOND_WINDOW_BYTES: u64 = 64 << 10;
/// Packets that close a failed handshake, for each packet received: one for each of QUIC's packet number spaces.
const FAREWELLS_MAX: u32 = 3;

/// TLS alerts carried in QUIC's transport error codes (RFC 9001 §4.8) that mean "not this key".
const REFUSED_KEY_CODES: [u64; 5] = [0x128, 0x12a, 0x12e, 0x131, 0x174];

/// The alert no_application_protocol.
const NO_APPLICATION_PROTOCOL_CODE: u64 = 0x178;

/// Meaning of a code with which QUIC ended a connection, if it has one here.
fn meaning(code: u64) -> Option<CloseReason> {
    match code {
        NO_APPLICATION_PROTOCOL_CODE => Some(CloseReason::WireFormat),
        _ if REFUSED_KEY_CODES.contains(&code) => Some(CloseReason::Unauthorized),
        _ => None,
    }
}

/// Report of the network, or of this machine's kernel, that packets to an address cannot be delivered. Reports are not
/// authenticated: anyone who knows both addresses and ports can forge one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undeliverable {
    /// Nothing listens on the port (ICMP port unreachable).
    #[error("refused, nothing listens on this port")]
    Port,
    /// No such host there, or no answer from it on the last link (ICMP host unreachable).
    #[error("the host is unreachable")]
    Host,
    /// No route leads there.
    #[error("the network is unreachable")]
    Network,
    /// A firewall rejects the packets.
    #[error("a firewall rejects packets to it")]
    Prohibited,
}

impl From<ConnectionError> for CloseReason {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed(close) => Self::Peer {
                code: close.error_code.into_inner(),
                reason: String::from_utf8_lossy(&close.reason).into_owned(),
            },
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::Reset => Self::Reset,
            ConnectionError::LocallyClosed => Self::Local,
            other => {
                let code = match &other {
                    ConnectionError::TransportError(error) => Some(error.code),
                    ConnectionError::ConnectionClosed(close) => Some(close.error_code),
                    _ => None,
                };
                let meaning = code.and_then(|code| meaning(u64::from(code)));
                meaning.unwrap_or_else(|| Self::Protocol(other.to_string()))
            }
        }
    }
}

/// Packets to put on the wire; the bytes are in the buffer given to [`Channel::poll_transmit`].
#[derive(Clone, Copy, Debug)]
pub struct Transmit {
    /// The socket to send from.
    pub socket: SocketId,
    /// Destination address.
    pub remote: SocketAddr,
    /// Source address, where the socket has several.
    pub local_ip: Option<IpAddr>,
    /// Bytes written.
    pub size: usize,
    /// All packets but the last have this size; `None` when there is only one packet.
    pub segment_size: Option<usize>,
    /// ECN bits of the IP header.
    pub ecn: Option<u8>,
}

impl Transmit {
    /// Number of packets.
    pub fn packets(&self) -> usize {
        self.segment_size
            .map_or(1, |segment| self.size.div_ceil(segment.max(1)))
    }
}

/// A QUIC connection with everything that the session needs to know about it.
#[derive(Debug)]
pub struct Channel {
    id: ChannelId,
    socket: SocketId,
    remote: SocketAddr,
    config: Config,
    epoch: Epoch,
    pub(crate) connection: noq_proto::Connection,
    tap: Shared,
    pacer: Pacer,
    liveness: Liveness,
    queue_goal: QueueGoal,
    connected: bool,
    handshake: Handshake,
    end: End,
    next_container: u64,
    /// Bytes handed to QUIC that have not left yet.
    queued_bytes: u64,
    /// Upper limit on the slots offered, however much space the window has.
    allowance: Option<usize>,
    /// Data is waiting, and the window has space for it.
    awaits_pacer: bool,
    /// Nothing may leave now.
    is_held: bool,
    input: Input,
    events: std::collections::VecDeque<Event>,
}

/// Packets that arrive on a channel.
#[derive(Debug, Default)]
struct Input {
    /// Bytes that are still accepted; `None`: no limit.
    left: Option<usize>,
    /// Time at which the last one was accepted.
    at: Instant,
    /// The last sample of QUIC's estimator; see [`round_trip::sample`].
    round_trip: Duration,
    /// A container that was looked at and not taken.
    next: Option<Bytes>,
}

/// Progress of the handshake, and what it permits to leave.
#[derive(Debug)]
struct Handshake {
    /// This node opened the channel.
    is_dialled: bool,
    /// The peer's key, if it was refused.
    refused: Refused,
    /// The handshake is confirmed [RFC 9001 §4.1.2]: all packets that leave are of one kind.
    is_confirmed: bool,
    /// Time since which packets may be probes, and leave one by one.
    probing_since: Option<std::time::Instant>,
    /// Packets sent to close a handshake since a packet last arrived or a timer fired.
    farewells: u32,
}

impl Handshake {
    fn new(is_dialled: bool, refused: Refused) -> Self {
        Self {
            is_dialled,
            refused,
            is_confirmed: false,
            probing_since: None,
            farewells: 0,
        }
    }
}

/// Components of a new channel.
pub(crate) struct Parts {
    pub id: ChannelId,
    pub socket: SocketId,
    pub remote: SocketAddr,
    pub config: Config,
    pub epoch: Epoch,
    pub connection: noq_proto::Connection,
    pub tap: Shared,
    /// This node opens it.
    pub is_dialled: bool,
    /// Place where the verifier of its handshake leaves a key that it refuses.
    pub refused: Refused,
}

impl Channel {
    pub(crate) fn new(now: Instant, parts: Parts) -> Self {
        Self {
            id: parts.id,
            socket: parts.socket,
            remote: parts.remote,
            config: parts.config,
            epoch: parts.epoch,
            connection: parts.connection,
            tap: parts.tap,
            pacer: Pacer::new(now),
            liveness: Liveness::Active,
            queue_goal: QueueGoal::default(),
            connected: false,
            handshake: Handshake::new(parts.is_dialled, parts.refused),
            end: End::default(),
            next_container: 0,
            queued_bytes: 0,
            allowance: None,
            awaits_pacer: false,
            is_held: false,
            input: Input::default(),
            events: std::collections::VecDeque::new(),
        }
    }

    /// This channel's id.
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// The local socket it sends from.
    pub fn socket(&self) -> SocketId {
        self.socket
    }

    /// The peer's address.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The peer's identity; `None` before the handshake is complete.
    pub fn peer(&self) -> Option<NodeId> {
        tls::peer_node(self.connection.crypto_session())
    }

    /// True if the handshake is complete and the channel is not closed.
    pub fn is_connected(&self) -> bool {
        self.connected && !self.end.is_closed
    }

    /// True if the handshake is still in progress.
    pub fn is_handshaking(&self) -> bool {
        !self.connected && !self.end.is_closed
    }

    /// Liveness of the channel: whether acknowledgements arrive.
    pub fn liveness(&self) -> Liveness {
        self.liveness
    }

    /// 32 bytes that only the two ends of this channel know, different for each label (RFC 8446
    /// §7.5); `None` before the handshake is complete.
    pub fn export_secret(&self, label: &[u8]) -> Option<[u8; 32]> {
        let mut secret = [0; 32];
        self.connection
            .crypto_session()
            .export_keying_material(&mut secret, label, b"")
            .ok()?;
        Some(secret)
    }

    /// Size of the largest container that fits one packet now, at least [`CONTAINER_BYTES_MIN`]; `None` before the
    /// handshake is complete, and if the peer accepts none of that size: nothing can be sent to it then.
    pub fn container_bytes_max(&mut self) -> Option<usize> {
        if !self.is_connected() {
            return None;
        }
        let most = self.connection.datagrams().max_size()?;
        (most >= CONTAINER_BYTES_MIN).then_some(most)
    }

    /// From now on, accepts so many bytes of packets and drops the others unread, as if the network had lost them;
    /// `None`: no limit. While none are left, its timers are stopped. For peers that have not shown their right: a
    /// channel that a peer opened begins with [`INPUT_BEFORE_TRUST_BYTES`](crate::gate::INPUT_BEFORE_TRUST_BYTES).
    pub fn limit_input(&mut self, bytes: Option<usize>) {
        self.input.left = bytes;
    }

    /// True if no packet is accepted: then silence indicates nothing about the path, and whatever waits for an answer
    /// sleeps.
    fn is_deaf(&self) -> bool {
        self.input.left == Some(0) && self.is_connected()
    }

    /// Accepts or rejects a packet of so many bytes; true if it is accepted.
    pub(crate) fn takes_in(&mut self, now: Instant, bytes: usize) -> bool {
        if let Some(left) = &mut self.input.left {
            let taken = left.checked_sub(bytes);
            *left = taken.unwrap_or(0);
            if taken.is_none() {
                return false;
            }
        }
        self.input.at = now;
        true
    }

    /// Time at which a packet last arrived; the epoch before the first.
    pub fn received_at(&self) -> Instant {
        self.input.at
    }

    /// Sets the length of the queue to aim for at this channel's bottleneck.
    pub fn set_queue_goal(&mut self, goal: QueueGoal) {
        self.queue_goal = goal;
        self.tap.lock().control.set_queue_goal(goal);
    }

    /// Tells the controller how long a queue this side's packets met lately, as the peer has measured it: the mean one-way delay above
    /// the smallest. What their round trips show beyond that is the delay of acknowledgements.
    pub fn note_queue(&mut self, queue: Duration) {
        self.tap.lock().control.note_queue(queue);
    }

    /// From now on, take this share of what one flow would take: 1 for a flow of its own, 1/n for each of n channels
    /// that share a bottleneck. Above 0, at most 1; the effect depends on the controller (`docs/congestion.md`).
    pub fn set_share(&mut self, share: f64) {
        self.tap.lock().control.set_share(share);
    }

    /// Holds this rate from now on: the target of `ctcp`, the rate of `fixed`, in bytes of UDP payload. False if the
    /// controller holds none, or the rate is zero.
    pub fn set_rate(&mut self, rate: Rate) -> bool {
        rate > Rate::ZERO && self.tap.lock().control.set_rate(rate)
    }

    /// Congestion events since the channel opened: losses that were not forgiven, and marks.
    pub fn congestion_events(&self) -> u64 {
        self.tap.lock().totals.congestion_events
    }

    /// Reports a congestion event of a channel that is coupled with this one at a shared bottleneck: a controller that
    /// responds to losses does so here as well, at most once per round trip.
    pub fn partner_congested(&mut self, now: Instant) {
        let now = self.epoch.to_std(now);
        self.tap.lock().on_partner_congestion(now);
    }

    /// An empty buffer to fill and hand to [`Channel::send`]; reused from earlier containers.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.tap.lock().buffer()
    }

    /// Queues a container for the next packet and returns the number under which its outcome will be reported.
    /// Containers leave in the order of these calls. A container is lost at once if it exceeds
    /// [`Channel::container_bytes_max`], if the queue is full or if there is no connection.
    pub fn send(&mut self, container: Vec<u8>) -> u64 {
        let number = self.next_container;
        self.next_container += 1;
        let bytes = container.len() as u64;
        let tracked = self.tap.track(number, container);
        // Dropping it reports its outcome.
        if self.is_connected() && self.connection.datagrams().send(tracked, false).is_ok() {
            self.queued_bytes += bytes;
        }
        number
    }

    /// Sends a packet that elicits an acknowledgement, even if there is nothing else to send.
    pub fn ping(&mut self) {
        self.connection.ping();
    }

    /// Next container received, in order of arrival.
    pub fn receive(&mut self) -> Option<Bytes> {
        let next = self.input.next.take();
        next.or_else(|| self.connection.datagrams().recv())
    }

    /// Appends the outcomes that became known since the last call.
    pub fn take_outcomes(&mut self, into: &mut Vec<PacketOutcome>) {
        into.append(&mut self.tap.lock().outcomes);
    }

    /// Next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Writes up to `packets_max` packets of one size into `buffer` (which is overwritten); only one at a time if they
    /// may be probes after a time-out.
    ///
    /// No packet of a batch is larger than the first, and the library writes an ACK_FREQUENCY frame into the rest of a
    /// packet without checking that it fits: behind a small probe it panicked.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        packets_max: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.handshake.farewells >= FAREWELLS_MAX {
            return None;
        }
        // A handshake that is closed one packet at a time is closed in QUIC's first packet number space again and again.
        if !self.handshake.is_confirmed && self.connection.is_closed() {
            self.handshake.farewells += 1;
        }
        let packets_max = if self.handshake.is_confirmed && self.handshake.probing_since.is_some() {
            NonZeroUsize::MIN
        } else {
            packets_max
        };
        let mut tap = self.tap.lock();
        tap.transmitting = true;
        let before = tap.totals.bytes_sent;
        drop(tap);
        self.note_goodbye();
        let std_now = self.epoch.to_std(now);
        let transmit = self
            .contain(|connection| connection.poll_transmit(std_now, packets_max, buffer))
            .flatten();
        let mut tap = self.tap.lock();
        tap.transmitting = false;
        // A held rate counts packets that carry data; packets with acknowledgements only are not held back and do not count.
        let carried = tap
            .control
            .is_even()
            .then(|| tap.totals.bytes_sent - before);
        let acked_at = tap.acked_at;
        drop(tap);
        let Some(transmit) = transmit else {
            // Probes that were waiting have left together with the data that the answer permitted.
            if acked_at > self.handshake.probing_since {
                self.handshake.probing_since = None;
            }
            self.queued_bytes = 0;
            return None;
        };
        let size = transmit.size as u64;
        self.queued_bytes = self.queued_bytes.saturating_sub(size);
        self.pacer.spend(carried.unwrap_or(size) as f64);
        Some(Transmit {
            socket: self.socket,
            remote: transmit.destination,
            local_ip: transmit.src_ip,
            size: transmit.size,
            segment_size: transmit.segment_size,
            ecn: transmit.ecn.map(|ecn| ecn as u8),
        })
    }

    /// Time at which [`Channel::handle_timeout`] is due.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if self.end.is_broken {
            // At once: it is to be forgotten.
            return Some(Instant::EPOCH);
        }
        if self.is_deaf() {
            return None;
        }
        let quic = self.connection.poll_timeout().map(|at| self.epoch.at(at));
        if !self.is_connected() {
            return quic;
        }
        let own = self.liveness.next_check(&self.signs());
        match (quic, own) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Handles the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_deaf() || self.puts_timers_off() {
            return;
        }
        let std_now = self.epoch.to_std(now);
        if self
            .connection
            .poll_timeout()
            .is_some_and(|at| at <= std_now)
        {
            self.contain(|connection| connection.handle_timeout(std_now));
            if self.is_probe_due(std_now) {
                self.handshake.probing_since = Some(std_now);
            }
        }
        if self.is_connected() {
            match self.liveness.check(now, &self.signs()) {
                Due::Nothing => {}
                Due::Suspect => {
                    self.tap.lock().suspected_since = Some(std_now);
                    self.ping();
                    self.events.push_back(Event::Suspected);
                }
                Due::Probe => self.ping(),
            }
        }
        self.drain(now);
    }

    /// True if probes may follow a time-out of QUIC: the last ack-eliciting packet left a round trip ago or more
    /// [RFC 9002 §6.2.1]. Other time-outs, such as that of pacing, cause none.
    fn is_probe_due(&self, now: std::time::Instant) -> bool {
        let tap = self.tap.lock();
        let (Some(left_at), Some(_)) = (tap.eliciting_at, tap.acked_at) else {
            return true;
        };
        let round_trip = self.connection.rtt(PathId::ZERO).unwrap_or_default();
        now.saturating_duration_since(left_at) >= round_trip
    }

    /// Passes an event of the endpoint to this connection.
    pub(crate) fn handle_event(&mut self, event: ConnectionEvent) {
        let before = self.connection.rtt(PathId::ZERO);
        self.contain(|connection| connection.handle_event(event));
        if let (Some(before), Some(now)) = (before, self.connection.rtt(PathId::ZERO)) {
            self.input.round_trip = round_trip::sample(before, now);
        }
    }

    /// Evidence of the acknowledgement of `packets` that has just been handled. O(1).
    pub fn acknowledgement(&mut self, packets: usize) -> Acknowledgement {
        if self.input.next.is_none() {
            self.input.next = self.connection.datagrams().recv();
        }
        Acknowledgement {
            alone: packets == 1 && self.input.next.is_none(),
            stated: self.input.round_trip,
            shortest: self.tap.lock().rtt().min().unwrap_or(Duration::MAX),
            delay_max: self.config.ack_delay_max,
        }
    }

    /// Time for which nothing has been in flight; zero while something is. O(1).
    pub fn idle_time(&self, now: Instant) -> Duration {
        let tap = self.tap.lock();
        let since = tap.acked_at.filter(|_| tap.in_flight == 0);
        since.map_or(Duration::ZERO, |at| now.since(self.epoch.at(at)))
    }

    /// Measurements of this channel. O(1).
    pub fn stats(&mut self) -> Stats {
        let mtu_bytes = usize::from(self.connection.current_mtu());
        let tap = self.tap.lock();
        let rtt = tap.rtt();
        let own = tap.control.pacing_rate(tap.rtt_smoothed().as_secs_f64());
        let pacing = (self.pacer.ceiling()).map_or(own, |ceiling| ceiling.min(own));
        Stats {
            rtt_smoothed: rtt.smoothed().unwrap_or_default(),
            rtt_min: rtt.min().unwrap_or_default(),
            rtt_usual: rtt
                .min()
                .map_or(Duration::ZERO, |min| min + tap.usual_excess()),
            rtt_latest: rtt.latest().unwrap_or_default(),
            rtt_variation: rtt.variation().unwrap_or_default(),
            rate_delivered: Rate::from_bps((tap.delivery.rate * 8.0) as u64),
            rate_paced: Rate::from_bps((pacing * 8.0) as u64),
            in_flight_bytes: tap.in_flight,
            window_bytes: tap.control.window(),
            mtu_bytes,
            packets_sent: tap.totals.packets_sent,
            packets_acked: tap.totals.packets_acked,
            packets_lost: tap.totals.packets_lost,
            bytes_sent: tap.totals.bytes_sent,
            bytes_acked: tap.totals.bytes_acked,
            bytes_lost: tap.totals.bytes_lost,
            congestion_events: tap.totals.congestion_events,
            ecn_events: tap.totals.ecn_events,
            spurious_events: tap.totals.spurious_events,
        }
    }

    /// Handles the events of the connection; the endpoint calls it after every packet.
    pub(crate) fn drain(&mut self, now: Instant) {
        if self.end.is_broken {
            return;
        }
        self.handshake.farewells = 0;
        while let Some(event) = self.connection.poll() {
            match event {
                noq_proto::Event::Connected => {
                    self.connected = true;
                    self.seed_rtt();
                    self.events.push_back(Event::Connected);
                }
                noq_proto::Event::HandshakeConfirmed => self.handshake.is_confirmed = true,
                noq_proto::Event::ConnectionLost { reason } => {
                    let reason = self.reason_of(reason);
                    self.finish(reason);
                }
                _ => {}
            }
        }
        self.note_acknowledgements(now);
    }

    /// Takes the handshake's round trip as the estimate until data is acknowledged.
    fn seed_rtt(&mut self) {
        if let Some(rtt) = self.connection.rtt(PathId::ZERO) {
            self.tap.lock().seed_rtt(rtt);
        }
    }

    /// Ends a suspicion if something was acknowledged after it arose.
    fn note_acknowledgements(&mut self, now: Instant) {
        let Liveness::Suspected { since, .. } = self.liveness else {
            return;
        };
        let mut tap = self.tap.lock();
        let acked_at = tap.acked_at.map(|at| self.epoch.at(at));
        if acked_at.is_none_or(|at| at < since) {
            return;
        }
        tap.suspected_since = None;
        drop(tap);
        self.liveness = Liveness::Active;
        self.events.push_back(Event::Recovered {
            silence: now.since(since),
        });
    }

    fn signs(&self) -> Signs {
        let tap = self.tap.lock();
        let rtt = tap.rtt();
        Signs {
            outstanding_since: tap.outstanding_since.map(|at| self.epoch.at(at)),
            rtt_smoothed: rtt.smoothed().unwrap_or_default(),
            rtt_variation: rtt.variation().unwrap_or_default(),
            ack_delay_max: self.config.ack_delay_max,
        }
    }
}
