//! Who uses the overlay to reach a member, and the circuits that are open for it.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anabranch_base::{Instant, NodeId, Rate};
use anabranch_net::relay::CircuitId;
use tokio::sync::mpsc;

use anabranch_overlay::{Fault, Sample};

use super::{circuit, follow::News, runner::Runner, usage::WayUse};

/// A lease that nobody asks for again ends after this.
const LIFETIME: Duration = Duration::from_secs(30);
/// A circuit is asked for with so many times the rate that its way is expected to carry: estimates err, and rates change …
const RATE_FACTOR: f64 = 4.0;
/// … and with this at least.
const RATE_MIN: Rate = Rate::from_mbps(10);
/// Most leases at a time.
const LEASES_MAX: usize = 64;

/// A way to a member that can be used now.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenWay {
    /// The relays, in order; none: the direct link.
    pub relays: Vec<NodeId>,
    /// Where to send so that it goes this way; `None`: as without an overlay, or a circuit is being opened.
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
pub enum LeaseError {
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
pub(super) struct Lease {
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
    /// Ways to `to` for the user `lease`, who wants to send about `bytes` and has seen `news` of the ways it has.
    /// Who does not ask again before [`LIFETIME`] is over has its circuits closed.
    pub(super) fn ways(
        &mut self,
        lease: u64,
        (to, bytes): (NodeId, u64),
        news: &News,
        now: Instant,
    ) -> Result<Vec<OpenWay>, LeaseError> {
        if !self.is_member(&to) {
            return Err(LeaseError::Stranger(to));
        }
        if !self.leases.contains_key(&lease) && self.leases.len() >= LEASES_MAX {
            return Err(LeaseError::Full);
        }
        // A user who wants something else has ended its first lease.
        if self.leases.get(&lease).is_some_and(|lease| lease.to != to) {
            let before = self.leases.remove(&lease);
            before.into_iter().for_each(|lease| self.unwant(lease.to));
        }
        if !self.leases.contains_key(&lease) {
            let stranger = |_| LeaseError::Stranger(to);
            self.agent.want(to, bytes, now).map_err(stranger)?;
        }
        let entry = self.leases.entry(lease).or_insert_with(|| Lease {
            to,
            until: now,
            circuits: BTreeMap::new(),
            groups: Vec::new(),
        });
        entry.until = now + LIFETIME;
        let is_failed = |open: &Open| open.near.is_some_and(|near| news.failed.contains(&near));
        let lost: Vec<Vec<NodeId>> = (entry.circuits.iter())
            .filter(|(_, open)| is_failed(open))
            .map(|(relays, _)| relays.clone())
            .collect();
        for relays in lost {
            self.circuit_down(lease, &relays, Fault::Somewhere, now);
        }
        self.relearn(lease, &news.unanswered);
        self.learn(lease, &news.used, now);
        self.open_circuits(lease, now);
        let routes = self.agent.routes(&to, now);
        let Some(lease) = self.leases.get(&lease) else {
            return Ok(Vec::new());
        };
        let ways = routes.map(|routes| routes.ways).unwrap_or_default();
        let open = ways.into_iter().map(|way| OpenWay {
            near: lease.circuits.get(&way.relays).and_then(|open| open.near),
            relays: way.relays,
            bandwidth: way.bandwidth,
            delay_min: way.delay_min,
            bytes: way.bytes,
        });
        Ok(open.collect())
    }

    /// Nothing comes back through these: their relays shall learn anew where the user sends from.
    fn relearn(&self, lease: u64, unanswered: &[SocketAddr]) {
        let lease = self.leases.get(&lease);
        for open in lease.into_iter().flat_map(|lease| lease.circuits.values()) {
            if open.near.is_some_and(|near| unanswered.contains(&near)) {
                // One such wish at a time is enough.
                open.wishes.try_send(circuit::Relearn).ok();
            }
        }
    }

    /// Tells the agent what a user's traffic showed.
    fn learn(&mut self, id: u64, used: &[WayUse], now: Instant) {
        let Some(lease) = self.leases.get_mut(&id).filter(|_| !used.is_empty()) else {
            return;
        };
        let to = lease.to;
        let relays_of = |way: &WayUse| match way.near {
            None => Some(Vec::new()),
            Some(near) => (lease.circuits.iter())
                .find(|(_, open)| open.near == Some(near))
                .map(|(relays, _)| relays.clone()),
        };
        let ways: Vec<(&WayUse, Vec<NodeId>)> = (used.iter())
            .filter_map(|way| Some((way, relays_of(way)?)))
            .collect();
        let mut groups: BTreeMap<u8, Vec<NodeId>> = BTreeMap::new();
        for (way, relays) in ways.iter().filter(|(way, _)| way.group > 0) {
            let first = relays.first().copied().unwrap_or(to);
            groups.entry(way.group).or_default().push(first);
        }
        lease.groups = groups.into_values().collect();
        for (way, relays) in &ways {
            if relays.is_empty() {
                let sample = Sample {
                    rate: way.rate(),
                    window: way.window(),
                    is_limited: way.limited,
                    round_trip_min: way.rtt_min(),
                };
                self.agent.handle_sample(&to, sample, now);
            } else {
                let seen = (way.rate(), way.limited);
                self.agent.handle_way_rate(&to, relays, seen, now);
            }
        }
        self.tell_groups(now);
    }

    /// Which of this node's links share a bottleneck, as all users found.
    fn tell_groups(&mut self, now: Instant) {
        let groups: Vec<Vec<NodeId>> = (self.leases.values())
            .flat_map(|lease| lease.groups.iter().cloned())
            .collect();
        self.agent.set_groups(&groups, now);
    }

    /// Opens the circuits that a lease's routes need and closes the others.
    pub(super) fn open_circuits(&mut self, id: u64, now: Instant) {
        let Some(to) = self.leases.get(&id).map(|lease| lease.to) else {
            return;
        };
        // Nothing is known for a moment: what is open stays.
        let Some(routes) = self.agent.routes(&to, now) else {
            return;
        };
        let wanted: Vec<(Vec<NodeId>, Rate)> = (routes.ways.into_iter())
            .filter(|way| !way.relays.is_empty())
            .map(|way| (way.relays, (way.bandwidth * RATE_FACTOR).max(RATE_MIN)))
            .collect();
        if let Some(lease) = self.leases.get_mut(&id) {
            let is_wanted = |relays: &Vec<NodeId>| wanted.iter().any(|(way, _)| way == relays);
            lease.circuits.retain(|relays, _| is_wanted(relays));
        }
        for (relays, rate) in wanted {
            let is_open = |lease: &Lease| lease.circuits.contains_key(&relays);
            if self.leases.get(&id).is_some_and(is_open) {
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
                lease: id,
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
            if let Some(lease) = self.leases.get_mut(&id) {
                let open = Open {
                    near: None,
                    rate,
                    wishes,
                };
                lease.circuits.insert(relays, open);
            }
        }
        self.tell_held(now);
    }

    /// All relays have opened their parts.
    pub(super) fn circuit_up(
        &mut self,
        lease: u64,
        relays: &[NodeId],
        (near, rate): (SocketAddr, Rate),
        now: Instant,
    ) {
        let lease = self.leases.get_mut(&lease);
        if let Some(open) = lease.and_then(|lease| lease.circuits.get_mut(relays)) {
            open.near = Some(near);
            open.rate = rate;
            self.tell_held(now);
        }
    }

    /// What this node's circuits hold at relays.
    fn tell_held(&mut self, now: Instant) {
        let mut held: BTreeMap<NodeId, Rate> = BTreeMap::new();
        for lease in self.leases.values() {
            for (relays, open) in &lease.circuits {
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
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        if lease.circuits.remove(relays).is_some() {
            let to = lease.to;
            self.tell_held(now);
            self.agent.handle_way_failed(&to, relays, fault, now);
        }
    }

    /// Ends leases that nobody asks for any more.
    pub(super) fn expire_leases(&mut self, now: Instant) {
        let before: Vec<NodeId> = self.leases.values().map(|lease| lease.to).collect();
        self.leases.retain(|_, lease| lease.until > now);
        before.into_iter().for_each(|to| self.unwant(to));
        self.tell_groups(now);
        self.tell_held(now);
    }

    /// A lease to this member has ended: no routes are kept to it, unless for others.
    fn unwant(&mut self, to: NodeId) {
        if !self.leases.values().any(|lease| lease.to == to) {
            self.agent.unwant(&to);
        }
    }

    /// Members whose sessions circuits need.
    pub(super) fn is_relay_in_use(&self, node: &NodeId) -> bool {
        let mut leases = self.leases.values();
        leases.any(|lease| lease.circuits.keys().any(|relays| relays.contains(node)))
    }
}
