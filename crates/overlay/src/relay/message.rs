//! Messages between a source and a relay.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anabranch_base::{NodeId, Rate};

use super::account::Account;

/// Most nodes of a route, both ends included.
pub const ROUTE_NODES_MAX: usize = 8;

/// A circuit, numbered by the source; unique among its circuits at one relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitId(pub u64);

impl fmt::Display for CircuitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circuit-{}", self.0)
    }
}

/// Sender of a circuit's packets on its near side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// One of the addresses at which the relay sees the session with the source, or at which it knows the previous
    /// relay (of the family of the first, up to eight). The first packet determines the address and the port; packets
    /// from others are dropped from then on. Translators may give packets to another port of the relay another source
    /// port, and a source behind one does not know its address.
    Known,
    /// This address, with the port as in [`Origin::Known`].
    Host(IpAddr),
    /// Exactly this address and port.
    Exact(SocketAddr),
}

/// Asks for a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Identifier given by the source. A repeated request changes nothing and gets the same answer.
    pub circuit: CircuitId,
    /// All nodes of the path: the source, relays, the destination. 3 to [`ROUTE_NODES_MAX`].
    pub route: Vec<NodeId>,
    /// Sender of the packets: the source, or the relay before this one.
    pub origin: Origin,
    /// The next hop: the destination, or `near` of the next relay. With an unspecified IP address: an address that the
    /// relay knows for that node, of this family and with this port; with port 0 as well: any known address, including
    /// its port.
    pub towards: SocketAddr,
    /// Requested rate of UDP payload, both directions together. Less may be granted.
    pub rate: Rate,
    /// Time for which it should live without [`Request::Refresh`]. Less may be granted. Whole milliseconds.
    pub lifetime: Duration,
}

/// Request of a source to a relay. The relay knows the source: the request comes over a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for a circuit.
    Open(Open),
    /// Extends a circuit's life to `lifetime` from now.
    Refresh {
        /// The circuit.
        circuit: CircuitId,
        /// As in [`Open`].
        lifetime: Duration,
        /// Forgets the address learnt from the first packet and learns it again, because the source's translator may
        /// have changed it. Has no effect with [`Origin::Exact`].
        relearn: bool,
    },
    /// Ends a circuit.
    Close {
        /// The circuit.
        circuit: CircuitId,
    },
}

impl Request {
    /// The circuit that the request concerns.
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
    /// Its ID, chosen by the source.
    pub circuit: CircuitId,
    /// Address to which the source sends. An unspecified IP address means the one at which it reaches the relay.
    pub near: SocketAddr,
    /// Source address of packets at the next hop; an unspecified IP address as with `near`.
    pub far: SocketAddr,
    /// Time from now for which it lives without a refresh. Whole milliseconds.
    pub lifetime: Duration,
    /// Granted rate of UDP payload, both directions together.
    pub rate: Rate,
    /// Bytes that the source may still send and receive over this relay in the current period.
    pub bytes_left: u64,
}

/// Answer of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The circuit exists: to [`Request::Open`] and [`Request::Refresh`].
    Opened(Opened),
    /// The circuit has ended: to [`Request::Close`].
    Closed {
        /// The circuit.
        circuit: CircuitId,
        /// All traffic that it carried.
        account: Account,
    },
    /// The request is refused.
    Refused {
        /// The circuit.
        circuit: CircuitId,
        /// Reason.
        refusal: Refusal,
    },
}

/// Reason for a relay's refusal. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refusal {
    /// The requester is not a member.
    #[error("the relay serves only the nodes on its list; add this node's id to that list")]
    NotMember = 1,
    /// The route is invalid.
    #[error(
        "the route must name 3 to 8 nodes: first the source, which sends the request, and the relay between two others"
    )]
    Route = 2,
    /// The route, or the address, leads back.
    #[error("the route visits a node twice, or leads back to the relay or to the source")]
    Loop = 3,
    /// The next hop is not a member, or not there.
    #[error("the relay does not know the next node of the route to be at that address")]
    Towards = 4,
    /// The packets would not come from the node before the relay.
    #[error("the relay does not know the node before it to be at the address given as origin")]
    Origin = 5,
    /// The address cannot be that of one node.
    #[error(
        "not an address of one node (unspecified, multicast, link-local, IPv4 inside IPv6, or port 0)"
    )]
    Address = 6,
    /// The source has its maximum number of circuits.
    #[error("the source has reached its limit of circuits here; close one")]
    Circuits = 7,
    /// No rate is left to grant.
    #[error("the relay has no rate left to grant; try another relay, or try later")]
    Rate = 8,
    /// The source has used up its bytes of the period.
    #[error(
        "the source has used up its bytes for this period here; try another relay, or try later"
    )]
    Bytes = 9,
    /// No port is free.
    #[error("the relay has no free port for these addresses; try another relay, or try later")]
    Ports = 10,
    /// The relay has its maximum number of circuits.
    #[error("the relay is full; try another relay, or try later")]
    Full = 11,
    /// There is no such circuit.
    #[error("there is no such circuit; it may have expired: open it again")]
    Unknown = 12,
    /// Another circuit has this number.
    #[error("the source has another circuit with this number; close it, or use another number")]
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
