//! The overlay on a node: discovers and monitors members, measures links, and opens paths through relays
//! ([`anabranch_overlay`]).
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Overlay`], the interface to the rest of the node |
//! | `runner` | hosts the agent |
//! | `change` | other members and settings while it runs |
//! | `line` | the session with one member, and the overlay's streams on it |
//! | `probes` | test messages |
//! | `subscription` | users of the overlay's paths to a member, and the circuits that are open for them |
//! | `follow` | adds the overlay's paths to a session, and removes them, as they come and go |
//! | `circuit` | a circuit, kept by its source |
//! | `usage` | measurements of paths by a session's traffic |
//! | `serving` | relaying for others |
//! | `transition` | to other members and settings, and out of the overlay |
//! | `keys` | signatures |
//! | `undecided` | sessions of members that may be for the overlay |
//! | `load` | load of this node, as a program states it |
//! | `own` | addresses of this node, where names stand for them |
//!
//! `runner` and the tasks that it starts (`line`, `circuit`) use each other: they report to it in its `Input`, which also carries
//! questions to the runner itself.

mod change;
mod circuit;
mod follow;
mod keys;
mod line;
mod load;
mod own;
mod probes;
mod runner;
mod serving;
mod subscription;
mod transition;
mod undecided;
mod usage;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch_base::{NodeId, Seed, SessionId};
pub use anabranch_net::relay::{RelayError, RelayReport, Totals};
use anabranch_net::{Host, Remotes, Session};
use anabranch_overlay::Agent;
pub use anabranch_overlay::{
    Config, ConfigError, LinkView, Load, MemberView, Path, Routes, Source, State,
};
use anabranch_session::SecretKey;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::{change::Prepared, line::LABELS, load::Author, runner::Runner};
use self::{
    change::Settings, keys::OwnKey, load::Stated, runner::Input, serving::Serving,
    undecided::Undecided,
};
pub use self::{
    follow::{Follower, PathFeedback},
    subscription::{OpenPath, SubscriptionError},
    usage::PathUse,
};
pub use crate::config::Site;
use crate::{
    config::OverlayConfig,
    keys::KeyError,
    rights::{Right, Rights},
};

/// Inputs that may wait; further senders wait.
const INPUTS_MAX: usize = 1_024;

/// Message size for which routes are computed if none is given.
const USUAL_BYTES: u64 = 10_000_000;

/// A node cannot take part in its overlay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverlayError {
    /// A setting is refused.
    #[error("overlay: {0}")]
    Config(#[from] ConfigError),
    /// The operating system provides no random numbers.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The relay cannot start.
    #[error("overlay.relay: {0}")]
    Relay(#[from] RelayError),
}

/// A node's part in the overlay. Clones share it.
#[derive(Clone, Debug)]
pub struct Overlay {
    me: NodeId,
    inputs: mpsc::Sender<Input>,
    settings: Arc<watch::Sender<Arc<Settings>>>,
    rights: Rights,
    /// Users in this process are numbered from 0 on; others choose larger numbers.
    users: Arc<AtomicU64>,
    shared: Shared,
}

/// State that the runner shares with the rest of the node. Clones share it.
#[derive(Clone, Debug, Default)]
struct Shared {
    load: Stated,
    /// Sessions of lines, those that were one too many included.
    lines: line::Sessions,
    undecided: Undecided,
}

impl Overlay {
    /// Takes part with these members, as long as each has the right in `rights`; the runner does the work.
    ///
    /// # Errors
    /// A setting is out of its range, the relay cannot start, or the system provides no random numbers.
    pub(crate) fn new(
        host: &Host,
        key: SecretKey,
        config: OverlayConfig,
        rights: Rights,
    ) -> Result<(Self, Runner), OverlayError> {
        // Nodes that start together would otherwise act at the same moments.
        let id = host.node_id();
        let mut seed_bytes = [0; 8];
        let entropy = |error: getrandom::Error| KeyError::Entropy(error.to_string());
        getrandom::fill(&mut seed_bytes).map_err(entropy)?;
        let seed = Seed(u64::from_le_bytes(seed_bytes));
        let settings = Settings::new(host, config, &rights, None)?;
        let keys = Box::new(OwnKey(key));
        let now = host.clock().now();
        let agent = Agent::of(settings.setup.clone(), keys, seed, now);
        let (settings, wanted) = watch::channel(Arc::new(settings));
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let overlay = Self {
            me: id,
            inputs: sender.clone(),
            settings: Arc::new(settings),
            rights: rights.clone(),
            users: Arc::default(),
            shared: Shared::default(),
        };
        // Circuits from before a restart of this node may still exist, under small numbers.
        let first_circuit = u64::from_le_bytes(seed_bytes) >> 1;
        let inputs = (sender, inputs);
        let shared = (first_circuit, overlay.shared.clone());
        let runner = Runner::new(host.clone(), agent, (wanted, rights), shared, inputs);
        Ok((overlay, runner))
    }

    /// Takes the load that a program states for ten seconds; false if another program has stated one.
    pub(crate) fn state_load(&self, author: &Author, load: Load) -> bool {
        self.shared
            .load
            .set(author, load, tokio::time::Instant::now())
    }

    /// True if a node is a member now.
    pub fn is_member(&self, node: &NodeId) -> bool {
        self.is_listed(node) && self.rights.may(node, Right::Member)
    }

    fn is_listed(&self, node: &NodeId) -> bool {
        self.settings.borrow().sites.contains_key(node)
    }

    /// True if a session is for the overlay: nothing else is served on it at the node that opened it.
    pub(crate) fn has_line(&self, session: SessionId) -> bool {
        self.shared.lines.contains(session)
    }

    /// Expects a session that a member has just opened to be for the overlay, if it opens the overlay's stream on it.
    pub(crate) fn expect(&self, session: SessionId) {
        self.shared
            .undecided
            .add(session, tokio::time::Instant::now());
    }

    /// Time until which a session may turn out to be for the overlay; `None`: it is, or will not be.
    pub(crate) fn undecided(&self, session: SessionId) -> Option<tokio::time::Instant> {
        let now = tokio::time::Instant::now();
        let until = self.shared.undecided.until(session, now);
        until.filter(|_| !self.has_line(session))
    }

    /// Addresses of a member on the list; `None`: it is on none.
    pub(crate) fn remotes(&self, node: &NodeId) -> Option<Remotes> {
        let settings = self.settings.borrow();
        let site = settings.sites.get(node).filter(|_| *node != self.me)?;
        Some(Remotes {
            addresses: site.addresses.clone(),
            hosts: site.hosts.clone(),
        })
    }

    /// Display name of a member; `here` for this node, and the beginning of its id for a node that is not on the list.
    pub fn name(&self, node: &NodeId) -> String {
        match self.settings.borrow().sites.get(node) {
            _ if *node == self.me => "here".to_owned(),
            Some(site) => site.name.clone(),
            None => node.to_string().chars().take(8).collect(),
        }
    }

    /// Handles a session that a member opened: it may be one for the overlay.
    pub(crate) async fn accepted(&self, session: Session) {
        self.inputs.send(Input::Accepted(session)).await.ok();
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Runner, anabranch_base::Instant) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        let question = Box::new(move |runner: &mut Runner, now| {
            sender.send(question(runner, now)).ok();
        });
        self.inputs.send(Input::Ask(question)).await.ok()?;
        answer.await.ok()
    }

    /// Paths to the member `to`, for a user who identifies itself by the number `user` and wants to send about `bytes`.
    /// Circuits are opened as they are needed, and closed 30 s after the last request of the user. `feedback` is the user's
    /// feedback on the paths that it received before.
    ///
    /// # Errors
    /// It is not a member, or too many users use the overlay.
    pub async fn paths(
        &self,
        user: u64,
        to: NodeId,
        bytes: u64,
        feedback: PathFeedback,
    ) -> Result<Vec<OpenPath>, SubscriptionError> {
        let paths = self.ask(move |runner, now| runner.paths(user, (to, bytes), &feedback, now));
        paths.await.unwrap_or(Err(SubscriptionError::Over))
    }

    /// Adds the overlay's paths to a `session` with a member, beside its own links, until the session or the node's part in the overlay
    /// is over.
    pub async fn follow(&self, session: Session) {
        let (user, to) = (self.new_user(), session.peer());
        let mut follower = Follower::new(session);
        while let Some(feedback) = follower.next().await {
            let paths = self.paths(user, to, USUAL_BYTES, feedback).await;
            let open = paths.iter().flatten();
            let near: Vec<SocketAddr> = open.filter_map(|path| path.near).collect();
            follower.set(&near);
            if paths == Err(SubscriptionError::Over) {
                return;
            }
        }
    }

    fn new_user(&self) -> u64 {
        self.users.fetch_add(1, Ordering::Relaxed)
    }

    /// All links that are trusted now, this node's own first.
    pub async fn links(&self) -> Vec<LinkView> {
        let links = self.ask(|runner, now| runner.agent.links(now));
        links.await.unwrap_or_default()
    }

    /// Report on what is relayed for others; `None`: nothing is relayed.
    pub async fn relayed(&self) -> Option<RelayReport> {
        let report = self.ask(|runner, _| runner.serving.as_ref().map(Serving::report));
        report.await.flatten()
    }

    /// Statistics of what is relayed for others; `None`: nothing is relayed.
    pub async fn relay_totals(&self) -> Option<Totals> {
        let totals = self.ask(|runner, _| runner.serving.as_ref().map(Serving::totals));
        totals.await.flatten()
    }

    /// The paths in use to each destination.
    pub async fn routes(&self) -> Vec<Routes> {
        let routes = self.ask(|runner, now| {
            let mut wanted: Vec<NodeId> = runner
                .subscriptions
                .values()
                .map(|subscription| subscription.to)
                .collect();
            wanted.sort_unstable();
            wanted.dedup();
            let routes = wanted.iter().filter_map(|to| runner.agent.routes(to, now));
            routes.collect()
        });
        routes.await.unwrap_or_default()
    }

    /// All members, this node included; empty when the runner has ended.
    pub async fn members(&self) -> Vec<MemberView> {
        let views = self.ask(|runner, now| runner.agent.members(now).collect());
        views.await.unwrap_or_default()
    }
}
