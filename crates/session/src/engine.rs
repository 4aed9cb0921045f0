//! The engine: the one mouth and the one ear of a node.
//!
//! It owns the channels and the sessions, carries events from the ones to the others, and keeps no
//! policy of its own.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    time::Duration,
};

use anabranch_base::{ChannelId, Instant, NodeId, SessionId, SocketId, StreamId};
use anabranch_channel::{
    self as channel, AllowList, CloseReason, ConnectError, Endpoint, Fate, Handled, Received,
    SecretKey, Transmit,
};
use anabranch_sched::{Guarantee, Policy, Scheduler, StreamSpec};
use bytes::Bytes;

use crate::{
    config::{CHANNELS_MAX, Config},
    event::{Adu, Event, SendError, SessionCloseReason, StreamError},
    links::{HANDSHAKE_MAX, Link, LinkState},
    promise::{Explanation, Grant},
    session::{Parts, ProtocolError, Session},
    stats::{ChannelReport, SessionStats, StreamStats},
    token::Token,
    wire::{self, Control, Frame, Reader, frame::TOKEN_BYTES},
};

/// Application codes of QUIC's CONNECTION_CLOSE. Codes of applications are shifted by
/// [`CODE_APPLICATION`].
const CODE_CHANNEL_ONLY: u32 = 1;
const CODE_FORGOTTEN: u32 = 2;
const CODE_PROTOCOL: u32 = 3;
const CODE_VERSION: u32 = 4;
const CODE_SUPERSEDED: u32 = 5;
const CODE_APPLICATION: u32 = 0x1_0000;

/// The session with this id, without taking hold of all of the engine.
fn find(
    sessions: &mut BTreeMap<SessionId, Session>,
    id: SessionId,
) -> Result<&mut Session, StreamError> {
    sessions.get_mut(&id).ok_or(StreamError::UnknownSession(id))
}

/// A node's whole protocol state: every channel, session and stream.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    endpoint: Endpoint,
    sessions: BTreeMap<SessionId, Session>,
    /// Which session a channel belongs to; `None`: accepted, not introduced yet.
    owners: BTreeMap<ChannelId, Owner>,
    tokens: BTreeMap<[u8; TOKEN_BYTES], SessionId>,
    next_session: u64,
    events: VecDeque<Event>,
    /// Channels that may have something to transmit.
    touched: VecDeque<ChannelId>,
    /// Answers that belong to no channel.
    responses: VecDeque<(Transmit, Vec<u8>)>,
    scratch: Vec<u8>,
    fates: Vec<Fate>,
}

#[derive(Debug)]
struct Owner {
    session: Option<SessionId>,
    opened_at: Instant,
}

/// Packets may gather for this long where nothing asks for less.
const PATIENCE_MAX: Duration = Duration::from_millis(4);
/// Stateless answers kept for sending; more are dropped, as an overloaded network would.
const RESPONSES_MAX: usize = 64;
/// Events for which room is kept.
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
        Self {
            endpoint: Endpoint::new(epoch, key, allowed, config.channel.clone(), entropy),
            config,
            sessions: BTreeMap::new(),
            owners: BTreeMap::new(),
            tokens: BTreeMap::new(),
            next_session: 0,
            events: VecDeque::new(),
            touched: VecDeque::new(),
            responses: VecDeque::new(),
            scratch: Vec::new(),
            fates: Vec::new(),
        }
    }

    /// This node's identity.
    pub fn node_id(&self) -> NodeId {
        self.endpoint.node_id()
    }

    // ── inputs ──────────────────────────────────────────────────────────────────────────────────

    /// A packet arrived.
    pub fn handle_packet(&mut self, now: Instant, packet: Received) {
        let mut response = std::mem::take(&mut self.scratch);
        match self.endpoint.handle_packet(now, packet, &mut response) {
            Handled::Channel(id) => self.advance(now, id),
            Handled::Accepted(id) => {
                let owner = Owner {
                    session: None,
                    opened_at: now,
                };
                self.owners.insert(id, owner);
                self.advance(now, id);
            }
            Handled::Respond(transmit) => {
                if self.responses.len() < RESPONSES_MAX {
                    let bytes = response[..transmit.size].to_vec();
                    self.responses.push_back((transmit, bytes));
                }
            }
            Handled::Ignored => {}
        }
        self.scratch = response;
    }

    /// Time has passed: call it when [`Engine::poll_timeout`] is due. Calling it early is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        let channels: Vec<ChannelId> = self.endpoint.channel_ids().collect();
        for id in channels {
            let Some(channel) = self.endpoint.channel(id) else {
                continue;
            };
            if channel.poll_timeout().is_some_and(|at| at <= now) {
                channel.handle_timeout(now);
                self.endpoint.settle_channel(id);
                self.advance(now, id);
            }
            self.give_up_handshake(now, id);
            self.reap(id);
        }
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in sessions {
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
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
        if let Some((transmit, bytes)) = self.responses.pop_front() {
            buffer.clear();
            buffer.extend_from_slice(&bytes);
            return Some(transmit);
        }
        for session in self.sessions.values_mut() {
            if session.dirty {
                session.pump(now, &mut self.endpoint, &mut self.touched, &mut self.events);
            }
        }
        while let Some(&id) = self.touched.front() {
            let transmit = self
                .endpoint
                .channel(id)
                .and_then(|channel| channel.poll_transmit(now, packets_max, buffer));
            if transmit.is_some() {
                return transmit;
            }
            self.touched.pop_front();
            self.endpoint.settle_channel(id);
        }
        None
    }

    /// When [`Engine::handle_timeout`] is due next; `None` when only a packet or a command can
    /// change anything.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let mut earliest: Option<Instant> = None;
        let mut consider = |at: Option<Instant>| {
            if let Some(at) = at {
                earliest = Some(earliest.map_or(at, |earlier| earlier.min(at)));
            }
        };
        for (id, owner) in &self.owners {
            if let Some(channel) = self.endpoint.channel(*id) {
                consider(channel.poll_timeout());
                if channel.is_handshaking() {
                    consider(Some(owner.opened_at + HANDSHAKE_MAX));
                }
            }
        }
        for session in self.sessions.values() {
            consider(session.poll_timeout());
        }
        earliest
    }

    /// How long packets may gather before [`Engine::handle_packet`] and [`Engine::handle_timeout`]
    /// see them, without harm to any promise: a host under load saves wake-ups with it. Short while
    /// something urgent flows either way, or where a round trip is short. O(channels).
    pub fn patience(&self, now: Instant) -> Duration {
        self.sessions
            .values()
            .filter_map(|session| session.patience(now, &self.endpoint))
            .fold(PATIENCE_MAX, Duration::min)
    }

    /// Whether a call of [`Engine::poll_transmit`] may find something new to do.
    pub fn has_work(&self) -> bool {
        !self.touched.is_empty()
            || !self.responses.is_empty()
            || self.sessions.values().any(|session| session.dirty)
    }

    /// The next thing the application should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if event.is_none() && self.events.capacity() > EVENTS_KEPT {
            // Something happened to very many streams at once; that is no reason to keep the room.
            self.events.shrink_to(EVENTS_KEPT);
        }
        event
    }

    // ── commands ────────────────────────────────────────────────────────────────────────────────

    /// Opens a session to `peer` over every one of `links`; `Connected` follows with the first
    /// channel, `Closed` if none can be opened in time.
    ///
    /// # Errors
    /// An address cannot be dialled.
    pub fn connect(
        &mut self,
        now: Instant,
        peer: NodeId,
        links: Vec<Link>,
    ) -> Result<SessionId, ConnectError> {
        for link in &links {
            if link.remote.port() == 0 || link.remote.ip().is_unspecified() {
                return Err(ConnectError::Address(link.remote));
            }
        }
        let id = self.new_session(now, peer, true);
        for link in links {
            self.add_link(now, id, link);
        }
        Ok(id)
    }

    fn new_session(&mut self, now: Instant, peer: NodeId, is_initiator: bool) -> SessionId {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        let parts = Parts {
            id,
            peer,
            is_initiator,
            config: self.config.clone(),
        };
        self.sessions.insert(id, Session::new(now, parts));
        id
    }

    /// Opens one more channel for a session of ours, now and whenever it is lost.
    pub fn add_link(&mut self, now: Instant, session: SessionId, link: Link) {
        if let Some(state) = self.sessions.get_mut(&session)
            && !state.links.iter().any(|known| known.link == link)
            && state.links.len() < CHANNELS_MAX
        {
            state.links.push(LinkState::new(now, link));
            self.dial(now, session);
        }
    }

    /// Closes the channel of a link and does not dial it again.
    pub fn remove_link(&mut self, now: Instant, session: SessionId, link: &Link) {
        let Some(state) = self.sessions.get_mut(&session) else {
            return;
        };
        let Some(index) = state.links.iter().position(|known| known.link == *link) else {
            return;
        };
        if let Some(id) = state.links.remove(index).channel {
            self.close_channel(now, id);
        }
    }

    /// A local socket can no longer be used: its interface went. Channels on it are closed at once.
    pub fn socket_down(&mut self, now: Instant, socket: SocketId) {
        for session in self.sessions.values_mut() {
            session.set_socket_up(now, socket, false);
        }
        let channels: Vec<ChannelId> = self.endpoint.channel_ids().collect();
        for id in channels {
            if self
                .endpoint
                .channel(id)
                .is_some_and(|channel| channel.socket() == socket)
            {
                self.close_channel(now, id);
            }
        }
    }

    /// A local socket can be used again.
    pub fn socket_up(&mut self, now: Instant, socket: SocketId) {
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in sessions {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.set_socket_up(now, socket, true);
            }
            self.dial(now, id);
        }
    }

    fn close_channel(&mut self, now: Instant, id: ChannelId) {
        if let Some(channel) = self.endpoint.channel(id) {
            channel.close(now, CODE_CHANNEL_ONLY, "this path is going away");
            self.touched.push_back(id);
            self.advance(now, id);
        }
    }

    fn session(&mut self, id: SessionId) -> Result<&mut Session, StreamError> {
        find(&mut self.sessions, id)
    }

    /// Opens a stream. The peer learns of it with the first data, or with its end.
    ///
    /// # Errors
    /// The session is unknown, the spec out of range, too many streams are open, or the guarantee that
    /// the spec asks for cannot be given and does not wait.
    pub fn open_stream(
        &mut self,
        now: Instant,
        session: SessionId,
        spec: StreamSpec,
    ) -> Result<StreamId, StreamError> {
        let session = find(&mut self.sessions, session)?;
        session.open_stream(now, spec, &mut self.events)
    }

    /// What [`Engine::open_stream`] would answer to the spec's guarantee now. Nothing is opened or
    /// reserved.
    ///
    /// # Errors
    /// [`StreamError::Refused`] with the reason and what could be promised instead; or as
    /// [`Engine::open_stream`].
    pub fn admit(
        &mut self,
        now: Instant,
        session: SessionId,
        spec: &StreamSpec,
    ) -> Result<Grant, StreamError> {
        self.session(session)?.admit(now, spec)
    }

    /// Changes what an open stream is to be promised; `None` releases it. What it was promised stays
    /// in force when this is refused.
    ///
    /// # Errors
    /// As [`Engine::open_stream`].
    pub fn change_guarantee(
        &mut self,
        now: Instant,
        session: SessionId,
        stream: StreamId,
        guarantee: Option<Guarantee>,
    ) -> Result<(), StreamError> {
        let session = find(&mut self.sessions, session)?;
        session.change_guarantee(now, stream, guarantee, &mut self.events)
    }

    /// Why a stream is promised what it is, or not; `None` for one that asked for nothing.
    pub fn explain(&self, session: SessionId, stream: StreamId) -> Option<Explanation> {
        self.sessions.get(&session)?.explain(stream)
    }

    /// Queues an ADU and returns its sequence number in the stream.
    ///
    /// # Errors
    /// Nothing was queued; [`SendError`] says why and what to do.
    pub fn send(
        &mut self,
        now: Instant,
        session: SessionId,
        stream: StreamId,
        data: Bytes,
    ) -> Result<u64, SendError> {
        self.session(session)?.send(now, stream, data)
    }

    /// As [`Engine::send`], but refuses an ADU that would miss its stream's lifetime, as far as the
    /// channels' queues and what the stream has waiting can tell.
    ///
    /// # Errors
    /// As [`Engine::send`], and [`SendError::WouldMiss`].
    pub fn send_if_timely(
        &mut self,
        now: Instant,
        session: SessionId,
        stream: StreamId,
        data: Bytes,
    ) -> Result<u64, SendError> {
        let session = self.session(session)?;
        if let Some(refusal) = session.would_miss(stream, data.len()) {
            return Err(refusal);
        }
        session.send(now, stream, data)
    }

    /// Bytes that the stream's send buffer will take; one ADU more is accepted while it is not 0.
    pub fn send_room(&self, session: SessionId, stream: StreamId) -> usize {
        self.sessions
            .get(&session)
            .map_or(0, |session| session.send_room(stream))
    }

    /// Ends the sending half of a stream: what was queued is still sent; `Delivered` follows.
    ///
    /// # Errors
    /// No such session or stream.
    pub fn finish(
        &mut self,
        _now: Instant,
        session: SessionId,
        stream: StreamId,
    ) -> Result<(), StreamError> {
        self.session(session)?.finish(stream)
    }

    /// Gives the sending half of a stream up: what was queued is dropped.
    ///
    /// # Errors
    /// No such session or stream.
    pub fn reset(
        &mut self,
        _now: Instant,
        session: SessionId,
        stream: StreamId,
        code: u32,
    ) -> Result<(), StreamError> {
        self.session(session)?.reset(stream, code)
    }

    /// Tells the peer that no more of a stream is wanted; what has arrived is dropped.
    ///
    /// # Errors
    /// No such session or stream.
    pub fn stop(
        &mut self,
        _now: Instant,
        session: SessionId,
        stream: StreamId,
        code: u32,
    ) -> Result<(), StreamError> {
        self.session(session)?.stop(stream, code)
    }

    /// The next ADU of a stream, if one is complete (and in order, where asked).
    pub fn receive(&mut self, _now: Instant, session: SessionId, stream: StreamId) -> Option<Adu> {
        self.sessions
            .get_mut(&session)?
            .receive(stream, &mut self.events)
    }

    /// Ends a session at once; the peer learns `code` and `reason`. What was not delivered is lost:
    /// finish streams and wait for `Delivered` first where that matters.
    pub fn close(&mut self, now: Instant, session: SessionId, code: u32, reason: &str) {
        if let Some(mut state) = self.sessions.remove(&session) {
            state.close_channels(
                now,
                &mut self.endpoint,
                CODE_APPLICATION.saturating_add(code),
                reason,
            );
            self.forget_session(now, &state, SessionCloseReason::Local);
        }
    }

    /// Changes the scheduling policy of a session.
    ///
    /// # Errors
    /// No such session.
    pub fn set_policy(&mut self, session: SessionId, policy: Policy) -> Result<(), StreamError> {
        self.session(session)?.set_policy(policy);
        Ok(())
    }

    /// Replaces the scheduler of a session by one that is no policy of ours, for experiments: a policy that
    /// knows the future, say.
    ///
    /// # Errors
    /// No such session.
    pub fn set_scheduler(
        &mut self,
        session: SessionId,
        scheduler: Box<dyn Scheduler>,
    ) -> Result<(), StreamError> {
        self.session(session)?.set_scheduler(scheduler);
        Ok(())
    }

    /// Ids of all sessions.
    pub fn session_ids(&self) -> Vec<SessionId> {
        self.sessions.keys().copied().collect()
    }

    /// A session as a whole.
    pub fn session_stats(&self, session: SessionId) -> Option<SessionStats> {
        self.sessions.get(&session).map(Session::stats)
    }

    /// The channels of a session, in the order in which they were opened.
    pub fn channel_stats(&mut self, session: SessionId) -> Vec<ChannelReport> {
        match self.sessions.get_mut(&session) {
            Some(session) => session.channel_stats(&mut self.endpoint),
            None => Vec::new(),
        }
    }

    /// The open streams of a session.
    pub fn stream_stats(&self, session: SessionId) -> Vec<StreamStats> {
        self.sessions
            .get(&session)
            .map_or_else(Vec::new, Session::stream_stats)
    }

    // ── routing ─────────────────────────────────────────────────────────────────────────────────

    /// Carries what a channel has to say to its session.
    fn advance(&mut self, now: Instant, id: ChannelId) {
        if !self.touched.contains(&id) {
            self.touched.push_back(id);
        }
        self.take_fates(now, id);
        while let Some(event) = self.endpoint.channel(id).and_then(|c| c.poll_event()) {
            self.on_channel_event(now, id, event);
        }
        while let Some(container) = self.endpoint.channel(id).and_then(|c| c.receive()) {
            if let Err(error) = self.on_container(now, id, container) {
                self.on_violation(now, id, error);
                return;
            }
        }
    }

    fn take_fates(&mut self, now: Instant, id: ChannelId) {
        let Some(session) = self.owners.get(&id).and_then(|owner| owner.session) else {
            return;
        };
        let mut fates = std::mem::take(&mut self.fates);
        if let Some(channel) = self.endpoint.channel(id) {
            channel.take_fates(&mut fates);
        }
        if let Some(session) = self.sessions.get_mut(&session) {
            for fate in fates.drain(..) {
                session.on_fate(now, id, fate, &mut self.events);
            }
        }
        fates.clear();
        self.fates = fates;
    }

    fn on_channel_event(&mut self, now: Instant, id: ChannelId, event: channel::Event) {
        match event {
            channel::Event::Connected => self.on_connected(now, id),
            channel::Event::Suspected => {
                if let Some(session) = self.owner(id) {
                    session.on_suspected(id);
                    let session = session.id;
                    self.settle_home(now, session);
                    self.events.push_back(Event::ChannelSuspected {
                        session,
                        channel: id,
                    });
                }
            }
            channel::Event::Recovered { silence } => {
                if let Some(session) = self.owner(id) {
                    session.on_recovered(id);
                    let session = session.id;
                    self.events.push_back(Event::ChannelRecovered {
                        session,
                        channel: id,
                        silence,
                    });
                }
            }
            channel::Event::Closed(reason) => self.on_channel_closed(now, id, reason),
        }
    }

    /// Founds the session on a channel, if it has no foundation yet.
    fn settle_home(&mut self, now: Instant, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if let Some(home) = session.next_home()
            && let Some(channel) = self.endpoint.channel(home)
        {
            let token = Token::of_first_channel(channel);
            let before = session.set_home(home, token);
            if let Some(before) = before
                && let Some(channel) = self.endpoint.channel(before)
            {
                channel.close(
                    now,
                    CODE_SUPERSEDED,
                    "the session begins anew on another path",
                );
                self.touched.push_back(before);
                self.advance_closed(now, before);
            }
        }
    }

    fn owner(&mut self, id: ChannelId) -> Option<&mut Session> {
        let session = self.owners.get(&id)?.session?;
        self.sessions.get_mut(&session)
    }

    /// A handshake is complete. Our own channels are introduced with their first container; those
    /// of the peer wait for its first word.
    fn on_connected(&mut self, now: Instant, id: ChannelId) {
        let Some(session_id) = self.owners.get(&id).and_then(|owner| owner.session) else {
            return;
        };
        let Some(channel) = self.endpoint.channel(id) else {
            return;
        };
        let (socket, remote) = (channel.socket(), channel.remote());
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return;
        };
        session.on_connected(id, (socket, remote), false);
        self.settle_home(now, session_id);
        self.events.push_back(Event::ChannelUp {
            session: session_id,
            channel: id,
            socket,
            remote,
        });
    }

    fn on_container(
        &mut self,
        now: Instant,
        id: ChannelId,
        container: Bytes,
    ) -> Result<(), ProtocolError> {
        let session_id = match self.owners.get(&id) {
            Some(Owner {
                session: Some(session),
                ..
            }) => *session,
            Some(_) => match self.introduce(now, id, container.clone())? {
                Some(session) => session,
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return Ok(());
        };
        session.on_container(now, id, container, &mut self.events)?;
        if !session.replaced.is_empty() {
            self.end_replaced(now, session_id);
        }
        Ok(())
    }

    /// Ends the sessions that another one of the same peer replaces.
    fn end_replaced(&mut self, now: Instant, by: SessionId) {
        let Some(session) = self.sessions.get_mut(&by) else {
            return;
        };
        let peer = session.peer;
        for replaced in std::mem::take(&mut session.replaced) {
            let known = self.tokens.get(&replaced).copied();
            let is_theirs = |id: &SessionId| {
                *id != by && self.sessions.get(id).is_some_and(|old| old.peer == peer)
            };
            if let Some(id) = known.filter(is_theirs) {
                self.end_session(now, id, SessionCloseReason::Superseded);
            }
        }
    }

    /// The first container of an accepted channel says where it belongs: `Join` names the session,
    /// whose first channel derives the same name from its own secret.
    fn introduce(
        &mut self,
        now: Instant,
        id: ChannelId,
        mut container: Bytes,
    ) -> Result<Option<SessionId>, ProtocolError> {
        wire::read_header(&mut container)?;
        let Some(Frame::Control(Control::Join { session, proof })) =
            Reader::new(container).next_frame()?
        else {
            return Err(ProtocolError::Rule("a channel's first frame is not a join"));
        };
        let Some(channel) = self.endpoint.channel(id) else {
            return Ok(None);
        };
        let Some(peer) = channel.peer() else {
            return Ok(None);
        };
        let (socket, remote) = (channel.socket(), channel.remote());
        let own = Token::of_first_channel(channel);
        let known = self.tokens.get(&session).copied();
        let session_id = if let Some(known) = known {
            let state = &self.sessions[&known];
            let belongs = state.peer == peer
                && state.members.len() < CHANNELS_MAX
                && state
                    .token
                    .as_ref()
                    .is_some_and(|token| token.accepts(channel, &proof));
            if !belongs {
                return Err(ProtocolError::Rule("a join with a wrong token"));
            }
            known
        } else if let Some(token) =
            own.filter(|token| token.session == session && token.accepts(channel, &proof))
        {
            let new = self.new_session(now, peer, false);
            self.tokens.insert(session, new);
            if let Some(state) = self.sessions.get_mut(&new) {
                state.token = Some(token);
            }
            self.events.push_back(Event::Connected {
                session: new,
                peer,
                incoming: true,
            });
            new
        } else {
            channel.close(now, CODE_FORGOTTEN, "no such session here");
            self.advance_closed(now, id);
            return Ok(None);
        };
        if let Some(owner) = self.owners.get_mut(&id) {
            owner.session = Some(session_id);
        }
        if let Some(state) = self.sessions.get_mut(&session_id) {
            state.add_member(now, id);
            state.on_connected(id, (socket, remote), true);
        }
        self.events.push_back(Event::ChannelUp {
            session: session_id,
            channel: id,
            socket,
            remote,
        });
        Ok(Some(session_id))
    }

    /// Takes the `Closed` event of a channel that was just closed.
    fn advance_closed(&mut self, now: Instant, id: ChannelId) {
        while let Some(event) = self.endpoint.channel(id).and_then(|c| c.poll_event()) {
            self.on_channel_event(now, id, event);
        }
    }

    fn on_violation(&mut self, now: Instant, id: ChannelId, error: ProtocolError) {
        let code = match error {
            ProtocolError::Version(_) => CODE_VERSION,
            _ => CODE_PROTOCOL,
        };
        let words = error.to_string();
        let session = self.owners.get(&id).and_then(|owner| owner.session);
        match session.and_then(|session| self.sessions.remove(&session)) {
            Some(mut session) => {
                session.close_channels(now, &mut self.endpoint, code, &words);
                self.forget_session(now, &session, error.into_reason());
            }
            None => {
                if let Some(channel) = self.endpoint.channel(id) {
                    channel.close(now, code, &words);
                }
                self.advance_closed(now, id);
            }
        }
    }

    fn on_channel_closed(&mut self, now: Instant, id: ChannelId, reason: CloseReason) {
        self.take_fates(now, id);
        let Some(session) = self.owner(id) else {
            return;
        };
        let session_id = session.id;
        session.on_channel_closed(now, id);
        self.settle_home(now, session_id);
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return;
        };
        session.last_failure = Some(reason.clone());
        let alone = session.members.is_empty();
        let last_hope = session.links.iter().all(|link| link.channel.is_none());
        let is_initiator = session.is_initiator;
        self.events.push_back(Event::ChannelClosed {
            session: session_id,
            channel: id,
            reason: reason.clone(),
        });
        let end = match &reason {
            CloseReason::Peer { code, reason } => match u32::try_from(*code) {
                Ok(CODE_CHANNEL_ONLY) => None,
                Ok(CODE_SUPERSEDED) => Some(SessionCloseReason::Superseded),
                Ok(CODE_FORGOTTEN) => Some(SessionCloseReason::Forgotten),
                Ok(CODE_PROTOCOL | CODE_VERSION) => Some(SessionCloseReason::Protocol(format!(
                    "the peer says: {reason}"
                ))),
                _ => Some(SessionCloseReason::Peer {
                    code: code.saturating_sub(u64::from(CODE_APPLICATION)),
                    reason: reason.clone(),
                }),
            },
            CloseReason::Unauthorized if alone && last_hope && is_initiator => {
                Some(SessionCloseReason::Unreachable(reason))
            }
            _ => None,
        };
        if let Some(end) = end {
            self.end_session(now, session_id, end);
        }
    }

    fn end_session(&mut self, now: Instant, id: SessionId, reason: SessionCloseReason) {
        if let Some(mut session) = self.sessions.remove(&id) {
            if matches!(reason, SessionCloseReason::Peer { .. }) {
                session.hand_over_remainders(&mut self.events);
            }
            session.close_channels(
                now,
                &mut self.endpoint,
                CODE_APPLICATION,
                &reason.to_string(),
            );
            self.forget_session(now, &session, reason);
        }
    }

    /// Detaches a session's channels, which then drain by themselves.
    fn forget_session(&mut self, now: Instant, session: &Session, reason: SessionCloseReason) {
        if let Some(token) = &session.token {
            self.tokens.remove(&token.session);
        }
        for member in &session.members {
            if let Some(owner) = self.owners.get_mut(&member.id) {
                owner.session = None;
            }
            self.touched.push_back(member.id);
            self.advance_closed(now, member.id);
        }
        self.events.push_back(Event::Closed {
            session: session.id,
            reason,
        });
    }

    /// Dials the links of a session that are due.
    fn dial(&mut self, now: Instant, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let peer = session.peer;
        for index in 0..session.links.len() {
            if !session.links[index].is_due(now) {
                continue;
            }
            let link = session.links[index].link;
            match self
                .endpoint
                .connect(now, link.socket, link.remote, peer, None)
            {
                Ok(channel) => {
                    session.links[index].on_dialled(channel);
                    session.add_member(now, channel);
                    let owner = Owner {
                        session: Some(id),
                        opened_at: now,
                    };
                    self.owners.insert(channel, owner);
                    self.touched.push_back(channel);
                }
                Err(_) => session.links[index].on_closed(now),
            }
        }
    }

    /// A handshake that hangs is given up, so that the link is dialled afresh.
    fn give_up_handshake(&mut self, now: Instant, id: ChannelId) {
        let Some(owner) = self.owners.get(&id) else {
            return;
        };
        if now.since(owner.opened_at) < HANDSHAKE_MAX {
            return;
        }
        if let Some(channel) = self.endpoint.channel(id)
            && channel.is_handshaking()
        {
            channel.close(now, CODE_CHANNEL_ONLY, "the handshake took too long");
            self.touched.push_back(id);
            self.advance_closed(now, id);
        }
    }

    /// Forgets a channel of which nothing is left.
    fn reap(&mut self, id: ChannelId) {
        if self
            .endpoint
            .channel(id)
            .is_some_and(|channel| channel.is_drained())
        {
            self.endpoint.settle_channel(id);
            self.endpoint.forget(id);
            self.owners.remove(&id);
        }
    }
}
