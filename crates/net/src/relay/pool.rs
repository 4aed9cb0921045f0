//! Pool of a relay's ports.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    sync::atomic::{AtomicU32, Ordering},
};

use anabranch_base::SocketId;
use anabranch_overlay::relay::Family;

use super::{RelayConfig, RelayError};
use crate::socket::{BindError, Socket};

/// A port of a relay.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) socket: Socket,
    /// Address at which others reach it.
    pub(super) public: SocketAddr,
}

/// Addresses and range of ports that can be opened.
#[derive(Debug)]
pub(super) struct Pool {
    /// Local and public addresses, by family.
    addresses: Vec<(IpAddr, IpAddr)>,
    range: Option<RangeInclusive<u16>>,
    /// Mark of the packets.
    mark: Option<u32>,
    /// Ports tried so far.
    tried: AtomicU32,
}

impl Pool {
    pub(super) fn new(config: &RelayConfig) -> Self {
        let pair = |family: Family| {
            let of = |all: &[IpAddr]| all.iter().copied().find(|ip| Family::of(*ip) == family);
            let local = of(&config.addresses)?;
            Some((local, of(&config.public).unwrap_or(local)))
        };
        Self {
            addresses: [Family::V4, Family::V6]
                .into_iter()
                .filter_map(pair)
                .collect(),
            range: config.ports.clone(),
            mark: config.mark,
            tried: AtomicU32::new(0),
        }
    }

    /// Tries whether any port can be opened at each address, where only some may be; `is_own` tells which are open already.
    ///
    /// # Errors
    /// None can, at one of the addresses.
    pub(super) fn check(&self, is_own: impl Fn(u16) -> bool) -> Result<(), RelayError> {
        let Some(range) = &self.range else {
            return Ok(());
        };
        for &(local, public) in &self.addresses {
            let mut failure = None;
            let is_usable = range.clone().any(|port| {
                is_own(port)
                    || match bind((local, public), port, self.mark) {
                        Ok(_) => true,
                        Err(error) => {
                            failure.get_or_insert(error);
                            false
                        }
                    }
            });
            if let Some(source) = failure.filter(|_| !is_usable) {
                return Err(RelayError::Ports {
                    first: *range.start(),
                    last: *range.end(),
                    source,
                });
            }
        }
        Ok(())
    }

    /// True if this port is one that it would open.
    pub(super) fn includes(&self, port: &Port) -> bool {
        let local = port.socket.local;
        let pair = (local.ip(), port.public.ip());
        self.addresses.contains(&pair)
            && self
                .range
                .as_ref()
                .is_none_or(|range| range.contains(&local.port()))
    }

    /// Opens a new port; `None` if the relay has no address of this family, or no port is free.
    pub(super) fn open(&self, family: Family) -> Option<Port> {
        let pair = self
            .addresses
            .iter()
            .find(|(ip, _)| Family::of(*ip) == family);
        let &(local, public) = pair?;
        let Some(range) = &self.range else {
            return open((local, public), 0, self.mark);
        };
        let ports = u32::from(*range.end()).checked_sub(u32::from(*range.start()))? + 1;
        (0..ports).find_map(|_| {
            let turn = self.tried.fetch_add(1, Ordering::Relaxed) % ports;
            open((local, public), range.start() + turn as u16, self.mark)
        })
    }
}

fn open(addresses: (IpAddr, IpAddr), port: u16, mark: Option<u32>) -> Option<Port> {
    let opened = bind(addresses, port, mark);
    if let Err(error) = &opened {
        tracing::debug!(%error, "cannot open a relay's port");
    }
    opened.ok()
}

fn bind(
    (local, public): (IpAddr, IpAddr),
    port: u16,
    mark: Option<u32>,
) -> Result<Port, BindError> {
    let address = SocketAddr::new(local, port);
    let socket = Socket::bind(SocketId(0), address.into(), mark)?;
    Ok(Port {
        public: SocketAddr::new(public, socket.local.port()),
        socket,
    })
}

#[cfg(test)]
mod tests {
    use anabranch_base::NodeId;

    use super::*;

    #[test]
    fn a_range_is_kept_to_until_it_is_used_up() {
        // Any free port, so that two concurrent runs do not conflict.
        let free = bind(([127, 0, 0, 1].into(), [127, 0, 0, 1].into()), 0, None).unwrap();
        let number = free.public.port();
        drop(free);
        let node = NodeId::from_public_key([0; 32]);
        let mut config = RelayConfig::new(node, [[127, 0, 0, 1].into()]);
        config.public = vec![[192, 0, 2, 1].into()];
        config.ports = Some(number..=number);
        let pool = Pool::new(&config);
        let port = pool.open(Family::V4).unwrap();
        assert_eq!(port.public, SocketAddr::from(([192, 0, 2, 1], number)));
        assert!(pool.open(Family::V4).is_none());
        assert!(pool.open(Family::V6).is_none());
        drop(port);
        assert!(pool.open(Family::V4).is_some());
    }
}
