//! A session: two nodes, one or more channels, any number of streams.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the state, and the accounts of credit |
//! | `halves` | the sending halves, and which of them changed |
//! | `streams` | commands of the application |
//! | `incoming` | containers from the peer |
//! | `outcomes` | packets acknowledged, lost, or stuck on a silent channel |
//! | `pump` | the scheduling loop: from slots and backlogs to containers |
//! | `views` | what the policy sees of the streams |
//! | `copies` | second copies for the tail of a transfer and for pressing packets in danger |
//! | `objectives` | objectives in force, header fields, `rate` items |
//! | `planning` | what a policy that plans is shown: ADUs, slots, history |
//! | `models` | what to expect of channels, while the policy plans |
//! | `observed` | what is measured of streams for objectives |
//! | `probation` | what the session of a stranger may cost before it is let in |
//! | `promises` | admission, and promises as windows end |
//! | `shares` | what each stream may send: `Throttle` events, caps, what is dropped beyond them |

mod arrival_period;
mod builder;
mod copies;
mod coupling;
#[cfg(test)]
mod credit;
mod halves;
mod incoming;
mod limits;
mod models;
mod objectives;
mod observed;
mod outcomes;
mod outlook;
mod planning;
mod probation;
mod promises;
mod pump;
mod shares;
mod streams;
mod views;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use anabranch_base::{ChannelId, Instant, NodeId, Rate, Seed, SessionId, SocketId, StreamId};
use anabranch_channel::{CloseReason, Endpoint, QueueGoal};
use anabranch_sched::{Policy, Scheduler, StreamSpec};

use crate::{
    budget::Marginal,
    config::{Config, INITIAL_SESSION_CREDIT_BYTES, grant_step},
    event::{Event, SessionCloseReason},
    flight::Flight,
    journal::{Entry, Journal},
    links::LinkState,
    measure::Measures,
    promise::Promises,
    ranges::Ranges,
    recv::{Accounts, Capacity, Load, RecvStream, Violation},
    report::Collector,
    send::SendStream,
    stats::{ChannelReport, ChannelState, SessionStats, StreamStats},
    token::Token,
    wire::{Control, DecodeError, VERSION, frame::TOKEN_BYTES},
};

use self::halves::Halves;

/// Gaps between ADUs received that are remembered, of all reliable streams together; a peer that numbers its ADUs more
/// sparsely is at fault. Of unreliable streams about as many are, divided evenly.
const GAPS_MAX: usize = 1 << 16;
/// Of an unreliable stream at most and at least, however many there are.
const UNRELIABLE_GAPS_MAX: usize = 1024;
const UNRELIABLE_GAPS_MIN: usize = 8;
/// Sessions that are remembered as replaced by one. An initiator changes its home as often as its paths fail before the session is
/// established: seldom more than once.
const SUPERSEDED_KEPT: usize = 8;
/// Memory may be reserved for what has not come of ADUs: this part of the session's window.
const RESERVED_PART: usize = 16;

/// Packets may gather for this long while something flows that should meet short queues.
const COALESCING_DELAY_URGENT: Duration = Duration::from_millis(1);

/// The peer broke the protocol; the session ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Stream(#[from] Violation),
    #[error("{0}")]
    Rule(&'static str),
    #[error("wire version {0}")]
    Version(u64),
}

impl ProtocolError {
    pub(crate) fn into_reason(self) -> SessionCloseReason {
        match self {
            Self::Version(version) => SessionCloseReason::Version(version),
            other => SessionCloseReason::Protocol(other.to_string()),
        }
    }
}

/// A channel as its session sees it. Key: channel.
#[derive(Debug)]
pub(crate) struct Member {
    pub id: ChannelId,
    /// What objectives call it; `None`: by its id.
    pub name: Option<Arc<str>>,
    pub flight: Flight,
    /// The peer has acknowledged a container that says which session this channel belongs to.
    pub introduced: bool,
    pub connected: bool,
    pub suspected: bool,
    /// What its channel was told last.
    pub queue_goal: QueueGoal,
    /// The same of the rate to hold.
    pub rate: Option<Rate>,
    /// What it is to hold instead of the session's rate.
    pub own_rate: Option<Rate>,
    /// What it was told last of its share of a flow.
    pub share: f64,
    /// Its congestion events that its partners were told of; kept while it is coupled.
    pub congestion_told: Option<u64>,
    /// What the next byte on it costs.
    pub marginal: Marginal,
    pub collector: Collector,
    pub peer_report: Option<Control>,
    pub timestamp_at: Instant,
    pub payload_sent_bytes: u64,
    pub payload_received_bytes: u64,
    /// Frames for this channel only.
    pub control: VecDeque<Control>,
    /// Containers sent.
    pub launched: u64,
}

impl Member {
    fn new(now: Instant, id: ChannelId) -> Self {
        Self {
            id,
            name: None,
            flight: Flight::default(),
            introduced: false,
            connected: false,
            suspected: false,
            queue_goal: QueueGoal::default(),
            rate: None,
            own_rate: None,
            share: 1.0,
            congestion_told: None,
            marginal: Marginal::FREE,
            collector: Collector::new(now),
            peer_report: None,
            timestamp_at: Instant::EPOCH,
            payload_sent_bytes: 0,
            payload_received_bytes: 0,
            control: VecDeque::new(),
            launched: 0,
        }
    }
}

/// Sums over a session's life, channels and streams that are over included.
#[derive(Debug, Default)]
struct Totals {
    payload_sent_bytes: u64,
    /// What [`Config::copies_max`] bounds.
    copied_bytes: u64,
}

/// Key: session.
#[derive(Debug)]
pub(crate) struct Session {
    pub id: SessionId,
    pub peer: NodeId,
    pub is_initiator: bool,
    pub config: Config,
    pub token: Option<Token>,
    /// The first channel, from which the token comes. Until the peer has acknowledged something on
    /// it, no other channel may speak: the peer could not tell where it belongs.
    initial_channel: Option<ChannelId>,
    pub established: bool,
    opened_at: Instant,
    /// Why the last channel that was lost before the session was established ended.
    pub last_failure: Option<CloseReason>,
    pub links: Vec<LinkState>,
    pub members: Vec<Member>,
    policy: Policy,
    scheduler: Box<dyn Scheduler>,
    /// What channels are to hold whose controllers hold a rate; `None`: as they are configured.
    rate: Option<Rate>,

    send: Halves,
    /// Sending halves with something to send, to give up or to announce; others may linger until the
    /// next sweep. What the pump costs depends on these, not on how many streams are open.
    active: BTreeSet<StreamId>,
    recv: BTreeMap<StreamId, Box<RecvStream>>,
    next_stream: u64,
    /// Indices of streams of the peer that were opened, whether or not they are over.
    seen_streams: Ranges,
    /// Streams that this side stopped reading, with their credit, until the peer's reset tells what they had used.
    stopped: BTreeMap<StreamId, Accounts>,
    /// Streams of the peer of which anything is kept: a half, or its being stopped.
    peer_streams: usize,
    /// Ids of sessions that the peer says this one replaces; for the engine to end.
    pub replaced: Vec<[u8; TOKEN_BYTES]>,
    /// Those of which it said so last, at most [`SUPERSEDED_KEPT`]: what arrives late does not found them again.
    superseded: VecDeque<[u8; TOKEN_BYTES]>,
    /// Streams reset before the peer acknowledged their announcement.
    given_up: BTreeMap<StreamId, Arc<StreamSpec>>,
    /// What the receiving halves take of what they share, all together. Credit that was seen to be used stays in it when its
    /// stream is over.
    load: Load,
    /// Frames for the peer, on whatever channel goes first.
    control: VecDeque<Control>,

    /// Credit of all reliable streams: used by us and granted by the peer; consumed by the application, and granted by us.
    /// Nothing is consumed that was not seen to be used (`load`), and nothing is seen beyond what was granted.
    charged: u64,
    credit: u64,
    consumed: u64,
    granted: u64,
    peer_stream_window: Option<u64>,

    /// Since when there has been no connected channel.
    pub alone_since: Option<Instant>,
    totals: Totals,
    copies_budget: f64,
    copy_check_at: Instant,
    couplings: coupling::Couplings,
    /// When a stream that should meet short queues was last given something here, and when something
    /// last came from one of the peer's.
    urgent_sent_at: Option<Instant>,
    urgent_received_at: Option<Instant>,
    /// Bytes that one stream may hold for sending: as configured, or more where long fat paths
    /// have more in flight.
    send_buffer: usize,
    /// No ADU expires before; `None`: none at all.
    expire_at: Option<Instant>,
    /// A stream with a lifetime has sent.
    has_lifetimes: bool,
    /// The most credit that an ADU may need, of all that were handed over.
    charge_max: u64,
    /// The pump has to run.
    pub dirty: bool,
    /// When the pump wants to run again.
    pump_at: Option<Instant>,
    shares: shares::Shares,
    measures: Measures,
    promises: Promises,
    objectives: objectives::ActiveObjectives,
    planning: planning::Planning,
    seed: Seed,
    arrival_periods: arrival_period::ArrivalPeriods,
    /// Kept while somebody wants it.
    journal: Option<Box<Journal>>,
    /// A stranger opened it, and has not shown its right.
    probation: Option<Box<probation::Probation>>,
    /// A stranger opened it.
    pub is_strangers: bool,
    scratch: pump::Scratch,
}

/// What a new session is made of.
pub(crate) struct Parts {
    pub id: SessionId,
    pub peer: NodeId,
    pub is_initiator: bool,
    pub config: Config,
    /// It is on probation until then; `None`: it is not.
    pub probation: Option<Instant>,
    /// Of what is random in its scheduling.
    pub seed: Seed,
}

impl Session {
    pub(crate) fn new(now: Instant, mut parts: Parts) -> Self {
        let probation = parts
            .probation
            .map(|until| Box::new(probation::Probation::new(until, &mut parts.config)));
        let send_buffer = parts.config.send_buffer_bytes;
        let mut session = Self {
            id: parts.id,
            peer: parts.peer,
            is_initiator: parts.is_initiator,
            policy: parts.config.policy,
            scheduler: parts.config.policy.build(parts.seed),
            rate: None,
            objectives: objectives::ActiveObjectives::default(),
            planning: planning::Planning::default(),
            seed: parts.seed,
            granted: parts.config.session_window_bytes,
            measures: Measures::new(parts.config.measure_window),
            promises: Promises::new(parts.config.measure_window),
            config: parts.config,
            token: None,
            initial_channel: None,
            established: !parts.is_initiator,
            opened_at: now,
            last_failure: None,
            links: Vec::new(),
            members: Vec::new(),
            send: Halves::default(),
            active: BTreeSet::new(),
            recv: BTreeMap::new(),
            next_stream: 0,
            seen_streams: Ranges::default(),
            stopped: BTreeMap::new(),
            replaced: Vec::new(),
            superseded: VecDeque::new(),
            given_up: BTreeMap::new(),
            peer_streams: 0,
            load: Load::default(),
            control: VecDeque::new(),
            charged: 0,
            credit: INITIAL_SESSION_CREDIT_BYTES,
            consumed: 0,
            peer_stream_window: None,
            alone_since: Some(now),
            totals: Totals::default(),
            copies_budget: 65_536.0,
            copy_check_at: now,
            couplings: coupling::Couplings::default(),
            urgent_sent_at: None,
            urgent_received_at: None,
            send_buffer,
            expire_at: None,
            has_lifetimes: false,
            charge_max: 0,
            dirty: true,
            pump_at: None,
            shares: shares::Shares::new(now),
            arrival_periods: arrival_period::ArrivalPeriods::default(),
            journal: None,
            is_strangers: probation.is_some(),
            probation,
            scratch: pump::Scratch::default(),
        };
        session.control.push_back(Control::Hello {
            version: VERSION,
            stream_window_bytes: session.config.stream_window_bytes,
            session_window_bytes: session.config.session_window_bytes,
        });
        session
    }

    pub(crate) fn member(&mut self, id: ChannelId) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    /// A channel that will belong to this session is being opened.
    pub(crate) fn add_member(&mut self, now: Instant, id: ChannelId) {
        if self.members.is_empty() {
            // Most sessions of strangers never have a second one.
            self.members.reserve_exact(1);
        }
        self.members.push(Member::new(now, id));
    }

    /// A channel of this session can carry data.
    pub(crate) fn on_connected(
        &mut self,
        id: ChannelId,
        (socket, remote): (SocketId, SocketAddr),
        introduced: bool,
    ) {
        if !self.is_on_probation() {
            self.measure(id, socket, remote);
        }
        if let Some(member) = self.member(id) {
            member.connected = true;
            member.introduced = introduced;
        }
        self.alone_since = None;
        self.dirty = true;
        if let Some(link) = self.links.iter_mut().find(|link| link.channel == Some(id)) {
            link.on_connected();
        }
    }

    /// What a channel does is measured from now on.
    pub(crate) fn measure(&mut self, id: ChannelId, socket: SocketId, remote: SocketAddr) {
        self.measures.join(id, socket, remote);
        self.promises.on_channels_changed();
    }

    /// Objectives call the channel so.
    pub(crate) fn name_channel(&mut self, id: ChannelId, name: Option<Arc<str>>) {
        if let Some(member) = self.member(id) {
            member.name = name;
        }
    }

    /// The peer has let us in: it acknowledged or said something beyond the handshake.
    pub(super) fn establish(&mut self, events: &mut VecDeque<Event>) {
        if !self.established {
            self.established = true;
            events.push_back(Event::Connected {
                session: self.id,
                peer: self.peer,
                incoming: false,
            });
        }
    }

    /// Why the session is to be given up, if its time is over.
    pub(crate) fn overdue(&self, now: Instant) -> Option<SessionCloseReason> {
        if !self.established && now.since(self.opened_at) >= self.config.connect_timeout {
            let last = self.last_failure.clone().unwrap_or(CloseReason::TimedOut);
            return Some(SessionCloseReason::Unreachable(last));
        }
        if self
            .probation
            .as_ref()
            .is_some_and(|probation| probation.until() <= now)
        {
            return Some(SessionCloseReason::NotAdmitted);
        }
        let timeout = self.config.session_timeout;
        let alone = self
            .alone_since
            .is_some_and(|since| now.since(since) >= timeout);
        alone.then_some(SessionCloseReason::TimedOut(timeout))
    }

    /// Whether the session still has to be founded, and on which channel: the first that connected,
    /// or another one when that is lost or silent before it was acknowledged.
    pub(crate) fn next_initial_channel(&mut self) -> Option<ChannelId> {
        if self.established {
            return None;
        }
        let initial = self.members.iter().find(|m| m.connected && !m.suspected)?;
        let sits = self
            .initial_channel
            .is_some_and(|id| self.members.iter().any(|m| m.id == id && !m.suspected));
        (!sits).then_some(initial.id)
    }

    /// Founds the session on this channel. Returns the channel it was founded on before: the peer
    /// may know the session by that one already, and has to be told that this is over.
    pub(crate) fn set_initial_channel(
        &mut self,
        channel: ChannelId,
        token: Option<Token>,
    ) -> Option<ChannelId> {
        let before = self.initial_channel.replace(channel);
        if let Some(replaced) = &self.token {
            // The peer may have founded a session on what was said so far.
            self.control.push_front(Control::Replace {
                session: replaced.session,
            });
        }
        self.token = token;
        for member in &mut self.members {
            member.introduced = false;
        }
        self.dirty = true;
        before
    }

    /// A channel is over and all its fates are known.
    pub(crate) fn on_channel_closed(&mut self, now: Instant, id: ChannelId) {
        debug_assert!(
            self.member(id)
                .is_none_or(|member| member.flight.is_empty()),
            "a channel closes when all fates are known"
        );
        self.members.retain(|member| member.id != id);
        self.measures.leave(id);
        self.planning.models.close(id);
        self.promises.on_channels_changed();
        for link in &mut self.links {
            if link.channel == Some(id) {
                link.on_closed(now);
            }
        }
        if !self.members.iter().any(|member| member.connected) {
            self.alone_since.get_or_insert(now);
        }
        self.dirty = true;
    }

    pub(crate) fn set_socket_up(&mut self, now: Instant, socket: SocketId, up: bool) {
        for link in &mut self.links {
            if link.link.socket == socket {
                link.set_up(now, up);
            }
        }
    }

    pub(crate) fn set_channel_rate(&mut self, rate: Rate) {
        self.rate = Some(rate);
        for member in &mut self.members {
            member.own_rate = None;
        }
        self.dirty = true;
    }

    /// False: no such channel.
    pub(crate) fn set_rate_of_channel(&mut self, channel: ChannelId, rate: Rate) -> bool {
        let mut members = self.members.iter_mut();
        let member = members.find(|member| member.id == channel);
        self.dirty |= member.is_some();
        member.map(|member| member.own_rate = Some(rate)).is_some()
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        self.set_scheduler(policy.build(self.seed));
    }

    /// A scheduler that has no name; the policy's name stays.
    pub(crate) fn set_scheduler(&mut self, scheduler: Box<dyn Scheduler>) {
        self.scheduler = scheduler;
        self.promises.on_channels_changed();
        self.dirty = true;
    }

    /// Begins to keep a journal, or ends it.
    pub(crate) fn keep_journal(&mut self, is_wanted: bool) {
        self.journal = is_wanted.then(Box::default);
    }

    /// The journal's entries since the last call.
    pub(crate) fn take_journal(&mut self) -> Vec<Entry> {
        self.journal
            .as_mut()
            .map_or_else(Vec::new, |journal| journal.take())
    }

    fn session_credit(&self) -> u64 {
        self.credit.saturating_sub(self.charged)
    }

    /// Credit is known to have been used.
    fn see(&mut self, bytes: u64) -> Result<(), ProtocolError> {
        self.load.seen = self.load.seen.saturating_add(bytes);
        if self.load.seen > self.granted {
            return Err(ProtocolError::Rule(
                "more was sent than the session had credit for",
            ));
        }
        Ok(())
    }

    /// A receiving half took so much of what all share, and takes so much now.
    fn note_load(&mut self, before: Load, after: Load) -> Result<(), ProtocolError> {
        self.load.change(before, after);
        self.see(0)
    }

    /// What is left of what the receiving halves share.
    fn recv_capacity(&self) -> Capacity {
        let window = usize::try_from(self.config.session_window_bytes).unwrap_or(usize::MAX);
        let each = GAPS_MAX / self.recv.len().max(1);
        Capacity {
            held_bytes: window.saturating_sub(self.load.held_bytes),
            reserve_bytes: (window / RESERVED_PART).saturating_sub(self.load.reserved_bytes),
            gaps: GAPS_MAX.saturating_sub(self.load.gaps),
            gaps_unreliable: each.clamp(UNRELIABLE_GAPS_MIN, UNRELIABLE_GAPS_MAX),
        }
    }

    /// Bytes of reliable streams were consumed that had been seen; announces more credit when that is worth a frame.
    fn consume(&mut self, bytes: u64) {
        debug_assert!(self.consumed + bytes <= self.load.seen);
        self.consumed = self.consumed.saturating_add(bytes).min(self.load.seen);
        let window = self.config.session_window_bytes;
        let target = self.consumed.saturating_add(window);
        if target.saturating_sub(self.granted) >= grant_step(window) {
            self.granted = target;
            self.control
                .push_back(Control::SessionCredit { bytes: target });
            self.dirty = true;
        }
    }

    /// Forgets a receiving half; returns its credit.
    fn drop_receiving_half(&mut self, stream: StreamId) -> Option<Accounts> {
        let half = self.recv.remove(&stream)?;
        let before = half.load();
        let seen = before.seen;
        self.load.change(
            before,
            Load {
                seen,
                ..Load::default()
            },
        );
        Some(half.accounts())
    }

    /// The peer has said that this session replaces that one.
    pub(crate) fn note_superseded(&mut self, session: [u8; TOKEN_BYTES]) {
        if self.superseded.len() >= SUPERSEDED_KEPT {
            self.superseded.pop_front();
        }
        self.superseded.push_back(session);
    }

    /// True if the peer has said that this session replaces that one, and not too many since.
    pub(crate) fn has_superseded(&self, session: &[u8; TOKEN_BYTES]) -> bool {
        self.superseded.contains(session)
    }

    /// Something of a stream is over; perhaps all of it.
    fn note_over(&mut self, stream: StreamId) {
        let is_theirs = stream.is_by_initiator() != self.is_initiator;
        let is_kept = self.recv.contains_key(&stream)
            || self.send.contains_key(&stream)
            || self.stopped.contains_key(&stream);
        if is_theirs && !is_kept {
            self.peer_streams = self.peer_streams.saturating_sub(1);
        }
    }

    /// Whether the peer may not know the stream yet: one of ours, whose announcement was not
    /// acknowledged; with what to announce.
    fn unannounced(&self, stream: StreamId) -> Option<Control> {
        if stream.is_by_initiator() != self.is_initiator {
            return None;
        }
        let spec = match self.send.get(&stream) {
            Some(half) if half.announced => return None,
            Some(half) => (*half.spec).clone(),
            None => (**self.given_up.get(&stream)?).clone(),
        };
        let spec = Box::new(spec);
        Some(Control::Open { stream, spec })
    }

    /// When the session wants to be looked at again, channels' own timers aside.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.dirty {
            return Some(Instant::EPOCH);
        }
        let timed_out = if self.established {
            self.alone_since
                .map(|since| since + self.config.session_timeout)
        } else {
            Some(self.opened_at + self.config.connect_timeout)
        };
        let reports = self.members.iter().filter_map(|m| m.collector.due()).min();
        let dial = self.links.iter().filter_map(LinkState::next_dial).min();
        let window = self.measures.due();
        let rest = self.shares.rests_at();
        let probation = self.probation.as_ref().map(|probation| probation.until());
        [
            self.pump_at,
            timed_out,
            reports,
            dial,
            self.expire_at,
            window,
            rest,
            probation,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The sending halves that may need something.
    fn active_halves(&self) -> impl Iterator<Item = &SendStream> {
        self.active
            .iter()
            .filter_map(|stream| self.send.get(stream).map(|half| &**half))
    }

    /// How long packets may gather; `None`: this session does not mind.
    pub(crate) fn coalescing_delay(&self, now: Instant, endpoint: &Endpoint) -> Option<Duration> {
        let recently =
            |at: Option<Instant>| at.is_some_and(|at| now.since(at) < limits::URGENT_MEMORY);
        if recently(self.urgent_sent_at) || recently(self.urgent_received_at) {
            return Some(COALESCING_DELAY_URGENT);
        }
        self.members
            .iter()
            .filter(|member| member.connected && !member.suspected)
            .filter_map(|member| Some(endpoint.peek(member.id)?.coalescing_delay()))
            .min()
    }

    /// Time has passed: drops what has expired, prepares reports, wakes the pump.
    pub(crate) fn handle_timeout(&mut self, now: Instant, events: &mut VecDeque<Event>) {
        self.expire(now, events);
        self.advance_measures(now, events);
        self.shares.rest(now);
        for member in &mut self.members {
            if let Some(report) = member.collector.take(now) {
                // One that could not leave yet is old news.
                let waiting = &mut member.control;
                waiting.retain(|control| !matches!(control, Control::Report { .. }));
                waiting.push_back(report);
                self.dirty = true;
            }
        }
        if self.pump_at.is_some_and(|at| at <= now) {
            self.dirty = true;
        }
    }

    pub(crate) fn stats(&self) -> SessionStats {
        SessionStats {
            session: self.id,
            peer: self.peer,
            incoming: !self.is_initiator,
            policy: self.policy,
            channels_active: self
                .members
                .iter()
                .filter(|m| m.connected && !m.suspected)
                .count(),
            streams: self
                .send
                .keys()
                .chain(self.recv.keys())
                .collect::<std::collections::BTreeSet<_>>()
                .len(),
            payload_sent_bytes: self.totals.payload_sent_bytes,
            copied_bytes: self.totals.copied_bytes,
            send_buffer_bytes: self.send_buffer as u64,
            send_held_bytes: self.send.values().map(|s| s.held_bytes() as u64).sum(),
            recv_held_bytes: self.recv.values().map(|s| s.held_bytes() as u64).sum(),
        }
    }

    pub(crate) fn channel_stats(&mut self, endpoint: &mut Endpoint) -> Vec<ChannelReport> {
        let (measures, models) = (&mut self.measures, &self.planning.models);
        self.members
            .iter()
            .filter_map(|member| {
                let channel = endpoint.channel(member.id)?;
                let state = if !member.connected {
                    ChannelState::Connecting
                } else if member.suspected {
                    ChannelState::Suspected
                } else {
                    ChannelState::Active
                };
                let delay_variation = match &member.peer_report {
                    Some(Control::Report {
                        delay_min,
                        delay_mean,
                        delay_max,
                        ..
                    }) => Some((*delay_min, *delay_mean, *delay_max)),
                    _ => None,
                };
                Some(ChannelReport {
                    channel: member.id,
                    socket: channel.socket(),
                    remote: channel.remote(),
                    state,
                    stats: channel.stats(),
                    payload_sent_bytes: member.payload_sent_bytes,
                    payload_received_bytes: member.payload_received_bytes,
                    delay_variation,
                    path: measures.report(member.id),
                    model: models.technology(member.id),
                })
            })
            .collect()
    }

    pub(crate) fn stream_stats(&self) -> Vec<StreamStats> {
        let mut all: BTreeMap<StreamId, StreamStats> = BTreeMap::new();
        for stream in self.send.values() {
            let counters = stream.counters;
            all.insert(
                stream.id,
                StreamStats {
                    sent_adus: counters.adus,
                    sent_bytes: counters.bytes,
                    acked_adus: counters.acked_adus,
                    lost_adus: counters.lost_adus,
                    expired_adus: counters.expired_adus,
                    shed_adus: counters.shed_adus,
                    repaired_bytes: counters.repaired_bytes,
                    copied_bytes: counters.copied_bytes,
                    backlog_bytes: stream.backlog_bytes(),
                    ..StreamStats::new(stream.id, (*stream.spec).clone())
                },
            );
        }
        for stream in self.recv.values() {
            let entry = all
                .entry(stream.id)
                .or_insert_with(|| StreamStats::new(stream.id, (*stream.spec).clone()));
            entry.received_adus = stream.received_adus;
            entry.received_bytes = stream.received_bytes;
            entry.arrived_bytes = stream.arrived_bytes();
            entry.duplicate_bytes = stream.duplicate_bytes;
            entry.dropped_adus = stream.dropped_adus;
            entry.expired_adus += stream.expired_adus;
            entry.partial_adus = stream.partial_adus;
        }
        all.into_values().collect()
    }
}
