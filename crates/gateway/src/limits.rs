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
pub struct Timeouts(Arc<Mutex<(Duration, Duration)>>);

impl Default for Timeouts {
    fn default() -> Self {
        let preset = GatewayConfig::default();
        let timeouts = (preset.connect_timeout, preset.flow_timeout);
        Self(Arc::new(Mutex::new(timeouts)))
    }
}

impl Timeouts {
    fn get(&self) -> (Duration, Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes them, for connections and flows that begin from now on.
    pub fn set(&self, config: &GatewayConfig) {
        let timeouts = (config.connect_timeout, config.flow_timeout);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = timeouts;
    }

    /// Time in which a new connection must be made: session, request, and answer of the peer.
    pub fn connect(&self) -> Duration {
        self.get().0
    }

    /// Time without a datagram after which the accepting side ends a flow.
    pub fn flow(&self) -> Duration {
        self.get().1
    }

    /// The same at the connecting side, which lets the other one decide.
    pub fn flow_far(&self) -> Duration {
        2 * self.get().1
    }
}

/// True if a failure means that there are no files, or no memory for sockets, left.
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

/// Raises the limit of the process on open files as far as the system lets it, and returns it; `None`: there is none. Each
/// connection takes a file.
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
