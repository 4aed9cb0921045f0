//! Application of a storm: sends its loads, reads its streams, and records both in the [`Ledger`].

mod meddling;
mod promises;
mod receiving;
mod sending;
mod watch;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_session::{Event, Link, StreamEvent};

use self::{promises::Promises, sending::Outgoing, watch::Watch};
use super::{
    ledger::{AduOutcome, Closed, Flow, Ledger},
    plan::Plan,
    tamper::Tampering,
};
use crate::app::{App, Context};

/// Interval between checks of what the engine holds.
const TICK: Duration = Duration::from_millis(25);
/// Delay before a session that was forgotten is dialled again.
const REDIAL: Duration = Duration::from_millis(200);

/// State that both nodes of a storm and its checks share.
#[derive(Clone)]
pub(super) struct Shared {
    pub plan: Rc<Plan>,
    pub ledger: Rc<RefCell<Ledger>>,
}

/// One of the two nodes.
pub(super) struct Actor {
    side: usize,
    peer: NodeId,
    shared: Shared,
    /// Links by which the initiator reaches the peer; empty at the responder.
    links: Vec<Link>,
    dial_at: Option<Instant>,
    session: Option<SessionId>,
    life: u32,
    outgoing: Vec<Outgoing>,
    /// Incoming flows, by stream.
    incoming: BTreeMap<StreamId, Flow>,
    /// Streams with data while the application pauses reading.
    unread: BTreeSet<StreamId>,
    is_paused: bool,
    watch: Watch,
    promises: Promises,
    tick_at: Instant,
    pub tampering: Tampering,
}

impl Actor {
    pub(super) fn new(side: usize, peer: NodeId, shared: Shared, tampering: Tampering) -> Self {
        Self {
            side,
            peer,
            shared,
            links: Vec::new(),
            dial_at: None,
            session: None,
            life: 0,
            outgoing: Vec::new(),
            incoming: BTreeMap::new(),
            unread: BTreeSet::new(),
            is_paused: false,
            watch: Watch::default(),
            promises: Promises::default(),
            tick_at: Instant::EPOCH,
            tampering,
        }
    }

    /// Opens the session at `at`, over `links`, and again whenever the peer has forgotten it.
    pub(super) fn dial(&mut self, at: Instant, links: Vec<Link>) {
        self.links = links;
        self.dial_at = Some(at);
    }

    /// Its session.
    pub(super) fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Life of its session, or of its last one.
    pub(super) fn life(&self) -> u32 {
        self.life
    }

    /// The other node.
    pub(super) fn peer(&self) -> NodeId {
        self.peer
    }

    /// True if everything it had to send has ended, and everything that arrived was read.
    pub(super) fn is_done(&self) -> bool {
        self.session.is_some()
            && !self.outgoing.is_empty() | self.shared.plan.loads[self.side].is_empty()
            && self.outgoing.iter().all(Outgoing::is_over)
            && self.unread.is_empty()
    }

    /// Starts a session, and its flows.
    fn adopt(&mut self, now: Instant, session: SessionId) {
        self.abandon();
        self.life = self.shared.ledger.borrow_mut().new_life();
        self.session = Some(session);
        self.watch = Watch::default();
        self.promises = Promises::default();
        let loads = &self.shared.plan.loads[self.side];
        self.outgoing = loads
            .iter()
            .enumerate()
            .map(|(load, shape)| {
                let flow = Flow {
                    life: self.life,
                    side: self.side,
                    load,
                    is_back: false,
                };
                Outgoing::new(flow, shape, now)
            })
            .collect();
    }

    /// Ends all flows of the session. Data on streams of a peer that establishes the session again is sent again, and
    /// answered again.
    fn abandon(&mut self) {
        let mut ledger = self.shared.ledger.borrow_mut();
        ledger.end(self.life);
        for flow in self.incoming.values() {
            ledger.begin_anew(*flow);
        }
        drop(ledger);
        self.outgoing.clear();
        self.incoming.clear();
        self.unread.clear();
        self.session = None;
    }

    fn on_connected(&mut self, context: &mut Context<'_>, session: SessionId) {
        self.shared.ledger.borrow_mut().sessions[self.side].push(session);
        let now = context.now();
        match self.session {
            Some(current) if current == session => {}
            // The peer was restarted, or establishes the session again.
            Some(before) => {
                if self.shared.plan.restart_at().is_some()
                    && let Ok(before) = context.engine().session(before)
                {
                    before.close(now, 1, "a newer one");
                }
                self.adopt(now, session);
            }
            None => self.adopt(now, session),
        }
    }

    fn on_closed(
        &mut self,
        now: Instant,
        session: SessionId,
        reason: anabranch_session::SessionCloseReason,
    ) {
        self.shared.ledger.borrow_mut().closed.push(Closed {
            side: self.side,
            at: now,
            reason,
        });
        if self.session == Some(session) {
            self.abandon();
            if !self.links.is_empty() && self.shared.plan.restart_at().is_some() {
                self.dial_at = Some(now + REDIAL);
            }
        }
    }

    /// Handles an event of the session between the two nodes.
    fn on_own_event(&mut self, context: &mut Context<'_>, event: Event) {
        let now = context.now();
        match event {
            Event::StreamOpened { stream, spec, .. } => self.on_opened(stream, &spec),
            Event::Readable { stream, .. } => self.on_readable(context, stream),
            Event::Remainder { stream, adus, .. } => {
                for adu in adus {
                    self.take(context, stream, adu, None);
                }
            }
            Event::Finished { stream, .. } => self.on_finished(stream),
            Event::Reset { stream, code, .. } => self.on_reset(stream, code),
            Event::Writable { stream, .. } => self.on_writable(stream),
            Event::Delivered { stream, .. } => self.on_delivered(stream),
            Event::Stopped { stream, code, .. } => self.on_stopped(stream, code),
            Event::Promise { stream, event, .. } => self.promises.on_event(stream, &event),
            Event::Stream {
                stream,
                event: StreamEvent::Acked { adu, .. },
                ..
            } => {
                self.on_outcome(now, stream, adu, AduOutcome::Acked);
            }
            Event::Stream {
                stream,
                event: StreamEvent::Lost { adu, arrived, lost },
                ..
            } => self.on_outcome(now, stream, adu, AduOutcome::Lost { arrived, lost }),
            Event::Stream {
                stream,
                event: StreamEvent::Expired { adu },
                ..
            } => {
                self.on_outcome(now, stream, adu, AduOutcome::Expired);
            }
            Event::Stream {
                stream,
                event: StreamEvent::Dropped { adu },
                ..
            } => {
                self.on_outcome(now, stream, adu, AduOutcome::Dropped);
            }
            _ => {}
        }
    }

    /// Reads the hostile peer's streams like any others.
    fn on_stranger(&mut self, context: &mut Context<'_>, event: &Event) {
        match event {
            Event::Connected { .. } => self.shared.ledger.borrow_mut().hostile_sessions += 1,
            Event::Readable { session, stream } => {
                while context.receive(*session, *stream).is_some() {}
            }
            Event::StreamOpened {
                session,
                stream,
                spec,
            } if spec.duplex => {
                let answer = bytes::Bytes::from_static(b"an answer");
                let _ = context.send(*session, *stream, answer);
            }
            _ => {}
        }
    }

    /// Begins and ends pauses.
    fn turn(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let pauses = &self.shared.plan.pauses[self.side];
        self.is_paused = pauses.iter().any(|(from, to)| (*from..*to).contains(&now));
        if !self.is_paused {
            for stream in std::mem::take(&mut self.unread) {
                self.read(context, stream, true);
            }
        }
    }

    fn has_time_passed(&self, now: Instant) -> bool {
        now >= self.tick_at
    }
}

/// Session of an event, if it has one.
fn session_of(event: &Event) -> Option<SessionId> {
    match event {
        Event::Connected { session, .. }
        | Event::Closed { session, .. }
        | Event::StreamOpened { session, .. }
        | Event::Readable { session, .. }
        | Event::Writable { session, .. }
        | Event::Stream { session, .. }
        | Event::Finished { session, .. }
        | Event::Remainder { session, .. }
        | Event::Delivered { session, .. }
        | Event::Promise { session, .. }
        | Event::Reset { session, .. }
        | Event::Stopped { session, .. } => Some(*session),
        _ => None,
    }
}

impl App for Actor {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        let Some(session) = session_of(&event) else {
            return;
        };
        let is_own = match &event {
            Event::Connected { peer, .. } => *peer == self.peer,
            _ => {
                self.shared.ledger.borrow().sessions[self.side].contains(&session)
                    || self.session == Some(session)
            }
        };
        if !is_own {
            self.on_stranger(context, &event);
            return;
        }
        match event {
            Event::Connected { .. } => self.on_connected(context, session),
            Event::Closed { reason, .. } => self.on_closed(context.now(), session, reason),
            event if self.session == Some(session) => {
                for event in self.tampering.of_event(event) {
                    self.on_own_event(context, event);
                }
            }
            _ => {}
        }
        self.pump(context);
        self.look(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        if self.dial_at.is_some_and(|at| at <= now) {
            self.dial_at = None;
            let session = context.connect(self.peer, self.links.clone());
            self.adopt(now, session);
        }
        self.turn(context);
        self.pump(context);
        self.look(context);
        if self.has_time_passed(now) {
            self.tick_at = now + TICK;
            self.look_closely(context);
            self.look_at_promises(context);
            self.meddle(context);
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let due = self.outgoing.iter().filter_map(Outgoing::due).min();
        let tick = (self.session.is_some() && !self.is_done()).then_some(self.tick_at);
        [self.dial_at, due, tick].into_iter().flatten().min()
    }
}
