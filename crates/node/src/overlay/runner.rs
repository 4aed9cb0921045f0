//! Hosts the overlay's agent: carries what it says, tells it what happens.

use std::{collections::BTreeMap, fmt, time::Duration};

use anabranch_base::{Instant, NodeId, SessionId};
use anabranch_net::{Host, Session};
use anabranch_overlay::{Agent, Output};
use bytes::Bytes;
use tokio::{sync::mpsc, task::JoinSet};

use super::{Site, line::Line};

/// Longest pause without looking at the clock.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What happens to a node's part in the overlay.
pub(super) enum Input {
    /// A session with a member is there.
    Up(Line),
    /// A member was called and did not answer.
    Failed(NodeId),
    /// A session with a member is over.
    Over(NodeId, SessionId),
    /// A member said something.
    Message(NodeId, Bytes),
    /// What became of a test message on a session: acknowledged after this time, or not.
    Probed(SessionId, u64, Option<Duration>),
    /// A member opened a session; it may be for the overlay.
    Accepted(Session),
    /// Somebody wants to know or to do something.
    Ask(Question),
}

/// What somebody wants to know or to do, with the time.
pub(super) type Question = Box<dyn FnOnce(&mut Runner, Instant) + Send>;

/// A node's part in the overlay, as long as it runs.
pub(crate) struct Runner {
    host: Host,
    pub(super) agent: Agent,
    pub(super) sites: BTreeMap<NodeId, Site>,
    pub(super) lines: BTreeMap<NodeId, Line>,
    /// Members being called.
    calling: Vec<NodeId>,
    inputs: mpsc::Receiver<Input>,
    sender: mpsc::Sender<Input>,
    tasks: JoinSet<()>,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "overlay of {} members", self.sites.len())
    }
}

impl Drop for Runner {
    /// Says goodbye, as far as there is a session to say it on.
    fn drop(&mut self) {
        self.agent.leave(self.host.clock().now());
        while let Some(output) = self.agent.poll_output() {
            if let Output::Send { to, bytes } = output
                && let Some(line) = self.lines.get(&to)
            {
                line.tell(bytes);
            }
        }
    }
}

impl Runner {
    pub(super) fn new(
        host: Host,
        agent: Agent,
        sites: BTreeMap<NodeId, Site>,
        (sender, inputs): (mpsc::Sender<Input>, mpsc::Receiver<Input>),
    ) -> Self {
        Self {
            host,
            agent,
            sites,
            lines: BTreeMap::new(),
            calling: Vec::new(),
            inputs,
            sender,
            tasks: JoinSet::new(),
        }
    }

    /// Runs until dropped.
    pub(crate) async fn run(mut self) {
        loop {
            self.serve_outputs();
            while self.tasks.try_join_next().is_some() {}
            let now = self.host.clock().now();
            let due = self.agent.poll_timeout();
            let pause = due.map_or(PAUSE_MAX, |due| due.since(now).min(PAUSE_MAX));
            tokio::select! {
                // There is always a sender: our own.
                Some(input) = self.inputs.recv() => self.take(input),
                () = tokio::time::sleep(pause) => {
                    self.agent.handle_timeout(self.host.clock().now());
                }
            }
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.host.clock().now();
        match input {
            Input::Up(line) => self.up(line, now),
            Input::Failed(peer) => {
                self.calling.retain(|&other| other != peer);
                if !self.lines.contains_key(&peer) {
                    self.agent.handle_session(&peer, false, now);
                }
            }
            Input::Over(peer, session) => {
                let is_current = |line: &Line| line.session.id() == session;
                if self.lines.get(&peer).is_some_and(is_current) {
                    self.lines.remove(&peer);
                    self.agent.handle_session(&peer, false, now);
                }
            }
            Input::Message(from, message) => self.agent.handle_message(&from, &message, now),
            Input::Probed(session, number, took) => self.probed(session, number, took, now),
            Input::Accepted(session) => {
                let sender = self.sender.clone();
                self.tasks.spawn(async move {
                    if let Some(line) = Line::attend(session).await {
                        sender.send(Input::Up(line)).await.ok();
                    }
                });
            }
            Input::Ask(question) => question(self, now),
        }
    }

    /// A session is there. When both ends called each other, the one that the smaller id opened stays, unless
    /// it is silent: then its other end has begun anew.
    fn up(&mut self, line: Line, now: Instant) {
        let peer = line.peer();
        self.calling.retain(|&other| other != peer);
        if let Some(old) = self.lines.get(&peer) {
            if old.is_heard() && old.opener < line.opener {
                line.close();
                return;
            }
            old.close();
        }
        self.tasks.spawn(line.clone().listen(self.sender.clone()));
        self.lines.insert(peer, line);
        self.agent.handle_session(&peer, true, now);
    }

    fn probed(
        &mut self,
        _session: SessionId,
        _number: u64,
        _took: Option<Duration>,
        _now: Instant,
    ) {
    }

    fn serve_outputs(&mut self) {
        while let Some(output) = self.agent.poll_output() {
            match output {
                Output::Connect(peer) => self.call(peer),
                Output::Disconnect(peer) => {
                    if let Some(line) = self.lines.remove(&peer) {
                        line.close();
                    }
                }
                Output::Send { to, bytes } => {
                    if let Some(line) = self.lines.get(&to) {
                        line.tell(bytes);
                    }
                }
                Output::Event(event) => tracing::info!(?event, "overlay"),
                _ => {}
            }
        }
    }

    fn call(&mut self, peer: NodeId) {
        if self.lines.contains_key(&peer) {
            let now = self.host.clock().now();
            self.agent.handle_session(&peer, true, now);
            return;
        }
        if self.calling.contains(&peer) {
            return;
        }
        let mut addresses = Vec::new();
        if let Some(record) = self.agent.record(&peer) {
            addresses.extend(record.addresses);
        }
        if let Some(site) = self.sites.get(&peer) {
            addresses.extend(&site.addresses);
        }
        addresses.dedup();
        self.calling.push(peer);
        let (host, sender) = (self.host.clone(), self.sender.clone());
        self.tasks.spawn(async move {
            let input = match Line::dial(&host, peer, &addresses).await {
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
