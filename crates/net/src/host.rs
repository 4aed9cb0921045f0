//! Handle to a node's sockets and sessions.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use anabranch_base::{NodeId, SessionId, SocketId};
use anabranch_session::{
    AllowList, Attempts, ChannelReport, Config, Engine, Explanation, Grant, Link, LocalDescription,
    ObjectiveError, ObjectiveId, Prior, Refusals, SecretKey, SessionStats, Share, Shares,
    Steadiness, StreamError, StreamSpec, StreamStats, Tenant,
    hose::{Provided, json::Document},
    metering::Period,
    objective::{self, Injected, Tally},
};

use crate::{
    clock::Clock,
    detour::Detour,
    driver::Driver,
    error::{ConnectError, StartError},
    follow::follow,
    handles::{HostInner, close_all},
    links,
    place::Place,
    remotes::Remotes,
    session_handle::Session,
    socket::Bind,
    sockets::{Binding, Locals, SocketReport},
    state::{SessionEntry, Shared},
    tariff::{BudgetReport, HostEvent, Tariff},
    waker::Waker,
    watch,
};

/// Settings of a host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Key of this node, its identity.
    pub key: SecretKey,
    /// Keys from which it accepts sessions.
    pub allowed: AllowList,
    /// Settings of sessions and channels.
    pub engine: Config,
    /// Local addresses.
    pub locals: Locals,
    /// Maximum coalescing delay, for which packets in quick succession may gather before they are handled; the
    /// engine asks for less on short paths and while latency-sensitive data flows. Zero: never. The
    /// default is 10 ms.
    pub coalesce: Duration,
    /// Tariffs, at most one for each place.
    pub tariffs: Vec<Tariff>,
    /// Descriptions of places, at most one for each; the name of an interface is added where a description has none.
    pub descriptions: Vec<(Place, LocalDescription)>,
    /// Mark of the packets of its sockets, by which rules of routing tell them from those of other programs (Linux; `SO_MARK`,
    /// which needs CAP_NET_ADMIN); `None`: none.
    pub mark: Option<u32>,
    /// Interfaces that it neither uses nor states as places where it can be reached, such as those of tunnels that it carries.
    pub unused: Vec<String>,
    /// Folder of traces of its channels, in the qlog format ([`qlog`](crate::qlog)); `None`: there are none.
    #[cfg(feature = "qlog")]
    pub qlog: Option<std::path::PathBuf>,
}

impl HostConfig {
    /// Creates the default settings: all interfaces, a port from the kernel.
    pub fn new(key: SecretKey, allowed: AllowList) -> Self {
        Self {
            key,
            allowed,
            engine: Config::default(),
            locals: Locals::Interfaces {
                port: 0,
                only: Vec::new(),
            },
            coalesce: Duration::from_millis(10),
            tariffs: Vec::new(),
            descriptions: Vec::new(),
            mark: None,
            unused: Vec::new(),
            #[cfg(feature = "qlog")]
            qlog: None,
        }
    }

    /// Restricts the host to exactly these addresses.
    #[must_use]
    pub fn bind(mut self, binds: impl IntoIterator<Item = impl Into<Bind>>) -> Self {
        self.locals = Locals::Fixed(binds.into_iter().map(Into::into).collect());
        self
    }
}

/// A session as the host sees it.
#[derive(Clone, Debug)]
pub struct SessionReport {
    /// Its totals.
    pub stats: SessionStats,
    /// Its channels.
    pub channels: Vec<ChannelReport>,
    /// Its open streams.
    pub streams: Vec<StreamStats>,
    /// The promises of the streams that asked for one.
    pub promises: Vec<Explanation>,
}

/// A stream that has a promise, or waits for one.
#[derive(Clone, Debug)]
pub struct PromiseReport {
    /// Its session.
    pub session: SessionId,
    /// The peer of the session.
    pub peer: NodeId,
    /// Its specification.
    pub spec: Arc<StreamSpec>,
    /// State of the promise, and the decisions about it.
    pub explanation: Explanation,
}

/// A running node. Clones share it; when the last handle (sessions and streams included) is dropped,
/// the node closes.
#[derive(Clone, Debug)]
pub struct Host {
    pub(crate) inner: Arc<HostInner>,
}

impl Host {
    /// Opens the sockets and starts the thread that serves them. To follow the interfaces, it needs a tokio
    /// runtime with I/O and time.
    ///
    /// # Errors
    /// A socket cannot be opened, or there is no address to open one on.
    pub fn start(config: HostConfig) -> Result<Self, StartError> {
        let mut entropy = [0; 32];
        getrandom::fill(&mut entropy).map_err(|error| StartError::Entropy(error.to_string()))?;
        let clock = Clock::start();
        let node_id = config.key.node_id();
        #[cfg_attr(not(feature = "qlog"), allow(unused_mut, reason = "for traces"))]
        let mut engine = Engine::new(
            clock.epoch(),
            config.key,
            config.allowed,
            config.engine,
            entropy,
        );
        #[cfg(feature = "qlog")]
        engine.set_traces(config.qlog.map(crate::qlog::Folder::shared));
        let shared = Arc::new(Shared::new(clock, Waker::new()?, engine));
        let driver = Driver::new(shared.clone(), config.coalesce);
        std::thread::Builder::new()
            .name("anabranch".to_owned())
            .spawn(move || driver.run())?;
        // From here on, dropping this ends the thread.
        let inner = Arc::new(HostInner {
            shared: shared.clone(),
            node_id,
        });
        shared.set_tariffs(config.tariffs);
        {
            let mut state = shared.lock();
            state.descriptions = config.descriptions;
            state.binding = Binding::new(config.locals.clone(), config.mark, config.unused.clone());
        }
        let binds = match &config.locals {
            Locals::Fixed(binds) => binds.clone(),
            Locals::Interfaces { port, only } => watch::list(*port, only, &config.unused)?,
        };
        for bind in binds {
            shared.add_socket(bind)?;
        }
        if shared.lock().sockets.is_empty() && matches!(config.locals, Locals::Fixed(_)) {
            return Err(StartError::NoAddress);
        }
        shared.check_tariffs(matches!(config.locals, Locals::Fixed(_)))?;
        if let Locals::Interfaces { .. } = config.locals {
            let watcher = watch::Watch::open()?.start(&shared);
            shared.lock().binding.watcher = Some(watcher);
        }
        Ok(Self { inner })
    }

    /// The ID of this node.
    pub fn node_id(&self) -> NodeId {
        self.inner.node_id
    }

    /// Its clock, to which all times of the engine refer.
    pub fn clock(&self) -> Clock {
        self.inner.shared.clock
    }

    /// Mark of the packets of its sockets ([`HostConfig::mark`]).
    pub fn mark(&self) -> Option<u32> {
        self.inner.shared.lock().binding.mark
    }

    /// The local sockets.
    pub fn sockets(&self) -> Vec<SocketReport> {
        let state = self.inner.shared.lock();
        state.sockets.iter().map(SocketReport::of).collect()
    }

    /// Channels of peers that were refused, by cause.
    pub fn refusals(&self) -> Refusals {
        self.inner.shared.lock().engine.refusals()
    }

    /// Addresses at which peers can reach this node; those of retired sockets are not among them. A wildcard socket stands for those of all
    /// interfaces, with loopback only if there is no other.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let mut sockets = self.sockets();
        sockets.retain(|socket| !socket.is_retired);
        let unused = self.inner.shared.lock().binding.unused.clone();
        let mut addresses = Vec::new();
        for socket in sockets.iter().filter(|socket| socket.is_up) {
            if !socket.local.ip().is_unspecified() {
                addresses.push(socket.local);
                continue;
            }
            let all = watch::list(socket.local.port(), &[], &unused).unwrap_or_default();
            let family = all.iter().map(|bind| bind.address);
            let family = family.filter(|address| address.is_ipv4() == socket.local.is_ipv4());
            addresses.extend(family);
        }
        if addresses.is_empty() {
            let loopback = |socket: &crate::SocketReport| {
                let ip: IpAddr = match socket.local {
                    SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                    SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
                };
                SocketAddr::new(ip, socket.local.port())
            };
            addresses.extend(sockets.iter().map(loopback));
        }
        addresses.dedup();
        addresses
    }

    /// Opens a session with `peer`, over every local address that can reach one of `remotes`. Names of hosts are resolved now, and
    /// again while the session has no path.
    ///
    /// Returns once the first channel is up; the others join when they are up.
    ///
    /// # Errors
    /// No name can be resolved, no link is possible, no channel came up within the session time-out, or the peer refused.
    pub async fn connect(
        &self,
        peer: NodeId,
        remotes: impl Into<Remotes>,
    ) -> Result<Session, ConnectError> {
        self.dial(peer, remotes.into()).await
    }

    /// As [`Self::connect`]; compiled once, whatever the callers have.
    async fn dial(&self, peer: NodeId, named: Remotes) -> Result<Session, ConnectError> {
        let mut stages = self.inner.shared.detours.get(peer);
        let mut failure = None;
        let mut remotes = match named.resolve().await {
            Ok(remotes) => remotes,
            Err(error) => {
                failure = Some(ConnectError::from(error));
                Vec::new()
            }
        };
        let session = loop {
            let links = links::pair(&self.inner.shared.lock().sockets, &remotes);
            if !links.is_empty() {
                let session = self.begin(peer, links, remotes.clone())?;
                let mut added = Vec::new();
                let adding = async {
                    while let Some(further) = stages.next(true).await {
                        for address in further {
                            session.add_remote(address);
                            added.push(address);
                        }
                    }
                    std::future::pending::<()>().await;
                };
                let result = tokio::select! {
                    result = self.established(&session) => result,
                    () = adding => unreachable!("it adds addresses, and waits"),
                };
                match result {
                    Ok(()) => break session,
                    Err(error) if error.is_refusal() => return Err(error),
                    Err(error) => {
                        added.retain(|address| !error.has_tried(address));
                        failure = Some(error);
                    }
                }
                if !added.is_empty() {
                    // They came when the others had just been refused.
                    remotes = added;
                    continue;
                }
            }
            // The addresses were refused before the next stage was due.
            let Some(further) = stages.next(false).await else {
                let none = ConnectError::NoLink { peer, remotes };
                return Err(failure.unwrap_or(none));
            };
            remotes = further;
        };
        self.inner.shared.detours.note(peer, stages.last);
        if !named.hosts.is_empty() || stages.has_detour() {
            tokio::spawn(follow(session.downgrade(), named, stages.opened));
        }
        Ok(session)
    }

    /// Opens a session with `peer` over exactly these links.
    ///
    /// # Errors
    /// As [`Host::connect`].
    pub async fn connect_over(
        &self,
        peer: NodeId,
        links: Vec<Link>,
    ) -> Result<Session, ConnectError> {
        if links.is_empty() {
            return Err(ConnectError::NoLink {
                peer,
                remotes: Vec::new(),
            });
        }
        self.open(peer, links, Vec::new()).await
    }

    /// Sets what is tried if none of a peer's addresses answers within three seconds, by every later call of [`Host::connect`]; after a
    /// session that came about in this way, it is tried at once, and it is opened again while that session has no path. `None`: nothing is.
    pub fn set_detour(&self, peer: NodeId, detour: Option<Arc<dyn Detour>>) {
        self.inner.shared.detours.set(peer, detour);
    }

    async fn open(
        &self,
        peer: NodeId,
        links: Vec<Link>,
        remotes: Vec<SocketAddr>,
    ) -> Result<Session, ConnectError> {
        let session = self.begin(peer, links, remotes)?;
        self.established(&session).await?;
        Ok(session)
    }

    /// Starts to open a session; dropping it closes it.
    fn begin(
        &self,
        peer: NodeId,
        links: Vec<Link>,
        remotes: Vec<SocketAddr>,
    ) -> Result<Session, ConnectError> {
        let id = self.inner.shared.command(|state, now| {
            if state.is_closing {
                return Err(ConnectError::ShuttingDown);
            }
            let id = state.engine.connect(now, peer, links)?;
            let entry = SessionEntry::new(peer, remotes);
            state.sessions.insert(id, entry);
            Ok(id)
        })?;
        Ok(Session::new(self.inner.clone(), id, peer))
    }

    /// Waits until the first channel of a session is up.
    async fn established(&self, session: &Session) -> Result<(), ConnectError> {
        let id = session.id();
        poll_fn(|cx| {
            let mut state = self.inner.shared.lock();
            let Some(entry) = state.sessions.get_mut(&id) else {
                return Poll::Ready(Err(ConnectError::ShuttingDown));
            };
            if let Some(reason) = &entry.closed {
                return Poll::Ready(Err(ConnectError::Closed(reason.clone())));
            }
            if entry.is_connected {
                return Poll::Ready(Ok(()));
            }
            entry.changing.register(cx);
            Poll::Pending
        })
        .await
    }

    /// Addresses of `peer` that are tried now, and what came of each; `None`: this node is not opening a session with it.
    pub fn attempts(&self, peer: NodeId) -> Option<Attempts> {
        let now = self.clock().now();
        self.inner.shared.lock().engine.attempts(now, peer)
    }

    /// Waits for a session that a peer opens; `None` once the host shuts down. One that the peer has closed in the meantime is among them
    /// if it has opened a stream: what has arrived can be read.
    pub async fn accept(&self) -> Option<Session> {
        poll_fn(|cx| {
            let mut state = self.inner.shared.lock();
            if let Some(id) = state.incoming.pop_front() {
                let peer = state.sessions.get(&id).map(|entry| entry.peer);
                let peer = peer.expect("a session that waits to be accepted has an entry");
                return Poll::Ready(Some(Session::new(self.inner.clone(), id, peer)));
            }
            if state.is_closing {
                return Poll::Ready(None);
            }
            state.accepting.register(cx);
            Poll::Pending
        })
        .await
    }

    /// All sessions, with the measurements of their channels and streams.
    pub fn sessions(&self) -> Vec<SessionReport> {
        let mut state = self.inner.shared.lock();
        let engine = &mut state.engine;
        let ids = engine.session_ids();
        let mut report = |id| {
            let stats = engine.session(id).ok().map(|mut session| session.stats())?;
            let streams = engine
                .session(id)
                .map(|mut session| session.stream_stats())
                .unwrap_or_default();
            let explain = |stream: &StreamStats| {
                engine
                    .session(id)
                    .ok()
                    .and_then(|session| session.stream(stream.stream).explain())
            };
            let promises = streams.iter().filter_map(explain).collect();
            Some(SessionReport {
                stats,
                channels: engine
                    .session(id)
                    .map(|mut session| session.channel_stats())
                    .unwrap_or_default(),
                streams,
                promises,
            })
        };
        ids.into_iter().filter_map(&mut report).collect()
    }

    /// Knowledge of local interfaces from open sessions ([`Engine::evidence`](anabranch_session::Engine::evidence)).
    pub fn evidence(&self) -> BTreeMap<Arc<str>, (Steadiness, usize)> {
        self.inner.shared.lock().engine.evidence()
    }

    /// Replaces the settings of sessions and channels that begin from now on ([`Engine::set_config`]).
    pub fn set_config(&self, config: Config) {
        self.inner
            .shared
            .command(|state, _| state.engine.set_config(config));
    }

    /// Sets what new sessions know of local interfaces from earlier ones.
    pub fn set_priors(&self, priors: Arc<BTreeMap<Arc<str>, Prior>>) {
        self.inner.shared.lock().engine.set_priors(priors);
    }

    /// Begins the transcript of a session anew, in memory of so many bytes; `None`: as the host is configured. False: there is no such
    /// session.
    pub fn record(&self, session: SessionId, bytes_max: Option<usize>) -> bool {
        self.inner.shared.command(|state, now| {
            let configured = Some(state.engine.transcript_bytes()).filter(|&bytes| bytes > 0);
            let handle = state.engine.session(session);
            let recorded = handle.map(|mut handle| handle.record(now, bytes_max.or(configured)));
            recorded.is_ok()
        })
    }

    /// Bytes of the transcript of a session so far; `None`: none is kept.
    pub fn transcript_bytes(&self, session: SessionId) -> Option<usize> {
        let shared = &self.inner.shared;
        shared.read_session(session, |mut session| session.transcript_bytes())?
    }

    /// The [transcript](anabranch_session::transcript) of a session so far, as a file; `None`: none is kept. Data is held up while it
    /// is copied.
    pub fn transcript(&self, session: SessionId) -> Option<Vec<u8>> {
        let shared = &self.inner.shared;
        shared.read_session(session, |mut session| session.transcript())?
    }

    /// The promises of all sessions, and the demands that wait.
    pub fn promises(&self) -> Vec<PromiseReport> {
        let mut state = self.inner.shared.lock();
        let engine = &mut state.engine;
        let mut reports = Vec::new();
        for session in engine.session_ids() {
            let Ok(mut handle) = engine.session(session) else {
                continue;
            };
            let promises = handle.promises();
            if promises.is_empty() {
                continue;
            }
            let peer = handle.stats().peer;
            reports.extend(
                promises
                    .into_iter()
                    .map(|(spec, explanation)| PromiseReport {
                        session,
                        peer,
                        spec,
                        explanation,
                    }),
            );
        }
        reports
    }

    /// The budgets of places with a tariff, and the bytes used of them.
    pub fn budgets(&self) -> Vec<BudgetReport> {
        self.inner.shared.lock().budgets()
    }

    /// Permits a total of `total_bytes` at a place in a period, whatever its cap; see [`Tariff::is_granted`]. Has no
    /// effect if that is not the current period of the place.
    pub fn grant(&self, place: &Place, period: Period, total_bytes: u64) {
        self.inner.shared.grant(place, period, total_bytes);
    }

    /// Waits for an event that concerns no session in particular; `None` once the host shuts down. Each event is reported
    /// once; the last 256 are kept until they are read.
    pub async fn next_event(&self) -> Option<HostEvent> {
        poll_fn(|cx| {
            let mut state = self.inner.shared.lock();
            if let Some(event) = state.events.pop_front() {
                return Poll::Ready(Some(event));
            }
            if state.is_closing {
                return Poll::Ready(None);
            }
            state.observing.register(cx);
            Poll::Pending
        })
        .await
    }

    /// [`Session::admit`] for a session by its number: returns the promise that a stream with this spec would get.
    ///
    /// # Errors
    /// As [`Session::admit`]; there is no such session.
    pub fn admit(&self, session: SessionId, spec: &StreamSpec) -> Result<Grant, StreamError> {
        self.inner
            .shared
            .command(|state, now| state.engine.session(session)?.admit(now, spec))
    }

    /// [`Session::inject_objectives`] for a session by its number.
    ///
    /// # Errors
    /// As there; there is no such session.
    pub fn inject_objectives(
        &self,
        session: SessionId,
        text: &str,
    ) -> Result<Injected, ObjectiveError> {
        let shared = &self.inner.shared;
        shared.command(|state, now| state.engine.session(session)?.inject_objectives(now, text))
    }

    /// [`Session::remove_objective`] for a session by its number.
    ///
    /// # Errors
    /// There is no such session.
    pub fn remove_objective(
        &self,
        session: SessionId,
        objective: ObjectiveId,
    ) -> Result<bool, StreamError> {
        let shared = &self.inner.shared;
        shared.command(|state, now| {
            state
                .engine
                .session(session)
                .map(|mut session| session.remove_objective(now, objective))
        })
    }

    /// The objectives in force in a session.
    pub fn objectives(&self, session: SessionId) -> Vec<objective::Entry> {
        let shared = &self.inner.shared;
        shared
            .read_session(session, |mut session| session.objectives())
            .unwrap_or_default()
    }

    /// Contexts, utility and faults of each objective of a session within the last minute.
    pub fn tallies(&self, session: SessionId) -> Vec<(ObjectiveId, Tally)> {
        let shared = &self.inner.shared;
        let now = self.clock().now();
        shared
            .read_session(session, |mut session| session.tallies(now))
            .unwrap_or_default()
    }

    /// Names to which objectives of a session can refer now; nothing if there is no such session.
    pub fn provided(&self, session: SessionId) -> Provided {
        let shared = &self.inner.shared;
        shared
            .read_session(session, |mut session| session.provided())
            .unwrap_or_default()
    }

    /// Captures the next plan of a session in which `least_adus` ADUs wait; false if its policy plans nothing with the objectives in
    /// force, `None` if there is no such session. See [`SessionMut::capture_cycle`](anabranch_session::SessionMut::capture_cycle).
    pub fn capture_cycle(&self, session: SessionId, least_adus: usize) -> Option<bool> {
        self.inner.shared.command(|state, _| {
            let mut session = state.engine.session(session).ok()?;
            Some(session.capture_cycle(least_adus))
        })
    }

    /// The plan that was captured, once.
    pub fn take_cycle(&self, session: SessionId) -> Option<Document> {
        let shared = &self.inner.shared;
        shared.read_session(session, |mut session| session.take_cycle())?
    }

    /// Sets the largest share of what can be promised that the streams of a tenant ([`StreamSpec::tenant`]) may have together, over all
    /// sessions; `None`: no limit. What is promised already stays. See [`Engine::set_promised_share`].
    pub fn set_promised_share(&self, tenant: Tenant, share: Option<Share>) {
        self.inner
            .shared
            .command(|state, _| state.engine.set_promised_share(tenant, share));
    }

    /// The shares that were set.
    pub fn promised_shares(&self) -> Shares {
        self.inner.shared.lock().engine.promised_shares().clone()
    }

    /// Applies changes of the allow-list at once, rather than with the next packet or timer: closes the sessions of keys
    /// that are no longer on it.
    pub fn follow_allow_list(&self) {
        self.inner
            .shared
            .command(|state, now| state.engine.follow_allow_list(now));
    }

    /// Takes a socket out of use, or puts it back into use, as the loss or return of its interface does.
    pub fn set_socket_up(&self, socket: SocketId, up: bool) {
        self.inner.shared.set_socket_up(socket, up);
    }

    /// Closes all sessions, notifies the peers, and waits until that is done; at most about a second.
    /// Before this call, wait for data that must arrive, see [`crate::Stream::delivered`].
    pub async fn shutdown(&self) {
        close_all(&self.inner.shared, "the node shuts down");
        poll_fn(|cx| {
            let mut state = self.inner.shared.lock();
            if state.is_over {
                return Poll::Ready(());
            }
            state.ending.register(cx);
            Poll::Pending
        })
        .await;
    }
}
