//! The two ends of a run.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_session::{Event, Link, SendError};
use anabranch_sim::{App, Context};
use bytes::Bytes;

use crate::kit::sources::{Frame, Offer, Source, share_sum};

/// Frames of a stream that wait in the application, 10 s of 25 frames a second; any more are dropped.
pub const BACKLOG_FRAMES: usize = 250;
/// ADU size of the stream that probes the capacity of the paths if the source has no elastic stream of its own.
const SCOUT_BYTES: usize = 16 << 10;
/// Label of that stream.
pub const SCOUT: &str = "scout";

/// Start times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// First frame; elastic streams open.
    pub begin: Instant,
    /// Critical streams open: by now the capacity of the paths is known.
    pub critical: Instant,
}

/// One stream, from the view of its application.
#[derive(Debug)]
pub struct Feed {
    /// Demand for it.
    pub offer: Offer,
    stream: Option<StreamId>,
    waiting: VecDeque<(u64, Bytes)>,
    /// Frame of every accepted ADU, in order of their sequence numbers.
    pub accepted: Vec<u64>,
    /// Size of every frame produced, from the first on; 0 if the stream had no data.
    pub made_bytes: Vec<u32>,
    /// Frames produced while the stream was open that were not offered: of an elastic stream whose buffer was full, or of a
    /// critical one that has [`BACKLOG_FRAMES`] waiting.
    pub skipped: u64,
}

/// Offers the frames of a source at their times, whatever their outcomes.
///
/// A critical stream's frames wait in order until the session accepts them. An elastic stream offers a frame if the session's
/// buffer accepts it, and leaves it out otherwise, unless its source keeps all ([`Source::keeps_elastic`]).
pub struct Feeder {
    peer: NodeId,
    links: Vec<Link>,
    schedule: Schedule,
    source: Box<dyn Source>,
    next: Frame,
    session: Option<SessionId>,
    is_connected: bool,
    scout: Option<StreamId>,
    is_scout_over: bool,
    /// Streams, in the order of the source's offers.
    pub feeds: Vec<Feed>,
}

impl Feeder {
    /// A feeder that dials `peer` when it is first woken.
    pub fn new(peer: NodeId, source: Box<dyn Source>, schedule: Schedule) -> Self {
        let mut source = source;
        let next = source.next_frame();
        let feeds = source.offers().iter().cloned().map(|offer| Feed {
            offer,
            stream: None,
            waiting: VecDeque::new(),
            accepted: Vec::new(),
            made_bytes: Vec::new(),
            skipped: 0,
        });
        Self {
            peer,
            links: Vec::new(),
            schedule,
            feeds: feeds.collect(),
            next,
            source,
            session: None,
            is_connected: false,
            scout: None,
            is_scout_over: false,
        }
    }

    /// Sets the links to dial over.
    pub fn dial(&mut self, links: Vec<Link>) {
        self.links = links;
    }

    /// Its session.
    pub fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Its session and, for each stream in order, the id there.
    pub fn ids(&self) -> Vec<(Option<SessionId>, Option<StreamId>)> {
        let streams = self.feeds.iter();
        streams.map(|feed| (self.session, feed.stream)).collect()
    }

    /// Time at which frame `number` is offered.
    pub fn frame_at(&self, number: u64) -> Instant {
        let nanos = self.source.period().as_nanos() as u64;
        self.schedule.begin + Duration::from_nanos(nanos.saturating_mul(number))
    }

    fn pump(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let Some(session) = self.session.filter(|_| self.is_connected) else {
            return;
        };
        self.open(context, session);
        while self.schedule.begin + self.next.at <= now {
            let frame = std::mem::replace(&mut self.next, self.source.next_frame());
            self.take(context, session, frame);
        }
        for feed in &mut self.feeds {
            feed.flush(context, session);
        }
        self.scout(context, session);
    }

    fn open(&mut self, context: &mut Context<'_>, session: SessionId) {
        let now = context.now();
        let sum = share_sum(self.source.offers());
        for feed in &mut self.feeds {
            let at = if feed.offer.is_critical() {
                self.schedule.critical
            } else {
                self.schedule.begin
            };
            if feed.stream.is_none() && at <= now {
                feed.stream = context.open(session, feed.offer.spec(sum)).ok();
            }
        }
    }

    fn take(&mut self, context: &mut Context<'_>, session: SessionId, frame: Frame) {
        let keeps_elastic = self.source.keeps_elastic();
        for feed in &mut self.feeds {
            feed.made_bytes.push(0);
        }
        for (index, data) in frame.parts {
            let feed = &mut self.feeds[index];
            if let Some(made) = feed.made_bytes.last_mut() {
                *made = data.len() as u32;
            }
            let Some(stream) = feed.stream else { continue };
            let space = context
                .engine()
                .session(session)
                .map_or(0, |session| session.stream(stream).send_capacity());
            let is_welcome = if keeps_elastic || feed.offer.is_critical() {
                feed.waiting.len() < BACKLOG_FRAMES
            } else {
                space >= data.len()
            };
            if is_welcome {
                feed.waiting.push_back((frame.number, data));
            } else {
                feed.skipped += 1;
            }
        }
    }

    /// Fills the paths until the critical streams open, if nothing else does.
    fn scout(&mut self, context: &mut Context<'_>, session: SessionId) {
        let is_needed = self.feeds.iter().all(|feed| feed.offer.is_critical());
        if !is_needed || self.is_scout_over {
            return;
        }
        if context.now() >= self.schedule.critical {
            if let Some(stream) = self.scout.take() {
                let _ = context
                    .engine()
                    .session(session)
                    .and_then(|session| session.stream(stream).reset(0));
            }
            self.is_scout_over = true;
            return;
        }
        if self.scout.is_none() {
            let spec = anabranch_session::StreamSpec::bulk(SCOUT);
            self.scout = context.open(session, spec).ok();
        }
        let piece = Bytes::from_static(&[0x5c; SCOUT_BYTES]);
        while let Some(stream) = self.scout
            && context
                .engine()
                .session(session)
                .map_or(0, |session| session.stream(stream).send_capacity())
                >= SCOUT_BYTES
            && context.send(session, stream, piece.clone()).is_ok()
        {}
    }
}

impl Feed {
    fn flush(&mut self, context: &mut Context<'_>, session: SessionId) {
        let Some(stream) = self.stream else { return };
        while let Some((frame, data)) = self.waiting.pop_front() {
            match context.send(session, stream, data) {
                Ok(_) => self.accepted.push(frame),
                Err(SendError::Full(data)) => {
                    self.waiting.push_front((frame, data));
                    return;
                }
                Err(_) => self.skipped += 1,
            }
        }
    }
}

impl App for Feeder {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        if let Event::Connected { session, .. } = event
            && Some(session) == self.session
        {
            self.is_connected = true;
        }
        self.pump(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        if self.session.is_none() && !self.links.is_empty() {
            self.session = Some(context.connect(self.peer, self.links.clone()));
        }
        self.pump(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        if self.session.is_none() {
            return (!self.links.is_empty()).then_some(Instant::EPOCH);
        }
        if !self.is_connected {
            return None;
        }
        Some(self.schedule.begin + self.next.at)
    }
}

/// An ADU that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time at which it could be read.
    pub at: Instant,
    /// Its number in the stream.
    pub sequence: u64,
    /// Its size.
    pub bytes: u32,
}

/// Reads all data at once and records its arrival.
#[derive(Debug, Default)]
pub struct Collector {
    labels: BTreeMap<(SessionId, StreamId), String>,
    /// Arrivals, by label.
    pub arrivals: BTreeMap<String, Vec<Arrival>>,
    /// Its session.
    pub session: Option<SessionId>,
}

impl App for Collector {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } => self.session = Some(session),
            Event::StreamOpened {
                session,
                stream,
                spec,
            } => {
                self.labels.insert((session, stream), spec.label);
            }
            Event::Readable { session, stream } => {
                let Some(label) = self.labels.get(&(session, stream)) else {
                    return;
                };
                let arrivals = self.arrivals.entry(label.clone()).or_default();
                while let Some(adu) = context.receive(session, stream) {
                    arrivals.push(Arrival {
                        at: context.now(),
                        sequence: adu.sequence,
                        bytes: adu.data.len() as u32,
                    });
                }
            }
            _ => {}
        }
    }
}
