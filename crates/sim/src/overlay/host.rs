//! Host of an overlay agent over the real engine.
//!
//! A [`Host`] does what a node's host does: sessions between members, the agent's messages on an unreliable stream
//! ("overlay"), test messages on a reliable one ("probe"), and a transfer that uses a channel for each path that the
//! agent gives. The paths themselves ("circuits") are routes that the scenario has laid
//! ([`World::add_route`](crate::World::add_route)); opening one means dialling it.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{ChannelId, Instant, NodeId, Rate, SessionId, StreamId};
use anabranch_overlay::{Agent, Event as AgentEvent, Fault, Output, Sample};
use anabranch_session::{
    ChannelReport, Engine, Event, Link, SendError, SessionEvent, StreamEvent, StreamSpec,
};
use bytes::Bytes;

use crate::{
    app::{App, Context},
    apps::{make_adu, read_adu},
};

const OVERLAY: &str = "overlay";
const PROBE: &str = "probe";
const DATA: &str = "data";
/// Interval at which the rates of the paths are reported to the agent.
const REPORT: Duration = Duration::from_secs(1);
/// Interval at which routes are checked.
const LOOK: Duration = Duration::from_millis(100);
const ADU_BYTES: usize = 64 << 10;

/// A path to a node: its relays, in order.
pub type Path = (NodeId, Vec<NodeId>);

/// Rates of a host's paths, at a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Time.
    pub at: Instant,
    /// Rates acknowledged by the peer since the last report, by path.
    pub rates: Vec<(Vec<NodeId>, Rate)>,
}

struct Transfer {
    to: NodeId,
    session: Option<SessionId>,
    stream: Option<StreamId>,
    bytes: u64,
    handed: u64,
    is_delivered: bool,
    /// Paths in use, always with the direct one.
    open: Vec<Vec<NodeId>>,
    channels: BTreeMap<ChannelId, Vec<NodeId>>,
    acked: BTreeMap<ChannelId, u64>,
    reported_at: Instant,
}

/// A node of the overlay over the real engine.
pub struct Host {
    /// The agent, for inspection.
    pub agent: Agent,
    /// Events of the agent, with their times.
    pub events: Vec<(Instant, AgentEvent)>,
    /// Rates of the transfer, every second.
    pub reports: Vec<Report>,
    /// Numbers of the ADUs of transfers to this node, in order of arrival, with the time.
    pub received: Vec<(Instant, u64)>,
    /// ADUs whose bytes were changed.
    pub corrupt: u64,
    /// Total size of the agent's messages.
    pub message_bytes: u64,
    /// Number of the agent's messages.
    pub messages: u64,
    /// Paths that can be opened, including the direct ones.
    paths: BTreeMap<Path, Link>,
    dialled: BTreeMap<SessionId, NodeId>,
    /// Sessions of the overlay that are up; the first is used.
    sessions: BTreeMap<NodeId, Vec<SessionId>>,
    peers: BTreeMap<SessionId, NodeId>,
    streams: BTreeMap<(SessionId, &'static str), StreamId>,
    labels: BTreeMap<(SessionId, StreamId), String>,
    /// Test messages in transit: the agent's number by ADU.
    probes: BTreeMap<(SessionId, u64), u64>,
    transfer: Option<Transfer>,
    next_look: Instant,
}

impl Host {
    /// A host of `agent`; `paths` are the routes laid from this node.
    pub fn new(agent: Agent, paths: impl IntoIterator<Item = (Path, Link)>) -> Self {
        Self {
            agent,
            events: Vec::new(),
            reports: Vec::new(),
            received: Vec::new(),
            corrupt: 0,
            message_bytes: 0,
            messages: 0,
            paths: paths.into_iter().collect(),
            dialled: BTreeMap::new(),
            sessions: BTreeMap::new(),
            peers: BTreeMap::new(),
            streams: BTreeMap::new(),
            labels: BTreeMap::new(),
            probes: BTreeMap::new(),
            transfer: None,
            next_look: Instant::EPOCH,
        }
    }

    /// Adds paths that were laid later.
    pub fn add_paths(&mut self, paths: impl IntoIterator<Item = (Path, Link)>) {
        self.paths.extend(paths);
    }

    /// Begins to send `bytes` to `to`, on the direct path first and then on those that the agent gives.
    ///
    /// # Panics
    /// If there is no direct path to `to`, or it is no member: a mistake of the scenario.
    pub fn send(&mut self, context: &mut Context<'_>, to: NodeId, bytes: u64) {
        let now = context.now();
        self.agent.want(to, bytes, now).expect("a member");
        let direct = self.paths[&(to, Vec::new())];
        let session = context.connect(to, vec![direct]);
        self.transfer = Some(Transfer {
            to,
            session: Some(session),
            stream: None,
            bytes,
            handed: 0,
            is_delivered: false,
            open: vec![Vec::new()],
            channels: BTreeMap::new(),
            acked: BTreeMap::new(),
            reported_at: now,
        });
        self.work(context);
    }

    /// The session of the transfer.
    pub fn session(&self) -> Option<SessionId> {
        self.transfer.as_ref()?.session
    }

    /// True if the transfer is complete at its receiver.
    pub fn is_delivered(&self) -> bool {
        self.transfer
            .as_ref()
            .is_some_and(|transfer| transfer.is_delivered)
    }

    /// Paths that the transfer uses, the direct one first.
    pub fn open_paths(&self) -> Vec<Vec<NodeId>> {
        self.transfer
            .as_ref()
            .map_or_else(Vec::new, |transfer| transfer.open.clone())
    }

    /// Acknowledged bytes of the transfer's open channels, by the relays of their paths. O(channels).
    pub fn acknowledged(&self, engine: &mut Engine) -> BTreeMap<ChannelId, (Vec<NodeId>, u64)> {
        let Some((transfer, session)) = self
            .transfer
            .as_ref()
            .and_then(|transfer| Some((transfer, transfer.session?)))
        else {
            return BTreeMap::new();
        };
        let of = |channel: ChannelReport| {
            let path = transfer.channels.get(&channel.channel)?.clone();
            Some((channel.channel, (path, channel.stats.bytes_acked)))
        };
        let stats = engine
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        stats.into_iter().filter_map(of).collect()
    }

    /// Number of ADUs of a transfer of this size.
    pub const fn adus(bytes: u64) -> u64 {
        bytes.div_ceil(ADU_BYTES as u64)
    }

    /// Carries out the agent's requests, and the work of the transfer.
    fn work(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        while let Some(output) = self.agent.poll_output() {
            match output {
                Output::Connect(peer) => self.connect(context, peer),
                Output::Disconnect(peer) => self.disconnect(context, &peer),
                Output::Send { to, bytes } => {
                    self.messages += 1;
                    self.message_bytes += bytes.len() as u64;
                    self.send_on(context, &to, OVERLAY, Bytes::from(bytes));
                }
                Output::Probe { to, id, bytes } => {
                    let body = Bytes::from(vec![0; bytes as usize]);
                    match self.send_on(context, &to, PROBE, body) {
                        Some(key) => {
                            self.probes.insert(key, id);
                        }
                        None => self.agent.handle_probe(&to, id, None, now),
                    }
                }
                Output::Event(event) => self.events.push((now, event)),
                _ => {}
            }
        }
        self.feed(context);
    }

    fn connect(&mut self, context: &mut Context<'_>, peer: NodeId) {
        let now = context.now();
        let is_up = self
            .sessions
            .get(&peer)
            .is_some_and(|sessions| !sessions.is_empty());
        match self.paths.get(&(peer, Vec::new())) {
            _ if is_up => self.agent.handle_session(&peer, true, now),
            // It is still being dialled.
            _ if self.dialled.values().any(|known| *known == peer) => {}
            Some(&link) => {
                let session = context.connect(peer, vec![link]);
                self.dialled.insert(session, peer);
            }
            None => self.agent.handle_session(&peer, false, now),
        }
    }

    /// Closes the sessions that this node dialled; those that the peer dialled are left to the peer.
    fn disconnect(&mut self, context: &mut Context<'_>, peer: &NodeId) {
        let now = context.now();
        for session in self.sessions.get(peer).cloned().unwrap_or_default() {
            if self.dialled.contains_key(&session) {
                if let Ok(session) = context.engine().session(session) {
                    session.close(now, 0, "not needed");
                }
                self.forget(session);
            }
        }
    }

    fn forget(&mut self, session: SessionId) -> Option<NodeId> {
        self.dialled.remove(&session);
        self.streams.retain(|(of, _), _| *of != session);
        self.labels.retain(|(of, _), _| *of != session);
        self.probes.retain(|(of, _), _| *of != session);
        let peer = self.peers.remove(&session)?;
        if let Some(sessions) = self.sessions.get_mut(&peer) {
            sessions.retain(|known| *known != session);
        }
        Some(peer)
    }

    fn send_on(
        &mut self,
        context: &mut Context<'_>,
        to: &NodeId,
        label: &'static str,
        body: Bytes,
    ) -> Option<(SessionId, u64)> {
        let session = *self.sessions.get(to)?.first()?;
        let stream = match self.streams.get(&(session, label)) {
            Some(&stream) => stream,
            None => {
                let spec = match label {
                    OVERLAY => StreamSpec {
                        reliable: false,
                        ..StreamSpec::live(OVERLAY, Duration::from_secs(5))
                    },
                    _ => StreamSpec {
                        notify: true,
                        ..StreamSpec::bulk(PROBE)
                    },
                };
                let stream = context.open(session, spec).ok()?;
                self.streams.insert((session, label), stream);
                stream
            }
        };
        let adu = context.send(session, stream, body).ok()?;
        Some((session, adu))
    }

    /// Sends as much of the transfer's data as the stream accepts.
    fn feed(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let Some(transfer) = &mut self.transfer else {
            return;
        };
        let (Some(session), Some(stream)) = (transfer.session, transfer.stream) else {
            return;
        };
        while transfer.handed < Self::adus(transfer.bytes) {
            let adu = make_adu(now, transfer.handed, ADU_BYTES);
            match context.send(session, stream, adu) {
                Ok(_) => transfer.handed += 1,
                Err(SendError::Full(_)) => return,
                Err(_) => return,
            }
        }
        context.finish(session, stream);
    }

    /// Opens and closes channels so that they match the agent's routes and the direct one.
    fn follow_routes(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let Some(transfer) = &mut self.transfer else {
            return;
        };
        let Some(session) = transfer.session.filter(|_| !transfer.is_delivered) else {
            return;
        };
        let Some(routes) = self.agent.routes(&transfer.to, now) else {
            return;
        };
        let mut wanted = vec![Vec::new()];
        wanted.extend(
            routes
                .paths
                .into_iter()
                .map(|path| path.relays)
                .filter(|path| !path.is_empty()),
        );
        wanted.retain(|path| self.paths.contains_key(&(transfer.to, path.clone())));
        for path in wanted.iter().filter(|path| !transfer.open.contains(path)) {
            let link = self.paths[&(transfer.to, path.clone())];
            if let Ok(mut session) = context.engine().session(session) {
                session.add_link(now, link);
            }
        }
        for path in transfer.open.iter().filter(|path| !wanted.contains(path)) {
            let link = self.paths[&(transfer.to, path.clone())];
            if let Ok(mut session) = context.engine().session(session) {
                session.remove_link(now, &link);
            }
        }
        transfer.open = wanted;
    }

    /// Reports the rates of the paths since the last report to the agent.
    fn report(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let Some(transfer) = &mut self.transfer else {
            return;
        };
        let Some(session) = transfer.session else {
            return;
        };
        let window = now.since(transfer.reported_at);
        if window < REPORT {
            return;
        }
        transfer.reported_at = now;
        let is_backlogged = transfer.handed < Self::adus(transfer.bytes);
        let mut rates = Vec::new();
        for channel in context
            .engine()
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default()
        {
            let Some(path) = transfer.channels.get(&channel.channel) else {
                continue;
            };
            let before = transfer
                .acked
                .insert(channel.channel, channel.stats.bytes_acked);
            // There is nothing to report of a channel that opened in between, or is silent.
            let Some(before) = before.filter(|&before| before < channel.stats.bytes_acked) else {
                continue;
            };
            let rate = Rate::from_bytes_per(channel.stats.bytes_acked - before, window);
            rates.push((path.clone(), rate, channel.stats.rtt_min));
        }
        let to = transfer.to;
        for (path, rate, round_trip) in &rates {
            if path.is_empty() {
                let sample = Sample {
                    rate: *rate,
                    window,
                    is_limited: is_backlogged,
                    round_trip_min: Some(*round_trip).filter(|time| !time.is_zero()),
                };
                self.agent.handle_sample(&to, sample, now);
            } else if is_backlogged {
                self.agent.handle_path_rate(&to, path, (*rate, true), now);
            }
        }
        let rates = rates
            .into_iter()
            .map(|(path, rate, _)| (path, rate))
            .collect();
        self.reports.push(Report { at: now, rates });
    }

    fn read(&mut self, context: &mut Context<'_>, session: SessionId, stream: StreamId) {
        let now = context.now();
        let label = self
            .labels
            .get(&(session, stream))
            .cloned()
            .unwrap_or_default();
        while let Some(adu) = context.receive(session, stream) {
            match (label.as_str(), self.peers.get(&session)) {
                (OVERLAY, Some(&peer)) => self.agent.handle_message(&peer, &adu.data, now),
                (DATA, _) => match read_adu(&adu.data) {
                    Some((_, number)) => self.received.push((now, number)),
                    None => self.corrupt += 1,
                },
                _ => {}
            }
        }
    }

    fn path_failed(&mut self, channel: ChannelId, now: Instant) {
        let Some(transfer) = &self.transfer else {
            return;
        };
        if let Some(path) = transfer.channels.get(&channel) {
            let (to, path) = (transfer.to, path.clone());
            self.agent
                .handle_path_failed(&to, &path, Fault::Somewhere, now);
        }
    }

    fn is_transfer(&self, session: SessionId) -> bool {
        self.transfer
            .as_ref()
            .is_some_and(|transfer| transfer.session == Some(session))
    }

    fn session_up(&mut self, session: SessionId, peer: NodeId, now: Instant) {
        let sessions = self.sessions.entry(peer).or_default();
        if !sessions.contains(&session) {
            sessions.push(session);
            self.agent.handle_session(&peer, true, now);
        }
    }
}

impl App for Host {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        let now = context.now();
        match event {
            Event::Connected { session, peer, .. } => {
                self.peers.insert(session, peer);
                if self.dialled.contains_key(&session) {
                    self.session_up(session, peer, now);
                } else if self.is_transfer(session) {
                    let stream = context.open(session, StreamSpec::bulk(DATA)).ok();
                    if let Some(transfer) = &mut self.transfer {
                        transfer.stream = stream;
                    }
                }
            }
            Event::Closed { session, .. } => {
                let was_dialled = self.dialled.get(&session).copied();
                let peer = self.forget(session).or(was_dialled);
                if self.is_transfer(session) {
                    if let Some(transfer) = &mut self.transfer {
                        transfer.session = None;
                    }
                } else if let Some(peer) = peer {
                    let is_left = self
                        .sessions
                        .get(&peer)
                        .is_some_and(|left| !left.is_empty());
                    if !is_left {
                        self.agent.handle_session(&peer, false, now);
                    }
                }
            }
            Event::StreamOpened {
                session,
                stream,
                spec,
            } => {
                // A session that the peer opened belongs to the overlay once the overlay uses it.
                let is_overlay = spec.label == OVERLAY || spec.label == PROBE;
                if let Some(&peer) = self.peers.get(&session).filter(|_| is_overlay) {
                    self.session_up(session, peer, now);
                }
                self.labels.insert((session, stream), spec.label);
            }
            Event::Readable { session, stream } => self.read(context, session, stream),
            Event::Stream {
                session,
                event: StreamEvent::Acked { adu, rtt, .. },
                ..
            } => {
                if let Some(id) = self.probes.remove(&(session, adu))
                    && let Some(&peer) = self.peers.get(&session)
                {
                    self.agent.handle_probe(&peer, id, Some(rtt), now);
                }
            }
            Event::Session {
                session,
                event:
                    SessionEvent::ChannelUp {
                        channel,
                        socket,
                        remote,
                    },
            } if self.is_transfer(session) => {
                let link = Link { socket, remote };
                let path = self.paths.iter().find(|(_, known)| **known == link);
                if let Some((((_, relays), _), transfer)) = path.zip(self.transfer.as_mut()) {
                    transfer.channels.insert(channel, relays.clone());
                }
            }
            Event::Session {
                session,
                event:
                    SessionEvent::ChannelSuspected { channel }
                    | SessionEvent::ChannelClosed { channel, .. },
            } if self.is_transfer(session) => {
                self.path_failed(channel, now);
                self.follow_routes(context);
            }
            Event::Delivered { session, .. } if self.is_transfer(session) => {
                if let Some(transfer) = &mut self.transfer {
                    transfer.is_delivered = true;
                }
            }
            _ => {}
        }
        self.work(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        self.agent.handle_timeout(now);
        if now >= self.next_look {
            self.next_look = now + LOOK;
            self.report(context);
            self.follow_routes(context);
        }
        self.work(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        let timer = self.agent.poll_timeout();
        let look = self.transfer.as_ref().map(|_| self.next_look);
        timer.into_iter().chain(look).min()
    }
}
