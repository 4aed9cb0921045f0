//! Shared state of the host: the engine and the tasks that wait for its events, under one lock.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_base::{Instant, NodeId, SessionId, SocketId, StreamId};
use anabranch_session::{
    Adu, Engine, Event, LocalDescription, PromiseEvent, Refusal, SessionCloseReason, SessionEvent,
    SessionMut, StreamEvent, StreamSpec,
};

use crate::{
    clock::Clock,
    detour::Detours,
    place::Place,
    session_events::Readers,
    socket::{Bind, Socket, SocketStats},
    sockets::{Binding, Locals},
    tariff::{Account, HostEvent},
    waiters::Waiters,
    waker::Waker,
};

/// Incoming sessions that may wait to be accepted; further ones are closed.
const INCOMING_SESSIONS_MAX: usize = 256;
/// Incoming streams of one session that may wait to be accepted; further ones are stopped, and reset if they are duplex.
const INCOMING_STREAMS_MAX: usize = 1024;
/// Session events that may wait to be read; beyond that, the oldest is dropped.
pub(crate) const SESSION_EVENTS_MAX: usize = 1024;
/// Events of the host that may wait to be read; beyond that, the oldest is dropped.
const HOST_EVENTS_MAX: usize = 256;
/// Stream events that may wait to be read; beyond that, the oldest is dropped.
const STREAM_EVENTS_MAX: usize = 65_536;
/// Events of a stream's promise that may wait to be read; beyond that, the oldest is dropped. There is one a second at most.
const PROMISE_EVENTS_MAX: usize = 256;
/// Application code that reports a full backlog to the peer.
const CODE_BUSY: u32 = 0x10;

/// State that the driver thread, the handles and the interface watch share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    /// Wakes the driver.
    pub(crate) waker: Waker,
    pub(crate) detours: Detours,
    /// Held by whoever opens or closes sockets. It is taken before the state.
    pub(crate) rebinding: Arc<tokio::sync::Mutex<()>>,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) sockets: Vec<SocketEntry>,
    pub(crate) sessions: HashMap<SessionId, SessionEntry>,
    pub(crate) incoming: VecDeque<SessionId>,
    pub(crate) accepting: Waiters,
    /// Accounts of the tariffs to which the sockets are charged.
    pub(crate) accounts: Vec<Account>,
    /// Descriptions of places, in no order.
    pub(crate) descriptions: Vec<(Place, LocalDescription)>,
    /// Settings of its sockets.
    pub(crate) binding: Binding,
    /// Time of the next calendar check, for the billing periods; `None`: there are no tariffs.
    pub(crate) calendar_due: Option<Instant>,
    pub(crate) events: VecDeque<HostEvent>,
    pub(crate) observing: Waiters,
    /// For the driver: sockets to add, or to replace those with the same ID.
    pub(crate) sockets_new: Vec<Socket>,
    /// For the driver: sockets to close.
    pub(crate) sockets_dead: Vec<SocketId>,
    /// True if there was a command since the driver last checked.
    pub(crate) has_work: bool,
    /// True if such a command cannot wait until packets have gathered.
    pub(crate) is_urgent: bool,
    pub(crate) asleep: Asleep,
    /// Set once: sessions are closed, and the driver ends when none is left.
    pub(crate) is_closing: bool,
    /// The driver has ended.
    pub(crate) is_over: bool,
    pub(crate) ending: Waiters,
}

/// Sleep state of the driver, which determines the events that wake it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asleep {
    /// It is awake, and will see new commands before it sleeps.
    #[default]
    No,
    /// Any command wakes it.
    Listening,
    /// Packets are gathering; only urgent commands wake it.
    Gathering,
}

/// Urgency of a command for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakePriority {
    /// At once.
    Now,
    /// Together with the packets that are gathering, if any.
    Soon,
}

/// Data of a socket for the handles; the socket itself belongs to the driver.
#[derive(Clone, Debug)]
pub(crate) struct SocketEntry {
    pub(crate) id: SocketId,
    pub(crate) bind: Bind,
    /// Interface that has its address, when that was last known.
    pub(crate) device: Option<String>,
    /// Name of its interface or place.
    pub(crate) interface: Option<String>,
    pub(crate) local: SocketAddr,
    pub(crate) is_up: bool,
    pub(crate) stage: Stage,
    pub(crate) stats: SocketStats,
}

/// Use of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its address is one of the local addresses in force.
    #[default]
    InUse,
    /// Its address is not any more: it carries what has no other path.
    Retired,
    /// Its channels were closed; it closes once their last packets have left.
    Closing,
}

impl SocketEntry {
    /// True if its address is not in force any more: nothing new begins there.
    pub(crate) fn is_retired(&self) -> bool {
        self.stage != Stage::InUse
    }
}

#[derive(Debug)]
pub(crate) struct SessionEntry {
    pub(crate) peer: NodeId,
    /// Addresses to which new local addresses open channels; empty for incoming sessions.
    pub(crate) remotes: Vec<SocketAddr>,
    pub(crate) is_connected: bool,
    pub(crate) closed: Option<SessionCloseReason>,
    /// No handle is left.
    pub(crate) is_released: bool,
    /// Tasks that wait for the session to connect or close.
    pub(crate) changing: Waiters,
    pub(crate) streams: HashMap<StreamId, StreamEntry>,
    pub(crate) incoming: VecDeque<(StreamId, StreamSpec)>,
    pub(crate) accepting: Waiters,
    pub(crate) events: VecDeque<SessionEvent>,
    /// Those that get every event.
    pub(crate) readers: Readers,
    pub(crate) observing: Waiters,
}

/// State of one stream for its handles, with the tasks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct StreamEntry {
    pub(crate) reading: Waiters,
    pub(crate) writing: Waiters,
    pub(crate) delivering: Waiters,
    pub(crate) observing: Waiters,
    pub(crate) events: VecDeque<StreamEvent>,
    pub(crate) promising: Waiters,
    pub(crate) promises: VecDeque<PromiseEvent>,
    /// ADUs received before the peer closed the session, to be read before its end is reported.
    pub(crate) remainder: VecDeque<Adu>,
    /// The peer finished, and everything was read, or is in the remainder.
    pub(crate) is_finished: bool,
    /// This side finished.
    pub(crate) is_send_finished: bool,
    /// Warning of its promise for which the engine finished it.
    pub(crate) closed_for: Option<Box<Refusal>>,
    pub(crate) is_delivered: bool,
    pub(crate) reset: Option<u32>,
    pub(crate) stopped: Option<u32>,
}

impl Shared {
    pub(crate) fn new(clock: Clock, waker: Waker, engine: Engine) -> Self {
        let state = State {
            engine,
            sockets: Vec::new(),
            sessions: HashMap::new(),
            incoming: VecDeque::new(),
            accepting: Waiters::default(),
            accounts: Vec::new(),
            descriptions: Vec::new(),
            binding: Binding::new(Locals::Fixed(Vec::new()), None, Vec::new()),
            calendar_due: None,
            events: VecDeque::new(),
            observing: Waiters::default(),
            sockets_new: Vec::new(),
            sockets_dead: Vec::new(),
            has_work: false,
            is_urgent: false,
            asleep: Asleep::No,
            is_closing: false,
            is_over: false,
            ending: Waiters::default(),
        };
        Self {
            clock,
            waker,
            detours: Detours::default(),
            rebinding: Arc::default(),
            state: Mutex::new(state),
        }
    }

    /// Locks the state, without waking the driver. A panic elsewhere does not make it unusable: the engine's own
    /// invariants hold between calls.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads from a session of the engine; `None` once the engine has forgotten it.
    pub(crate) fn read_session<T>(
        &self,
        id: SessionId,
        read: impl FnOnce(SessionMut<'_>) -> T,
    ) -> Option<T> {
        self.lock().engine.session(id).ok().map(read)
    }

    /// Wakes the driver, whatever it does, for a round.
    pub(crate) fn rouse(&self) {
        let mut state = self.lock();
        state.has_work = true;
        state.is_urgent = true;
        if std::mem::take(&mut state.asleep) != Asleep::No {
            self.waker.ring();
        }
    }

    /// Runs a command on the engine, dispatches the events that it caused, and wakes the driver.
    pub(crate) fn command<T>(&self, run: impl FnOnce(&mut State, Instant) -> T) -> T {
        self.command_in(WakePriority::Now, run)
    }

    /// [`Shared::command`] with a choice of urgency.
    pub(crate) fn command_in<T>(
        &self,
        priority: WakePriority,
        run: impl FnOnce(&mut State, Instant) -> T,
    ) -> T {
        let mut state = self.lock();
        let now = self.clock.now();
        let result = run(&mut state, now);
        state.dispatch_events(now);
        if state.calls_driver(priority) {
            self.waker.ring();
        }
        result
    }
}

impl SessionEntry {
    pub(crate) fn new(peer: NodeId, remotes: Vec<SocketAddr>) -> Self {
        Self {
            peer,
            remotes,
            is_connected: false,
            closed: None,
            is_released: false,
            changing: Waiters::default(),
            streams: HashMap::new(),
            incoming: VecDeque::new(),
            accepting: Waiters::default(),
            events: VecDeque::new(),
            readers: Readers::default(),
            observing: Waiters::default(),
        }
    }

    fn push_event(&mut self, event: SessionEvent) {
        self.readers.push(&event);
        if self.events.len() >= SESSION_EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.observing.wake();
    }

    fn wake_all(&mut self) {
        self.changing.wake();
        self.accepting.wake();
        self.observing.wake();
        for stream in self.streams.values_mut() {
            stream.wake_all();
        }
    }
}

impl StreamEntry {
    fn push_event(&mut self, event: StreamEvent) {
        if self.events.len() >= STREAM_EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.observing.wake();
    }

    fn push_promise(&mut self, event: PromiseEvent) {
        if self.promises.len() >= PROMISE_EVENTS_MAX {
            self.promises.pop_front();
        }
        self.promises.push_back(event);
        self.promising.wake();
    }

    fn wake_all(&mut self) {
        self.reading.wake();
        self.writing.wake();
        self.delivering.wake();
        self.observing.wake();
        self.promising.wake();
    }
}

impl State {
    /// Description of a socket at this address: that of the address, or else that of its interface, whose name it gets if it has
    /// none.
    pub(crate) fn description(&self, address: IpAddr, interface: Option<&str>) -> LocalDescription {
        let of = |place: &Place| {
            let found = self.descriptions.iter().find(|(known, _)| known == place);
            found.map(|(_, description)| description.clone())
        };
        let of_interface = || of(&Place::Interface(interface?.to_owned()));
        let description = of(&Place::Address(address)).or_else(of_interface);
        let mut description = description.unwrap_or_default();
        if description.name.is_none() {
            description.name = interface.map(Into::into);
        }
        description
    }

    /// Socket that had an address of the interface of `bind`, has none now, and can have this one; `None`: there is none, or a
    /// tariff names one of the addresses.
    pub(crate) fn vacant_socket(&self, bind: &Bind) -> Option<SocketId> {
        bind.interface.as_ref()?;
        let has_tariff = |ip: IpAddr| {
            let mut accounts = self.accounts.iter();
            accounts.any(|account| account.tariff.place == Place::Address(ip))
        };
        let can_move = |entry: &&SocketEntry| {
            !entry.is_up
                && !entry.is_retired()
                && entry.bind.interface == bind.interface
                && entry.local.is_ipv4() == bind.address.is_ipv4()
                && !has_tariff(entry.local.ip())
        };
        let found = self.sockets.iter().rev().find(can_move);
        found
            .filter(|_| !has_tariff(bind.address.ip()))
            .map(|entry| entry.id)
    }

    /// Notes a command. Returns whether the driver has to be woken for it.
    fn calls_driver(&mut self, priority: WakePriority) -> bool {
        let changes = !self.sockets_new.is_empty() || !self.sockets_dead.is_empty();
        if !changes && !self.is_closing && !self.engine.has_work() {
            return false;
        }
        self.has_work = true;
        self.is_urgent |= priority == WakePriority::Now;
        let wakes = match self.asleep {
            Asleep::No => false,
            Asleep::Listening => true,
            Asleep::Gathering => priority == WakePriority::Now,
        };
        if wakes {
            self.asleep = Asleep::No;
        }
        wakes
    }

    /// Dispatches every event of the engine to the tasks that wait for it.
    pub(crate) fn dispatch_events(&mut self, now: Instant) {
        while let Some(event) = self.engine.poll_event() {
            self.dispatch(now, event);
        }
    }

    fn dispatch(&mut self, now: Instant, event: Event) {
        match event {
            Event::Connected {
                session,
                peer,
                incoming,
            } => self.connected(now, session, peer, incoming),
            Event::Closed { session, reason } => self.closed(session, reason),
            Event::Session { session, event } => self.session_event(session, event),
            Event::Stranger {
                peer,
                socket,
                remote,
            } => self.stranger(peer, socket, remote),
            Event::BudgetLow { socket, left_bytes } => self.budget_low(socket, left_bytes),
            Event::BudgetSpent { socket } => {
                self.budget_event(socket, |place| HostEvent::BudgetSpent { place });
            }
            Event::BudgetRenewed { socket } => {
                self.keep_down(now, socket);
                self.budget_event(socket, |place| HostEvent::BudgetRenewed { place });
            }
            Event::StreamOpened {
                session,
                stream,
                spec,
            } => self.stream_opened(session, stream, spec),
            Event::Readable { session, stream } => {
                self.stream(session, stream, |entry| entry.reading.wake());
            }
            Event::Writable { session, stream } => {
                self.stream(session, stream, |entry| entry.writing.wake());
            }
            Event::Stream {
                session,
                stream,
                event,
            } => self.stream(session, stream, |entry| entry.push_event(event)),
            Event::Promise {
                session,
                stream,
                event,
            } => self.promise_event(session, stream, event),
            Event::Finished { session, stream } => self.stream(session, stream, |entry| {
                entry.is_finished = true;
                entry.reading.wake();
            }),
            Event::Remainder {
                session,
                stream,
                adus,
                is_end,
            } => self.stream(session, stream, |entry| {
                entry.remainder = adus.into();
                entry.is_finished |= is_end;
                entry.reading.wake();
            }),
            Event::Delivered { session, stream } => self.stream(session, stream, |entry| {
                entry.is_delivered = true;
                entry.delivering.wake();
            }),
            Event::Reset {
                session,
                stream,
                code,
            } => self.stream(session, stream, |entry| {
                entry.reset = Some(code);
                entry.wake_all();
            }),
            Event::Stopped {
                session,
                stream,
                code,
            } => self.stream(session, stream, |entry| {
                entry.stopped = Some(code);
                entry.wake_all();
            }),
            _ => tracing::debug!("unknown event of the engine"),
        }
    }

    fn connected(&mut self, now: Instant, session: SessionId, peer: NodeId, incoming: bool) {
        if !incoming {
            if let Some(entry) = self.sessions.get_mut(&session) {
                entry.is_connected = true;
                entry.changing.wake();
            }
            return;
        }
        if self.is_closing || self.incoming.len() >= INCOMING_SESSIONS_MAX {
            if let Ok(session) = self.engine.session(session) {
                session.close(now, CODE_BUSY, "too many sessions wait to be accepted");
            }
            return;
        }
        let mut entry = SessionEntry::new(peer, Vec::new());
        entry.is_connected = true;
        self.sessions.insert(session, entry);
        self.incoming.push_back(session);
        self.accepting.wake();
    }

    fn stranger(&self, peer: NodeId, socket: SocketId, remote: SocketAddr) {
        // Where translators are on the way, a node that is called sends to the caller so that its answers are let in.
        let is_called = |entry: &SessionEntry| entry.peer == peer && !entry.remotes.is_empty();
        if self.sessions.values().any(is_called) {
            tracing::debug!(node = %peer, from = %remote, "a node that is called may not call");
            return;
        }
        let mut sockets = self.sockets.iter();
        let entry = sockets.find(|entry| entry.id == socket);
        let place = |entry: &SocketEntry| {
            let name = entry.interface.clone();
            name.unwrap_or_else(|| entry.local.to_string())
        };
        let local = entry.map(place).unwrap_or_default();
        crate::limited!(warn, node = %peer, from = %remote, on = %local, "refused: this node does not list it");
    }

    fn closed(&mut self, session: SessionId, reason: SessionCloseReason) {
        let never_accepted = self.incoming.iter().position(|&waiting| waiting == session);
        // What has arrived in one was acknowledged, and can still be accepted and read.
        let has_streams = |entry: &SessionEntry| !entry.incoming.is_empty();
        let is_kept = !self.is_closing && self.sessions.get(&session).is_some_and(has_streams);
        if let Some(index) = never_accepted.filter(|_| !is_kept) {
            self.incoming.remove(index);
            self.sessions.remove(&session);
            return;
        }
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.closed = Some(reason);
            entry.wake_all();
            if entry.is_released {
                self.sessions.remove(&session);
            }
        }
    }

    fn stream_opened(&mut self, session: SessionId, stream: StreamId, spec: StreamSpec) {
        let Some(entry) = self.sessions.get_mut(&session) else {
            return;
        };
        if entry.incoming.len() >= INCOMING_STREAMS_MAX {
            // It may be over already; then there is nothing to stop. Its other direction will never be used at this node.
            let _ = self
                .engine
                .session(session)
                .and_then(|session| session.stream(stream).stop(CODE_BUSY));
            if spec.duplex {
                let _ = self
                    .engine
                    .session(session)
                    .and_then(|session| session.stream(stream).reset(CODE_BUSY));
            }
            return;
        }
        entry.streams.insert(stream, StreamEntry::default());
        entry.incoming.push_back((stream, spec));
        entry.accepting.wake();
    }

    fn session_event(&mut self, session: SessionId, event: SessionEvent) {
        match &event {
            SessionEvent::ObjectiveFault { objective, faults } => {
                crate::limited!(warn, %session, objective = objective.0, %faults, "an objective has faults");
            }
            SessionEvent::ObjectiveRefused {
                stream, refusal, ..
            } => {
                crate::limited!(warn, %session, %stream, %refusal, "an objective's rate is not promised");
            }
            _ => {}
        }
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.push_event(event);
        }
    }

    pub(crate) fn host_event(&mut self, event: HostEvent) {
        match event {
            HostEvent::BudgetRenewed { .. } => tracing::info!("{event}"),
            _ => tracing::warn!("{event}"),
        }
        if self.events.len() >= HOST_EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.observing.wake();
    }

    fn promise_event(&mut self, session: SessionId, stream: StreamId, event: PromiseEvent) {
        self.stream(session, stream, |entry| {
            if let PromiseEvent::Closed(refusal) = &event {
                entry.is_send_finished = true;
                entry.closed_for = Some(Box::new(refusal.clone()));
                entry.writing.wake();
            }
            entry.push_promise(event);
        });
    }

    fn stream(
        &mut self,
        session: SessionId,
        stream: StreamId,
        change: impl FnOnce(&mut StreamEntry),
    ) {
        let session = self.sessions.get_mut(&session);
        if let Some(entry) = session.and_then(|entry| entry.streams.get_mut(&stream)) {
            change(entry);
        }
    }
}
