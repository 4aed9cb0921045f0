//! Whether a route leads somewhere, and only forward.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use anabranch_base::{NodeId, Rate};

use super::{Members, Role};
use crate::relay::{
    message::{Open, Origin, ROUTE_NODES_MAX, Refusal},
    ports::Peer,
};

/// What was asked for, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// Who sends to the near port.
    pub(super) origin: Peer,
    /// Where the far port sends.
    pub(super) towards: SocketAddr,
    /// Who is there.
    pub(super) next: NodeId,
    /// The rate wanted.
    pub(super) wanted: Rate,
}

/// Checks a request of `from`, seen at `seen`, at the relay `own`.
pub(super) fn way(
    own: NodeId,
    from: NodeId,
    seen: &[SocketAddr],
    open: &Open,
    members: &(impl Members + ?Sized),
) -> Result<Way, Refusal> {
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
    check_address(open.towards)?;
    if seen.contains(&open.towards) || open.origin == Origin::Exact(open.towards) {
        return Err(Refusal::Loop);
    }
    if !members.is_member(next) || !members.is_at(next, open.towards, role) {
        return Err(Refusal::Towards);
    }
    let origin = origin(open.origin, seen, |address| {
        if before == from {
            seen.iter().any(|seen| seen.ip() == address.ip())
        } else {
            members.is_member(before) && members.is_at(before, address, Role::Relay)
        }
    });
    // Only the source itself is seen.
    if before != from && open.origin == Origin::Seen {
        return Err(Refusal::Origin);
    }
    Ok(Way {
        origin: origin?,
        towards: open.towards,
        next,
        wanted: open.rate,
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

fn origin(
    origin: Origin,
    seen: &[SocketAddr],
    is_there: impl Fn(SocketAddr) -> bool,
) -> Result<Peer, Refusal> {
    let (peer, address) = match origin {
        Origin::Seen => {
            let ip = seen.first().ok_or(Refusal::Origin)?.ip();
            (Peer::Host(ip), SocketAddr::new(ip, 1))
        }
        Origin::Host(ip) => (Peer::Host(ip), SocketAddr::new(ip, 1)),
        Origin::Exact(address) => (Peer::At(address), address),
    };
    check_address(address)?;
    match is_there(address) {
        true => Ok(peer),
        false => Err(Refusal::Origin),
    }
}

/// Refuses what is no address of one node, or is not written in the one way in which packets show it.
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
