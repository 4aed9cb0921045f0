//! The engine: the one mouth and the one ear of a node.
//!
//! It owns the channels and the sessions, carries events from the ones to the others, and keeps no
//! policy of its own.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use anabranch_base::{ChannelId, Instant, NodeId, Seed, SessionId, SocketId};
use anabranch_channel::{
    AllowList, Endpoint, Handled, PacketOutcome, Received, SecretKey, Transmit,
};
use anabranch_metering::Quotas;

use crate::{
    config::Config,
    event::{Event, StreamError},
    local::LocalDescription,
    session::Session,
    wire::frame::TOKEN_BYTES,
};

mod attempts;
mod commands;
mod downlinks;
mod guests;
mod handles;
mod introductions;
mod level;
mod levels;
mod meters;
mod probes;
mod refusals;
mod responses;
mod routing;
mod timers;
mod traffic;
mod uplinks;

use self::{
    guests::{ACCEPT_MAX, Guests},
    responses::Responses,
    timers::Timers,
    uplinks::Uplinks,
};
pub use self::{
    handles::{SessionMut, StreamMut},
    refusals::{Refusals, Refused},
};

/// Application codes of QUIC's CONNECTION_CLOSE. Codes of applications are shifted by
/// [`CODE_APPLICATION`].
const CODE_CHANNEL_ONLY: u32 = 1;
const CODE_FORGOTTEN: u32 = 2;
const CODE_PROTOCOL: u32 = 3;
const CODE_VERSION: u32 = 4;
const CODE_BUSY: u32 = 6;
const CODE_LATE: u32 = 7;
const CODE_NOT_ALLOWED: u32 = 8;
const CODE_NOT_ADMITTED: u32 = 9;
const CODE_APPLICATION: u32 = 0x1_0000;

/// Boxed: each node of the tree reserves space for 11 entries, however few there are.
type Sessions = BTreeMap<SessionId, Box<Session>>;

/// The session with this id, without taking hold of all of the engine.
fn find(sessions: &mut Sessions, id: SessionId) -> Result<&mut Session, StreamError> {
    let session = sessions.get_mut(&id).map(|session| &mut **session);
    session.ok_or(StreamError::UnknownSession(id))
}

/// A node's whole protocol state: every channel, session and stream.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    /// Of what is random beside keys and tokens.
    seed: Seed,
    endpoint: Endpoint,
    allowed: AllowList,
    /// [`AllowList::changes`] when it was last followed.
    allowed_changes: u64,
    sessions: Sessions,
    /// Session of each channel; `None`: accepted, not introduced yet.
    owners: BTreeMap<ChannelId, Owner>,
    timers: Timers,
    guests: Guests,
    tokens: BTreeMap<[u8; TOKEN_BYTES], SessionId>,
    next_session: u64,
    events: VecDeque<Event>,
    /// Cost of sending, by local socket.
    quotas: Quotas,
    uplinks: Uplinks,
    /// Local sockets to be left once what is queued has gone out.
    spent: Vec<SocketId>,
    /// Names of the channels of a socket in objectives.
    descriptions: BTreeMap<SocketId, Arc<LocalDescription>>,
    /// Channels that may have something to transmit.
    touched: VecDeque<ChannelId>,
    /// Answers that belong to no channel.
    responses: Responses,
    scratch: Vec<u8>,
    outcomes: Vec<PacketOutcome>,
}

/// Record of the engine about a channel.
#[derive(Debug)]
struct Owner {
    session: Option<SessionId>,
    /// The peer opened it.
    is_accepted: bool,
    /// Time at which its handshake or its introduction has to be complete; `None`: they are.
    deadline: Option<Instant>,
    /// The deadline under which [`Timers`] have it.
    timer: Option<Instant>,
    /// That may have changed.
    is_stale: bool,
    /// It is over, and is forgotten as soon as its last packet has left.
    is_leaving: bool,
}

impl Owner {
    fn new(session: Option<SessionId>, deadline: Instant) -> Self {
        Self {
            session,
            is_accepted: session.is_none(),
            deadline: Some(deadline),
            timer: None,
            is_stale: false,
            is_leaving: false,
        }
    }

    /// The peer opened it, and has not introduced it.
    fn is_new(&self) -> bool {
        self.is_accepted && self.session.is_none() && self.deadline.is_some()
    }
}

/// Packets may gather for this long where nothing asks for less.
const COALESCING_DELAY_MAX: Duration = Duration::from_millis(10);
/// Events for which memory is kept.
const EVENTS_KEPT: usize = 1024;

impl Engine {
    /// An engine for the node with `key`, which accepts sessions from the nodes on `allowed`.
    ///
    /// `epoch` is the moment that [`Instant::EPOCH`] stands for; `entropy` must come from a
    /// cryptographic generator, except in a simulation.
    pub fn new(
        epoch: std::time::Instant,
        key: SecretKey,
        allowed: AllowList,
        config: Config,
        entropy: [u8; 32],
    ) -> Self {
        let config = config.normalised();
        let seed = blake3::derive_key("anabranch 1 scheduling seed", &entropy);
        let seed = seed.first_chunk().copied().map_or(0, u64::from_le_bytes);
        Self {
            seed: Seed(seed),
            allowed_changes: allowed.changes(),
            allowed: allowed.clone(),
            endpoint: Endpoint::new(epoch, key, allowed, config.channel.clone(), entropy),
            quotas: Quotas::new(meters::packet_max_bytes(config.channel.mtu_max_bytes)),
            uplinks: Uplinks::default(),
            spent: Vec::new(),
            descriptions: BTreeMap::new(),
            config,
            sessions: BTreeMap::new(),
            owners: BTreeMap::new(),
            timers: Timers::default(),
            guests: Guests::default(),
            tokens: BTreeMap::new(),
            next_session: 0,
            events: VecDeque::new(),
            touched: VecDeque::new(),
            responses: Responses::default(),
            scratch: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// This node's identity.
    pub fn node_id(&self) -> NodeId {
        self.endpoint.node_id()
    }

    /// Memory of the transcript of a new session.
    pub fn transcript_bytes(&self) -> usize {
        self.config.transcript_bytes
    }

    // ── inputs ──────────────────────────────────────────────────────────────────────────────────

    /// A packet arrived.
    pub fn handle_packet(&mut self, now: Instant, packet: Received) {
        self.follow_allow_list(now);
        let mut response = std::mem::take(&mut self.scratch);
        match self.endpoint.handle_packet(now, packet, &mut response) {
            Handled::Channel(id) => {
                self.advance(now, id);
                self.reap(id);
            }
            Handled::Accepted {
                channel,
                instead_of,
            } => {
                if let Some(oldest) = instead_of {
                    self.forget_owner(oldest);
                }
                let owner = Owner::new(None, now + ACCEPT_MAX);
                self.owners.insert(channel, owner);
                self.advance(now, channel);
            }
            Handled::Respond(transmit) => {
                self.responses.push(transmit, &response);
            }
            Handled::Ignored => {}
        }
        self.scratch = response;
    }

    /// Time has passed: call it when [`Engine::poll_timeout`] is due. Calling it early is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.follow_allow_list(now);
        let due = self.take_due(now);
        for &id in &due {
            self.retime(id);
            let Some(channel) = self.endpoint.channel(id) else {
                self.forget_owner(id);
                continue;
            };
            if channel.poll_timeout().is_some_and(|at| at <= now) {
                channel.handle_timeout(now);
                self.endpoint.settle_channel(id);
                self.advance(now, id);
            }
            self.expire_channel(now, id);
            self.reap(id);
        }
        self.put_back(due);
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        let has_several = sessions.len() > 1;
        self.state_downlinks(now);
        self.level_uplinks(now);
        for id in sessions {
            self.brief_at_window(now, id);
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            if has_several {
                session.ask_for_promises();
            }
            session.handle_timeout(now, &mut self.events);
            if let Some(reason) = session.overdue(now) {
                self.end_session(now, id, reason);
                continue;
            }
            self.dial(now, id);
        }
    }

    // ── outputs ─────────────────────────────────────────────────────────────────────────────────

    /// Writes the next batch of up to `packets_max` packets of one size into `buffer`, which is
    /// overwritten; `None` when there is nothing to send now.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        packets_max: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        while let Some((transmit, bytes)) = self.responses.pop() {
            if !self
                .quotas
                .allows(transmit.socket, meters::wire_bytes(&transmit))
            {
                continue;
            }
            buffer.clear();
            buffer.extend_from_slice(&bytes);
            self.pay(now, &transmit);
            return Some(transmit);
        }
        self.allow_slots();
        for session in self.sessions.values_mut() {
            if session.pump.is_due {
                if !self.quotas.is_empty() {
                    session.price(&mut self.endpoint, &self.quotas);
                }
                if session.has_probes(now) {
                    session.allow_probes(self.uplinks.probes.left(now, &self.config.probing));
                }
                session.pump(now, &mut self.endpoint, &mut self.touched, &mut self.events);
                self.uplinks.probes.spend(now, session.take_probed());
            }
        }
        while let Some(&id) = self.touched.front() {
            let quotas = &self.quotas;
            let transmit = self.endpoint.channel(id).and_then(|channel| {
                // What a spent budget does not let out stays where it is, until more is granted or its channel ends.
                let packets_max = quotas.packets(channel.socket(), packets_max)?;
                channel.poll_transmit(now, packets_max, buffer)
            });
            if let Some(transmit) = transmit {
                self.pay(now, &transmit);
                return Some(transmit);
            }
            self.touched.pop_front();
            self.endpoint.settle_channel(id);
            self.retime(id);
            if self.owners.get(&id).is_some_and(|owner| owner.is_leaving) {
                self.endpoint.abandon(id);
                self.forget_owner(id);
            }
        }
        // Nothing more can leave now: what still waits on these sockets moves to other channels.
        let socket = self.spent.pop()?;
        // A new period may have begun since.
        if self.quotas.is_spent(socket) {
            self.socket_down(now, socket);
        }
        self.poll_transmit(now, packets_max, buffer)
    }

    /// Time at which [`Engine::handle_timeout`] is due next; `None` when only a packet or a command can
    /// change anything.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let channels = self.next_channel_deadline();
        let sessions = self
            .sessions
            .values()
            .filter_map(|session| session.poll_timeout());
        sessions
            .chain(channels)
            .chain(self.uplinks.levels.due())
            .min()
    }

    /// Time for which packets may gather before [`Engine::handle_packet`] and [`Engine::handle_timeout`]
    /// see them, without harm to any promise: a host under load saves wake-ups with it. Short while
    /// something urgent flows either way, or where a round trip is short. O(channels).
    pub fn coalescing_delay(&self, now: Instant) -> Duration {
        self.sessions
            .values()
            .filter_map(|session| session.coalescing_delay(now, &self.endpoint))
            .fold(COALESCING_DELAY_MAX, Duration::min)
    }

    /// True if a call of [`Engine::poll_transmit`] may find something new to do.
    pub fn has_work(&self) -> bool {
        !self.touched.is_empty()
            || !self.responses.is_empty()
            || !self.spent.is_empty()
            || self.sessions.values().any(|session| session.pump.is_due)
    }

    /// The next thing the application should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if event.is_none() && self.events.capacity() > EVENTS_KEPT {
            // Something happened to very many streams at once; the memory is given back.
            self.events.shrink_to(EVENTS_KEPT);
        }
        event
    }
}
