//! Death of the processing node: the operators move to the source or to another node.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, Seed};
use anabranch_processing::wire::message::Pace;
use anabranch_session::{AllowList, Config};
use anabranch_sim::{World, topology::TopologyError};

use super::{
    hub::Node,
    legs::{Legs, delay, lay},
    molecule::{LOOP, Molecule},
    source::{Fallback, Source},
    viewer::{Viewer, Wanted},
    viewers::{VIEWERS, is_critical, name},
};
use crate::kit::{sources::visualisation::PERIOD, streams::measure::BEGIN};

/// Round trips of silence of all paths after which a node counts as dead.
pub(super) const PATIENCE_ROUND_TRIPS: u32 = 3;

/// Times of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Time from the first frame to the death of the node.
    pub(super) death: Duration,
    /// Time from the first frame to the last.
    pub(super) end: Duration,
}

impl Times {
    pub(super) const USUAL: Self = Self {
        death: Duration::from_secs(30),
        end: Duration::from_secs(60),
    };
}

/// A stream at a viewer.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) viewer: &'static str,
    pub(super) stream: usize,
    pub(super) pipeline: String,
    /// Derived ADUs that were due and did not come, came twice, and are not what the pipeline makes of the frame.
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) wrong: u64,
    /// ADUs that the viewer got again, and left out.
    pub(super) left_out: u64,
    /// Time from the death until the viewer, and the source, found out.
    pub(super) detected: Option<Duration>,
    pub(super) source_detected: Option<Duration>,
    /// Time from then until the first ADU that came from the next node.
    pub(super) resumed: Option<Duration>,
    /// Time from the last ADU before the death to the first one after it.
    pub(super) gap: Option<Duration>,
    /// Time until frames are as old as before.
    pub(super) caught_up: Option<Duration>,
    /// Round trip of the viewer's leg without queues.
    pub(super) round_trip: Duration,
}

/// Runs it for the reliable streams.
///
/// # Errors
/// The paths are inconsistent.
pub(super) fn run(
    seed: Seed,
    legs: &Legs,
    fallback: Fallback,
    times: Times,
) -> Result<Vec<Row>, TopologyError> {
    let molecule = Molecule::new(legs.rates);
    let begin = Instant::EPOCH + BEGIN;
    let end = begin + times.end;
    let mut world = World::new(seed);
    let own = World::node_id(0);
    let viewers = VIEWERS.len();
    let streams: Vec<usize> = (0..3).filter(|&stream| is_critical(stream)).collect();
    let ids = || (0..viewers).map(|index| World::node_id(3 + index));
    let manner = (fallback, Pace::Slowest);
    let app = Source::new(own, molecule.clone(), &streams, (begin, end), manner);
    let source = world.add_node(Config::default(), AllowList::of(ids()), app);
    let nodes = [(); 2].map(|()| {
        let allowed = AllowList::of(ids().chain([own]));
        world.add_node(Config::default(), allowed, Node::default())
    });
    let mut peers = Vec::new();
    for node in nodes {
        let links = lay(&mut world, &legs.first, [source, node], source)?;
        peers.push((World::node_id(node), links));
    }
    let round_trip = delay(&legs.first) * 2;
    let app = world.app::<Source>(source);
    app.dial(peers, round_trip * PATIENCE_ROUND_TRIPS);
    world.with_node(source, |_| ());
    let next = match fallback {
        Fallback::Source => source,
        Fallback::Node => nodes[1],
    };
    let mut at = Vec::new();
    for (viewer, leg) in VIEWERS.iter().zip(&legs.last) {
        let wanted = streams.iter();
        let wanted =
            wanted.map(|&stream| Wanted::new(stream, viewer.pipeline(stream, true), None, true));
        let app = Viewer::new(wanted.collect());
        let viewer = world.add_node(Config::default(), AllowList::default(), app);
        let mut peers = Vec::new();
        for node in [nodes[0], next] {
            let links = lay(&mut world, leg, [node, viewer], viewer)?;
            peers.push((World::node_id(node), links));
        }
        let round_trip = delay(leg) * 2;
        let patience = round_trip * PATIENCE_ROUND_TRIPS;
        let app = world.app::<Viewer>(viewer);
        app.dial(peers, (round_trip, patience));
        world.with_node(viewer, |_| ());
        at.push(viewer);
    }
    let death = begin + times.death;
    world.run_until(death);
    world.suspend(nodes[0]);
    // Everything that was made has time to arrive.
    world.run_until(end + times.death);
    let source_declared = world.app::<Source>(source).declared;
    let mut rows = Vec::new();
    for (index, viewer) in at.into_iter().enumerate() {
        let app = world.app::<Viewer>(viewer);
        for (stream, wanted) in app.wanted() {
            let frames = (times.end.as_secs_f64() / PERIOD.as_secs_f64()).round() as u64;
            let seen = Seen {
                wanted,
                stream,
                frames,
                death,
                begin,
            };
            let round_trip = delay(&legs.last[index]) * 2;
            let declared = (app.declared, source_declared);
            rows.push(seen.row(&molecule, index, declared, round_trip));
        }
    }
    Ok(rows)
}

/// Observations of a stream at a viewer.
struct Seen<'a> {
    wanted: &'a Wanted,
    stream: usize,
    frames: u64,
    death: Instant,
    begin: Instant,
}

impl Seen<'_> {
    fn row(
        &self,
        molecule: &Molecule,
        viewer: usize,
        (declared, source_declared): (Option<Instant>, Option<Instant>),
        round_trip: Duration,
    ) -> Row {
        let viewer = &VIEWERS[viewer];
        let pipeline = viewer.pipeline(self.stream, true);
        let arrived = &self.wanted.arrived;
        let passed = molecule.passed(self.stream, &pipeline, self.frames);
        let offset = arrived.first().map_or(0, |first| first.frame);
        let shift = if passed.contains(&offset) { 0 } else { offset };
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        for one in arrived {
            *times.entry(one.frame).or_default() += 1;
        }
        let due = (offset..self.frames).filter(|frame| passed.contains(&(frame - shift)));
        let lost = due.filter(|frame| !times.contains_key(frame)).count() as u64;
        let sums = molecule.sums(self.stream, &pipeline);
        let is_wrong = |frame: u64, sum| sums[(frame % LOOP) as usize] != Some(sum);
        let age = |frame: u64, at: Instant| {
            let made = self.begin + PERIOD * frame as u32;
            at.since(made)
        };
        let before = arrived.iter().filter(|one| one.at <= self.death);
        let usual = before.clone().map(|one| age(one.frame, one.at)).max();
        let last_before = arrived
            .iter()
            .filter(|one| declared.is_none_or(|at| one.at <= at))
            .map(|one| one.at)
            .max();
        let after = arrived
            .iter()
            .filter(|one| declared.is_some_and(|at| one.at > at));
        let first_after = after.clone().map(|one| one.at).min();
        let caught_up = after
            .clone()
            .find(|one| usual.is_some_and(|usual| age(one.frame, one.at) <= usual));
        Row {
            viewer: viewer.name,
            stream: self.stream,
            pipeline: pipeline.to_string(),
            lost,
            repeated: times.values().map(|count| count - 1).sum(),
            wrong: arrived
                .iter()
                .filter(|one| is_wrong(one.frame, one.sum))
                .count() as u64,
            left_out: self.wanted.again,
            detected: declared.map(|at| at.since(self.death)),
            source_detected: source_declared.map(|at| at.since(self.death)),
            resumed: declared
                .zip(first_after)
                .map(|(declared, first)| first.since(declared)),
            gap: last_before
                .zip(first_after)
                .map(|(last, first)| first.since(last)),
            caught_up: caught_up.map(|one| one.at.since(self.death)),
            round_trip,
        }
    }
}

/// Name of the stream of a row.
pub(super) fn stream_name(row: &Row) -> &'static str {
    name(row.stream)
}
