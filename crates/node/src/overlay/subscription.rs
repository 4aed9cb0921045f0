//! Subscriptions to the overlay's paths: the users of each member, and the circuits that are open for them.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anabranch_base::{Instant, NodeId, Rate};
use anabranch_net::relay::CircuitId;
use tokio::sync::mpsc;

use anabranch_overlay::{Fault, Sample};

use super::{circuit, follow::PathFeedback, runner::Runner, usage::PathUse};

/// Time after which a subscription that is not renewed ends.
const LIFETIME: Duration = Duration::from_secs(30);
/// Rate requested for a circuit, as a multiple of the rate that its path is expected to carry: estimates err, and rates change
/// …
const RATE_FACTOR: f64 = 4.0;
/// … and at least this.
const RATE_MIN: Rate = Rate::from_mbps(10);
/// Limit on the subscriptions at a time.
const SUBSCRIPTIONS_MAX: usize = 64;

/// A path to a member that can be used now.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenPath {
    /// The relays, in order; none: the direct link.
    pub relays: Vec<NodeId>,
    /// Address to send to for this path; `None`: as without an overlay, or a circuit is being opened.
    pub near: Option<SocketAddr>,
    /// Rate that it is expected to carry in addition to the paths before it.
    pub bandwidth: Rate,
    /// Least delay of a packet.
    pub delay_min: Duration,
    /// Its share of the message.
    pub bytes: u64,
}

/// The overlay cannot be used to reach a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// The node is not on the list.
    #[error(
        "node {0} is not among the members of the overlay; list it as [[overlay.member]] here and at the relays"
    )]
    Stranger(NodeId),
    /// Too many users use the overlay.
    #[error("the overlay is used by 64 sessions already; wait until one has ended")]
    Full,
    /// The node no longer takes part in the overlay.
    #[error("the node has left the overlay")]
    Over,
}

/// The subscription of one user.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) to: NodeId,
    until: Instant,
    circuits: BTreeMap<Vec<NodeId>, Open>,
    /// First nodes of paths that share a bottleneck, as detected by the user.
    groups: Vec<Vec<NodeId>>,
}

/// A circuit; it ends when this is dropped.
#[derive(Debug)]
struct Open {
    near: Option<SocketAddr>,
    /// The rate granted; until it is known, the rate requested.
    rate: Rate,
    wishes: mpsc::Sender<circuit::Relearn>,
}

impl Subscription {
    /// Ends the circuits that have such a relay.
    pub(super) fn end_circuits_over(&mut self, is_relay: impl Fn(&NodeId) -> bool) {
        self.circuits
            .retain(|relays, _| !relays.iter().any(&is_relay));
    }
}

impl Runner {
    /// Paths to `to` for the user `subscription`, who wants to send about `bytes` and reports `feedback` on the paths that it
    /// has. If the user does not ask again within [`LIFETIME`], its circuits are closed.
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
        // A user that asks for another destination has ended its first subscription.
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

    /// Relays of paths from which nothing comes back shall learn anew where the user sends from.
    fn relearn(&self, subscription: u64, unanswered: &[SocketAddr]) {
        let subscription = self.subscriptions.get(&subscription);
        for open in subscription
            .into_iter()
            .flat_map(|subscription| subscription.circuits.values())
        {
            if open.near.is_some_and(|near| unanswered.contains(&near)) {
                // One such request at a time is enough.
                open.wishes.try_send(circuit::Relearn).ok();
            }
        }
    }

    /// Reports the measurements by a user's traffic to the agent.
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
        self.report_groups(now);
    }

    /// Reports which of this node's links share a bottleneck, as detected by all users.
    fn report_groups(&mut self, now: Instant) {
        let groups: Vec<Vec<NodeId>> = (self.subscriptions.values())
            .flat_map(|subscription| subscription.groups.iter().cloned())
            .collect();
        self.agent.set_groups(&groups, now);
    }

    /// Opens the circuits that a subscription's routes need and closes the others.
    pub(super) fn open_circuits(&mut self, id: u64, now: Instant) {
        let Some(to) = self
            .subscriptions
            .get(&id)
            .map(|subscription| subscription.to)
        else {
            return;
        };
        // Nothing is known for the moment: open circuits stay.
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
                    // Tried again once the session is open.
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
        self.report_held(now);
    }

    /// Handles a circuit whose relays have all opened their parts.
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
            self.report_held(now);
        }
    }

    /// Reports the rates that this node's circuits hold at relays to the agent.
    fn report_held(&mut self, now: Instant) {
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

    /// Handles a circuit that is of no use: the agent looks for another path at once.
    pub(super) fn circuit_down(&mut self, id: u64, relays: &[NodeId], fault: Fault, now: Instant) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return;
        };
        if subscription.circuits.remove(relays).is_some() {
            let to = subscription.to;
            self.report_held(now);
            self.agent.handle_path_failed(&to, relays, fault, now);
        }
    }

    /// Ends subscriptions that were not renewed.
    pub(super) fn expire_subscriptions(&mut self, now: Instant) {
        let before: Vec<NodeId> = self
            .subscriptions
            .values()
            .map(|subscription| subscription.to)
            .collect();
        self.subscriptions
            .retain(|_, subscription| subscription.until > now);
        before.into_iter().for_each(|to| self.unwant(to));
        self.report_groups(now);
        self.report_held(now);
    }

    /// Handles the end of a subscription to this member: no routes are kept to it, unless for others.
    fn unwant(&mut self, to: NodeId) {
        if !self
            .subscriptions
            .values()
            .any(|subscription| subscription.to == to)
        {
            self.agent.unwant(&to);
        }
    }

    /// True if an open circuit needs the session with this member.
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
