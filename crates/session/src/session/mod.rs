//! Session: two nodes joined by one or more channels, with any number of streams.
//!
//! [`Session`] routes; managers own the state, and know neither the session nor each other:
//!
//! | manager | state |
//! |---|---|
//! | `establishment` | the initial channel, the token of further channels, earlier ids |
//! | `channels` | the state of each channel, the links that they are dialled on, rates, measurements; `coupling`, `partners`: shared bottlenecks |
//! | `streams` | send and receive streams by id; `send_streams`: which of them changed |
//! | `flow_control` | credit in both directions |
//! | `scheduling` | the policy, its scheduler, the objectives in force (`objectives`, `observed`), the input of a policy that plans (`planning`, `supply`; `captured`: one plan to be explained), `arrival_period` |
//! | `shares` | the share of each stream: `Throttle` events, caps, drops beyond them |
//! | `neighbours` | traffic and promises of the node's other sessions on the same uplinks |
//! | `probing` | trains of packets that measure paths for promises |
//! | `copies` | the budget of second copies |
//! | `latency` | latest latency-sensitive data |
//! | `probation` | limits of a stranger's session before it is admitted |
//!
//! | phase or input | file |
//! |---|---|
//! | commands of the application | `commands`, `objectives`, `promises`; `warnings`: streams that a warning finishes; `on_time`: the probability that an ADU arrives in time |
//! | containers from the peer | `incoming` |
//! | outcomes of packets: acknowledged, lost, or stuck on a silent channel | `outcomes` |
//! | the pump, from slots and backlogs to containers (`builder`) | `pump`; `limits`, `views`, `outlook`: its views of channels and streams |

mod arrival_period;
mod builder;
mod captured;
mod channels;
mod commands;
mod containers;
mod copies;
mod coupling;
#[cfg(test)]
mod credit;
mod discarding;
mod establishment;
pub(crate) mod far_end;
mod flow_control;
mod incoming;
mod latency;
mod limits;
mod neighbours;
mod objectives;
mod observed;
mod on_time;
mod outcomes;
mod outlook;
mod partners;
mod pings;
mod planning;
mod probation;
mod probing;
mod promises;
mod pump;
mod scheduling;
mod send_streams;
mod shares;
mod streams;
mod supply;
mod taken_out;
mod views;
mod warnings;

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, NodeId, Rate, Seed, SessionId, SocketId, StreamId};
use anabranch_channel::{CloseReason, Endpoint};
use anabranch_metering::Quotas;
use anabranch_sched::{AnyScheduler, Policy};

pub(crate) use self::establishment::FORMER_IDS_KEPT;
use crate::{
    attempt::Attempts,
    config::Config,
    event::{Event, SessionCloseReason},
    journal::{Entry, Journal},
    links::LinkState,
    local::LocalDescription,
    recv::{Accounts, Capacity, Violation},
    stats::{ChannelReport, SessionStats, StreamStats},
    token::Token,
    transcript::ChannelChange,
    wire::{Control, DecodeError, VERSION},
};
use anabranch_admission::Promises;

pub(crate) use self::neighbours::OnUplink;
use self::{
    channels::Channels, copies::Copies, establishment::Establishment, flow_control::FlowControl,
    latency::Latency, neighbours::Neighbours, probation::Probation, pump::Pump,
    scheduling::Scheduling, shares::Shares, streams::Streams,
};
pub use self::{
    on_time::Chances,
    taken_out::{PathError, TakenOut},
};

/// Protocol violation of the peer; the session ends.
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

/// Totals over a session's life, channels and streams that are over included.
#[derive(Debug, Default)]
struct Totals {
    payload_sent_bytes: u64,
    /// Bounded by [`Config::copies_max`].
    copied_bytes: u64,
}

/// Key: session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) peer: NodeId,
    pub(crate) is_initiator: bool,
    pub(crate) config: Config,
    pub(crate) establishment: Establishment,
    pub(crate) channels: Channels,
    streams: Streams,
    flow: FlowControl,
    scheduling: Scheduling,
    shares: Shares,
    promises: Promises,
    neighbours: Neighbours,
    copies: Copies,
    latency: Latency,
    /// Control frames for the peer, on any channel.
    control: VecDeque<Control>,
    /// Limits until the peer has shown its right; `None`: it has, or need not.
    probation: Option<Box<Probation>>,
    /// True if a stranger opened the session.
    pub(crate) is_strangers: bool,
    totals: Totals,
    /// Journal, kept while the application wants it.
    journal: Option<Box<Journal>>,
    pub(crate) pump: Pump,
}

/// Parameters of a new session.
pub(crate) struct Parts {
    pub id: SessionId,
    pub peer: NodeId,
    pub is_initiator: bool,
    pub config: Config,
    /// End of its probation; `None`: it is not on probation.
    pub probation: Option<Instant>,
    /// Seed of the random decisions in its scheduling.
    pub seed: Seed,
}

impl Session {
    pub(crate) fn new(now: Instant, mut parts: Parts) -> Self {
        let probation = parts
            .probation
            .map(|until| Box::new(Probation::new(until, &mut parts.config)));
        let config = parts.config;
        let mut promises = Promises::new(parts.id, config.measure_window);
        promises.set_shares(config.promised_shares.clone());
        let hello = Control::Hello {
            version: VERSION,
            stream_window_bytes: config.stream_window_bytes,
            session_window_bytes: config.session_window_bytes,
        };
        let mut session = Self {
            id: parts.id,
            peer: parts.peer,
            is_initiator: parts.is_initiator,
            establishment: Establishment::new(now, parts.is_initiator),
            channels: Channels::new(now, config.measure_window),
            streams: Streams::new(parts.is_initiator, config.send_buffer_bytes),
            flow: FlowControl::new(config.session_window_bytes),
            scheduling: Scheduling::new(config.policy, parts.seed),
            shares: Shares::new(now),
            promises,
            neighbours: Neighbours::default(),
            copies: Copies::new(now),
            latency: Latency::default(),
            control: VecDeque::from([hello]),
            is_strangers: probation.is_some(),
            probation,
            totals: Totals::default(),
            journal: None,
            pump: Pump::default(),
            config,
        };
        if session.config.transcript_bytes > 0 {
            let bytes_max = session.config.transcript_bytes;
            session.scheduling.record(now, bytes_max, true);
        }
        session
    }

    // ── channels ────────────────────────────────────────────────────────────────────────────────

    /// Adds a channel that is being opened.
    pub(crate) fn add_channel(&mut self, now: Instant, id: ChannelId) {
        self.channels.add(now, id);
        if let Some(recorder) = &mut self.scheduling.recorder {
            recorder.channel(Some(now), id, ChannelChange::Opened);
        }
    }

    /// Handles the establishment of a channel: it can carry data.
    pub(crate) fn on_connected(
        &mut self,
        id: ChannelId,
        (socket, remote): (SocketId, SocketAddr),
        introduced: bool,
    ) {
        if !self.is_on_probation() {
            self.measure(id, socket, remote);
        }
        self.channels.on_connected(id, introduced);
        if let Some(recorder) = &mut self.scheduling.recorder {
            recorder.channel(None, id, ChannelChange::Connected);
        }
        self.pump.is_due = true;
    }

    /// Measures the path of a channel from now on.
    pub(crate) fn measure(&mut self, id: ChannelId, socket: SocketId, remote: SocketAddr) {
        self.channels.measure(id, socket, remote);
        self.on_paths_changed();
        let name = (self.channels.get(id)).and_then(|state| state.description.name.clone());
        let prior = name.and_then(|name| self.config.priors.get(&name).copied());
        if let Some(place) = self.channels.estimator.place(id) {
            self.promises.set_prior(place, prior);
        }
    }

    /// Notes that a path has another channel, or none, or that its place is that of another path now.
    fn on_paths_changed(&mut self) {
        for replaced in self.channels.estimator.take_replaced() {
            let windows = replaced.windows_kept();
            self.promises.on_path_replaced(replaced.path, windows);
        }
        self.promises.on_channels_changed();
    }

    /// Gives a channel the description of its local socket.
    pub(crate) fn describe_channel(
        &mut self,
        id: ChannelId,
        description: Option<Arc<LocalDescription>>,
    ) {
        if let Some(state) = self.channels.get_mut(id) {
            state.description = description.unwrap_or_default();
        }
    }

    /// Notes that the session is established: the peer acknowledged or sent something beyond the handshake.
    fn establish(&mut self, events: &mut VecDeque<Event>) {
        if self.establishment.complete() {
            events.push_back(Event::Connected {
                session: self.id,
                peer: self.peer,
                incoming: false,
            });
        }
    }

    /// Channel on which the session still has to be established: the first that connected, or another one when that is lost or
    /// silent before it was acknowledged.
    pub(crate) fn next_initial_channel(&self) -> Option<ChannelId> {
        let states = &self.channels.states;
        let exists = |id| {
            states
                .iter()
                .any(|state| state.id == id && !state.suspected)
        };
        let usable = self.channels.usable().map(|state| state.id);
        self.establishment.next_initial_channel(usable, exists)
    }

    /// Establishes the session on this channel. Returns the one before it, on which the peer may know the session already.
    pub(crate) fn set_initial_channel(
        &mut self,
        channel: ChannelId,
        token: Option<Token>,
    ) -> Option<ChannelId> {
        let before = self.establishment.set_initial_channel(channel, token);
        for state in &mut self.channels.states {
            state.introduced = false;
        }
        self.pump.is_due = true;
        before
    }

    /// Handles the end of a channel; all outcomes of its packets are known.
    pub(crate) fn on_channel_closed(&mut self, now: Instant, id: ChannelId, reason: &CloseReason) {
        self.channels.on_closed(now, id, reason);
        if let Some(recorder) = &mut self.scheduling.recorder {
            recorder.channel(Some(now), id, ChannelChange::Closed);
        }
        self.channels.probing.forget(id);
        self.on_paths_changed();
        self.pump.is_due = true;
    }

    pub(crate) fn set_socket_up(&mut self, now: Instant, socket: SocketId, up: bool) {
        self.channels.set_socket_up(now, socket, up);
    }

    pub(crate) fn set_channel_rate(&mut self, rate: Rate) {
        self.channels.set_rate(rate);
        self.pump.is_due = true;
    }

    /// Sets the rate that one channel holds; false: there is no such channel.
    pub(crate) fn set_rate_of_channel(&mut self, channel: ChannelId, rate: Rate) -> bool {
        let is_known = self.channels.set_rate_of(channel, rate);
        self.pump.is_due |= is_known;
        is_known
    }

    /// Looks up the cost of the next byte on each channel.
    pub(crate) fn price(&mut self, endpoint: &mut Endpoint, quotas: &Quotas) {
        self.channels.price(endpoint, quotas);
    }

    /// Result of the attempts to reach the peer so far. The names of interfaces are the engine's to add.
    pub(crate) fn attempts(&self, now: Instant) -> Attempts {
        Attempts {
            after: self.establishment.age(now),
            links: self.channels.attempts(),
        }
    }

    /// Reason for giving the session up before its time, if no attempt can be expected to succeed: every address refuses, or another
    /// node answers there. Reports that packets cannot be delivered may be forged, so they never end an established session.
    pub(crate) fn impossible(&self, now: Instant) -> Option<SessionCloseReason> {
        let is_established = self.establishment.is_complete();
        let is_impossible = |link: &LinkState| match is_established {
            true => link.has_another_node(),
            false => link.is_impossible(now),
        };
        let mut links = self.channels.links.iter().filter(|link| link.up).peekable();
        if !self.is_initiator || links.peek().is_none() || !links.all(is_impossible) {
            return None;
        }
        Some(SessionCloseReason::Unreachable(self.attempts(now)))
    }

    /// Closes every channel.
    pub(crate) fn close_channels(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        code: u32,
        reason: &str,
    ) {
        for state in &self.channels.states {
            if let Some(channel) = endpoint.channel(state.id) {
                channel.close(now, code, reason);
            }
        }
    }

    // ── scheduling ──────────────────────────────────────────────────────────────────────────────

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.scheduling.set_policy(policy);
        self.on_scheduler_changed();
    }

    /// Sets a scheduler that has no name; the policy's name stays.
    pub(crate) fn set_scheduler(&mut self, scheduler: AnyScheduler) {
        self.scheduling.set_scheduler(scheduler);
        self.on_scheduler_changed();
    }

    fn on_scheduler_changed(&mut self) {
        self.promises.on_channels_changed();
        self.pump.is_due = true;
    }

    /// Begins a transcript in memory of so many bytes, in place of one that is kept; `None`: ends it.
    pub(crate) fn record(&mut self, now: Instant, bytes_max: Option<usize>) {
        let Some(bytes_max) = bytes_max else {
            self.scheduling.recorder = None;
            return;
        };
        self.scheduling.record(now, bytes_max, false);
        if let Some(recorder) = &mut self.scheduling.recorder {
            for (&id, send) in self.streams.send.iter() {
                recorder.opened(now, id, &send.spec);
            }
            for state in &self.channels.states {
                let change = match (state.connected, state.suspected) {
                    (false, _) => ChannelChange::Opened,
                    (true, true) => ChannelChange::Suspected,
                    (true, false) => ChannelChange::Connected,
                };
                recorder.channel(Some(now), state.id, change);
            }
        }
        // The mapping of promised streams is handed over, and so recorded, again.
        self.on_scheduler_changed();
    }

    /// Bytes of the transcript so far; `None`: none is kept.
    pub(crate) fn transcript_bytes(&self) -> Option<usize> {
        Some(self.scheduling.recorder.as_ref()?.bytes())
    }

    /// The transcript so far; `None`: none is kept.
    pub(crate) fn transcript(&self) -> Option<Vec<u8>> {
        Some(self.scheduling.recorder.as_ref()?.file())
    }

    /// Starts or ends the journal.
    pub(crate) fn keep_journal(&mut self, is_wanted: bool) {
        self.journal = is_wanted.then(Box::default);
    }

    /// The journal's entries since the last call.
    pub(crate) fn take_journal(&mut self) -> Vec<Entry> {
        self.journal
            .as_mut()
            .map_or_else(Vec::new, |journal| journal.take())
    }

    // ── flow control ────────────────────────────────────────────────────────────────────────────

    /// Capacity left of the resources that receive streams share.
    fn recv_capacity(&self) -> Capacity {
        let window = self.config.session_window_bytes;
        self.flow.capacity(window, self.streams.recv.len())
    }

    /// Notes that `bytes` of reliable streams were consumed; announces more credit when that is worth a frame.
    fn consume(&mut self, bytes: u64) {
        let window = self.config.session_window_bytes;
        if let Some(bytes) = self.flow.consume(bytes, window) {
            self.control.push_back(Control::SessionCredit { bytes });
            self.pump.is_due = true;
        }
    }

    /// Forgets a receive stream; returns its credit.
    fn drop_recv_stream(&mut self, stream: StreamId) -> Option<Accounts> {
        let recv = self.streams.remove_recv(stream)?;
        self.flow.release(recv.load());
        Some(recv.accounts())
    }

    // ── time ────────────────────────────────────────────────────────────────────────────────────

    /// Reason for giving the session up, if its time is over.
    pub(crate) fn overdue(&self, now: Instant) -> Option<SessionCloseReason> {
        let timeout = self.config.connect_timeout;
        if self.establishment.is_overdue(now, timeout) {
            return Some(SessionCloseReason::Unreachable(self.attempts(now)));
        }
        let probation = self.probation.as_ref();
        if probation.is_some_and(|probation| probation.until() <= now) {
            return Some(SessionCloseReason::NotAdmitted);
        }
        let timeout = self.config.session_timeout;
        let deadline = self.channels.deadline(timeout);
        let is_over = deadline.is_some_and(|deadline| deadline <= now);
        is_over.then_some(SessionCloseReason::TimedOut(timeout))
    }

    /// Time of the next [`handle_timeout`](Self::handle_timeout), the channels' own timers aside.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.pump.is_due {
            return Some(Instant::EPOCH);
        }
        let timed_out = match self.establishment.is_complete() {
            true => self.channels.deadline(self.config.session_timeout),
            false => self.establishment.deadline(self.config.connect_timeout),
        };
        [
            self.pump.due_at,
            timed_out,
            self.channels.next_report(),
            self.channels.next_dial(),
            self.streams.expire_at,
            self.channels.estimator.due(),
            self.shares.rests_at(),
            self.channels.probing.due(),
            self.probation.as_ref().map(|probation| probation.until()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Coalescing delay that the session permits; `None`: it sets no limit.
    pub(crate) fn coalescing_delay(&self, now: Instant, endpoint: &Endpoint) -> Option<Duration> {
        let urgent = self.latency.coalescing_delay(now);
        urgent.or_else(|| self.channels.coalescing_delay(endpoint))
    }

    /// Handles the passage of time: drops expired ADUs, prepares reports, wakes the pump.
    pub(crate) fn handle_timeout(&mut self, now: Instant, events: &mut VecDeque<Event>) {
        self.expire(now, events);
        self.advance_estimates(now, events);
        self.shares.rest(now);
        self.settle_probes(now, events);
        self.pump.is_due |= self.channels.queue_reports(now);
        self.pump.is_due |= self.channels.probing.is_due(now);
        self.pump.advance(now);
    }

    // ── statistics ──────────────────────────────────────────────────────────────────────────────

    pub(crate) fn stats(&self) -> SessionStats {
        let streams = &self.streams;
        SessionStats {
            session: self.id,
            peer: self.peer,
            incoming: !self.is_initiator,
            wire_version: self.establishment.version(),
            policy: self.scheduling.policy,
            channels_active: self.channels.usable().count(),
            streams: streams.count(),
            payload_sent_bytes: self.totals.payload_sent_bytes,
            copied_bytes: self.totals.copied_bytes,
            send_buffer_bytes: streams.buffer_bytes as u64,
            send_held_bytes: streams.send.values().map(|s| s.held_bytes() as u64).sum(),
            recv_held_bytes: streams.recv.values().map(|s| s.held_bytes() as u64).sum(),
            dropped: streams.dropped(),
        }
    }

    pub(crate) fn channel_stats(&mut self, endpoint: &mut Endpoint) -> Vec<ChannelReport> {
        self.channels.reports(endpoint)
    }

    pub(crate) fn stream_stats(&self) -> Vec<StreamStats> {
        self.streams.stats()
    }
}
