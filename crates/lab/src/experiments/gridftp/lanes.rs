//! Layouts of GridFTP: a connection for each path, over which the bytes of the records go in the order of the layout, whatever
//! component they are of.

use std::collections::{BTreeMap, VecDeque};

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_recordset::{Layout, Sequence};
use anabranch_session::{Event, Link, StreamSpec};
use anabranch_sim::{App, Context};
use anabranch_spec::Preferences;
use anabranch_spec::preference::{PathRule, Selector, Treatment};
use bytes::Bytes;

use crate::kit::{
    sources::records::PERIOD,
    streams::apps::{BACKLOG_FRAMES, Schedule},
};

/// Largest ADU: arrivals are counted by these, so that they must be small beside what arrives in a second.
const PIECE_BYTES: u64 = 8 << 10;

/// Label, and name of the path, of a lane.
pub(super) fn name(lane: usize) -> String {
    format!("lane-{lane}")
}

/// A part of a component that travels as one ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) record: u64,
    pub(super) component: usize,
    pub(super) bytes: u32,
}

/// A connection.
#[derive(Debug, Default)]
struct Lane {
    stream: Option<StreamId>,
    waiting: VecDeque<Piece>,
    accepted: Vec<Piece>,
}

/// The sender: reads each record at its time, unless [`BACKLOG_FRAMES`] of them wait for a connection.
pub(super) struct Sender {
    peer: NodeId,
    links: Vec<Link>,
    schedule: Schedule,
    layout: Layout,
    sizes: [usize; 3],
    lanes: Vec<Lane>,
    /// Position in all bytes read so far, which decides where blocks go.
    position: u64,
    next: u64,
    skipped: u64,
    session: Option<SessionId>,
    is_connected: bool,
    content: Bytes,
}

impl Sender {
    /// A sender of components of these sizes, that dials `peer` when it is first woken.
    pub(super) fn new(peer: NodeId, layout: Layout, sizes: [usize; 3], schedule: Schedule) -> Self {
        Self {
            peer,
            links: Vec::new(),
            schedule,
            layout,
            sizes,
            lanes: Vec::new(),
            position: 0,
            next: 0,
            skipped: 0,
            session: None,
            is_connected: false,
            content: Bytes::from(vec![0x5c; PIECE_BYTES as usize]),
        }
    }

    /// Sets the links to dial over; their sockets bear the names of the lanes.
    pub(super) fn dial(&mut self, links: Vec<Link>) {
        self.lanes = links.iter().map(|_| Lane::default()).collect();
        self.links = links;
    }

    /// Pieces that each lane has sent, in order.
    pub(super) fn accepted(&self) -> impl Iterator<Item = &[Piece]> {
        self.lanes.iter().map(|lane| lane.accepted.as_slice())
    }

    /// Records that were not read because too many waited.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    fn at(&self, record: u64) -> Instant {
        let number = u32::try_from(record).unwrap_or(u32::MAX);
        self.schedule.begin + PERIOD * number
    }

    /// Components of a record; the critical ones begin later, as in the runs without lanes.
    fn sizes_at(&self, at: Instant) -> [usize; 3] {
        if at < self.schedule.critical {
            [0, 0, self.sizes[2]]
        } else {
            self.sizes
        }
    }

    fn pump(&mut self, context: &mut Context<'_>) {
        let Some(session) = self.session.filter(|_| self.is_connected) else {
            return;
        };
        if context.now() >= self.schedule.begin {
            self.open(context, session);
        }
        while self.at(self.next) <= context.now() {
            self.read();
        }
        for lane in &mut self.lanes {
            lane.flush(context, session, &self.content);
        }
    }

    fn open(&mut self, context: &mut Context<'_>, session: SessionId) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.stream.is_none() {
                lane.stream = context.open(session, spec(index)).ok();
            }
        }
    }

    fn read(&mut self) {
        let record = self.next;
        self.next += 1;
        let oldest = self
            .lanes
            .iter()
            .filter_map(|lane| Some(lane.waiting.front()?.record));
        let oldest = oldest.min().unwrap_or(record);
        if record - oldest >= BACKLOG_FRAMES as u64 {
            self.skipped += 1;
            return;
        }
        let sizes = self.sizes_at(self.at(record));
        // Three sizes do not exceed the range.
        let components = Sequence::new(sizes.map(|size| size as u64)).unwrap_or_default();
        let unit = self.position..self.position + components.bytes();
        self.position = unit.end;
        for (lane, bytes) in self.layout.split(unit.clone(), self.lanes.len() as u32) {
            let bytes = bytes.start - unit.start..bytes.end - unit.start;
            let waiting = &mut self.lanes[lane as usize].waiting;
            for part in components.parts(bytes) {
                let mut left = part.range.end - part.range.start;
                while left > 0 {
                    let bytes = left.min(PIECE_BYTES);
                    left -= bytes;
                    waiting.push_back(Piece {
                        record,
                        component: part.index,
                        bytes: bytes as u32,
                    });
                }
            }
        }
    }
}

/// A connection: it stays on its path.
fn spec(lane: usize) -> StreamSpec {
    let rule = |treatment, selector| PathRule {
        treatment,
        selector,
    };
    let own = Selector::Interface(name(lane).into());
    let rules = vec![
        rule(Treatment::Neutral, own),
        rule(Treatment::Never, Selector::Any),
    ];
    StreamSpec {
        label: name(lane),
        // Two rules are not too many.
        paths: Preferences::new(rules).unwrap_or_default(),
        ..StreamSpec::default()
    }
}

impl Lane {
    fn flush(&mut self, context: &mut Context<'_>, session: SessionId, content: &Bytes) {
        let Some(stream) = self.stream else { return };
        while let Some(&piece) = self.waiting.front() {
            let data = content.slice(..piece.bytes as usize);
            if context.send(session, stream, data).is_err() {
                return;
            }
            self.waiting.pop_front();
            self.accepted.push(piece);
        }
    }
}

impl App for Sender {
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
        self.is_connected.then(|| self.at(self.next))
    }
}

/// Components of which some has arrived.
#[derive(Debug)]
pub(super) struct Assembly {
    sizes: [usize; 3],
    /// Bytes that are missing, by record and component.
    missing: BTreeMap<(u64, usize), usize>,
}

impl Assembly {
    pub(super) fn new(sizes: [usize; 3]) -> Self {
        Self {
            sizes,
            missing: BTreeMap::new(),
        }
    }

    /// Takes a piece, each of which arrives once; true if its component is complete with it.
    pub(super) fn take(&mut self, piece: Piece) -> bool {
        let place = (piece.record, piece.component);
        let missing = self
            .missing
            .entry(place)
            .or_insert(self.sizes[piece.component]);
        *missing = missing.saturating_sub(piece.bytes as usize);
        let is_complete = *missing == 0;
        if is_complete {
            self.missing.remove(&place);
        }
        is_complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> Schedule {
        Schedule {
            begin: Instant::EPOCH,
            critical: Instant::EPOCH + PERIOD,
        }
    }

    fn lanes_of(layout: &str, sizes: [usize; 3]) -> Vec<Vec<Piece>> {
        let layout = layout.parse().unwrap();
        let peer = anabranch_sim::World::node_id(1);
        let mut sender = Sender::new(peer, layout, sizes, schedule());
        sender.lanes = vec![Lane::default(), Lane::default()];
        sender.read();
        sender.read();
        let lanes = sender.lanes.into_iter();
        lanes.map(|lane| lane.waiting.into()).collect()
    }

    fn piece(record: u64, component: usize, bytes: u32) -> Piece {
        Piece {
            record,
            component,
            bytes,
        }
    }

    #[test]
    fn each_lane_has_its_part_of_every_record() {
        let lanes = lanes_of("partitioned", [100, 60, 40]);
        // The first record has its last component only.
        assert_eq!(lanes[0], [piece(0, 2, 20), piece(1, 0, 100)]);
        assert_eq!(
            lanes[1],
            [piece(0, 2, 20), piece(1, 1, 60), piece(1, 2, 40)]
        );
    }

    #[test]
    fn blocks_alternate_between_lanes() {
        let lanes = lanes_of("blocked:1KiB", [1_000, 60, 1_024]);
        let expected = [piece(0, 2, 1_024), piece(1, 1, 36), piece(1, 2, 988)];
        assert_eq!(lanes[0], expected);
        let expected = [piece(1, 0, 1_000), piece(1, 1, 24), piece(1, 2, 36)];
        assert_eq!(lanes[1], expected);
    }

    #[test]
    fn too_many_records_that_wait_are_not_read() {
        let peer = anabranch_sim::World::node_id(1);
        let mut sender = Sender::new(peer, Layout::Partitioned, [10, 10, 10], schedule());
        sender.lanes = vec![Lane::default(), Lane::default()];
        for _ in 0..BACKLOG_FRAMES + 3 {
            sender.read();
        }
        assert_eq!(sender.skipped(), 3);
    }

    #[test]
    fn a_component_is_complete_with_its_last_piece() {
        let mut assembly = Assembly::new([3, 2, 4]);
        assert!(!assembly.take(piece(1, 0, 2)));
        assert!(assembly.take(piece(1, 0, 1)));
        assert!(assembly.take(piece(0, 0, 3)));
        assert!(assembly.take(piece(0, 1, 2)));
        assert!(!assembly.take(piece(0, 2, 3)));
        assert!(assembly.take(piece(0, 2, 1)));
        assert_eq!(assembly.missing.len(), 0);
    }
}
