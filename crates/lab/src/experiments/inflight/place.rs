//! Places: one operator at each of its candidates, beside what `anabranch_process::place` expects of them.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, Rate, Seed};
use anabranch_process::{
    Pipeline,
    place::{Candidate, Demand, Estimate, Flow, Last, Leg, Processor, best},
};
use anabranch_processing::wire::message::Pace;
use anabranch_session::{AllowList, Config};
use anabranch_sim::{World, topology::TopologyError};

use super::{
    hub::Node,
    legs::{Legs, delay, lay},
    molecule::Molecule,
    source::{Fallback, OVERHEAD, Source},
    steady::{self, FRAMES, Windows, session_bytes},
    viewer::{Viewer, Wanted},
    viewers::VIEWERS,
};
use crate::kit::{
    sources::visualisation::PERIOD,
    streams::{
        RecordedPath, Timing,
        figures::exceeded,
        measure::{BEGIN, WINDOW},
    },
};

/// The stream: Bond1, with the pipeline of the second viewer.
const STREAM: usize = 1;
/// Time from a window's last frame until everything of it has to be at the viewer.
const DEADLINE: Duration = Duration::from_millis(400);
/// Share of windows that has to be in time.
const SHARE: f64 = 0.95;
/// Time of a unit of work: 1 ns.
const UNIT_PS: f64 = 1_000.0;
/// A death that never comes.
const FOREVER: Duration = Duration::from_secs(3_600);

/// A candidate, in the order in which the operator of the nodes lists them.
#[derive(Clone, Copy, Debug)]
struct Place {
    name: &'static str,
    /// Leg of [`Legs`] from the source: 0 the first, others those to viewers; `None`: the operator is at the source.
    first: Option<usize>,
    /// Leg to the viewer.
    last: usize,
}

/// The node behind a quarter of the first leg's rate stands first.
const PLACES: [Place; 3] = [
    Place {
        name: "far",
        first: Some(3),
        last: 1,
    },
    Place {
        name: "near",
        first: Some(0),
        last: 2,
    },
    Place {
        name: "source",
        first: None,
        last: 3,
    },
];

/// The operator at a candidate.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Expected from the rates before the windows that count.
    pub(super) estimate: Estimate,
    pub(super) is_placed: bool,
    pub(super) measured: Measured,
}

/// Figures of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Share of windows that were in time.
    pub(super) kept: f64,
    /// Median and 99th percentile of the age of frames, in milliseconds.
    pub(super) age_ms: [f64; 2],
    /// Frames that arrived, and that were made, in these windows.
    pub(super) frames: [u64; 2],
    /// Bytes of packets on both legs.
    pub(super) bytes: u64,
}

fn leg(legs: &Legs, index: usize) -> &[RecordedPath] {
    match index.checked_sub(1) {
        None => &legs.first,
        Some(viewer) => &legs.last[viewer],
    }
}

/// The leg as it was in the seconds before the windows that count.
fn seen(paths: &[RecordedPath], timing: Timing) -> Option<Leg> {
    let count = timing.warm_up.as_secs() as usize;
    let mut sums = vec![0.0; count];
    for path in paths {
        let windows = path.windows_bps(WINDOW, count);
        sums.iter_mut()
            .zip(windows)
            .for_each(|(sum, bps)| *sum += bps);
    }
    let rates = sums.iter().map(|bps| Rate::from_bps(*bps as u64));
    Leg::new(rates, delay(paths))
}

/// Runs it.
///
/// # Errors
/// The paths are inconsistent.
pub(super) fn run(seed: Seed, legs: &Legs, timing: Timing) -> Result<Vec<Row>, TopologyError> {
    let molecule = Molecule::new(legs.rates);
    let pipeline = VIEWERS[1].pipeline(STREAM, true);
    let bytes = |pipeline: &Pipeline| {
        let rate = molecule.rate(STREAM, pipeline, OVERHEAD).as_bps() as f64;
        rate / 8.0 * PERIOD.as_secs_f64()
    };
    let flow = Flow {
        period: PERIOD,
        bytes: bytes(&Pipeline::default()),
        units: molecule.work(STREAM, &pipeline),
    };
    let demand = Demand {
        share: SHARE,
        deadline: Some(DEADLINE),
    };
    let derived = bytes(&pipeline);
    let estimate = |place: &Place| {
        let candidate = Candidate {
            first: place.first.and_then(|index| seen(leg(legs, index), timing)),
            processor: Processor {
                unit_ps: UNIT_PS,
                free: 1.0,
            },
            last: vec![Last {
                leg: seen(leg(legs, place.last), timing),
                bytes: derived,
            }],
        };
        Some(Estimate::of(&candidate, &flow, &demand))
    };
    let estimates: Vec<Option<Estimate>> = PLACES.iter().map(estimate).collect();
    let placed = best(&estimates, &demand);
    let mut rows = Vec::new();
    for (at, (place, estimate)) in PLACES.iter().zip(estimates).enumerate() {
        let measured = at_place(seed, legs, timing, (place, &molecule, &pipeline))?;
        let Some(estimate) = estimate else { continue };
        rows.push(Row {
            name: place.name,
            estimate,
            is_placed: placed == Some(at),
            measured,
        });
    }
    Ok(rows)
}

/// The operator at one place.
fn at_place(
    seed: Seed,
    legs: &Legs,
    timing: Timing,
    (place, molecule, pipeline): (&Place, &Molecule, &Pipeline),
) -> Result<Measured, TopologyError> {
    let windows = Windows {
        begin: Instant::EPOCH + BEGIN,
        first_frame: timing.warm_up.as_secs() * FRAMES,
        count: timing.windows as u64,
    };
    let frames = windows.first_frame + windows.count * FRAMES;
    let (begin, end) = (windows.begin, windows.made_at(frames));
    let mut world = World::new(seed);
    let ids = [0, 1, 2].map(World::node_id);
    let manner = (Fallback::Source, Pace::Live);
    let source = Source::new(ids[0], molecule.clone(), &[STREAM], (begin, end), manner);
    let source = world.add_node(Config::default(), AllowList::of([ids[2]]), source);
    let node = world.add_node(
        Config::default(),
        AllowList::of([ids[0], ids[2]]),
        Node::default(),
    );
    let wanted = Wanted::new(STREAM, pipeline.clone(), None, true);
    let viewer = Viewer::new(vec![wanted]);
    let viewer = world.add_node(Config::default(), AllowList::default(), viewer);
    let (mut peers, server) = (Vec::new(), place.first.map_or(source, |_| node));
    if let Some(index) = place.first {
        let links = lay(&mut world, leg(legs, index), [source, node], source)?;
        peers.push((ids[1], links));
    }
    world.app::<Source>(source).dial(peers, FOREVER);
    world.with_node(source, |_| ());
    let last = leg(legs, place.last);
    let links = lay(&mut world, last, [server, viewer], viewer)?;
    let peers = vec![(World::node_id(server), links)];
    let manner = (delay(last) * 2, FOREVER);
    world.app::<Viewer>(viewer).dial(peers, manner);
    world.with_node(viewer, |_| ());

    world.run_until(begin + timing.warm_up);
    let before = sent(&mut world, source, node);
    world.run_until(end);
    let bytes = sent(&mut world, source, node) - before;
    // What is late comes after the last window.
    world.run_for(Duration::from_secs(2));
    let viewer = world.app::<Viewer>(viewer);
    let all = viewer.wanted();
    let arrived = all.get(&STREAM).map_or(&[][..], |wanted| &wanted.arrived);
    let arrived: BTreeMap<u64, Instant> = arrived.iter().map(|one| (one.frame, one.at)).collect();
    let due = windows.first_frame..frames;
    let late = windows.late(due.clone(), DEADLINE - steady::DEADLINE, |frame| {
        arrived.get(&frame).copied()
    });
    let kept = late.iter().filter(|late| !**late).count() as f64 / late.len().max(1) as f64;
    let own = arrived.range(due.clone());
    let age = |(frame, at): (&u64, &Instant)| at.since(windows.made_at(*frame)).as_secs_f64() * 1e3;
    let mut ages: Vec<f64> = own.map(age).collect();
    ages.sort_by(f64::total_cmp);
    Ok(Measured {
        kept,
        age_ms: [exceeded(&ages, 0.5), exceeded(&ages, 0.01)],
        frames: [ages.len() as u64, due.count() as u64],
        bytes,
    })
}

/// Bytes that source and node have sent, each in its sessions.
fn sent(world: &mut World, source: usize, node: usize) -> u64 {
    let own = world.app::<Source>(source).hub.sessions();
    let of_node = world.app::<Node>(node).0.sessions();
    let all = [(source, own), (node, of_node)];
    let all = all.into_iter();
    let sessions = all.flat_map(|(at, sessions)| sessions.into_iter().map(move |one| (at, one)));
    let bytes = sessions.map(|(at, session)| session_bytes(world, at, session));
    bytes.sum()
}
