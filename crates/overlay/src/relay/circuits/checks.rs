//! Checks of a requested route: its hops are valid, and it has no loop.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use anabranch_base::{NodeId, Rate};

use super::{Between, Members, Role};
use crate::relay::{
    message::{Open, Origin, ROUTE_NODES_MAX, Refusal},
    ports::{Family, Peer},
};

/// Most addresses of a session that are used; the others are left out.
const SEEN_MAX: usize = 8;

/// Checked request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckedRoute {
    /// Sender to the near port.
    pub(super) origin: Peer,
    /// Receiver of what the far port sends.
    pub(super) towards: Peer,
    /// The node that is there.
    pub(super) next: NodeId,
    /// The requested rate.
    pub(super) wanted: Rate,
}

/// Checks a request of `from`, seen at `seen`, at the relay `own`.
pub(super) fn check_route(
    own: NodeId,
    from: NodeId,
    seen: &[SocketAddr],
    open: &Open,
    members: &(impl Members + ?Sized),
) -> Result<CheckedRoute, Refusal> {
    if !members.is_member(from) {
        return Err(Refusal::NotMember);
    }
    let route = &open.route[..];
    let place = place(own, from, route)?;
    let (before, next) = (route[place - 1], route[place + 1]);
    let role = match place + 2 == route.len() {
        true => Role::Destination,
        false => Role::Relay,
    };
    if !members.is_member(next) {
        return Err(Refusal::Towards);
    }
    let towards = next_hop(next, open.towards, members)?;
    check_address(towards)?;
    if seen.contains(&towards) || open.origin == Origin::Exact(towards) {
        return Err(Refusal::Loop);
    }
    if !members.is_at(next, towards, role) {
        return Err(Refusal::Towards);
    }
    let is_there = |address: SocketAddr| match before == from {
        true => seen.iter().any(|seen| seen.ip() == address.ip()),
        false => members.is_member(before) && members.is_at(before, address, Role::Relay),
    };
    let origin = match open.origin {
        Origin::Known if before == from => Peer::Hosts(host_ips(seen)?),
        Origin::Known if members.is_member(before) => {
            Peer::Hosts(host_ips(&members.addresses(before))?)
        }
        Origin::Known => return Err(Refusal::Origin),
        Origin::Host(ip) => {
            // A host is identified without its port.
            check_origin(SocketAddr::new(ip, 1), is_there)?;
            Peer::Hosts([ip].into())
        }
        Origin::Exact(address) => {
            check_origin(address, is_there)?;
            Peer::At(address)
        }
    };
    Ok(CheckedRoute {
        origin,
        towards: Peer::At(towards),
        next,
        wanted: open.rate,
    })
}

/// Checks a circuit [between](super::Between) two nodes whose sessions the relay has.
pub(super) fn check_between(own: NodeId, between: &Between<'_>) -> Result<CheckedRoute, Refusal> {
    let [near, far] = [&between.near, &between.far];
    if near.node == far.node || near.node == own || far.node == own {
        return Err(Refusal::Loop);
    }
    Ok(CheckedRoute {
        origin: Peer::Hosts(host_ips(near.seen)?),
        towards: Peer::Hosts(host_ips(far.seen)?),
        next: far.node,
        wanted: between.rate,
    })
}

/// The relay's place on the route: after the source, before the destination.
fn place(own: NodeId, from: NodeId, route: &[NodeId]) -> Result<usize, Refusal> {
    if !(3..=ROUTE_NODES_MAX).contains(&route.len()) || route[0] != from {
        return Err(Refusal::Route);
    }
    let nodes: BTreeSet<&NodeId> = route.iter().collect();
    if nodes.len() < route.len() || own == from {
        return Err(Refusal::Loop);
    }
    let place = route.iter().position(|node| *node == own);
    place
        .filter(|&place| place + 1 < route.len())
        .ok_or(Refusal::Route)
}

/// Address of `next`: the requested one, or the relay's choice if the source leaves that to it.
fn next_hop(
    next: NodeId,
    asked: SocketAddr,
    members: &(impl Members + ?Sized),
) -> Result<SocketAddr, Refusal> {
    if !asked.ip().is_unspecified() {
        return Ok(asked);
    }
    let known = members.addresses(next);
    let at = match asked.port() {
        0 => known.first().copied(),
        // A port of the next relay, in the family that the request specifies.
        port => known
            .iter()
            .map(|address| address.ip().to_canonical())
            .find(|&ip| Family::of(ip) == Family::of(asked.ip()))
            .map(|ip| SocketAddr::new(ip, port)),
    };
    at.ok_or(Refusal::Towards)
}

/// IP addresses of a node, limited to the family of the first.
fn host_ips(addresses: &[SocketAddr]) -> Result<Box<[IpAddr]>, Refusal> {
    let ips_all = || addresses.iter().map(|address| address.ip().to_canonical());
    let family = Family::of(ips_all().next().ok_or(Refusal::Origin)?);
    let mut ips: Vec<IpAddr> = Vec::new();
    for ip in ips_all() {
        check_address(SocketAddr::new(ip, 1))?;
        if Family::of(ip) == family && !ips.contains(&ip) && ips.len() < SEEN_MAX {
            ips.push(ip);
        }
    }
    // Sessions list their channels in any order; a repeated request is to be recognised.
    ips.sort_unstable();
    Ok(ips.into())
}

fn check_origin(address: SocketAddr, is_there: impl Fn(SocketAddr) -> bool) -> Result<(), Refusal> {
    check_address(address)?;
    match is_there(address) {
        true => Ok(()),
        false => Err(Refusal::Origin),
    }
}

/// Refuses an address that does not belong to one node, or is not in the form in which packets show it.
fn check_address(address: SocketAddr) -> Result<(), Refusal> {
    let is_one_node = match address.ip() {
        IpAddr::V4(ip) => !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast(),
        IpAddr::V6(ip) => {
            !ip.is_unspecified()
                && !ip.is_multicast()
                && !ip.is_unicast_link_local()
                && ip.to_ipv4_mapped().is_none()
        }
    };
    match is_one_node && address.port() != 0 {
        true => Ok(()),
        false => Err(Refusal::Address),
    }
}
