//! The second halves of connections: their listener, and its ends.

use std::net::{IpAddr, SocketAddr};

use tokio::task::AbortHandle;

use super::table::Number;
use crate::{packet::Ends, wire::Terms};

/// The listener of one family.
#[derive(Debug)]
pub(super) struct Half {
    /// The second halves of connections: from the server's address, with a number as its port, to the listener.
    pub(super) server: IpAddr,
    pub(super) listener: SocketAddr,
    pub(super) task: AbortHandle,
}

impl Drop for Half {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Half {
    /// Ends of the second half of a connection.
    pub(super) fn ends(&self, number: Number) -> Ends {
        Ends {
            source: SocketAddr::new(self.server, number.get()),
            destination: self.listener,
        }
    }

    /// True if its addresses are those of the terms.
    pub(super) fn is_of(&self, terms: &Terms) -> bool {
        pairs(terms).any(|(address, server)| self.listener.ip() == address && self.server == server)
    }
}

/// Addresses of this machine, each with that of the server in the same network.
pub(super) fn pairs(terms: &Terms) -> impl Iterator<Item = (IpAddr, IpAddr)> + use<> {
    let v4 = terms.v4.map(|v4| (v4.address.into(), v4.server.into()));
    let v6 = terms.v6.map(|v6| (v6.address.into(), v6.server.into()));
    v4.into_iter().chain(v6)
}
