//! Source: makes frames, offers three streams to a processing node, and after its death serves the subscribers itself, or offers the streams
//! to another node.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_process::serve::{Retained, Terms};
use anabranch_processing::wire::{
    Carried, Item, Label, Notice, Purpose, Request, decode, encode,
    label::chosen,
    message::{ANYONE, Offer, Pace},
};
use anabranch_session::{Event, Guarantee, Link, Priority, SendError, StreamSpec};
use anabranch_sim::{App, Context};

use super::{
    hub::Hub,
    molecule::Molecule,
    peer::Peer,
    viewers::{LEG_PROBABILITY, is_critical, name},
};
use crate::kit::sources::visualisation::PERIOD;

/// Time after which a bond out of view is of no use any more.
pub(super) const LIFETIME: Duration = Duration::from_secs(1);
/// Run of the source.
const RUN: u64 = 1;
/// Bytes of an ADU beside its body: header and one field.
pub(super) const OVERHEAD: u64 = 15 + 2 + 5 + 1 + 8;

/// Reaction to the death of the processing node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    /// The source serves the subscribers.
    Source,
    /// The source offers its streams to another node, the second of its peers.
    Node,
}

/// An offered stream.
struct Stream {
    number: usize,
    retained: Retained,
    readers: u32,
    /// ADUs before this one are not needed by the processing node.
    acknowledged: u64,
    control: Option<StreamId>,
    adus: Option<StreamId>,
    /// Number in the label of that stream.
    opened: u64,
}

/// The source.
pub(super) struct Source {
    own: NodeId,
    peers: Vec<Peer>,
    /// Peer to which the streams are offered; `None`: all were found to be dead.
    current: Option<usize>,
    fallback: Fallback,
    pace: Pace,
    /// True once this node serves subscribers itself: a subscriber has asked for it, or the processing node is dead.
    is_serving: bool,
    molecule: Molecule,
    streams: Vec<Stream>,
    begin: Instant,
    end: Instant,
    next: u64,
    pub(super) hub: Hub,
    /// Time at which the processing node was found to be dead.
    pub(super) declared: Option<Instant>,
}

impl Source {
    /// A source of some of the streams, for frames from `begin` to `end`.
    pub(super) fn new(
        own: NodeId,
        molecule: Molecule,
        streams: &[usize],
        (begin, end): (Instant, Instant),
        (fallback, pace): (Fallback, Pace),
    ) -> Self {
        let streams = streams.iter().map(|&number| Stream {
            number,
            retained: Retained::new(is_critical(number)),
            readers: 0,
            acknowledged: 0,
            control: None,
            adus: None,
            opened: chosen(0),
        });
        Self {
            own,
            peers: Vec::new(),
            current: Some(0),
            fallback,
            pace,
            is_serving: false,
            molecule,
            streams: streams.collect(),
            begin,
            end,
            next: 0,
            hub: Hub::default(),
            declared: None,
        }
    }

    /// Nodes to offer to, the first one at once. Without any, subscribers are served here.
    pub(super) fn dial(&mut self, peers: Vec<(NodeId, Vec<Link>)>, patience: Duration) {
        self.current = (!peers.is_empty()).then_some(0);
        self.peers = Peer::all(peers, patience);
    }

    /// Time at which a frame is made.
    pub(super) fn frame_at(&self, frame: u64) -> Instant {
        self.begin + PERIOD * u32::try_from(frame).unwrap_or(u32::MAX)
    }

    /// Session with the first processing node.
    pub(super) fn session(&self) -> Option<SessionId> {
        self.peers.first()?.session
    }

    /// Stream of ADUs to the processing node.
    pub(super) fn stream(&self, number: usize) -> Option<StreamId> {
        let mut streams = self.streams.iter();
        streams.find(|stream| stream.number == number)?.adus
    }

    fn current_session(&self) -> Option<SessionId> {
        let peer = self.peers.get(self.current?)?;
        peer.session.filter(|_| peer.is_connected)
    }

    fn offer(&mut self, context: &mut Context<'_>) {
        let Some(session) = self.current_session() else {
            return;
        };
        for stream in &mut self.streams {
            if stream.control.is_some() {
                continue;
            }
            let spec = StreamSpec {
                priority: Priority::URGENT,
                duplex: true,
                label: label(stream.number, 0),
                ..StreamSpec::default()
            };
            let Ok(control) = context.open(session, spec) else {
                continue;
            };
            stream.control = Some(control);
            let offer = Offer {
                run: RUN,
                subscribers: vec![ANYONE.to_owned()],
                is_reliable: is_critical(stream.number),
                pace: self.pace,
                first: stream.retained.first(),
                readers: stream.readers,
                confirms: false,
                opens: Some(stream.opened + 1),
            };
            stream.opened += 1;
            let first = offer.first;
            // An error means that the session is over.
            let _ = context.send(session, control, encode(&Request::Offer(offer)));
            // The node begins with the first ADU.
            if stream.retained.resume(first).is_ok() {
                stream.adus = open_adus(context, session, stream, &self.molecule);
            }
        }
    }

    fn read(&mut self, context: &mut Context<'_>, session: SessionId, id: StreamId) {
        if Some(session) != self.current_session() {
            return;
        }
        let of = |stream: &&mut Stream| stream.control == Some(id);
        let Some(stream) = self.streams.iter_mut().find(of) else {
            return;
        };
        while let Some(adu) = context.receive(session, id) {
            match decode::<Notice>(&adu.data) {
                Ok(Notice::Offered {
                    stream: number,
                    next,
                }) => {
                    let is_other = number != stream.opened;
                    if is_other || next > stream.retained.position() {
                        // An error would be a fault of the node, which the count of lost ADUs shows.
                        let _ = stream.retained.resume(next);
                    }
                    if is_other {
                        stream.opened = number;
                        stream.adus = open_adus(context, session, stream, &self.molecule);
                    }
                }
                Ok(Notice::Acknowledged { next, readers }) => {
                    stream.readers = readers;
                    stream.acknowledged = next;
                    if !self.is_serving {
                        stream.retained.acknowledge(next);
                    }
                }
                _ => {}
            }
        }
    }

    /// Makes the frames that are due. The source waits, as `anabranch process offer` does, while too much is kept.
    fn make(&mut self, context: &mut Context<'_>) {
        let has_space = |streams: &[Stream]| streams.iter().all(|one| one.retained.has_space());
        while self.frame_at(self.next) <= context.now()
            && self.frame_at(self.next) < self.end
            && has_space(&self.streams)
        {
            let frame = self.next;
            self.next += 1;
            for stream in &mut self.streams {
                let (fields, body) = self.molecule.part(stream.number, frame);
                stream.retained.push(fields, body, None);
            }
        }
    }

    fn send(&mut self, context: &mut Context<'_>) {
        if self.is_serving {
            self.serve(context);
        }
        let Some(session) = self.current_session() else {
            return;
        };
        for stream in &mut self.streams {
            let Some(id) = stream.adus else { continue };
            while let Some(adu) = stream.retained.to_send().cloned() {
                let next = adu.sequence + 1;
                let carried = Carried {
                    adu,
                    change: 0,
                    is_last: true,
                };
                if let Err(SendError::Full(_)) = context.send(session, id, carried.to_bytes()) {
                    break;
                }
                stream.retained.sent(next);
            }
        }
    }

    /// Gives what was made to the service of this node. What either service may still need is kept.
    fn serve(&mut self, context: &mut Context<'_>) {
        for stream in &mut self.streams {
            let name = name(stream.number);
            while let Some(offered) = self.hub.offered(name)
                && offered.has_room()
                && let Some(adu) = stream.retained.get(offered.next()).cloned()
            {
                self.hub.push_own(context, name, adu);
            }
            let Some(offered) = self.hub.offered(name) else {
                continue;
            };
            let own = offered.acknowledged().0;
            if self.current.is_some() {
                stream.retained.acknowledge(own.min(stream.acknowledged));
            } else {
                stream.retained.sent(offered.next());
                stream.retained.acknowledge(own);
            }
        }
    }

    /// Begins to serve subscribers, from the first ADU that is kept.
    fn begin_serving(&mut self, now: Instant) {
        if self.is_serving {
            return;
        }
        self.is_serving = true;
        for stream in &self.streams {
            let terms = Terms {
                run: RUN,
                is_reliable: is_critical(stream.number),
                is_live: self.pace == Pace::Live,
                first: stream.retained.first(),
                readers: stream.readers,
            };
            self.hub
                .offer_own(name(stream.number), self.own, terms, now);
        }
    }

    fn look(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let is_dead = self
            .peers
            .first()
            .is_some_and(|peer| peer.watch.is_dead(now));
        if self.current != Some(0) || !is_dead {
            return;
        }
        self.declared = Some(now);
        for stream in &mut self.streams {
            stream.control = None;
            stream.adus = None;
        }
        match self.fallback {
            Fallback::Node => self.current = Some(1),
            Fallback::Source => {
                self.current = None;
                self.begin_serving(now);
            }
        }
        self.offer(context);
    }
}

fn label(number: usize, stream: u64) -> String {
    let name = name(number).to_owned();
    let label = Label {
        purpose: Purpose::Offer,
        name,
        number: stream,
    };
    label.to_string()
}

/// Opens the stream of ADUs to the processing node.
fn open_adus(
    context: &mut Context<'_>,
    session: SessionId,
    stream: &Stream,
    molecule: &Molecule,
) -> Option<StreamId> {
    let spec = spec(stream.number, stream.opened, molecule);
    let adus = context.open(session, spec).ok()?;
    let mark = anabranch_process::serve::Position::default();
    // An error means that the session is over.
    let _ = context.send(session, adus, Item::Mark(mark.into()).to_bytes());
    Some(adus)
}

/// Specification of it.
fn spec(number: usize, stream: u64, molecule: &Molecule) -> StreamSpec {
    let rate = molecule.rate(number, &anabranch_process::Pipeline::default(), OVERHEAD);
    let is_critical = is_critical(number);
    StreamSpec {
        lifetime: (!is_critical).then_some(LIFETIME),
        guarantee: is_critical.then(|| Box::new(Guarantee::rate(rate, LEG_PROBABILITY).waiting())),
        label: label(number, stream),
        ..StreamSpec::default()
    }
}

impl App for Source {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match &event {
            Event::Connected { session, .. } => {
                let own = self.peers.iter_mut();
                for peer in own.filter(|peer| peer.session == Some(*session)) {
                    peer.is_connected = true;
                }
                self.offer(context);
            }
            Event::Session { session, event } => {
                let now = context.now();
                let own = self.peers.iter_mut();
                for peer in own.filter(|peer| peer.session == Some(*session)) {
                    peer.watch.note(event, now);
                }
            }
            Event::Readable { session, stream } => self.read(context, *session, *stream),
            // A subscriber may find out before this node does.
            Event::StreamOpened { .. } if self.fallback == Fallback::Source => {
                self.begin_serving(context.now());
            }
            _ => {}
        }
        self.hub.event(context, &event);
        self.look(context);
        self.make(context);
        self.send(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        Peer::call(&mut self.peers, context);
        self.look(context);
        self.make(context);
        self.send(context);
        self.hub.look(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        if self.peers.iter().any(|peer| peer.session.is_none()) {
            return Some(Instant::EPOCH);
        }
        let frame = Some(self.frame_at(self.next)).filter(|at| *at < self.end);
        let watched = self.peers.first().filter(|_| self.current == Some(0));
        let dead = watched.and_then(|peer| peer.watch.dead_at());
        [frame, dead, self.hub.next_look()]
            .into_iter()
            .flatten()
            .min()
    }
}
