//! Origin in virtual time, for tests: its side of one session over a simulated engine. Does what `pump` does with a session of
//! sockets, with the same plays, governor, statistics, streams and rates.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch::{
    StreamSpec,
    base::{ChannelId, Instant, Rate, SessionId, StreamId},
    net::session::{ChannelStatus, Event, SendError, StreamEvent},
};
use anabranch_media::Part;
use anabranch_sim::{App, app::Context};
use bytes::Bytes;

use super::{
    counters::FlowCounters,
    governor::{Besides, FETCH_RATE_MAX, Governor, most_of_path},
    paths,
    play::{Due, Need},
    plays::Plays,
    pump::enhanced_spec,
};
use crate::{
    priority,
    video::{FrameId, Video},
    wire::{CONTROL_LABEL, FETCH_LABEL, Flow, PIECE_BYTES_MAX, Piece, Request},
};

/// As in `pump`.
const LOOK: Duration = Duration::from_secs(1);
/// Delay until a full stream is tried again.
const AGAIN: Duration = Duration::from_millis(5);

/// The bytes of a frame: different for each, so that none can be taken for another.
pub(crate) fn frame_bytes(video: &Video, frame: FrameId) -> Vec<u8> {
    let mut noise = (frame.track as u32) << 24 ^ (frame.sample as u32).wrapping_mul(0x9e37_79b9);
    let byte = |_| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (noise >> 24) as u8
    };
    (0..video.size(frame)).map(byte).collect()
}

/// A part of a chunk, as it is read from a film.
fn part_bytes(video: &Video, chunk: u32, part: Part) -> Bytes {
    let frames = video.frames(chunk, part);
    let bytes: Vec<Vec<u8>> = frames.map(|frame| frame_bytes(video, frame)).collect();
    bytes.concat().into()
}

/// An origin with one film, for one proxy.
pub(crate) struct Origin {
    video: Arc<Video>,
    capacity: Option<Rate>,
    session: Option<SessionId>,
    control: Option<StreamId>,
    fetch: Option<StreamId>,
    plays: Plays,
    streams: BTreeMap<u32, [StreamId; 2]>,
    governor: Governor,
    counters: FlowCounters,
    looked: Instant,
    held: BTreeMap<ChannelId, Rate>,
    total: Rate,
    wake: Option<Instant>,
    /// ADUs that were never sent: there was no capacity for them, or they were too late.
    pub(crate) dropped: u64,
}

impl Origin {
    pub(crate) fn new(video: Arc<Video>, capacity: Option<Rate>) -> Self {
        Self {
            video,
            capacity,
            session: None,
            control: None,
            fetch: None,
            plays: Plays::new(),
            streams: BTreeMap::new(),
            governor: Governor::new(capacity),
            counters: FlowCounters::default(),
            looked: Instant::EPOCH,
            held: BTreeMap::new(),
            total: Rate::ZERO,
            wake: None,
            dropped: 0,
        }
    }

    fn obey(&mut self, context: &mut Context<'_>, session: SessionId, request: Request) {
        let now = context.now();
        match request {
            Request::Play { play, from, .. } => {
                let mut open = |spec| context.open(session, spec).expect("a stream");
                let essential = open(StreamSpec {
                    weight: priority::ESSENTIAL_WEIGHT,
                    label: Flow::Essential.label(play),
                    ..StreamSpec::default()
                });
                let enhanced = open(StreamSpec {
                    label: Flow::Enhanced.label(play),
                    ..enhanced_spec()
                });
                self.streams.insert(play, [essential, enhanced]);
                self.plays.start(now, play, self.video.clone(), from);
                self.govern(context, session);
            }
            Request::Repair {
                id, chunk, frames, ..
            } => {
                let all: Vec<FrameId> = self.video.frames(chunk, Part::Enhanced).collect();
                let wanted = frames
                    .iter()
                    .map(|&n| frame_bytes(&self.video, all[n as usize]));
                let data: Vec<u8> = wanted.flatten().collect();
                self.send_pieces(context, session, id, &data.into());
            }
            other => panic!("{other:?} is not for this origin"),
        }
    }

    fn send_pieces(&self, context: &mut Context<'_>, session: SessionId, id: u32, data: &Bytes) {
        let fetch = self.fetch.expect("it greeted");
        for offset in (0..data.len()).step_by(PIECE_BYTES_MAX) {
            let end = data.len().min(offset + PIECE_BYTES_MAX);
            let piece = Piece {
                id,
                offset: offset as u64,
                total: data.len() as u64,
                data: data.slice(offset..end),
            };
            let sent = context.send(session, fetch, piece.encode());
            sent.expect("repairs are small");
        }
    }

    fn run(&mut self, context: &mut Context<'_>) {
        let Some(session) = self.session else { return };
        if let Some(control) = self.control {
            while let Some(message) = context.receive(session, control) {
                let request = Request::decode(&message.data).expect("a request");
                self.obey(context, session, request);
            }
        }
        let now = context.now();
        if now.since(self.looked) >= LOOK {
            self.look(context, session);
        }
        self.load(now);
        let is_full = self.send(context, session);
        self.load(now);
        let again = is_full.then_some(now + AGAIN);
        let next = [
            self.plays.poll_timeout(now),
            again,
            Some(self.looked + LOOK),
        ];
        let next = next.into_iter().flatten().min();
        self.wake = next.map(|at| at.max(now + Duration::from_nanos(1)));
    }

    /// The disk takes no time.
    fn load(&mut self, now: Instant) {
        for wanted in self.plays.wanted(now, usize::MAX) {
            let data = part_bytes(&self.video, wanted.chunk, wanted.part);
            self.plays.loaded(&wanted, data);
        }
    }

    /// Sends what is due. Returns whether some of it did not fit.
    fn send(&mut self, context: &mut Context<'_>, session: SessionId) -> bool {
        let now = context.now();
        let mut has_changed = self.plays.advance(now);
        let mut is_full = false;
        while let Some((play, release)) = self.plays.poll(now) {
            let Some(&[essential, enhanced]) = self.streams.get(&play) else {
                continue;
            };
            let sent = match &release.item {
                Due::Essential(record) => context.send(session, essential, record.encode()),
                Due::Enhanced(adu, importance) => {
                    let importance = u8::try_from(*importance).unwrap_or(u8::MAX);
                    let Ok(handle) = context.engine().session(session) else {
                        return is_full;
                    };
                    let mut stream = handle.stream(enhanced);
                    stream.send_important(now, adu.encode(), importance)
                }
            };
            match sent {
                Ok(_) => {}
                Err(SendError::Full(_)) => {
                    self.plays.put_back(now, release);
                    is_full = true;
                }
                Err(error) => panic!("{error}"),
            }
        }
        has_changed |= self.plays.advance(now);
        if has_changed {
            self.hold(context, session);
        }
        is_full
    }

    fn look(&mut self, context: &mut Context<'_>, session: SessionId) {
        let now = context.now();
        let passed = now.since(self.looked);
        self.looked = now;
        let streams = context
            .engine()
            .session(session)
            .map(|mut session| session.stream_stats())
            .unwrap_or_default();
        let flow_stats = self.counters.look(&streams, passed);
        let needs = self.needs(now);
        self.governor.observe(now, &needs, &flow_stats);
        self.govern(context, session);
    }

    fn needs(&self, now: Instant) -> Vec<Need> {
        let needs = self.plays.needs(now).into_iter();
        needs.map(|(_, need)| need).collect()
    }

    fn govern(&mut self, context: &mut Context<'_>, session: SessionId) {
        let now = context.now();
        let needs = self.needs(now);
        let extras = self.governor.extras(now, &needs, self.held.len());
        self.plays.advance(now);
        self.plays.set_capacity(now, self.governor.part(), &extras);
        self.total = Rate::ZERO;
        self.hold(context, session);
    }

    fn hold(&mut self, context: &mut Context<'_>, session: SessionId) {
        let now = context.now();
        let reports = context
            .engine()
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        let active = reports
            .iter()
            .filter(|report| report.state == ChannelStatus::Active);
        let active: Vec<_> = active.collect();
        let besides = Besides {
            is_fetching: self.counters.fetched_backlog_bytes > 0,
            backlog_bytes: self.counters.backlog_bytes,
            paths: active.len(),
        };
        self.total = self.governor.hold(&self.needs(now), besides);
        let carry: Vec<Option<Rate>> = active
            .iter()
            .map(|report| report.path.as_ref().and_then(|path| path.bandwidth_mean))
            .collect();
        let shares = paths::divide(self.total, &carry, most_of_path(self.capacity));
        self.held.clear();
        for (report, share) in active.iter().zip(shares) {
            let engine = context.engine();
            let set = engine
                .session(session)
                .map(|mut session| session.set_rate_of_channel(report.channel, share));
            assert_eq!(set, Ok(true));
            self.held.insert(report.channel, share);
        }
    }
}

impl App for Origin {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } => {
                self.session = Some(session);
                let fetch = StreamSpec {
                    weight: priority::FETCH_WEIGHT,
                    cap: Some(FETCH_RATE_MAX),
                    label: FETCH_LABEL.to_owned(),
                    ..StreamSpec::default()
                };
                self.fetch = context.open(session, fetch).ok();
            }
            Event::StreamOpened { stream, spec, .. } if spec.label == CONTROL_LABEL => {
                self.control = Some(stream);
            }
            Event::Stream {
                event: StreamEvent::Dropped { .. } | StreamEvent::Expired { .. },
                ..
            } => self.dropped += 1,
            _ => {}
        }
        self.run(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        self.run(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.wake
    }
}
