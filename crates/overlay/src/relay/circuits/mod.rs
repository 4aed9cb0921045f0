//! Circuit table of a relay: the circuits of each member, and the verdict on each packet.

mod admit;
mod checks;
mod peers;
mod report;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anabranch_base::{Instant, NodeId, Rate};

pub use self::{
    admit::{FlowId, Forward, Train, Verdict},
    report::{CircuitReport, PeerReport},
};
use self::{checks::CheckedRoute, peers::Peers};
use super::{
    account::{Account, Totals},
    bucket::Bucket,
    config::{Config, ConfigError, Quota},
    headroom::{GROWN_AFTER, Headroom},
    message::{Answer, CircuitId, Open, Opened, Refusal, Request},
    ports::{End, Family, Peer, PortId, Ports, Side},
};

/// Role of a node next to a relay on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The last node of the route: packets go to it, at one of its own addresses.
    Destination,
    /// A relay: packets go to, or come from, any port at its IP address.
    Relay,
}

/// The host's knowledge of the other nodes.
pub trait Members {
    /// True if the node is on the list of nodes that the relay serves.
    fn is_member(&self, node: NodeId) -> bool;

    /// True if `node`, which is on the list, is at `address`. For a [`Role::Relay`], the port is ignored.
    ///
    /// An unproven claim of any node is no reason to return true: the relay would send to any address that the node
    /// names. Valid reasons are the configuration, and a session with the node at this address.
    fn is_at(&self, node: NodeId, address: SocketAddr, role: Role) -> bool;

    /// Known addresses of `node`, which is on the list, the best first; empty: none is known. For each, [`Self::is_at`]
    /// returns true. A source that is not next to the node need not know them: where nodes have an address on each of
    /// several links, each neighbour knows a different one.
    fn addresses(&self, node: NodeId) -> Vec<SocketAddr>;
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Send this answer.
    Answer(Answer),
    /// No port is suitable: open one, call [`CircuitTable::add_port`], and repeat the request. If none can be opened,
    /// answer with [`Refusal::Ports`].
    NeedsPort(Family),
}

/// A node that has a session with the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'s> {
    /// The node, authenticated by the session.
    pub node: NodeId,
    /// Remote addresses of the session's channels.
    pub seen: &'s [SocketAddr],
}

/// A circuit between two nodes that both have a session with the relay and agree to it, wherever their translators put them: the first
/// packet of each determines its address and port ([`Origin::Known`](crate::relay::Origin::Known) at both ends).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between<'s> {
    /// Identifier, unique among the circuits of the node on the near side.
    pub circuit: CircuitId,
    /// The node whose quota is charged; it sends to the near port.
    pub near: Seen<'s>,
    /// The other node, which sends to the far port.
    pub far: Seen<'s>,
    /// Requested rate of UDP payload, both directions together. Less may be granted.
    pub rate: Rate,
    /// Time for which it should live without a refresh.
    pub lifetime: Duration,
}

/// One end of a circuit.
#[derive(Debug)]
struct Hop {
    port: PortId,
    peer: Peer,
    /// The address that packets come from, once it is known; packets from others are then dropped.
    remote: Option<SocketAddr>,
    /// The relay's own address at which they arrive.
    local_ip: Option<IpAddr>,
}

#[derive(Debug)]
struct Circuit {
    /// Distinguishes it from earlier and later circuits in its slot.
    generation: u32,
    id: CircuitId,
    /// Its owner: an index of [`Peers`].
    owner: u32,
    /// The next hop.
    next: NodeId,
    /// The request as checked; identifies a repeated request.
    asked: CheckedRoute,
    near: Hop,
    far: Hop,
    rate: Rate,
    bucket: Bucket,
    opened_at: Instant,
    expires_at: Instant,
    has_answered: bool,
    account: Account,
}

/// Circuit table of a relay. No sockets, no clock: every call takes `now`, which never decreases.
#[derive(Debug)]
pub struct CircuitTable {
    config: Config,
    circuits: Vec<Option<Circuit>>,
    free: Vec<u32>,
    generations: u32,
    by_name: BTreeMap<(NodeId, CircuitId), u32>,
    by_expiry: BTreeSet<(Instant, u32)>,
    peers: Peers,
    ports: Ports,
    headroom: Headroom,
    totals: Totals,
}

impl CircuitTable {
    /// An empty table.
    ///
    /// # Errors
    /// A value of the configuration is out of its range.
    pub fn new(now: Instant, config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            circuits: Vec::new(),
            free: Vec::new(),
            generations: 0,
            by_name: BTreeMap::new(),
            by_expiry: BTreeSet::new(),
            peers: Peers::default(),
            ports: Ports::default(),
            headroom: Headroom::new(now),
            totals: Totals::default(),
        })
    }

    /// Handles a request of the node `from`, which is authenticated and seen at the addresses `seen`. O(ports + log
    /// circuits).
    pub fn request(
        &mut self,
        now: Instant,
        from: NodeId,
        seen: &[SocketAddr],
        request: &Request,
        members: &(impl Members + ?Sized),
    ) -> Outcome {
        self.expire(now);
        let done = match request {
            Request::Open(open) => match self.open(now, from, seen, open, members) {
                Ok(Ok(slot)) => Ok(Answer::Opened(self.opened(now, slot))),
                Ok(Err(family)) => return Outcome::NeedsPort(family),
                Err(refusal) => Err(refusal),
            },
            Request::Refresh {
                circuit,
                lifetime,
                relearn,
            } => self.refresh(now, from, *circuit, *lifetime, *relearn, members),
            Request::Close { circuit } => self.close(from, *circuit),
        };
        Outcome::Answer(done.unwrap_or_else(|refusal| self.refuse(request.circuit(), refusal)))
    }

    /// Opens a circuit between two nodes, without a route: the host of the relay answers for both.
    pub fn open_between(&mut self, now: Instant, between: &Between<'_>) -> Outcome {
        self.expire(now);
        let (from, circuit) = (between.near.node, between.circuit);
        let checked = checks::check_between(self.config.node, between);
        let done =
            checked.and_then(|route| self.place(now, from, circuit, route, between.lifetime));
        Outcome::Answer(match done {
            Ok(Ok(slot)) => Answer::Opened(self.opened(now, slot)),
            Ok(Err(family)) => return Outcome::NeedsPort(family),
            Err(refusal) => self.refuse(circuit, refusal),
        })
    }

    /// Returns a refusal, and counts it.
    pub fn refuse(&mut self, circuit: CircuitId, refusal: Refusal) -> Answer {
        self.totals.refused += 1;
        Answer::Refused { circuit, refusal }
    }

    /// Adds a port that was opened for [`Outcome::NeedsPort`], with the address at which others reach it; an
    /// unspecified IP address stands for that of the relay.
    pub fn add_port(&mut self, address: SocketAddr) -> PortId {
        self.ports.add(address)
    }

    /// A port that is no longer used, to be closed. To be called until `None` after every request and [`Self::expire`].
    pub fn unused_port(&mut self) -> Option<PortId> {
        self.ports.pop_unused()
    }

    /// Ends all circuits of a node that has left or is no longer on the list.
    pub fn close_all(&mut self, node: NodeId) {
        let span = (node, CircuitId(0))..=(node, CircuitId(u64::MAX));
        let slots: Vec<u32> = self.by_name.range(span).map(|(_, &slot)| slot).collect();
        for slot in slots {
            self.totals.closed += 1;
            self.remove(slot);
        }
    }

    /// Ends the circuits that were not refreshed in time.
    pub fn expire(&mut self, now: Instant) {
        while let Some(&(at, slot)) = self.by_expiry.first() {
            if at > now {
                break;
            }
            self.totals.expired += 1;
            self.remove(slot);
        }
    }

    /// Time at which [`Self::expire`] has something to do next.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.by_expiry.first().map(|&(at, _)| at)
    }

    /// Sets the quota of a source. Circuits in excess of it are not closed, but not refreshed either.
    pub fn set_quota(&mut self, now: Instant, node: NodeId, quota: Quota) {
        self.peers.set_quota(now, node, quota, &self.config);
    }

    /// Gives a source that has a quota of its own the default again.
    pub fn reset_quota(&mut self, now: Instant, node: NodeId) {
        self.peers.reset_quota(now, node, &self.config);
    }

    /// Applies another configuration from now on. Circuits that exist keep their rates and lifetimes.
    ///
    /// # Errors
    /// A value is out of its range; nothing has changed then.
    pub fn configure(&mut self, now: Instant, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        self.config = config;
        self.peers.apply_default(now, &self.config);
        Ok(())
    }

    /// Sets whether a port takes no other circuits. One that is retired closes once its circuits have ended.
    pub fn set_retired(&mut self, port: PortId, is_retired: bool) {
        self.ports.set_retired(port, is_retired);
    }

    /// Capacity that the relay has left, for publication: of the last minute's seconds, nine in ten had this
    /// much left or more, less what younger circuits were granted and do not use yet. O(circuits).
    pub fn headroom(&mut self, now: Instant) -> Rate {
        let used = self.headroom.used(now).as_bps();
        let young = |circuit: &Circuit| {
            let age = now.since(circuit.opened_at);
            if age >= GROWN_AFTER {
                return 0;
            }
            let bytes = circuit.account.outward.bytes + circuit.account.back.bytes;
            let uses = Rate::from_bytes_per(bytes, age.max(Duration::from_secs(1)));
            circuit.rate.as_bps().saturating_sub(uses.as_bps())
        };
        let promised: u64 = self.circuits.iter().flatten().map(young).sum();
        let left = self.config.capacity.as_bps().saturating_sub(used);
        let grantable = self.grantable().as_bps();
        Rate::from_bps(left.saturating_sub(promised).min(grantable))
    }

    fn grantable(&self) -> Rate {
        let most = self.config.capacity * self.config.overbooking;
        let left = most.as_bps().saturating_sub(self.peers.granted().as_bps());
        Rate::from_bps(left)
    }

    /// Opens a circuit. Returns its slot, or the family for which a port is missing.
    fn open(
        &mut self,
        now: Instant,
        from: NodeId,
        seen: &[SocketAddr],
        open: &Open,
        members: &(impl Members + ?Sized),
    ) -> Result<Result<u32, Family>, Refusal> {
        let check_route = checks::check_route(self.config.node, from, seen, open, members)?;
        if let Peer::At(towards) = check_route.towards
            && self.ports.is_own(towards)
        {
            return Err(Refusal::Loop);
        }
        self.place(now, from, open.circuit, check_route, open.lifetime)
    }

    /// Enters a circuit that was checked. Returns its slot, or the family for which a port is missing.
    fn place(
        &mut self,
        now: Instant,
        from: NodeId,
        id: CircuitId,
        check_route: CheckedRoute,
        lifetime: Duration,
    ) -> Result<Result<u32, Family>, Refusal> {
        if let Some(&slot) = self.by_name.get(&(from, id)) {
            return self.reopen(now, slot, &check_route, lifetime).map(Ok);
        }
        if self.by_name.len() >= self.config.circuits_max {
            return Err(Refusal::Full);
        }
        let owner = self.peers.enter(now, from, &self.config)?;
        let rate = self.grant(owner, check_route.wanted)?;
        let far_peer = check_route.towards.clone();
        let (near_port, far_port) = match self.two_ports(&check_route.origin, &far_peer) {
            Ok(ports) => ports,
            Err(family) if self.ports.len() < self.config.ports_max => return Ok(Err(family)),
            Err(_) => return Err(Refusal::Ports),
        };
        let near = Hop::new(near_port, check_route.origin.clone());
        let far = Hop::new(far_port, far_peer);
        let lifetime = lifetime.min(self.config.lifetime_max);
        self.generations += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.circuits.push(None);
            (self.circuits.len() - 1) as u32
        });
        for (end, side) in [(&near, Side::Near), (&far, Side::Far)] {
            self.ports.insert(end.port, &end.peer, End { slot, side });
        }
        let circuit = Circuit {
            generation: self.generations,
            id,
            owner,
            next: check_route.next,
            asked: check_route,
            near,
            far,
            rate,
            bucket: Bucket::new(now, rate, self.config.burst_bytes(rate)),
            opened_at: now,
            expires_at: now + lifetime,
            has_answered: false,
            account: Account::default(),
        };
        self.by_name.insert((from, id), slot);
        self.by_expiry.insert((circuit.expires_at, slot));
        self.circuits[slot as usize] = Some(circuit);
        self.peers.opened(owner, rate);
        self.totals.opened += 1;
        Ok(Ok(slot))
    }

    /// Handles a repeated request: the answer was lost, or the source has come back.
    fn reopen(
        &mut self,
        now: Instant,
        slot: u32,
        check_route: &CheckedRoute,
        lifetime: Duration,
    ) -> Result<u32, Refusal> {
        if self.circuit(slot).asked != *check_route {
            return Err(Refusal::Conflict);
        }
        self.prolong(now, slot, lifetime);
        Ok(slot)
    }

    fn grant(&self, owner: u32, wanted: Rate) -> Result<Rate, Refusal> {
        let wanted = wanted.max(self.config.rate_min);
        let rate = self.peers.grant(owner, wanted, self.grantable());
        match rate >= self.config.rate_min {
            true => Ok(rate),
            false => Err(Refusal::Rate),
        }
    }

    /// Ports for both ends, the same one if it suits both.
    fn two_ports(&self, near: &Peer, far: &Peer) -> Result<(PortId, PortId), Family> {
        let near_port = self.ports.fitting(near).ok_or(near.family())?;
        let far_port = match near.goes_with(far) {
            true => self.ports.fitting(far),
            false => self.ports.fitting_beside(far, near_port),
        };
        Ok((near_port, far_port.ok_or(far.family())?))
    }

    fn refresh(
        &mut self,
        now: Instant,
        from: NodeId,
        id: CircuitId,
        lifetime: Duration,
        relearn: bool,
        members: &(impl Members + ?Sized),
    ) -> Result<Answer, Refusal> {
        if !members.is_member(from) {
            return Err(Refusal::NotMember);
        }
        let slot = self.slot(from, id)?;
        let circuit = self.circuit(slot);
        if !members.is_member(circuit.next) {
            return Err(Refusal::Towards);
        }
        if self.peers.has_too_many(circuit.owner) {
            return Err(Refusal::Circuits);
        }
        if relearn {
            self.relearn(slot);
        }
        self.prolong(now, slot, lifetime);
        Ok(Answer::Opened(self.opened(now, slot)))
    }

    fn relearn(&mut self, slot: u32) {
        let circuit = self.circuit_mut(slot);
        for hop in [&mut circuit.near, &mut circuit.far] {
            if let Peer::Hosts(_) = hop.peer {
                hop.remote = None;
            }
        }
    }

    fn prolong(&mut self, now: Instant, slot: u32, lifetime: Duration) {
        let lifetime = lifetime.min(self.config.lifetime_max);
        let circuit = self.circuit_mut(slot);
        let before = circuit.expires_at;
        circuit.expires_at = now + lifetime;
        let after = circuit.expires_at;
        self.by_expiry.remove(&(before, slot));
        self.by_expiry.insert((after, slot));
    }

    fn close(&mut self, from: NodeId, circuit: CircuitId) -> Result<Answer, Refusal> {
        let slot = self.slot(from, circuit)?;
        let account = self.circuit(slot).account;
        self.totals.closed += 1;
        self.remove(slot);
        Ok(Answer::Closed { circuit, account })
    }

    fn opened(&mut self, now: Instant, slot: u32) -> Opened {
        let circuit = self.circuit(slot);
        let reached_at = |end: &Hop| {
            let address = self.ports.address(end.port);
            address.expect("a circuit's port is open as long as it lives")
        };
        let (near, far) = (reached_at(&circuit.near), reached_at(&circuit.far));
        let (owner, id, rate) = (circuit.owner, circuit.id, circuit.rate);
        let lifetime = circuit.expires_at.since(now);
        Opened {
            circuit: id,
            near,
            far,
            // In whole milliseconds, rounded down.
            lifetime: Duration::from_millis(u64::try_from(lifetime.as_millis()).unwrap_or(0)),
            rate,
            bytes_left: self.peers.bytes_left(now, owner, &self.config),
        }
    }

    fn slot(&self, from: NodeId, circuit: CircuitId) -> Result<u32, Refusal> {
        let slot = self.by_name.get(&(from, circuit));
        slot.copied().ok_or(Refusal::Unknown)
    }

    fn circuit(&self, slot: u32) -> &Circuit {
        let circuit = self.circuits[slot as usize].as_ref();
        circuit.expect("indexes and ports name circuits that exist")
    }

    fn circuit_mut(&mut self, slot: u32) -> &mut Circuit {
        let circuit = self.circuits[slot as usize].as_mut();
        circuit.expect("indexes and ports name circuits that exist")
    }

    fn remove(&mut self, slot: u32) {
        let Some(circuit) = self.circuits[slot as usize].take() else {
            return;
        };
        self.free.push(slot);
        self.by_expiry.remove(&(circuit.expires_at, slot));
        let owner = self.peers.node(circuit.owner);
        self.by_name.remove(&(owner, circuit.id));
        for end in [&circuit.near, &circuit.far] {
            self.ports.remove(end.port, &end.peer);
        }
        self.peers.closed(circuit.owner, circuit.rate);
    }
}

impl Hop {
    /// Its peer's address; with port 0 while it is not known.
    fn address(&self) -> SocketAddr {
        let known = match &self.peer {
            Peer::At(address) => *address,
            Peer::Hosts(ips) => SocketAddr::new(ips[0], 0),
        };
        self.remote.unwrap_or(known)
    }

    fn new(port: PortId, peer: Peer) -> Self {
        let remote = match &peer {
            Peer::At(address) => Some(*address),
            Peer::Hosts(_) => None,
        };
        Self {
            port,
            peer,
            remote,
            local_ip: None,
        }
    }
}
