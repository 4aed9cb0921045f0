//! Proxy in virtual time, for tests: its side of one play over a simulated engine. Does what `flow` does with streams of
//! sockets, with the same assemblies, and the same rules for the completion of chunks and for repair.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anabranch::{
    StreamSpec,
    base::{Instant, NodeId, SessionId, StreamId},
    net::session::{Event, Link},
};
use anabranch_media::Part;
use anabranch_sim::{App, app::Context};
use bytes::Bytes;

use super::{
    content::{Assembly, Content},
    due::{Sent, State, to_repair},
};
use crate::{
    clock::Clock,
    priority,
    video::Video,
    wire::{CONTROL_LABEL, Enhanced, Essential, FETCH_LABEL, Flow, From, Piece, Request},
};

/// As in `flow`.
const LOOK: Duration = Duration::from_millis(50);
/// The default of a proxy.
const START_DELAY: Duration = Duration::from_secs(2);
/// The default of a proxy.
const LEAD_MS: u32 = 8_000;

/// A proxy with one viewer, who plays a film from its beginning.
pub(crate) struct Proxy {
    video: Arc<Video>,
    origin: NodeId,
    links: Vec<Link>,
    repairs: bool,
    session: Option<SessionId>,
    control: Option<StreamId>,
    streams: BTreeMap<StreamId, Option<Flow>>,
    is_dialled: bool,
    wake: Instant,
    next: u32,
    essential_next: u32,
    arriving: BTreeMap<u32, Assembly>,
    sent: BTreeMap<u32, Sent>,
    passed: Option<std::time::Instant>,
    /// Frames of the next chunk that were requested again, and the data received of them.
    asked: Option<(Vec<u32>, Vec<u8>)>,
    was_asked: BTreeSet<u32>,
    /// Virtual time zero, in the proxy's own representation.
    begun: std::time::Instant,
    /// Time at which the viewer began to play.
    plays_from: Option<Instant>,
    /// Finished chunks, with the times of completion.
    pub(crate) finished: Vec<(Content, Instant)>,
    /// Frames that came after a repeated request; ADUs that came after their chunk was finished.
    pub(crate) repaired: u64,
    pub(crate) late: u64,
    /// Frames that the origin left out for lack of capacity.
    pub(crate) left_out: u64,
}

impl Proxy {
    pub(crate) fn new(video: Arc<Video>, origin: NodeId, repairs: bool) -> Self {
        Self {
            video,
            origin,
            links: Vec::new(),
            repairs,
            session: None,
            control: None,
            streams: BTreeMap::new(),
            is_dialled: false,
            wake: Instant::EPOCH,
            next: 0,
            essential_next: 0,
            arriving: BTreeMap::new(),
            sent: BTreeMap::new(),
            passed: None,
            asked: None,
            was_asked: BTreeSet::new(),
            begun: Clock::system().now(),
            plays_from: None,
            finished: Vec::new(),
            repaired: 0,
            late: 0,
            left_out: 0,
        }
    }

    /// Calls the origin over `links` when time begins.
    pub(crate) fn call(&mut self, links: Vec<Link>) {
        self.links = links;
    }

    /// True if the whole film has come.
    pub(crate) fn is_over(&self) -> bool {
        self.next >= self.video.count()
    }

    /// Time at which the viewer wants a chunk; `None`: nothing plays yet.
    pub(crate) fn wanted_at(&self, chunk: u32) -> Option<Instant> {
        let begins = self.plays_from? + self.video.start(chunk);
        Some(begins + START_DELAY)
    }

    fn std(&self, at: Instant) -> std::time::Instant {
        self.begun + at.since_epoch()
    }

    fn begin(&mut self, context: &mut Context<'_>, session: SessionId) {
        let control = StreamSpec {
            weight: priority::CONTROL_WEIGHT,
            duplex: true,
            label: CONTROL_LABEL.to_owned(),
            ..StreamSpec::default()
        };
        let control = context.open(session, control).expect("a stream");
        (self.session, self.control) = (Some(session), Some(control));
        let play = Request::Play {
            id: 1,
            play: 1,
            name: self.video.name.clone(),
            version: self.video.version.clone(),
            from: From {
                essential: 0,
                enhanced: 0,
                lead_ms: LEAD_MS,
                ahead_ms: u32::MAX,
            },
        };
        let sent = context.send(session, control, play.encode());
        sent.expect("a request");
    }

    fn read(&mut self, context: &mut Context<'_>, stream: StreamId) {
        let (Some(session), Some(&flow)) = (self.session, self.streams.get(&stream)) else {
            return;
        };
        while let Some(adu) = context.receive(session, stream) {
            let now = self.std(context.now());
            match flow {
                Some(Flow::Essential) => {
                    let record = Essential::decode(adu.data).expect("a record");
                    self.take_essential(now, record);
                }
                Some(Flow::Enhanced) => {
                    let adu = Enhanced::decode(adu.data).expect("a part");
                    self.take_enhanced(now, &adu);
                }
                None => self.take_piece(&Piece::decode(adu.data).expect("a piece")),
            }
        }
    }

    fn assembly(&mut self, chunk: u32) -> &mut Assembly {
        let video = &self.video;
        let new = || Assembly::new(video.clone(), chunk);
        self.arriving.entry(chunk).or_insert_with(new)
    }

    fn take_essential(&mut self, now: std::time::Instant, record: Essential) {
        match record {
            Essential::Sent {
                chunk,
                adus,
                left_out,
            } => {
                let sent = Sent {
                    adus,
                    left_out,
                    reported_at: now,
                };
                self.left_out += u64::from(left_out);
                self.sent.insert(chunk, sent);
            }
            Essential::Data {
                chunk,
                offset,
                total,
                data,
            } => {
                assert_eq!(chunk, self.essential_next, "in order");
                let assembly = self.assembly(chunk);
                assert!(assembly.put_essential(offset, total, &data));
                if assembly.essential().is_some() {
                    self.essential_next += 1;
                }
            }
        }
    }

    fn take_enhanced(&mut self, now: std::time::Instant, adu: &Enhanced) {
        if adu.chunk < self.next {
            self.late += 1;
            return;
        }
        if adu.chunk > self.next {
            self.passed.get_or_insert(now);
        }
        self.assembly(adu.chunk).put_enhanced(adu);
    }

    fn take_piece(&mut self, piece: &Piece) {
        let is_whole = piece.end() == piece.total;
        // Late data belongs to no chunk any more.
        if piece.id != self.next + 2 {
            return;
        }
        let Some((_, data)) = &mut self.asked else {
            return;
        };
        data.extend_from_slice(&piece.data);
        if is_whole
            && let Some((frames, data)) = self.asked.take()
            && let Some(assembly) = self.arriving.get_mut(&self.next)
            && assembly.put_frames(&frames, &data)
        {
            self.repaired += frames.len() as u64;
        }
    }

    fn look(&mut self, context: &mut Context<'_>) {
        let at = context.now();
        let now = self.std(at);
        while !self.is_over() {
            let deadline = self.wanted_at(self.next).map(|at| self.std(at));
            let assembly = self.arriving.get(&self.next);
            let state = State {
                has_essential: self.essential_next > self.next,
                adus: assembly.map_or(0, Assembly::adus),
                sent: self.sent.get(&self.next).copied(),
                passed: self.passed,
                deadline,
            };
            if !state.is_due(now) {
                return;
            }
            let is_urgent = deadline.is_some_and(|at| now >= at);
            if !is_urgent && self.repair(context) {
                return;
            }
            self.finish(at, now);
        }
    }

    /// True if lost frames of the chunk are being sent again; requests them when that is possible.
    fn repair(&mut self, context: &mut Context<'_>) -> bool {
        if self.asked.is_some() {
            return true;
        }
        if !self.repairs || !self.was_asked.insert(self.next) {
            return false;
        }
        let Some(assembly) = self.arriving.get(&self.next) else {
            return false;
        };
        let left_out = self.sent.get(&self.next).map_or(0, |sent| sent.left_out);
        let enhanced = self.video.bytes(self.next, Part::Enhanced);
        let frames = to_repair(&assembly.missing(), enhanced, left_out);
        let (Some(session), Some(control)) = (self.session, self.control) else {
            return false;
        };
        if frames.is_empty() {
            return false;
        }
        let request = Request::Repair {
            id: self.next + 2,
            name: self.video.name.clone(),
            version: self.video.version.clone(),
            chunk: self.next,
            frames: frames.clone(),
        };
        let sent = context.send(session, control, request.encode());
        sent.expect("a request");
        self.asked = Some((frames, Vec::new()));
        true
    }

    fn finish(&mut self, at: Instant, now: std::time::Instant) {
        let chunk = self.next;
        let new = || Assembly::new(self.video.clone(), chunk);
        let assembly = self.arriving.remove(&chunk).unwrap_or_else(new);
        let content = assembly.finish(None).expect("its essential part is there");
        self.finished.push((content, at));
        self.plays_from.get_or_insert(at);
        self.sent.retain(|&sent, _| sent > chunk);
        self.next = chunk + 1;
        self.asked = None;
        let mut later = self.arriving.range(self.next + 1..);
        let has_passed = later.any(|(_, assembly)| assembly.adus() > 0);
        self.passed = has_passed.then_some(now);
    }
}

impl App for Proxy {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } => self.begin(context, session),
            Event::StreamOpened { stream, spec, .. } => {
                let flow = Flow::of_label(&spec.label).map(|(flow, _)| flow);
                if flow.is_some() || spec.label == FETCH_LABEL {
                    self.streams.insert(stream, flow);
                    self.read(context, stream);
                }
            }
            Event::Readable { stream, .. } => self.read(context, stream),
            Event::Closed { reason, .. } => panic!("the session is over: {reason:?}"),
            _ => {}
        }
        self.look(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        if !std::mem::replace(&mut self.is_dialled, true) {
            context.connect(self.origin, self.links.clone());
        }
        self.wake = context.now() + LOOK;
        self.look(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        (!self.is_over()).then_some(self.wake)
    }
}

/// A frame as the viewer gets it; `None`: it is left out.
pub(crate) fn frame(content: &Content, track: usize, sample: usize) -> Option<Bytes> {
    anabranch_media::Frames::get(content, track, sample)
}
