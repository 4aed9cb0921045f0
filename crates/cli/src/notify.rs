//! State of the service, reported to systemd as `sd_notify(3)` does: to the datagram socket that NOTIFY_SOCKET names, if any.
//!
//! Only [`node`](crate::node) is a service. A manager that cannot be told ends no node: failures are logged.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
};

/// Socket of the service manager.
#[derive(Debug)]
pub(crate) struct Manager(Option<OsString>);

impl Manager {
    /// The manager that started this process; one that does nothing where there is none.
    pub(crate) fn of_environment() -> Self {
        Self(env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()))
    }

    /// The service has started, or has reloaded its configuration.
    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    /// It reads its configuration again; [`Self::ready`] follows.
    pub(crate) fn reloading(&self) {
        self.send("RELOADING=1");
    }

    /// It closes its sessions.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, state: &str) {
        let Some(socket) = &self.0 else {
            return;
        };
        if let Err(error) = send(socket, state.as_bytes()) {
            tracing::warn!(%error, state, "the service manager cannot be notified");
        }
    }
}

#[cfg(unix)]
fn send(socket: &OsStr, state: &[u8]) -> io::Result<()> {
    use std::os::unix::net::UnixDatagram;
    let own = UnixDatagram::unbound()?;
    // A manager that does not read must not hold the node up.
    own.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return own.send_to_addr(state, &address).map(|_| ());
    }
    own.send_to(state, socket).map(|_| ())
}

#[cfg(windows)]
fn send(_: &OsStr, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
