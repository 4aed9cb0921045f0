//! Changes of pipelines: viewers turn their view once a second, and see what they asked for.

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_process::Pipeline;
use anabranch_processing::wire::message::Pace;
use anabranch_session::{AllowList, Config};
use anabranch_sim::{World, topology::TopologyError};

use super::{
    changing::{Change, Changing},
    hub::Node,
    legs::{Legs, delay, lay},
    molecule::Molecule,
    source::{Fallback, Source},
    viewer::{Viewer, Wanted},
    viewers::{VIEWERS, is_critical},
};
use crate::kit::{sources::visualisation::PERIOD, streams::Timing, streams::measure::BEGIN};

/// Longer than a run.
const FOREVER: Duration = Duration::from_secs(1_000_000);
/// ADUs within which a change is in effect, beside one round trip.
const ADUS: u32 = 2;

/// A stream at a viewer.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) viewer: &'static str,
    pub(super) stream: usize,
    pub(super) changes: Vec<Change>,
    /// Round trip of the viewer's leg without queues.
    pub(super) round_trip: Duration,
}

impl Row {
    /// Share of the changes after which at most two ADUs by the pipeline before came later than a round trip without queues.
    pub(super) fn within_adus(&self) -> f64 {
        self.share(|change| change.latency().is_some() && change.stale() <= ADUS)
    }

    /// Share of the changes of which an ADU came within a round trip without queues and two periods of the source.
    pub(super) fn within_time(&self) -> f64 {
        let bound = self.round_trip + PERIOD * ADUS;
        self.share(|change| change.latency().is_some_and(|latency| latency <= bound))
    }

    fn share(&self, is_in_time: impl Fn(&Change) -> bool) -> f64 {
        let count = self.changes.iter().filter(|change| is_in_time(change));
        count.count() as f64 / self.changes.len().max(1) as f64
    }
}

/// The two halves of space that are looked at in turn.
fn views(viewer: &'static str) -> [Pipeline; 2] {
    let rest = match viewer {
        "wall" => "",
        "desk" => " then precision 12 of f32",
        _ => " then every 2",
    };
    ["0 0 0 50 100 100", "50 0 0 100 100 100"].map(|edges| {
        let text = format!("region box {edges} of f32{rest}");
        text.parse().expect("the pipelines are tested")
    })
}

/// Runs it: Atom as usual, and both streams of bonds by views that change.
///
/// # Errors
/// The paths are inconsistent.
pub(super) fn run(seed: Seed, legs: &Legs, timing: Timing) -> Result<Vec<Row>, TopologyError> {
    let molecule = Molecule::new(legs.rates);
    let begin = Instant::EPOCH + BEGIN;
    let counts_from = begin + timing.warm_up;
    let end = counts_from + Duration::from_secs(timing.windows as u64);
    let mut world = World::new(seed);
    let own = World::node_id(0);
    let manner = (Fallback::Source, Pace::Live);
    let source = Source::new(own, molecule, &[0, 1, 2], (begin, end), manner);
    let source = world.add_node(Config::default(), AllowList::default(), source);
    let ids = (0..VIEWERS.len()).map(|index| World::node_id(2 + index));
    let allowed = AllowList::of(ids.chain([own]));
    let node = world.add_node(Config::default(), allowed, Node::default());
    let links = lay(&mut world, &legs.first, [source, node], source)?;
    let app = world.app::<Source>(source);
    app.dial(vec![(World::node_id(node), links)], FOREVER);
    world.with_node(source, |_| ());
    let mut viewers = Vec::new();
    for (viewer, leg) in VIEWERS.iter().zip(&legs.last) {
        let wanted = [0, 1, 2].map(|stream| {
            let is_turned = stream > 0;
            let views = views(viewer.name);
            let pipeline = match is_turned {
                true => views[0].clone(),
                false => viewer.pipeline(stream, true),
            };
            let wanted = Wanted::new(stream, pipeline, None, is_critical(stream));
            match is_turned {
                true => wanted.changing(Changing::new(views, counts_from, delay(leg) * 2)),
                false => wanted,
            }
        });
        let app = Viewer::new(wanted.into());
        let at = world.add_node(Config::default(), AllowList::default(), app);
        let links = lay(&mut world, leg, [node, at], at)?;
        let peers = vec![(World::node_id(node), links)];
        let round_trip = delay(leg) * 2;
        world.app::<Viewer>(at).dial(peers, (round_trip, FOREVER));
        world.with_node(at, |_| ());
        viewers.push((at, viewer.name, round_trip));
    }
    world.run_until(end);
    let mut rows = Vec::new();
    for (at, viewer, round_trip) in viewers {
        for (stream, wanted) in world.app::<Viewer>(at).wanted() {
            // The last one may not have come yet.
            let Some((_, changes)) = wanted.changes().split_last() else {
                continue;
            };
            rows.push(Row {
                viewer,
                stream,
                changes: changes.to_vec(),
                round_trip,
            });
        }
    }
    Ok(rows)
}
