//! A run without a failure: bytes of both legs, promises, windows, ages of frames, costs of operators.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, SessionId, StreamId};
use anabranch_process::{Cost, serve::SOURCE};
use anabranch_processing::wire::message::{Demand, Pace};
use anabranch_session::{AllowList, Config, Explanation};
use anabranch_sim::{World, topology::TopologyError};

use super::{
    hub::Node,
    legs::{Legs, delay, lay},
    molecule::{LOOP, Molecule},
    source::{Fallback, OVERHEAD, Source},
    viewer::{Viewer, Wanted},
    viewers::{LEG_PROBABILITY, VIEWERS, is_critical, name},
};
use crate::kit::{
    sources::visualisation::PERIOD,
    streams::{
        Timing,
        figures::exceeded,
        measure::{BEGIN, WINDOW},
    },
};

/// Time on top of the delay of the legs, without queues, within which a window is to be complete.
pub(super) const DEADLINE: Duration = Duration::from_millis(250);
/// Frames of a window.
pub(super) const FRAMES: u64 = 25;
/// A death that never comes: nobody moves in this run.
const FOREVER: Duration = Duration::from_secs(3_600);

/// A stream at a viewer.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) viewer: &'static str,
    pub(super) stream: usize,
    pub(super) pipeline: String,
    /// Rate of what is derived.
    pub(super) derived_bps: f64,
    /// Share of the windows in which everything that was made was in time: at the processing node; there and at the viewer; at the
    /// viewer, of those that were in time at the processing node.
    pub(super) kept: [f64; 3],
    /// Windows that failed, by the leg: the first, the last.
    pub(super) failed: [u64; 2],
    /// Median and 99th percentile of the age of frames, in milliseconds, and the number of derived ADUs that arrived and were due.
    pub(super) age_ms: [f64; 2],
    pub(super) arrived: [u64; 2],
    /// Bodies that are not what the pipeline makes of the frame.
    pub(super) wrong: u64,
    /// Promises of the two legs at the end.
    pub(super) promises: [Option<Explanation>; 2],
    /// Reason for which the subscription was refused; empty: it was not.
    pub(super) refused: String,
}

/// Operators of a derivation.
#[derive(Clone, Debug)]
pub(super) struct Operators {
    pub(super) stream: usize,
    pub(super) pipeline: String,
    pub(super) subscribers: usize,
    pub(super) steps: Vec<(String, Cost)>,
}

/// Results of a run.
#[derive(Clone, Debug)]
pub(super) struct Steady {
    pub(super) rows: Vec<Row>,
    pub(super) operators: Vec<Operators>,
    /// Bytes of packets that the source sent to the processing node, and this to each viewer, in the windows that count.
    pub(super) first_bytes: u64,
    pub(super) last_bytes: Vec<u64>,
    /// Duration of these windows.
    pub(super) duration: Duration,
}

/// Runs it.
///
/// # Errors
/// The paths are inconsistent.
pub(super) fn run(
    seed: anabranch_base::Seed,
    legs: &Legs,
    timing: Timing,
    is_processed: bool,
) -> Result<Steady, TopologyError> {
    let molecule = Molecule::new(legs.rates);
    let begin = Instant::EPOCH + BEGIN;
    let count = timing.windows as u64;
    let first_frame = timing.warm_up.as_secs() * FRAMES;
    let frames = first_frame + count * FRAMES;
    let end = begin + PERIOD * frames as u32;
    let mut world = World::new(seed);
    let own = World::node_id(0);
    let streams = [0, 1, 2];
    // Viewers do not wait for each other.
    let manner = (Fallback::Source, Pace::Live);
    let source = Source::new(own, molecule.clone(), &streams, (begin, end), manner);
    let source = world.add_node(Config::default(), AllowList::default(), source);
    let ids = (0..VIEWERS.len()).map(|index| World::node_id(2 + index));
    let allowed = AllowList::of(ids.chain([own]));
    let node = world.add_node(Config::default(), allowed, Node::default());
    let mut viewers = Vec::new();
    for viewer in VIEWERS {
        let wanted = streams.map(|stream| {
            let pipeline = viewer.pipeline(stream, is_processed);
            let rate = molecule.rate(stream, &pipeline, OVERHEAD);
            let demand = Demand {
                rate_bps: rate.as_bps(),
                share_ppm: (LEG_PROBABILITY * 1e6) as u32,
                deadline_ms: None,
            };
            let is_asked = is_critical(stream) && rate.as_bps() > 0;
            Wanted::new(
                stream,
                pipeline,
                is_asked.then_some(demand),
                is_critical(stream),
            )
        });
        let viewer = Viewer::new(wanted.into());
        viewers.push(world.add_node(Config::default(), AllowList::default(), viewer));
    }
    let links = lay(&mut world, &legs.first, [source, node], source)?;
    let peers = vec![(World::node_id(node), links)];
    world.app::<Source>(source).dial(peers, FOREVER);
    world.with_node(source, |_| ());
    for (&viewer, leg) in viewers.iter().zip(&legs.last) {
        let links = lay(&mut world, leg, [node, viewer], viewer)?;
        let peers = vec![(World::node_id(node), links)];
        world
            .app::<Viewer>(viewer)
            .dial(peers, (delay(leg) * 2, FOREVER));
        world.with_node(viewer, |_| ());
    }

    world.run_until(begin + timing.warm_up);
    let before = sent(&mut world, source, node, &viewers);
    world.run_until(end);
    let after = sent(&mut world, source, node, &viewers);
    // What is late comes after the last window.
    world.run_for(Duration::from_secs(2));
    let last_bytes = before.1.iter().zip(&after.1);
    let last_bytes = last_bytes.map(|(before, after)| after - before).collect();
    let windows = Windows {
        begin,
        first_frame,
        count,
    };
    let mut rows = Vec::new();
    for (index, &at) in viewers.iter().enumerate() {
        let slack = [&legs.first, &legs.last[index]].map(|leg| delay(leg));
        for stream in streams {
            let taken: BTreeMap<u64, Instant> = world
                .app::<Node>(node)
                .0
                .taken(name(stream))
                .iter()
                .copied()
                .collect();
            let promises = promises(&mut world, (source, node, at), stream);
            let viewer = world.app::<Viewer>(at);
            let wanted = viewer.wanted();
            let Some(wanted) = wanted.get(&stream) else {
                continue;
            };
            let seen = Seen {
                taken,
                wanted,
                slack,
                stream,
                pipeline: VIEWERS[index].pipeline(stream, is_processed),
            };
            let row = seen.row(&molecule, &windows, VIEWERS[index].name, promises);
            rows.push(row);
        }
    }
    let operators = operators(&mut world, node);
    Ok(Steady {
        rows,
        operators,
        first_bytes: after.0 - before.0,
        last_bytes,
        duration: WINDOW * count as u32,
    })
}

/// Bytes of packets that the source sent, and those that the processing node sent to each viewer.
fn sent(world: &mut World, source: usize, node: usize, viewers: &[usize]) -> (u64, Vec<u64>) {
    let session = world.app::<Source>(source).session();
    let first = session.map_or(0, |session| session_bytes(world, source, session));
    let last = viewers.iter().map(|&viewer| {
        let id = World::node_id(viewer);
        let sessions: Vec<SessionId> = world.app::<Node>(node).0.sessions_with(id).collect();
        let bytes = sessions
            .into_iter()
            .map(|session| session_bytes(world, node, session));
        bytes.sum()
    });
    (first, last.collect())
}

pub(super) fn session_bytes(world: &mut World, node: usize, session: SessionId) -> u64 {
    let reports = world
        .engine(node)
        .session(session)
        .map(|mut session| session.channel_stats())
        .unwrap_or_default();
    reports.iter().map(|report| report.stats.bytes_sent).sum()
}

/// Promises of a stream on both legs.
fn promises(
    world: &mut World,
    (source, node, viewer): (usize, usize, usize),
    stream: usize,
) -> [Option<Explanation>; 2] {
    let app = world.app::<Source>(source);
    let first = app.session().zip(app.stream(stream));
    let hub = &world.app::<Node>(node).0;
    let last = hub
        .streams_to(World::node_id(viewer))
        .get(name(stream))
        .copied();
    let mut explain = |at: usize, stream: Option<(SessionId, StreamId)>| {
        let (session, stream) = stream?;
        let session = world.engine(at).session(session).ok()?;
        session.stream(stream).explain()
    };
    [explain(source, first), explain(node, last)]
}

fn operators(world: &mut World, node: usize) -> Vec<Operators> {
    let hub = &world.app::<Node>(node).0;
    let of = |stream: usize| {
        let derivations = hub.offered(name(stream))?.table().of_source(SOURCE);
        let derivations = derivations.map(move |(running, subscribers)| {
            let steps = running.pipeline().steps().iter().zip(running.costs());
            Operators {
                stream,
                pipeline: running.pipeline().to_string(),
                subscribers,
                steps: steps.map(|(step, cost)| (step.to_string(), cost)).collect(),
            }
        });
        Some(derivations.collect::<Vec<_>>())
    };
    [0, 1, 2].into_iter().filter_map(of).flatten().collect()
}

/// Windows of the source's time.
pub(super) struct Windows {
    pub(super) begin: Instant,
    pub(super) first_frame: u64,
    pub(super) count: u64,
}

impl Windows {
    /// Window of a frame.
    fn index(&self, frame: u64) -> Option<usize> {
        let index = frame.checked_sub(self.first_frame)? / FRAMES;
        (index < self.count).then_some(index as usize)
    }

    pub(super) fn made_at(&self, frame: u64) -> Instant {
        self.begin + PERIOD * frame as u32
    }

    /// Windows with an ADU that was not there `delay` and [`DEADLINE`] after the window's last frame was made.
    pub(super) fn late(
        &self,
        due: impl Iterator<Item = u64>,
        delay: Duration,
        at: impl Fn(u64) -> Option<Instant>,
    ) -> Vec<bool> {
        let mut late = vec![false; self.count as usize];
        for frame in due {
            let Some(index) = self.index(frame) else {
                continue;
            };
            // The last frame of the window is made a period before its end.
            let last = self.first_frame + (index as u64 + 1) * FRAMES - 1;
            let until = self.made_at(last) + delay + DEADLINE;
            late[index] |= at(frame).is_none_or(|at| at > until);
        }
        late
    }
}

/// Observations of a stream at a viewer.
struct Seen<'a> {
    taken: BTreeMap<u64, Instant>,
    wanted: &'a Wanted,
    slack: [Duration; 2],
    stream: usize,
    pipeline: anabranch_process::Pipeline,
}

impl Seen<'_> {
    fn row(
        &self,
        molecule: &Molecule,
        windows: &Windows,
        viewer: &'static str,
        promises: [Option<Explanation>; 2],
    ) -> Row {
        let frames = windows.first_frame + windows.count * FRAMES;
        let passed = molecule.passed(self.stream, &self.pipeline, frames);
        // An `every` begins with the first ADU that a subscriber meets.
        let offset = self.wanted.arrived.first().map_or(0, |first| first.frame);
        let shift = if passed.contains(&offset) { 0 } else { offset };
        let is_due = |frame: &u64| *frame >= shift && passed.contains(&(frame - shift));
        let due: Vec<u64> = (windows.first_frame..frames).filter(is_due).collect();
        let arrived: BTreeMap<u64, Instant> = self
            .wanted
            .arrived
            .iter()
            .map(|arrived| (arrived.frame, arrived.at))
            .collect();
        let [first, last] = self.slack;
        let frames_due = || due.iter().copied();
        let at_node = windows.late(windows.first_frame..frames, first, |frame| {
            self.taken.get(&frame).copied()
        });
        let at_viewer = windows.late(frames_due(), first + last, |frame| {
            arrived.get(&frame).copied()
        });
        let count = windows.count.max(1) as f64;
        let pairs = || at_node.iter().zip(&at_viewer);
        let kept_first = pairs().filter(|(node, _)| !**node).count() as f64;
        let kept_all = pairs().filter(|(_, viewer)| !**viewer).count() as f64;
        let kept_both = pairs()
            .filter(|(node, viewer)| !**node && !**viewer)
            .count() as f64;
        let failed_first = pairs().filter(|(node, viewer)| **node && **viewer).count() as u64;
        let failed_last = pairs().filter(|(node, viewer)| !**node && **viewer).count() as u64;
        let mut ages: Vec<f64> = arrived
            .iter()
            .filter(|(frame, _)| windows.index(**frame).is_some())
            .map(|(frame, at)| at.since(windows.made_at(*frame)).as_secs_f64() * 1e3)
            .collect();
        ages.sort_by(f64::total_cmp);
        let sums = molecule.sums(self.stream, &self.pipeline);
        let came = self.wanted.arrived.iter();
        let wrong =
            came.filter(|arrived| sums[(arrived.frame % LOOP) as usize] != Some(arrived.sum));
        Row {
            viewer,
            stream: self.stream,
            pipeline: self.pipeline.to_string(),
            derived_bps: molecule
                .rate(self.stream, &self.pipeline, OVERHEAD)
                .as_bps() as f64,
            kept: [
                kept_first / count,
                kept_all / count,
                kept_both / kept_first.max(1.0),
            ],
            failed: [failed_first, failed_last],
            age_ms: [exceeded(&ages, 0.5), exceeded(&ages, 0.01)],
            arrived: [ages.len() as u64, due.len() as u64],
            wrong: wrong.count() as u64,
            promises,
            refused: self.wanted.refused.clone(),
        }
    }
}
