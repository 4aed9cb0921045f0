//! Viewer: subscribes at a processing node, and after the node's death at the next one of its list, from the first ADU that it lacks.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_process::{
    Pipeline, Step,
    operators::delta::Decoder,
    serve::{Position, Progress},
};
use anabranch_processing::wire::{
    CODE_UNUSED, Carried, Item, Label, Notice, Purpose, Request, decode, encode, is_message,
    label::chosen,
    message::{Demand, Subscribe, WAIT_OF_SEVERAL_MS},
};
use anabranch_session::{Event, Link, Priority, StreamSpec};
use anabranch_sim::{App, Context};

use super::{
    changing::{Change, Changing},
    molecule::checksum,
    peer::Peer,
    source::LIFETIME,
    viewers::name,
};

/// Time between two messages of what is held.
const HELD_TIME: Duration = Duration::from_millis(50);
/// Run of a viewer.
const RUN: u64 = 2;

/// A derived ADU that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Number of its frame.
    pub(super) frame: u64,
    /// Time at which it could be read.
    pub(super) at: Instant,
    /// Checksum of its body, without differences.
    pub(super) sum: u64,
}

/// Subscription to a stream.
#[derive(Debug)]
pub(super) struct Wanted {
    stream: usize,
    pipeline: Pipeline,
    demand: Option<Demand>,
    is_reliable: bool,
    progress: Progress,
    control: Option<StreamId>,
    adus: Option<StreamId>,
    /// Number in the label of that stream.
    opened: u64,
    /// The service has answered.
    has_begun: bool,
    decoder: Option<Decoder>,
    told: Option<u64>,
    retry_at: Option<Instant>,
    changing: Option<Changing>,
    /// ADUs that arrived for the first time.
    pub(super) arrived: Vec<Arrived>,
    /// ADUs that came again, and were left out.
    pub(super) again: u64,
    /// Reason for which it is over; empty while it is not.
    pub(super) refused: String,
}

/// The viewer.
pub(super) struct Viewer {
    peers: Vec<Peer>,
    current: usize,
    wanted: Vec<Wanted>,
    held_at: Instant,
    /// Time between two tries.
    retry: Duration,
    /// Time at which the processing node was found to be dead.
    pub(super) declared: Option<Instant>,
}

impl Wanted {
    pub(super) fn new(
        stream: usize,
        pipeline: Pipeline,
        demand: Option<Demand>,
        is_reliable: bool,
    ) -> Self {
        Self {
            stream,
            pipeline,
            demand,
            is_reliable,
            progress: Progress::default(),
            control: None,
            adus: None,
            opened: chosen(0),
            has_begun: false,
            decoder: None,
            told: None,
            retry_at: None,
            changing: None,
            arrived: Vec::new(),
            again: 0,
            refused: String::new(),
        }
    }

    /// Its pipeline changes.
    pub(super) fn changing(self, changing: Changing) -> Self {
        Self {
            changing: Some(changing),
            ..self
        }
    }

    /// Changes of its pipeline.
    pub(super) fn changes(&self) -> &[Change] {
        self.changing.as_ref().map_or(&[], |own| &own.changes)
    }

    fn label(&self, number: u64) -> String {
        let label = Label {
            purpose: Purpose::Subscribe,
            name: name(self.stream).to_owned(),
            number,
        };
        label.to_string()
    }

    fn subscribe(&mut self, context: &mut Context<'_>, session: SessionId) {
        let spec = StreamSpec {
            priority: Priority::URGENT,
            duplex: true,
            label: self.label(0),
            ..StreamSpec::default()
        };
        let Ok(control) = context.open(session, spec) else {
            return;
        };
        self.control = Some(control);
        self.has_begun = false;
        self.retry_at = None;
        self.opened += 1;
        let position = self.progress.position().filter(|_| self.is_reliable);
        let request = Subscribe {
            run: RUN,
            source: None,
            pipeline: self.pipeline.to_string(),
            is_reliable: self.is_reliable,
            change: 0,
            of: self.progress.run().filter(|_| position.is_some()),
            position: position.cloned().map(Into::into),
            demand: self.demand,
            wait_ms: WAIT_OF_SEVERAL_MS,
            opens: Some(self.opened),
        };
        // An error means that the session is over.
        let _ = context.send(session, control, encode(&Request::Subscribe(request)));
        self.adus = self.open_adus(context, session, self.opened);
    }

    /// Opens the stream for ADUs with this number.
    fn open_adus(
        &self,
        context: &mut Context<'_>,
        session: SessionId,
        number: u64,
    ) -> Option<StreamId> {
        let spec = StreamSpec {
            duplex: true,
            lifetime: (!self.is_reliable).then_some(LIFETIME),
            label: self.label(number),
            ..StreamSpec::default()
        };
        let adus = context.open(session, spec).ok()?;
        let mark = Item::Mark(Position::default().into()).to_bytes();
        let _ = context.send(session, adus, mark);
        Some(adus)
    }

    /// Gives up the stream for ADUs, which the service does not use.
    fn close_adus(&mut self, context: &mut Context<'_>, session: SessionId) {
        if let Some(adus) = self.adus.take() {
            // An error means that the session is over.
            let _ = (context.engine().session(session))
                .map(|session| session.stream(adus).reset(CODE_UNUSED));
        }
    }

    fn notice(
        &mut self,
        context: &mut Context<'_>,
        session: SessionId,
        notice: Notice,
        retry: Duration,
    ) {
        match notice {
            Notice::Subscribed {
                stream,
                run,
                position,
                ..
            } if !self.has_begun => {
                self.progress.begun(run, position.into());
                self.has_begun = true;
                if stream != self.opened {
                    self.close_adus(context, session);
                    self.adus = self.open_adus(context, session, stream);
                }
                self.decoder = match self.pipeline.steps().last() {
                    Some(Step::Delta { element, .. }) => Some(Decoder::new(*element)),
                    _ => None,
                };
            }
            Notice::Refused { may_retry, why, .. } => {
                self.control = None;
                self.close_adus(context, session);
                if may_retry {
                    self.retry_at = Some(context.now() + retry);
                } else {
                    self.refused = why;
                }
            }
            _ => {}
        }
    }

    fn item(&mut self, item: Item, at: Instant) {
        match item {
            Item::Mark(position) => self.progress.marked(position.into()),
            Item::Adu(carried) => self.adu(carried, at),
        }
    }

    fn adu(&mut self, carried: Carried, at: Instant) {
        let Carried {
            adu,
            change,
            is_last,
        } = carried;
        if let Some(changing) = &mut self.changing {
            changing.came(change, at);
        }
        let body = match &mut self.decoder {
            Some(decoder) => decoder.decode(adu.body).ok(),
            None => Some(adu.body),
        };
        if !self.progress.arrived(adu.sequence) {
            self.again += 1;
        } else if let Some(body) = body {
            self.arrived.push(Arrived {
                frame: adu.sequence,
                at,
                sum: checksum(&body),
            });
        }
        self.progress.taken(is_last);
    }
}

impl Viewer {
    /// A viewer that wants these.
    pub(super) fn new(wanted: Vec<Wanted>) -> Self {
        Self {
            peers: Vec::new(),
            current: 0,
            wanted,
            held_at: Instant::EPOCH,
            retry: Duration::ZERO,
            declared: None,
        }
    }

    /// Nodes to subscribe at, in order. `round_trip` is the time between two tries, and `patience` the silence after which a node is dead.
    pub(super) fn dial(
        &mut self,
        peers: Vec<(NodeId, Vec<Link>)>,
        (round_trip, patience): (Duration, Duration),
    ) {
        self.retry = round_trip / 2;
        self.peers = Peer::all(peers, patience);
    }

    /// Streams that it wants, by number.
    pub(super) fn wanted(&self) -> BTreeMap<usize, &Wanted> {
        let all = self.wanted.iter();
        all.map(|wanted| (wanted.stream, wanted)).collect()
    }

    fn session(&self) -> Option<SessionId> {
        let peer = self.peers.get(self.current)?;
        peer.session.filter(|_| peer.is_connected)
    }

    fn read(&mut self, context: &mut Context<'_>, session: SessionId, id: StreamId) {
        if Some(session) != self.session() {
            return;
        }
        let retry = self.retry;
        for wanted in &mut self.wanted {
            if wanted.control == Some(id) {
                while let Some(adu) = context.receive(session, id) {
                    if let Ok(notice) = decode::<Notice>(&adu.data) {
                        wanted.notice(context, session, notice, retry);
                    }
                }
            } else if wanted.adus != Some(id) {
                continue;
            }
            // The answer comes on both streams, on this one before all ADUs, which are not reordered.
            while let Some(adus) = wanted.adus
                && let Some(adu) = context.receive(session, adus)
            {
                if is_message(&adu.data) {
                    if let Ok(notice) = decode::<Notice>(&adu.data) {
                        wanted.notice(context, session, notice, retry);
                    }
                } else if let Ok(item) = Item::read(adu.data) {
                    wanted.item(item, context.now());
                }
            }
        }
    }

    fn look(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let is_dead = self.peers.get(self.current);
        let is_dead = is_dead.is_some_and(|peer| peer.watch.is_dead(now));
        if is_dead && self.current + 1 < self.peers.len() {
            self.declared = Some(now);
            self.current += 1;
            for wanted in &mut self.wanted {
                wanted.control = None;
                wanted.adus = None;
                wanted.has_begun = false;
                wanted.told = None;
            }
        }
        let Some(session) = self.session() else {
            return;
        };
        for wanted in &mut self.wanted {
            let is_over = !wanted.refused.is_empty();
            let is_due = wanted.retry_at.is_none_or(|at| at <= now);
            if wanted.control.is_none() && is_due && !is_over {
                wanted.subscribe(context, session);
            }
        }
        for wanted in &mut self.wanted {
            if let Some(control) = wanted.control.filter(|_| wanted.has_begun)
                && let Some(changing) = &mut wanted.changing
                && let Some(request) = changing.request(now)
            {
                let _ = context.send(session, control, encode(&request));
            }
        }
        if now < self.held_at + HELD_TIME {
            return;
        }
        self.held_at = now;
        for wanted in self.wanted.iter_mut().filter(|one| one.is_reliable) {
            let held = wanted.progress.held();
            if let (Some(control), Some(next)) = (wanted.control, held)
                && wanted.has_begun
                && wanted.told != held
            {
                wanted.told = held;
                let _ = context.send(session, control, encode(&Request::Held { next }));
            }
        }
    }
}

impl App for Viewer {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match &event {
            Event::Connected { session, .. } => {
                let own = self.peers.iter_mut();
                for peer in own.filter(|peer| peer.session == Some(*session)) {
                    peer.is_connected = true;
                }
            }
            Event::Session { session, event } => {
                let now = context.now();
                let own = self.peers.iter_mut();
                for peer in own.filter(|peer| peer.session == Some(*session)) {
                    peer.watch.note(event, now);
                }
            }
            Event::Readable { session, stream } => self.read(context, *session, *stream),
            _ => {}
        }
        self.look(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        Peer::call(&mut self.peers, context);
        self.look(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        if self.peers.iter().any(|peer| peer.session.is_none()) {
            return Some(Instant::EPOCH);
        }
        let retry = self.wanted.iter().filter_map(|wanted| wanted.retry_at);
        let watched = self.peers.get(self.current);
        let watched = watched.filter(|_| self.current + 1 < self.peers.len());
        let dead = watched.and_then(|peer| peer.watch.dead_at());
        let held = Some(self.held_at + HELD_TIME).filter(|_| self.session().is_some());
        let changes = self.wanted.iter().filter_map(|wanted| {
            let changing = wanted.changing.as_ref().filter(|_| wanted.has_begun);
            Some(changing?.due())
        });
        retry.chain(dead).chain(held).chain(changes).min()
    }
}
