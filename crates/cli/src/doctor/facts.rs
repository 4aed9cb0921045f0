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
    pub(super) firewall: Firewall,
    /// Peers that were asked for, with the paths that replied.
    pub(super) probes: Vec<Probe>,
}

/// The firewall, in the words of its programs and files.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Firewall {
    /// Rules in force, of `nft list ruleset`; root only.
    pub(super) rules: Option<String>,
    /// File from which rules of nft are made when the machine starts.
    pub(super) file: Option<(PathBuf, String)>,
    /// `None`: it is not installed.
    pub(super) ufw: Option<Ufw>,
    /// `None`: it is not installed.
    pub(super) firewalld: Option<Firewalld>,
}

/// Files of ufw.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ufw {
    /// `/etc/ufw/ufw.conf`.
    pub(super) config: String,
    /// `/etc/default/ufw`.
    pub(super) defaults: String,
    /// `/etc/ufw/user.rules`; usually root only.
    pub(super) rules: Option<String>,
    /// `/etc/ufw/user6.rules`: those for IPv6.
    pub(super) rules6: Option<String>,
}

/// Answers of firewalld.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Firewalld {
    /// `firewall-cmd --state`.
    pub(super) state: String,
    /// `firewall-cmd --list-all-zones`.
    pub(super) zones: Option<String>,
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
    /// Time since it began, by its own clock.
    pub(super) uptime_ms: Option<i64>,
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
    pub(super) clock: Clock,
    /// CAP_NET_ADMIN of this user.
    pub(super) is_net_admin: Option<bool>,
    pub(super) has_tun: bool,
    pub(super) has_nft: bool,
    /// Free bytes at each place where the node writes.
    pub(super) disks: Vec<(PathBuf, u64)>,
}

/// The clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Clock {
    /// It follows a server of time.
    pub(super) is_synchronised: Option<bool>,
    /// Seconds since 1970.
    pub(super) unix_s: u64,
    /// Its time beyond the time since the machine started, in ms, at the first and at the last look.
    pub(super) looks_ms: Option<(i64, i64)>,
    /// Time by which it has moved further than the node's own time since the node began, in ms.
    pub(super) since_node_ms: Option<i64>,
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
