//! Sources of flows: the address or the process of the program, as far as it is known.

use std::{fmt, net::SocketAddr};

use anabranch::rights::Transport;

/// Source of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A socket with an address.
    Address {
        /// TCP or UDP.
        transport: Transport,
        /// Address of the program.
        client: SocketAddr,
        /// Address at which it is served; unspecified where a socket for datagrams is bound to none.
        at: SocketAddr,
    },
    /// A socket of this machine, whose packets have these addresses, whatever address it is bound to.
    Machine {
        /// TCP or UDP.
        transport: Transport,
        /// Address of the program.
        client: SocketAddr,
        /// Address of the other end.
        at: SocketAddr,
    },
    /// A program at a Unix socket, by the number of its process if that is known.
    Unix(Option<i32>),
    /// The peer.
    Peer,
    /// Gone before it could be determined.
    Unknown,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { client, .. } | Self::Machine { client, .. } => write!(f, "{client}"),
            Self::Unix(Some(process)) => write!(f, "process {process}"),
            Self::Unix(None) => f.write_str("unix"),
            Self::Peer => f.write_str("peer"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
