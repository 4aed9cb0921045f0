//! Limits of the gateway, and the limit of the process on open files.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch::config::GatewayConfig;

/// Connections and flows of a gateway at a time. Beyond, no more are accepted until one ends.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Connections, flows and listeners that a node holds for one peer. Beyond, requests are refused.
pub const PER_PEER_MAX: usize = 16_384;
/// Listeners that a node holds for one peer.
pub const LISTENERS_MAX: usize = 64;
/// Flows of one listener for datagrams; beyond, the one that was unused for longest leaves.
pub const FLOWS_MAX: usize = 4096;
/// Time that a listener at a peer waits for a session.
pub(crate) const SESSION_WAIT: Duration = Duration::from_secs(30);
/// Time that a target has to answer, over all its addresses.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time that a name has to be resolved.
pub const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that a peer has for the request of a stream that it opened.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeouts of a gateway, which a reload may change. Clones share them.
#[derive(Clone, Debug)]
pub struct Timeouts(Arc<Mutex<Given>>);

#[derive(Clone, Copy, Debug)]
struct Given {
    connect: Duration,
    flow: Duration,
    outage: Duration,
}

impl From<&GatewayConfig> for Given {
    fn from(config: &GatewayConfig) -> Self {
        Self {
            connect: config.connect_timeout,
            flow: config.flow_timeout,
            outage: config.outage_timeout,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        let preset = Given::from(&GatewayConfig::default());
        Self(Arc::new(Mutex::new(preset)))
    }
}

impl Timeouts {
    fn get(&self) -> Given {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes them, for connections, flows and outages that begin from now on.
    pub fn set(&self, config: &GatewayConfig) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = config.into();
    }

    /// Time in which a new connection must be made: session, request, and answer of the peer.
    pub fn connect(&self) -> Duration {
        self.get().connect
    }

    /// Time without a datagram after which the accepting side ends a flow.
    pub fn flow(&self) -> Duration {
        self.get().flow
    }

    /// The same at the connecting side, which lets the other one decide.
    pub fn flow_far(&self) -> Duration {
        2 * self.get().flow
    }

    /// Time without a path to the peer after which connections end.
    pub fn outage(&self) -> Duration {
        self.get().outage
    }
}

/// True if a failure means that there are no files, or no memory for sockets, left.
#[cfg(unix)]
pub fn is_out_of_files(error: &io::Error) -> bool {
    let code = error
        .raw_os_error()
        .map(rustix::io::Errno::from_raw_os_error);
    matches!(
        code,
        Some(
            rustix::io::Errno::MFILE
                | rustix::io::Errno::NFILE
                | rustix::io::Errno::NOBUFS
                | rustix::io::Errno::NOMEM
        )
    )
}

/// True if a failure means that there are no sockets, or no memory for them, left.
#[cfg(windows)]
pub fn is_out_of_files(error: &io::Error) -> bool {
    const WSAEMFILE: i32 = 10_024;
    const WSAENOBUFS: i32 = 10_055;
    matches!(error.raw_os_error(), Some(WSAEMFILE | WSAENOBUFS))
}

/// `None`: there is no limit on open files here.
#[cfg(windows)]
pub fn raise_file_limit() -> Option<u64> {
    None
}

/// Raises the limit of the process on open files as far as the system lets it, and returns it; `None`: there is none. Each
/// connection takes a file.
#[cfg(unix)]
pub fn raise_file_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}
