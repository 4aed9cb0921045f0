//! Subscriptions to the overlay's paths: the users of each member, and the circuits that are open for them.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anabranch_base::{Instant, NodeId, Rate};
use anabranch_net::relay::CircuitId;
use tokio::sync::mpsc;

use anabranch_overlay::{Fault, Sample};

use super::{circuit, follow::PathFeedback, runner::Runner, usage::PathUse};

/// A lease that nobody asks for again ends after this.
const LIFETIME: Duration = Duration::from_secs(30);
/// A circuit is asked for with so many times the rate that its way is expected to carry: estimates err, and rates change …
const RATE_FACTOR: f64 = 4.0;
/// … and with this at least.
const RATE_MIN: Rate = Rate::from_mbps(10);
/// Most leases at a time.
const SUBSCRIPTIONS_MAX: usize = 64;

/// A way to a member that can be used now.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenPath {
    /// The relays, in order; none: the direct link.
    pub relays: Vec<NodeId>,
    /// Address to send so that it goes this way; `None`: as without an overlay, or a circuit is being opened.
    pub near: Option<SocketAddr>,
    /// What it is expected to carry beside the ways before it.
    pub bandwidth: Rate,
    /// The least delay of a packet.
    pub delay_min: Duration,
    /// Its part of the message.
    pub bytes: u64,
}

/// The overlay cannot be used to reach a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// It is not on the list.
    #[error(
        "node {0} is not among the members of the overlay; list it as [[overlay.member]] here and at the relays"
    )]
    Stranger(NodeId),
    /// Too many use it.
    #[error("the overlay is used by 64 sessions already; wait until one has ended")]
    Full,
    /// The node's part in it has ended.
    #[error("the node has left the overlay")]
    Over,
}

/// One user.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) to: NodeId,
    until: Instant,
    circuits: BTreeMap<Vec<NodeId>, Open>,
    /// First nodes of ways that share a bottleneck, as its user found.
    groups: Vec<Vec<NodeId>>,
}

/// A circuit; it ends when this is dropped.
#[derive(Debug)]
struct Open {
    near: Option<SocketAddr>,
    /// What was granted; until it is known, what was asked for.
    rate: Rate,
    wishes: mpsc::Sender<circuit::Relearn>,
}

impl Runner {
    /// Paths to `to` for the user `subscription`, who wants to send about `bytes` and has seen `feedback` of the ways it has.
    /// Who does not ask again before [`LIFETIME`] is over has its circuits closed.
    pub(super) fn paths(
        &mut self,
        subscription: u64,
        (to, bytes): (NodeId, u64),
        feedback: &PathFeedback,
        now: Instant,
    ) -> Result<Vec<OpenPath>, SubscriptionError> {
        if !self.is_member(&to) {
            return Err(SubscriptionError::Stranger(to));
        }
        if !self.subscriptions.contains_key(&subscription)
            && self.subscriptions.len() >= SUBSCRIPTIONS_MAX
        {
            return Err(SubscriptionError::Full);
        }
        // A user who wants something else has ended its first lease.
        if self
            .subscriptions
            .get(&subscription)
            .is_some_and(|subscription| subscription.to != to)
        {
            let before = self.subscriptions.remove(&subscription);
            before
                .into_iter()
                .for_each(|subscription| self.unwant(subscription.to));
        }
        if !self.subscriptions.contains_key(&subscription) {
            let stranger = |_| SubscriptionError::Stranger(to);
            self.agent.want(to, bytes, now).map_err(stranger)?;
        }
        let entry = self
            .subscriptions
            .entry(subscription)
            .or_insert_with(|| Subscription {
                to,
                until: now,
                circuits: BTreeMap::new(),
                groups: Vec::new(),
            });
        entry.until = now + LIFETIME;
        let is_failed = |open: &Open| {
            open.near
                .is_some_and(|near| feedback.failed.contains(&near))
        };
        let lost: Vec<Vec<NodeId>> = (entry.circuits.iter())
            .filter(|(_, open)| is_failed(open))
            .map(|(relays, _)| relays.clone())
            .collect();
        for relays in lost {
            self.circuit_down(subscription, &relays, Fault::Somewhere, now);
        }
        self.relearn(subscription, &feedback.unanswered);
        self.learn(subscription, &feedback.used, now);
        self.open_circuits(subscription, now);
        let routes = self.agent.routes(&to, now);
        let Some(subscription) = self.subscriptions.get(&subscription) else {
            return Ok(Vec::new());
        };
        let paths = routes.map(|routes| routes.paths).unwrap_or_default();
        let open = paths.into_iter().map(|path| OpenPath {
            near: subscription
                .circuits
                .get(&path.relays)
                .and_then(|open| open.near),
            relays: path.relays,
            bandwidth: path.bandwidth,
            delay_min: path.delay_min,
            bytes: path.bytes,
        });
        Ok(open.collect())
    }

    /// Nothing comes back through these: their relays shall learn anew where the user sends from.
    fn relearn(&self, subscription: u64, unanswered: &[SocketAddr]) {
        let subscription = self.subscriptions.get(&subscription);
        for open in subscription
            .into_iter()
            .flat_map(|subscription| subscription.circuits.values())
        {
            if open.near.is_some_and(|near| unanswered.contains(&near)) {
                // One such wish at a time is enough.
                open.wishes.try_send(circuit::Relearn).ok();
            }
        }
    }

    /// Tells the agent what a user's traffic showed.
    fn learn(&mut self, id: u64, used: &[PathUse], now: Instant) {
        let Some(subscription) = self.subscriptions.get_mut(&id).filter(|_| !used.is_empty())
        else {
            return;
        };
        let to = subscription.to;
        let relays_of = |path: &PathUse| match path.near {
            None => Some(Vec::new()),
            Some(near) => (subscription.circuits.iter())
                .find(|(_, open)| open.near == Some(near))
                .map(|(relays, _)| relays.clone()),
        };
        let paths: Vec<(&PathUse, Vec<NodeId>)> = (used.iter())
            .filter_map(|path| Some((path, relays_of(path)?)))
            .collect();
        let mut groups: BTreeMap<u8, Vec<NodeId>> = BTreeMap::new();
        for (path, relays) in paths.iter().filter(|(path, _)| path.group > 0) {
            let first = relays.first().copied().unwrap_or(to);
            groups.entry(path.group).or_default().push(first);
        }
        subscription.groups = groups.into_values().collect();
        for (path, relays) in &paths {
            if relays.is_empty() {
                let sample = Sample {
                    rate: path.rate(),
                    window: path.window(),
                    is_limited: path.limited,
                    round_trip_min: path.rtt_min(),
                };
                self.agent.handle_sample(&to, sample, now);
            } else {
                let seen = (path.rate(), path.limited);
                self.agent.handle_path_rate(&to, relays, seen, now);
            }
        }
        self.tell_groups(now);
    }

    /// Which of this node's links share a bottleneck, as all users found.
    fn tell_groups(&mut self, now: Instant) {
        let groups: Vec<Vec<NodeId>> = (self.subscriptions.values())
            .flat_map(|subscription| subscription.groups.iter().cloned())
            .collect();
        self.agent.set_groups(&groups, now);
    }

    /// Opens the circuits that a lease's routes need and closes the others.
    pub(super) fn open_circuits(&mut self, id: u64, now: Instant) {
        let Some(to) = self
            .subscriptions
            .get(&id)
            .map(|subscription| subscription.to)
        else {
            return;
        };
        // Nothing is known for a moment: what is open stays.
        let Some(routes) = self.agent.routes(&to, now) else {
            return;
        };
        let wanted: Vec<(Vec<NodeId>, Rate)> = (routes.paths.into_iter())
            .filter(|path| !path.relays.is_empty())
            .map(|path| (path.relays, (path.bandwidth * RATE_FACTOR).max(RATE_MIN)))
            .collect();
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            let is_wanted = |relays: &Vec<NodeId>| wanted.iter().any(|(path, _)| path == relays);
            subscription.circuits.retain(|relays, _| is_wanted(relays));
        }
        for (relays, rate) in wanted {
            let is_open = |subscription: &Subscription| subscription.circuits.contains_key(&relays);
            if self.subscriptions.get(&id).is_some_and(is_open) {
                continue;
            }
            let mut sessions = Vec::new();
            for &relay in &relays {
                match self.lines.get(&relay) {
                    Some(line) => sessions.push(line.session.clone()),
                    // Tried again when the session is there.
                    None => self.call(relay),
                }
            }
            if sessions.len() < relays.len() {
                continue;
            }
            let (wishes, wished) = mpsc::channel(1);
            self.circuits_opened += 1;
            let order = circuit::Order {
                subscription: id,
                source: self.agent.me(),
                sessions,
                destination: to,
                circuit: CircuitId(self.circuits_opened),
                rate,
                clock: self.host.clock(),
                report: self.sender.clone(),
                wishes: wished,
            };
            self.tasks.spawn(circuit::keep(order));
            if let Some(subscription) = self.subscriptions.get_mut(&id) {
                let open = Open {
                    near: None,
                    rate,
                    wishes,
                };
                subscription.circuits.insert(relays, open);
            }
        }
        self.tell_held(now);
    }

    /// All relays have opened their parts.
    pub(super) fn circuit_up(
        &mut self,
        subscription: u64,
        relays: &[NodeId],
        (near, rate): (SocketAddr, Rate),
        now: Instant,
    ) {
        let subscription = self.subscriptions.get_mut(&subscription);
        if let Some(open) =
            subscription.and_then(|subscription| subscription.circuits.get_mut(relays))
        {
            open.near = Some(near);
            open.rate = rate;
            self.tell_held(now);
        }
    }

    /// What this node's circuits hold at relays.
    fn tell_held(&mut self, now: Instant) {
        let mut held: BTreeMap<NodeId, Rate> = BTreeMap::new();
        for subscription in self.subscriptions.values() {
            for (relays, open) in &subscription.circuits {
                for relay in relays {
                    let sum = held.entry(*relay).or_insert(Rate::ZERO);
                    *sum = *sum + open.rate;
                }
            }
        }
        let held: Vec<(NodeId, Rate)> = held.into_iter().collect();
        self.agent.set_held(&held, now);
    }

    /// A circuit is of no use: the agent looks for another way at once.
    pub(super) fn circuit_down(&mut self, id: u64, relays: &[NodeId], fault: Fault, now: Instant) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return;
        };
        if subscription.circuits.remove(relays).is_some() {
            let to = subscription.to;
            self.tell_held(now);
            self.agent.handle_path_failed(&to, relays, fault, now);
        }
    }

    /// Ends leases that nobody asks for any more.
    pub(super) fn expire_subscriptions(&mut self, now: Instant) {
        let before: Vec<NodeId> = self
            .subscriptions
            .values()
            .map(|subscription| subscription.to)
            .collect();
        self.subscriptions
            .retain(|_, subscription| subscription.until > now);
        before.into_iter().for_each(|to| self.unwant(to));
        self.tell_groups(now);
        self.tell_held(now);
    }

    /// A lease to this member has ended: no routes are kept to it, unless for others.
    fn unwant(&mut self, to: NodeId) {
        if !self
            .subscriptions
            .values()
            .any(|subscription| subscription.to == to)
        {
            self.agent.unwant(&to);
        }
    }

    /// Members whose sessions circuits need.
    pub(super) fn is_relay_in_use(&self, node: &NodeId) -> bool {
        let mut subscriptions = self.subscriptions.values();
        subscriptions.any(|subscription| {
            subscription
                .circuits
                .keys()
                .any(|relays| relays.contains(node))
        })
    }
}
