//! Messages between a source and a relay.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anabranch_base::{NodeId, Rate};

use super::account::Account;

/// Nodes of a source route at most, both ends included.
pub const ROUTE_NODES_MAX: usize = 8;

/// A circuit, numbered by the source; unique among its circuits at one relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitId(pub u64);

impl fmt::Display for CircuitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circuit-{}", self.0)
    }
}

/// Place where the packets of a circuit come from, on its near side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From one of the addresses at which the relay sees the session with the source, or knows the relay before it to be (of the family
    /// of the first, up to eight). Which one, and from which port, the first packet tells, and none other is heard
    /// from then on: translators may give packets to another port of the relay another source port, and a
    /// source behind one does not know its address.
    Known,
    /// From this address, the port as with [`Origin::Known`].
    Host(IpAddr),
    /// From exactly here.
    Exact(SocketAddr),
}

/// Asks for a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// How the source calls it. A repeated request changes nothing and gets the same answer.
    pub circuit: CircuitId,
    /// All nodes of the way: the source, relays, the destination. 3 to [`ROUTE_NODES_MAX`].
    pub route: Vec<NodeId>,
    /// Place where packets come from: the source, or the relay before this one.
    pub origin: Origin,
    /// The next hop: the destination, or `near` of the next relay. With an unspecified IP address: where the relay knows that node to be, at
    /// an address of this family and this port; with port 0 as well, at any address, the port included.
    pub towards: SocketAddr,
    /// Wanted, of UDP payload, both directions together. Less may be granted.
    pub rate: Rate,
    /// Time for which it should live without [`Request::Refresh`]. Less may be granted. Whole milliseconds.
    pub lifetime: Duration,
}

/// What a source says to a relay. The relay knows who it is: the request comes over a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for a circuit.
    Open(Open),
    /// Lets it live for `lifetime` from now on.
    Refresh {
        /// The circuit.
        circuit: CircuitId,
        /// As in [`Open`].
        lifetime: Duration,
        /// Forgets the address learnt of the first packet and learns anew: the source's translator has
        /// changed its mind. Means nothing with [`Origin::Exact`].
        relearn: bool,
    },
    /// Ends it.
    Close {
        /// The circuit.
        circuit: CircuitId,
    },
}

impl Request {
    /// The circuit it is about.
    pub const fn circuit(&self) -> CircuitId {
        match self {
            Self::Open(Open { circuit, .. })
            | Self::Refresh { circuit, .. }
            | Self::Close { circuit } => *circuit,
        }
    }
}

/// A circuit that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// As the source calls it.
    pub circuit: CircuitId,
    /// Where the source sends. An unspecified IP address means the one at which it reaches the relay.
    pub near: SocketAddr,
    /// Where packets come from at the next hop; an unspecified IP address as with `near`.
    pub far: SocketAddr,
    /// Time for which from now it lives without a refresh. Whole milliseconds.
    pub lifetime: Duration,
    /// Granted, of UDP payload, both directions together.
    pub rate: Rate,
    /// Bytes that the source may still send and receive over this relay in the current period.
    pub bytes_left: u64,
}

/// What a relay answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The circuit exists: to [`Request::Open`] and [`Request::Refresh`].
    Opened(Opened),
    /// The circuit has ended: to [`Request::Close`].
    Closed {
        /// The circuit.
        circuit: CircuitId,
        /// All it has carried.
        account: Account,
    },
    /// No.
    Refused {
        /// The circuit.
        circuit: CircuitId,
        /// Reason.
        refusal: Refusal,
    },
}

/// Reason why a relay refuses. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refusal {
    /// The requester is no member.
    #[error("the relay serves only the nodes on its list; have it add this node's id")]
    NotMember = 1,
    /// The route is not one.
    #[error(
        "the route must name 3 to 8 nodes: the source, which asks, first, and the relay between others"
    )]
    Route = 2,
    /// The route, or the address, leads back.
    #[error("the route visits a node twice, or leads back to the relay or to the source")]
    Loop = 3,
    /// The next hop is not a member, or not there.
    #[error("the relay does not know the next node of the route to be at that address")]
    Towards = 4,
    /// The packets would come from somewhere else than the node before the relay.
    #[error("the relay does not know the node before it to be at the address given as origin")]
    Origin = 5,
    /// An address that no node has.
    #[error(
        "not an address of one node (unspecified, multicast, link-local, IPv4 inside IPv6, or port 0)"
    )]
    Address = 6,
    /// The source has as many circuits as it may.
    #[error("the source has as many circuits here as it may; close one")]
    Circuits = 7,
    /// No rate is left to grant.
    #[error("the relay has no rate left to grant; try another relay, or later")]
    Rate = 8,
    /// The source has used up its bytes of the period.
    #[error("the source has used up its bytes of this period here; try another relay, or later")]
    Bytes = 9,
    /// No port is free.
    #[error("the relay has no port free for these addresses; try another relay, or later")]
    Ports = 10,
    /// The relay has as many circuits as it may.
    #[error("the relay is full; try another relay, or later")]
    Full = 11,
    /// There is no such circuit.
    #[error("there is no such circuit; it may have expired: open it anew")]
    Unknown = 12,
    /// Another circuit has this number.
    #[error("the source has another circuit with this number; close it, or take another number")]
    Conflict = 13,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::NotMember,
        Self::Route,
        Self::Loop,
        Self::Towards,
        Self::Origin,
        Self::Address,
        Self::Circuits,
        Self::Rate,
        Self::Bytes,
        Self::Ports,
        Self::Full,
        Self::Unknown,
        Self::Conflict,
    ];
}
