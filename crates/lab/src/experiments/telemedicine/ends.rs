//! Ends of a simulated run.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_clinic::ambulance::{Question, Thinner};
use anabranch_session::{Event, Link, SessionEvent, objective::Faults};
use anabranch_sim::{App, Context};

use super::{
    OBJECTIVES,
    clinic::{Clinic, FEEDS, Feed, Side, VIDEO_FEED},
    figures::Arrival,
};

/// A side: sends its streams at their times, and records the arrivals of the other side's.
pub(super) struct End {
    side: Side,
    clinic: Arc<Clinic>,
    begin: Instant,
    is_repaired: bool,
    peer: NodeId,
    links: Vec<Link>,
    session: Option<SessionId>,
    is_connected: bool,
    /// For each of [`FEEDS`]: its stream if it is ours, and its next ADU.
    streams: [Option<StreamId>; FEEDS.len()],
    next: [u64; FEEDS.len()],
    thinner: Thinner,
    labels: BTreeMap<StreamId, usize>,
    /// Arrivals of each of [`FEEDS`].
    pub(super) received: [Vec<Arrival>; FEEDS.len()],
    /// Cause for which the objectives were refused.
    pub(super) refusal: Option<String>,
    /// Faults found in their evaluation.
    pub(super) faults: Vec<Faults>,
}

impl End {
    pub(super) fn new(
        side: Side,
        peer: NodeId,
        clinic: Arc<Clinic>,
        (begin, is_repaired): (Instant, bool),
    ) -> Self {
        Self {
            side,
            clinic,
            begin,
            is_repaired,
            peer,
            links: Vec::new(),
            session: None,
            is_connected: false,
            streams: [None; FEEDS.len()],
            next: [0; FEEDS.len()],
            thinner: Thinner::default(),
            labels: BTreeMap::new(),
            received: Default::default(),
            refusal: None,
            faults: Vec::new(),
        }
    }

    /// Sets the links over which it dials its peer when it is first woken.
    pub(super) fn dial(&mut self, links: Vec<Link>) {
        self.links = links;
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.session
    }

    fn open(&mut self, context: &mut Context<'_>, session: SessionId) {
        let now = context.now();
        if let Ok(mut handle) = context.engine().session(session) {
            let injected = handle.inject_objectives(now, OBJECTIVES);
            self.refusal = injected.err().map(|error| error.to_string());
        }
        for (feed, stream) in FEEDS.iter().zip(&mut self.streams) {
            if feed.side == self.side {
                *stream = context.open(session, feed.spec(self.is_repaired)).ok();
            }
        }
    }

    fn pump(&mut self, context: &mut Context<'_>) {
        let Some(session) = self.session.filter(|_| self.is_connected) else {
            return;
        };
        let now = context.now();
        for feed in 0..FEEDS.len() {
            let Some(stream) = self.streams[feed] else {
                continue;
            };
            while self.begin + self.clinic.made_at(feed, self.next[feed]) <= now {
                let number = self.next[feed];
                self.next[feed] += 1;
                let data = self.clinic.adu(feed, number);
                let fields = self.clinic.fields(feed, number);
                let engine = context.engine();
                // An ADU that is left out, or for which the buffer is full, is never sent, and counts as lost.
                if let Ok(handle) = engine.session(session) {
                    let mut stream = handle.stream(stream);
                    let chances = |asked: Question| stream.chances(now, asked.bytes, asked.within);
                    if feed == VIDEO_FEED && !self.clinic.fits(&mut self.thinner, number, chances) {
                        continue;
                    }
                    let _ = stream.send_with_fields(now, data, 0, &fields);
                }
            }
        }
    }

    fn listen(&mut self, context: &mut Context<'_>, session: SessionId, stream: StreamId) {
        let Some(&feed) = self.labels.get(&stream) else {
            return;
        };
        while let Some(adu) = context.receive(session, stream) {
            if let Some(number) = Clinic::number(&adu.data) {
                let at = context.now().since(self.begin);
                self.received[feed].push(Arrival { number, at });
            }
        }
    }

    fn next_at(&self) -> Option<Instant> {
        let own = (0..FEEDS.len()).filter(|&feed| self.streams[feed].is_some());
        let due = own.map(|feed| self.clinic.made_at(feed, self.next[feed]));
        due.min().map(|at: Duration| self.begin + at)
    }
}

impl App for End {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } if !self.is_connected => {
                self.session = Some(session);
                self.is_connected = true;
                self.open(context, session);
            }
            Event::StreamOpened { stream, spec, .. } => {
                let feed = Feed::of_label(&spec.label);
                self.labels.extend(feed.map(|feed| (stream, feed)));
            }
            Event::Readable { session, stream } => self.listen(context, session, stream),
            Event::Session {
                event: SessionEvent::ObjectiveFault { faults, .. },
                ..
            } => self.faults.push(faults),
            _ => {}
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
        self.is_connected.then(|| self.next_at()).flatten()
    }
}
