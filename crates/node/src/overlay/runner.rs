//! Task that hosts the overlay's agent: carries its messages and feeds it events.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use anabranch_base::{Instant, NodeId, Rate, SessionId};
use anabranch_net::{Host, Remotes, Session, WeakSession, limited};
use anabranch_overlay::{Agent, Event, Fault, Output};
use anabranch_session::ChannelStatus;
use bytes::Bytes;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{
    Shared, Site, change::Settings, line::Line, own, serving::Serving, subscription::Subscription,
};
use crate::rights::{CODE_NO_RIGHT, Right, Rights, Table};

/// Longest pause without looking at the clock.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time that a member without the right to call may take to open the overlay's stream on its session.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// Interval between checks of subscriptions and headroom.
const HOUSEKEEPING: Duration = Duration::from_secs(2);

/// Event for a node's part in the overlay.
pub(super) enum Input {
    /// A session with a member is open.
    Up(Line),
    /// A member was dialled and did not answer.
    Failed(NodeId),
    /// A session with a member is over.
    Over(NodeId, SessionId),
    /// A member sent a message.
    Message(NodeId, Bytes),
    /// Outcome of a test message on a session: acknowledged after this time, or not.
    Probed(SessionId, u64, Option<Duration>),
    /// A member opened a session; it may be for the overlay.
    Accepted(Session),
    /// A circuit of a subscription is open: the address to send to.
    CircuitUp(u64, Vec<NodeId>, (SocketAddr, Rate)),
    /// A circuit of a subscription could not be opened, or has ended, because of this.
    CircuitDown(u64, Vec<NodeId>, Fault),
    /// A user has a question or a request.
    Ask(Question),
}

/// A question or request of a user; it is given the time.
pub(super) type Question = Box<dyn FnOnce(&mut Runner, Instant) + Send>;

/// A node's part in the overlay, as long as it runs.
pub(crate) struct Runner {
    pub(super) host: Host,
    pub(super) agent: Agent,
    /// The members in force here; [`Self::wanted`] may be ahead.
    pub(super) sites: Arc<BTreeMap<NodeId, Site>>,
    pub(super) wanted: watch::Receiver<Arc<Settings>>,
    pub(super) lines: BTreeMap<NodeId, Line>,
    /// Members being dialled.
    calling: Vec<NodeId>,
    /// Sessions that members opened and that are, or have been, watched for the overlay's stream.
    attended: BTreeMap<SessionId, WeakSession>,
    /// Members with whom the agent no longer needs a session.
    pub(super) unneeded: BTreeSet<NodeId>,
    /// Test messages under way: by session and number, the member they are for, their id, and their size.
    pub(super) probes: BTreeMap<(SessionId, u64), (NodeId, u64, u64)>,
    pub(super) subscriptions: BTreeMap<u64, Subscription>,
    pub(super) circuits_opened: u64,
    /// Relaying for others, if enabled.
    pub(super) serving: Option<Serving>,
    /// Tasks that answer requests for circuits.
    pub(super) answering: JoinSet<()>,
    kept_house_at: Instant,
    shared: Shared,
    inputs: mpsc::Receiver<Input>,
    pub(super) sender: mpsc::Sender<Input>,
    pub(super) tasks: JoinSet<()>,
    rights: Rights,
    rights_changes: watch::Receiver<Arc<Table>>,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "overlay of {} members", self.sites.len())
    }
}

/// Peer at the other end of a line, and its addresses.
fn reached(line: &Line) -> (NodeId, Vec<SocketAddr>) {
    let channels = line.session.channels();
    let active = channels
        .iter()
        .filter(|channel| channel.state == ChannelStatus::Active);
    (line.peer(), active.map(|channel| channel.remote).collect())
}

impl Runner {
    pub(super) fn new(
        host: Host,
        agent: Agent,
        (mut wanted, rights): (watch::Receiver<Arc<Settings>>, Rights),
        (first_circuit, shared): (u64, Shared),
        (sender, inputs): (mpsc::Sender<Input>, mpsc::Receiver<Input>),
    ) -> Self {
        let settings = wanted.borrow_and_update().clone();
        Self {
            sites: settings.sites.clone(),
            serving: settings.serving.clone(),
            wanted,
            answering: JoinSet::new(),
            unneeded: BTreeSet::new(),
            probes: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            // Circuits from before a restart of this node may still exist.
            circuits_opened: first_circuit,
            kept_house_at: Instant::EPOCH,
            shared,
            host,
            agent,
            lines: BTreeMap::new(),
            calling: Vec::new(),
            attended: BTreeMap::new(),
            inputs,
            sender,
            tasks: JoinSet::new(),
            rights_changes: rights.changes(),
            rights,
        }
    }

    /// Runs until it is dropped, or its part in the overlay is `over`; the other members are told.
    pub(crate) async fn run(mut self, over: impl Future<Output = ()>) {
        let mut over = pin!(over);
        self.follow_rights(self.host.clock().now());
        let announcing = own::announce(self.wanted.clone(), self.sender.clone());
        self.tasks.spawn(announcing);
        loop {
            self.serve_outputs();
            while self.tasks.try_join_next().is_some() {}
            while self.answering.try_join_next().is_some() {}
            let now = self.host.clock().now();
            self.keep_house(now);
            let due = self.agent.poll_timeout();
            let pause = due.map_or(PAUSE_MAX, |due| due.since(now).min(PAUSE_MAX));
            tokio::select! {
                // There is always a sender: our own.
                Some(input) = self.inputs.recv() => self.take(input),
                // Nobody changes them any more if this fails.
                Ok(()) = self.wanted.changed() => {
                    self.wanted.mark_changed();
                    self.catch_up(self.host.clock().now());
                }
                () = &mut over => return self.leave().await,
                // There is always a sender: our own handle.
                Ok(()) = self.rights_changes.changed() => {
                    self.rights_changes.mark_changed();
                    self.catch_up(self.host.clock().now());
                }
                () = tokio::time::sleep(pause) => {
                    self.agent.handle_timeout(self.host.clock().now());
                }
            }
        }
    }

    /// True if a node is a member now.
    pub(super) fn is_member(&self, node: &NodeId) -> bool {
        self.sites.contains_key(node) && self.rights.may(node, Right::Member)
    }

    /// Puts members, settings and rights that are wanted into force, if they are others.
    fn catch_up(&mut self, now: Instant) {
        self.follow_settings(now);
        if self.rights_changes.has_changed().unwrap_or(false) {
            self.follow_rights(now);
        }
    }

    /// Applies the rights in force: a node without the right to membership has no session and no circuit, and is ignored.
    pub(super) fn follow_rights(&mut self, now: Instant) {
        self.rights_changes.mark_unchanged();
        for node in self.sites.keys().copied().collect::<Vec<_>>() {
            let is_member = self.rights.may(&node, Right::Member) || node == self.agent.me();
            self.agent.set_barred(&node, !is_member, now);
            if !is_member {
                self.remove_line(node, now);
                self.unneeded.remove(&node);
                self.subscriptions
                    .retain(|_, subscription| subscription.to != node);
            }
        }
        if let Some(serving) = &self.serving {
            serving.enforce();
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.host.clock().now();
        // What follows a change finds it in force.
        self.catch_up(now);
        match input {
            Input::Up(line) => {
                self.shared.lines.add(&line);
                self.up(line, now);
            }
            Input::Failed(peer) => {
                self.calling.retain(|&other| other != peer);
                if !self.sites.contains_key(&peer) {
                    return;
                }
                self.agent.handle_unreached(&peer, now);
                if !self.lines.contains_key(&peer) {
                    self.agent.handle_session(&peer, false, now);
                }
            }
            Input::Over(peer, session) => {
                let is_current = |line: &Line| line.session.id() == session;
                if self.lines.get(&peer).is_some_and(is_current) {
                    self.remove_line(peer, now);
                    self.agent.handle_session(&peer, false, now);
                }
            }
            Input::Message(from, message) => self.agent.handle_message(&from, &message, now),
            Input::Probed(session, number, took) => self.probed(session, number, took, now),
            Input::Accepted(session) => self.attend(session),
            Input::CircuitUp(subscription, relays, granted) => {
                self.circuit_up(subscription, &relays, granted, now);
            }
            Input::CircuitDown(subscription, relays, fault) => {
                self.circuit_down(subscription, &relays, fault, now);
            }
            Input::Ask(question) => question(self, now),
        }
    }

    /// Waits for the overlay's stream on a session that a member opened. If the member may open sessions for the overlay only
    /// and the stream does not come, the session is closed. A session that is accepted during a reload may be reported twice.
    fn attend(&mut self, session: Session) {
        let known = self.attended.insert(session.id(), session.downgrade());
        if known.is_some() {
            return;
        }
        let sender = self.sender.clone();
        let rights = self.rights.clone();
        let is_for_overlay = !rights.may(&session.peer(), Right::Call);
        self.tasks.spawn(async move {
            let timeout = if is_for_overlay {
                GREETING_MAX
            } else {
                Duration::MAX
            };
            match tokio::time::timeout(timeout, Line::attend(session.clone())).await {
                Ok(Some(line)) => {
                    sender.send(Input::Up(line)).await.ok();
                }
                Ok(None) => {}
                Err(_) => {
                    rights.note_refused(Right::Call);
                    session.close(CODE_NO_RIGHT, "a member's session is for the overlay only");
                }
            }
        });
    }

    /// Periodic work.
    fn keep_house(&mut self, now: Instant) {
        if now.since(self.kept_house_at) < HOUSEKEEPING {
            return;
        }
        self.kept_house_at = now;
        self.attended.retain(|_, one| one.upgrade().is_some());
        self.expire_subscriptions(now);
        // Sessions that circuits need stay for as long as the circuits.
        for peer in self.unneeded.clone() {
            if !self.is_relay_in_use(&peer) {
                self.unneeded.remove(&peer);
                self.remove_line(peer, now);
            }
        }
        for (peer, remotes) in self.lines.values().map(reached).collect::<Vec<_>>() {
            self.agent.handle_reached(&peer, &remotes, now);
        }
        if let Some(serving) = &self.serving {
            self.agent.set_headroom(Some(serving.headroom()), now);
        }
        let load = self.shared.load.load(tokio::time::Instant::now());
        self.agent.set_load(load, now);
    }

    /// Removes the session with this member.
    pub(super) fn remove_line(&mut self, peer: NodeId, now: Instant) {
        if let Some(line) = self.lines.remove(&peer) {
            line.close();
            self.forget_probes(&line, now);
        }
        if let Some(serving) = &self.serving {
            serving.set_session(peer, None);
        }
    }

    /// Adds a session. If both ends dialled each other, the session that the node with the smaller id opened stays, unless it
    /// is silent: then its other end has restarted.
    fn up(&mut self, line: Line, now: Instant) {
        let peer = line.peer();
        if !self.is_member(&peer) {
            self.calling.retain(|&other| other != peer);
            line.close();
            return;
        }
        self.calling.retain(|&other| other != peer);
        self.unneeded.remove(&peer);
        let mut again = Vec::new();
        if let Some(old) = self.lines.get(&peer) {
            if old.is_active() && old.opener < line.opener {
                line.close();
                return;
            }
            let old = old.clone();
            old.close();
            // The link itself has no error: messages under way are sent again.
            again = self.take_probes(&old);
        }
        self.agent.handle_reached(&peer, &reached(&line).1, now);
        self.tasks.spawn(line.clone().listen(self.sender.clone()));
        if line.opener == self.host.node_id() {
            self.tasks.spawn(line.clone().refuse_others());
        }
        if let Some(serving) = &self.serving {
            serving.set_session(peer, Some(line.session.clone()));
            let session = line.session.clone();
            self.answering.spawn(serving.clone().attend(session));
        }
        self.lines.insert(peer, line);
        for (to, id, bytes) in again {
            self.probe(to, id, bytes);
        }
        self.agent.handle_session(&peer, true, now);
        let subscriptions: Vec<u64> = self.subscriptions.keys().copied().collect();
        for subscription in subscriptions {
            self.open_circuits(subscription, now);
        }
    }

    /// Handles a change of the routes to a destination.
    fn rerouted(&mut self, to: NodeId) {
        let now = self.host.clock().now();
        let of = |(&id, subscription): (&u64, &Subscription)| (subscription.to == to).then_some(id);
        let subscriptions: Vec<u64> = self.subscriptions.iter().filter_map(of).collect();
        for subscription in subscriptions {
            self.open_circuits(subscription, now);
        }
    }

    fn serve_outputs(&mut self) {
        while let Some(output) = self.agent.poll_output() {
            match output {
                Output::Connect(peer) => {
                    self.unneeded.remove(&peer);
                    self.call(peer);
                }
                Output::Disconnect(peer) => {
                    self.unneeded.insert(peer);
                }
                Output::Probe { to, id, bytes } => self.probe(to, id, bytes),
                Output::Send { to, bytes } => {
                    if let Some(line) = self.lines.get(&to) {
                        line.send_gossip(bytes);
                    }
                }
                Output::Event(event) => {
                    limited!(info, ?event, "overlay");
                    if let Event::RoutesChanged { to, .. } = event {
                        self.rerouted(to);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn call(&mut self, peer: NodeId) {
        if self.lines.contains_key(&peer) {
            let now = self.host.clock().now();
            self.agent.handle_session(&peer, true, now);
            return;
        }
        if self.calling.contains(&peer) {
            return;
        }
        let now = self.host.clock().now();
        let remotes = Remotes {
            addresses: self.agent.dial_addresses(&peer, now),
            hosts: (self.sites.get(&peer)).map_or_else(Vec::new, |site| site.hosts.clone()),
        };
        if remotes.is_empty() {
            // No address may be tried now.
            self.agent.handle_session(&peer, false, now);
            return;
        }
        self.calling.push(peer);
        let (host, sender) = (self.host.clone(), self.sender.clone());
        self.tasks.spawn(async move {
            let input = match Line::dial(&host, peer, remotes).await {
                Ok(line) => Input::Up(line),
                Err(error) => {
                    tracing::debug!(%peer, %error, "member not reached");
                    Input::Failed(peer)
                }
            };
            sender.send(input).await.ok();
        });
    }
}
