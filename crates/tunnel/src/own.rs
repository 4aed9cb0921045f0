//! Packets of the node itself: one that enters the tunnel would be carried by another one, without end.

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anabranch::{Host, base::Instant};

use crate::packet::Header;

/// Time after which the sockets of the node are looked at again.
const REFRESH: Duration = Duration::from_secs(1);
const UDP: u8 = 17;

/// The sockets of a node, as sources of packets.
#[derive(Debug)]
pub(crate) struct Own {
    host: Host,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    at: Option<Instant>,
    sockets: HashSet<SocketAddr>,
    /// Ports of the sockets that are bound to every address.
    ports: HashSet<u16>,
}

impl Own {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host,
            known: Mutex::default(),
        }
    }

    /// True if a packet was sent by the node; `local`: addresses of the tunnel that this machine has.
    pub(crate) fn sent(
        &self,
        now: Instant,
        packet: &[u8],
        header: &Header,
        local: &[IpAddr],
    ) -> bool {
        if header.transport.protocol != UDP {
            return false;
        }
        let port = header.transport.at.and_then(|at| packet.get(at..at + 2));
        let Some(&[high, low]) = port else {
            return false;
        };
        let source = SocketAddr::new(header.source, u16::from_be_bytes([high, low]));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.at.is_none_or(|at| now.since(at) >= REFRESH) {
            *known = self.look(now);
        }
        known.sockets.contains(&source)
            || (known.ports.contains(&source.port()) && local.contains(&source.ip()))
    }

    fn look(&self, now: Instant) -> Known {
        let sockets = self.host.sockets();
        let is_everywhere =
            |socket: &&anabranch::net::SocketReport| socket.local.ip().is_unspecified();
        let everywhere = sockets.iter().filter(is_everywhere);
        Known {
            at: Some(now),
            ports: everywhere.map(|socket| socket.local.port()).collect(),
            // Also those that are no longer in force: their last packets must not enter the tunnel.
            sockets: {
                let locals = sockets.iter().map(|socket| socket.local);
                self.host.addresses().into_iter().chain(locals).collect()
            },
        }
    }
}
