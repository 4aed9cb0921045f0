//! Watch for changes of interfaces and addresses.
//!
//! The kernel reports over netlink that something changed; the present addresses are then read again and
//! compared, so that a missed or repeated message does no harm. Systems other than Linux are not watched.

use std::{io, sync::Arc};

use if_addrs::IfAddr;

use crate::{
    socket::Bind,
    sockets::Locals,
    state::{Shared, SocketEntry},
};

/// Usable addresses of this machine: those of interfaces that are up (only the named ones, if any are, and never the `unused` ones),
/// neither loopback nor link-local.
pub(crate) fn list(port: u16, only: &[String], unused: &[String]) -> io::Result<Vec<Bind>> {
    let mut binds = Vec::new();
    for interface in if_addrs::get_if_addrs()? {
        let is_wanted = (only.is_empty() || only.contains(&interface.name))
            && !unused.contains(&interface.name);
        // Some drivers never report a state; their interfaces count as up.
        let is_up =
            interface.is_oper_up() || interface.oper_status == if_addrs::IfOperStatus::Unknown;
        let is_local = match &interface.addr {
            IfAddr::V4(v4) => v4.is_loopback() || v4.is_link_local(),
            IfAddr::V6(v6) => v6.is_loopback() || v6.is_link_local(),
        };
        if is_wanted && is_up && !is_local {
            binds.push(Bind {
                address: (interface.ip(), port).into(),
                interface: cfg!(target_os = "linux").then_some(interface.name),
            });
        }
    }
    Ok(binds)
}

/// Interface that has this address now.
pub(crate) fn interface_of(address: std::net::IpAddr) -> Option<String> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let mut interfaces = interfaces.into_iter();
    let found = interfaces.find(|interface| interface.ip() == address)?;
    Some(found.name)
}

/// Differences between the sockets and the present addresses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    /// Sockets whose address has disappeared.
    gone: Vec<anabranch_base::SocketId>,
    /// Sockets whose address is back.
    back: Vec<anabranch_base::SocketId>,
    /// Addresses without a socket.
    new: Vec<Bind>,
}

fn compare(sockets: &[SocketEntry], binds: Vec<Bind>) -> Changes {
    let mut changes = Changes::default();
    let matches = |socket: &SocketEntry, bind: &Bind| {
        socket.local.ip() == bind.address.ip() && socket.bind.interface == bind.interface
    };
    let in_use = || sockets.iter().filter(|socket| !socket.is_retired());
    for socket in in_use() {
        match (socket.is_up, binds.iter().any(|bind| matches(socket, bind))) {
            (true, false) => changes.gone.push(socket.id),
            (false, true) => changes.back.push(socket.id),
            _ => {}
        }
    }
    let is_new = |bind: &Bind| !in_use().any(|socket| matches(socket, bind));
    changes.new = binds.into_iter().filter(is_new).collect();
    changes
}

impl Shared {
    /// Brings the sockets in line with the addresses of the machine.
    fn follow_interfaces(&self) -> io::Result<()> {
        let (locals, unused) = {
            let binding = &self.lock().binding;
            (binding.locals.clone(), binding.unused.clone())
        };
        let Locals::Interfaces { port, only } = locals else {
            return Ok(());
        };
        let binds = list(port, &only, &unused)?;
        let changes = compare(&self.lock().sockets, binds);
        for id in changes.gone {
            tracing::info!(%id, "address lost");
            self.set_socket_up(id, false);
            self.command(|state, _| state.sockets_dead.push(id));
        }
        for id in changes.back {
            tracing::info!(%id, "address back");
            if let Err(error) = self.reopen_socket(id) {
                tracing::warn!(%id, %error, "the socket stays closed");
            }
        }
        for bind in changes.new {
            tracing::info!(?bind, "new address");
            let vacant = self.lock().vacant_socket(&bind);
            let opened = match vacant {
                Some(id) => self.move_socket(id, bind),
                None => self.add_socket(bind).map(drop),
            };
            if let Err(error) = opened {
                tracing::warn!(%error, "address not used");
            }
        }
        Ok(())
    }
}

/// Watch that is ready to start.
#[derive(Debug)]
pub(crate) struct Watch {
    changes: Changed,
    runtime: tokio::runtime::Handle,
}

impl Watch {
    /// Opens what it needs; changes from now on are handled once it is started.
    ///
    /// # Errors
    /// The kernel does not report changes to this program, or there is no tokio runtime.
    pub(crate) fn open() -> io::Result<Self> {
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let changes = Changed::open()?;
        Ok(Self { changes, runtime })
    }

    /// Follows the interfaces until the host closes, or the task is aborted.
    pub(crate) fn start(self, shared: &Arc<Shared>) -> tokio::task::AbortHandle {
        let Self {
            mut changes,
            runtime,
        } = self;
        let shared = Arc::downgrade(shared);
        let following = async move {
            loop {
                let changed = changes.next().await;
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                if shared.lock().is_closing {
                    return;
                }
                let _alone = shared.rebinding.clone().lock_owned().await;
                let followed = changed.and_then(|()| shared.follow_interfaces());
                if let Err(error) = followed {
                    tracing::warn!(%error, "changes of the interfaces cannot be followed");
                    return;
                }
            }
        };
        runtime.spawn(following).abort_handle()
    }
}

/// Reports of changes; where the system makes none here, the addresses are read every two seconds.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Changed;

#[cfg(not(target_os = "linux"))]
impl Changed {
    const LOOK: std::time::Duration = std::time::Duration::from_secs(2);

    fn open() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> io::Result<()> {
        tokio::time::sleep(Self::LOOK).await;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
use self::netlink::Changed;

#[cfg(target_os = "linux")]
mod netlink {
    use std::{fmt, io, time::Duration};

    use netlink_sys::{
        AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket, protocols::NETLINK_ROUTE,
    };

    /// `RTNLGRP_LINK`, `RTNLGRP_IPV4_IFADDR` and `RTNLGRP_IPV6_IFADDR` of linux/rtnetlink.h, as bits.
    const GROUPS: u32 = (1 << 0) | (1 << 4) | (1 << 8);
    /// Gap that ends a burst of changes (link, then addresses), which are handled together.
    const SETTLE: Duration = Duration::from_millis(20);
    /// Longest burst before it is handled.
    const SETTLE_MAX: Duration = Duration::from_millis(200);

    /// Reports of changes by the kernel.
    pub(super) struct Changed(TokioSocket);

    impl fmt::Debug for Changed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Changed")
        }
    }

    impl Changed {
        pub(super) fn open() -> io::Result<Self> {
            let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
            socket.socket_mut().bind(&SocketAddr::new(0, GROUPS))?;
            Ok(Self(socket))
        }

        /// Waits for a message and for the burst that follows it.
        pub(super) async fn next(&mut self) -> io::Result<()> {
            let socket = &mut self.0;
            receive(socket).await?;
            let burst = async {
                while let Ok(result) = tokio::time::timeout(SETTLE, receive(socket)).await {
                    result?;
                }
                Ok(())
            };
            tokio::time::timeout(SETTLE_MAX, burst)
                .await
                .unwrap_or(Ok(()))
        }
    }

    async fn receive(socket: &mut TokioSocket) -> io::Result<()> {
        /// The kernel dropped messages: `ENOBUFS` of errno.h.
        const OVERRUN: i32 = 105;
        match socket.recv_from_full().await {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(OVERRUN) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::SocketId;

    use super::*;
    use crate::{socket::SocketStats, state::Stage};

    fn bind(text: &str, interface: &str) -> Bind {
        Bind {
            address: text.parse().unwrap(),
            interface: Some(interface.to_owned()),
        }
    }

    fn socket(id: u64, text: &str, interface: &str, is_up: bool) -> SocketEntry {
        SocketEntry {
            id: SocketId(id),
            bind: bind(text, interface),
            device: Some(interface.to_owned()),
            interface: Some(interface.to_owned()),
            local: text.parse().unwrap(),
            is_up,
            stage: Stage::InUse,
            stats: SocketStats::default(),
        }
    }

    #[test]
    fn what_went_came_back_and_is_new() {
        let sockets = [
            socket(0, "192.0.2.1:7", "wwan0", true),
            socket(1, "192.0.2.2:7", "wwan1", false),
            socket(2, "192.0.2.3:7", "eth0", true),
        ];
        let now = vec![
            bind("192.0.2.2:0", "wwan1"),
            bind("192.0.2.3:0", "eth0"),
            bind("192.0.2.3:0", "eth1"),
        ];
        let changes = compare(&sockets, now);
        assert_eq!(changes.gone, [SocketId(0)]);
        assert_eq!(changes.back, [SocketId(1)]);
        assert_eq!(changes.new, [bind("192.0.2.3:0", "eth1")]);
    }

    #[test]
    fn a_retired_socket_neither_goes_nor_stands_for_its_address() {
        let retired = |id, text, interface, is_up| SocketEntry {
            stage: Stage::Retired,
            ..socket(id, text, interface, is_up)
        };
        let sockets = [
            retired(0, "192.0.2.1:7", "eth0", true),
            retired(1, "192.0.2.2:7", "eth0", false),
            retired(2, "192.0.2.3:7", "eth0", true),
        ];
        let now = vec![bind("192.0.2.2:8", "eth0"), bind("192.0.2.3:8", "eth0")];
        let changes = compare(&sockets, now.clone());
        assert!(changes.gone.is_empty() && changes.back.is_empty());
        assert_eq!(changes.new, now);
    }

    #[test]
    fn the_machine_lists_no_loopback() {
        let binds = list(0, &[], &[]).unwrap();
        assert!(binds.iter().all(|bind| !bind.address.ip().is_loopback()));
        assert!(
            list(0, &["no-such-interface".to_owned()], &[])
                .unwrap()
                .is_empty()
        );
        let unused: Vec<String> = binds
            .iter()
            .filter_map(|bind| bind.interface.clone())
            .collect();
        let left = list(0, &[], &unused).unwrap();
        assert!(left.iter().all(|bind| bind.interface.is_none()));
    }
}
