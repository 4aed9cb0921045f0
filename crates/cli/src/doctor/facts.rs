//! Facts about this machine and its node, as the checks need them. `None` and empty lists: it could not be seen.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

/// All facts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) config: Config,
    /// Control socket of the node.
    pub(super) socket: Option<PathBuf>,
    /// The running node.
    pub(super) node: Option<Node>,
    pub(super) system: System,
    pub(super) interfaces: Vec<Interface>,
    /// Chains of the firewall's rules, in the words of `nft list ruleset`.
    pub(super) firewall: Option<String>,
    /// Peers that were asked for, with the paths that replied.
    pub(super) probes: Vec<Probe>,
}

/// The configuration of the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Config {
    /// `None`: this user has none.
    pub(super) file: Option<PathBuf>,
    /// Mistakes, and what it names and is not usable.
    pub(super) faults: Vec<String>,
    /// Fixed addresses, with what a bind to each gives.
    pub(super) listen: Vec<Listen>,
    /// UDP ports at which packets arrive, as configured.
    pub(super) ports: Vec<u16>,
    /// It has a tunnel.
    pub(super) has_tunnel: bool,
    /// The tunnel needs nft.
    pub(super) needs_nft: bool,
    /// Interfaces to use; empty: all.
    pub(super) only: Vec<String>,
}

/// A fixed address.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listen {
    pub(super) address: SocketAddr,
    pub(super) bound: Bound,
}

/// Result of an attempt to bind an address.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bound {
    Free,
    /// By this program, with its process id.
    Taken(Option<(String, u32)>),
    NoSuchAddress,
    Denied,
}

/// A node that runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) version: String,
    /// Version of the wire format of the session with each peer.
    pub(super) peers: Vec<(String, u64)>,
    /// Local addresses of its sockets.
    pub(super) sockets: Vec<SocketAddr>,
    pub(super) paths: Vec<Path>,
}

/// A path of the running node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Path {
    pub(super) peer: String,
    pub(super) interface: Option<String>,
    pub(super) remote: String,
    pub(super) state: String,
    pub(super) mtu_bytes: Option<u64>,
}

/// The system.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct System {
    /// Largest buffers of sockets, in bytes: for receiving and sending.
    pub(super) buffers_max: Option<(u64, u64)>,
    /// Hard limit on open files.
    pub(super) open_files: Option<u64>,
    /// The clock follows a server of time.
    pub(super) is_clock_synchronised: Option<bool>,
    /// Seconds since 1970.
    pub(super) clock_s: u64,
    /// CAP_NET_ADMIN of this user.
    pub(super) is_net_admin: Option<bool>,
    pub(super) has_tun: bool,
    pub(super) has_nft: bool,
    /// Free bytes at each place where the node writes.
    pub(super) disks: Vec<(PathBuf, u64)>,
}

/// An interface with addresses, other than loopback.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) mtu_bytes: u64,
    pub(super) addresses: Vec<Address>,
    /// Gateway and table of a route through it.
    pub(super) gateways: Vec<(IpAddr, String)>,
    pub(super) qdisc: Option<String>,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Address {
    pub(super) ip: IpAddr,
    /// There is a route from this address through its interface to elsewhere.
    pub(super) has_route: bool,
}

/// Result of a ping to a peer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Probe {
    pub(super) peer: String,
    /// Paths, and those that replied; or the reason for which there are none.
    pub(super) outcome: Result<(usize, usize), String>,
}
