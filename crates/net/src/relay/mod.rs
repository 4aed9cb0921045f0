//! Relay on real sockets: forwards packets between the ports of circuits.
//!
//! [`CircuitTable`] decides what may be forwarded, and where to. This module is its host: it opens and
//! closes ports as the table requires, receives packets in batches, asks for a verdict on each
//! train, and sends the permitted packets, in batches again. `docs/relays.md` has the reasons, `docs/results/relays.md` the figures.
//!
//! [`Relay`] is the handle. Requests come through the node's sessions, which authenticate their sources;
//! all calls are short and may come from any thread.
//!
//! ```no_run
//! # fn example(members: &impl anabranch_net::relay::Members, peer: anabranch_base::NodeId, own: anabranch_base::NodeId,
//! #   seen: &[std::net::SocketAddr], adu: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! use anabranch_net::relay::{Relay, RelayConfig};
//!
//! let relay = Relay::start(RelayConfig::new(own, ["192.0.2.1".parse()?]))?;
//! let answer: Vec<u8> = relay.serve(peer, seen, adu, members)?;
//! println!("{} left for others", relay.headroom());
//! # Ok(()) }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `pool` | the ports that can be opened |
//! | `ready` | the ports that have packets |
//! | `worker` | the forwarding thread |
//! | `outbox` | packets that are sent together |

mod outbox;
mod pool;
mod ready;
mod worker;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use anabranch_base::{Instant, NodeId, Rate};
pub use anabranch_overlay::relay::{
    Account, Answer, Between, Broken, CircuitId, CircuitReport, CircuitTable, Config, ConfigError,
    DecodeError, Dropped, Flow, Members, Open, Opened, Origin, PeerReport, Quota, Reason, Refusal,
    RelayedPath, RelayedPathSpec, Request, Role, Seen, Totals,
};
use anabranch_overlay::relay::{Outcome, PortId};

use self::{
    pool::{Pool, Port},
    ready::Ready,
    worker::Worker,
};
use crate::{clock::Clock, socket::BindError, waker::Waker};

/// Configuration of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Limits of its circuits and sources.
    pub circuits: Config,
    /// Local addresses of its ports: the first IPv4 and the first IPv6 one are used, each for peers of its
    /// family. 0.0.0.0 or `::` stands for all addresses of the machine.
    pub addresses: Vec<IpAddr>,
    /// Public addresses under which others reach these, if they differ (one-to-one NAT); one of each family at
    /// most.
    pub public: Vec<IpAddr>,
    /// Its ports; `None`: any that the kernel chooses.
    pub ports: Option<RangeInclusive<u16>>,
    /// Clock that it shares with other components; `None`: a separate one.
    pub clock: Option<Clock>,
    /// Mark of its packets, as [`HostConfig::mark`](crate::HostConfig::mark).
    pub mark: Option<u32>,
}

impl RelayConfig {
    /// Creates the defaults (see [`Config::new`]) on these addresses.
    pub fn new(node: NodeId, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self {
            circuits: Config::new(node),
            addresses: addresses.into_iter().collect(),
            public: Vec::new(),
            ports: None,
            clock: None,
            mark: None,
        }
    }
}

/// A relay cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// A value is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No address was given.
    #[error("a relay needs an address for its ports; give one")]
    NoAddress,
    /// None of its ports can be opened.
    #[error("none of the ports {first}-{last} can be opened: {source}")]
    Ports {
        /// The first port.
        first: u16,
        /// The last port.
        last: u16,
        /// The failure of the first.
        source: BindError,
    },
    /// The thread, or the descriptors on which it sleeps, cannot be created.
    #[error("cannot start the relay: {0}")]
    Io(#[from] io::Error),
}

/// Report on a relay: its circuits, sources and statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayReport {
    /// All circuits, by source and number.
    pub circuits: Vec<CircuitReport>,
    /// All sources.
    pub peers: Vec<PeerReport>,
    /// Its statistics.
    pub totals: Totals,
    /// Ports open now.
    pub ports: usize,
    /// Rate that it has left for others ([`CircuitTable::headroom`]).
    pub headroom: Rate,
    /// System calls of the data plane.
    pub calls: Calls,
}

/// System calls of the data plane so far, which show the degree of batching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls that received packets.
    pub received: u64,
    /// Calls that sent packets.
    pub sent: u64,
}

/// A running relay. Ends, with all circuits, when it is dropped.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    ready: Ready,
    waker: Waker,
    state: Mutex<State>,
    calls_received: AtomicU64,
    calls_sent: AtomicU64,
}

#[derive(Debug)]
struct State {
    circuits: CircuitTable,
    pool: Pool,
    ports: BTreeMap<PortId, Arc<Port>>,
    is_over: bool,
}

impl Relay {
    /// Starts its thread. Ports are opened when circuits need them.
    ///
    /// # Errors
    /// The config is out of range or has no address, none of its ports can be opened, or the thread cannot be started.
    pub fn start(config: RelayConfig) -> Result<Self, RelayError> {
        let clock = config.clock.unwrap_or_else(Clock::start);
        if config.addresses.is_empty() {
            return Err(RelayError::NoAddress);
        }
        let pool = Pool::new(&config);
        pool.check(|_| false)?;
        let circuits = CircuitTable::new(clock.now(), config.circuits)?;
        let shared = Arc::new(Shared {
            clock,
            ready: Ready::new()?,
            waker: Waker::new()?,
            state: Mutex::new(State {
                circuits,
                pool,
                ports: BTreeMap::new(),
                is_over: false,
            }),
            calls_received: AtomicU64::new(0),
            calls_sent: AtomicU64::new(0),
        });
        let worker = Worker::new(shared.clone());
        let thread = std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || worker.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Executes a request of the node `from`, which a session has authenticated. `seen` are the remote
    /// addresses of the session's channels, from which [`Origin::Known`] accepts packets.
    pub fn request(
        &self,
        from: NodeId,
        seen: &[SocketAddr],
        request: &Request,
        members: &(impl Members + ?Sized),
    ) -> Answer {
        self.decide(request.circuit(), |circuits, now| {
            circuits.request(now, from, seen, request, members)
        })
    }

    /// Opens a circuit between two nodes that both have sessions with this one, and that both want it.
    pub fn open_between(&self, between: &Between<'_>) -> Answer {
        self.decide(between.circuit, |circuits, now| {
            circuits.open_between(now, between)
        })
    }

    /// Asks the table, and opens the ports that it needs.
    fn decide(
        &self,
        circuit: CircuitId,
        mut ask: impl FnMut(&mut CircuitTable, Instant) -> Outcome,
    ) -> Answer {
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        let answer = loop {
            match ask(&mut state.circuits, now) {
                Outcome::Answer(answer) => break answer,
                Outcome::NeedsPort(family) => match state.pool.open(family) {
                    Some(port) => self.shared.add(&mut state, port),
                    None => break state.circuits.refuse(circuit, Refusal::Ports),
                },
            }
        };
        self.shared.close_unused(&mut state);
        drop(state);
        // The thread sleeps until the next expiry that it knew.
        self.shared.waker.ring();
        answer
    }

    /// [`Self::request`] for an ADU; returns the bytes of the answer.
    ///
    /// # Errors
    /// The ADU is not a request, and needs no answer.
    pub fn serve(
        &self,
        from: NodeId,
        seen: &[SocketAddr],
        adu: &[u8],
        members: &(impl Members + ?Sized),
    ) -> Result<Vec<u8>, DecodeError> {
        let request = Request::decode(adu)?;
        let mut answer = Vec::new();
        self.request(from, seen, &request, members)
            .encode(&mut answer);
        Ok(answer)
    }

    /// Closes all circuits of a node that has left or is no longer a member.
    pub fn close_all(&self, node: NodeId) {
        let mut state = self.shared.lock();
        state.circuits.close_all(node);
        self.shared.close_unused(&mut state);
    }

    /// Checks whether another configuration can be applied; nothing changes.
    ///
    /// # Errors
    /// As [`Self::start`]. Ports that this relay has open count as usable.
    pub fn check(&self, config: &RelayConfig) -> Result<(), RelayError> {
        config.circuits.check()?;
        if config.addresses.is_empty() {
            return Err(RelayError::NoAddress);
        }
        let own: BTreeSet<u16> = {
            let state = self.shared.lock();
            let ports = state.ports.values();
            ports.map(|port| port.socket.local.port()).collect()
        };
        Pool::new(config).check(|port| own.contains(&port))
    }

    /// Applies another configuration, all but the clock. Circuits that exist stay as they are, with their ports and rates; a port that
    /// the configuration does not include closes once its circuits have ended, and takes no others.
    ///
    /// # Errors
    /// The config is out of range or has no address; nothing has changed then.
    pub fn configure(&self, config: RelayConfig) -> Result<(), RelayError> {
        if config.addresses.is_empty() {
            return Err(RelayError::NoAddress);
        }
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        let state = &mut *state;
        let pool = Pool::new(&config);
        state.circuits.configure(now, config.circuits)?;
        state.pool = pool;
        for (id, port) in &state.ports {
            let is_included = state.pool.includes(port);
            state.circuits.set_retired(*id, !is_included);
        }
        Ok(())
    }

    /// Gives a source that has a quota of its own the default again.
    pub fn reset_quota(&self, node: NodeId) {
        let now = self.shared.clock.now();
        self.shared.lock().circuits.reset_quota(now, node);
    }

    /// Sets the quota of a source, from now on.
    pub fn set_quota(&self, node: NodeId, quota: Quota) {
        let now = self.shared.clock.now();
        self.shared.lock().circuits.set_quota(now, node, quota);
    }

    /// Rate that it has left, to be announced to others ([`CircuitTable::headroom`]).
    pub fn headroom(&self) -> Rate {
        let now = self.shared.clock.now();
        self.shared.lock().circuits.headroom(now)
    }

    /// Its statistics.
    pub fn totals(&self) -> Totals {
        self.shared.lock().circuits.totals()
    }

    /// Report on all circuits and sources. O(circuits).
    pub fn report(&self) -> RelayReport {
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        state.circuits.expire(now);
        self.shared.close_unused(&mut state);
        let circuits = &mut state.circuits;
        RelayReport {
            headroom: circuits.headroom(now),
            circuits: circuits.circuits(now).collect(),
            peers: circuits.peers().collect(),
            totals: circuits.totals(),
            ports: circuits.ports_len(),
            calls: Calls {
                received: self.shared.calls_received.load(Ordering::Relaxed),
                sent: self.shared.calls_sent.load(Ordering::Relaxed),
            },
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.waker.ring();
        if let Some(thread) = self.thread.take() {
            // The thread has reported its panic itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a port that has been opened.
    fn add(&self, state: &mut State, port: Port) {
        let id = state.circuits.add_port(port.public);
        let port = Arc::new(port);
        if let Err(error) = self.ready.add(id, &port) {
            // The port then carries nothing, as if the network lost all packets; the source detects that.
            crate::limited!(error, %error, "cannot watch a relay's port");
        }
        state.ports.insert(id, port);
    }

    fn close_unused(&self, state: &mut State) {
        while let Some(id) = state.circuits.unused_port() {
            if let Some(port) = state.ports.remove(&id) {
                self.ready.remove(id, &port);
            }
        }
    }
}
