//! Runs over one set of paths.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs, source::Playback};
use anabranch_session::{AllowList, Config, Guarantee, StreamError, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};
use serde_json::json;

use super::{EARLY, LATE, LEAST, PROBABILITIES, SENDS_FOR};
use crate::{Row, experiments::path_sets::sets::PathSet, kit::streams::RecordedPath};

/// Sum of the paths' mean rates at most: faster paths would only add packets.
const SUM_MAX_BPS: f64 = 12e6;
const DELAYS_MS: [u64; 3] = [20, 30, 40];
const QUEUE: Duration = Duration::from_millis(150);
const BACKWARD: Rate = Rate::from_mbps(20);
/// A rate that nobody has.
const TOO_MUCH: Rate = Rate::from_mbps(1_000);
/// Time between two ADUs of a promised stream.
pub(super) const EVERY: Duration = Duration::from_millis(20);
/// Time at which the early session is asked for the first time.
const ASKED: Duration = Duration::from_millis(200);
/// Label of the promised stream.
pub(super) const LABEL: &str = "promised";

/// Promises on a set at one probability, early and late.
#[derive(Clone, Debug)]
pub(super) struct Early {
    set: String,
    origin: &'static str,
    pub(super) probability: f64,
    pub(super) early_bps: u64,
    pub(super) late_bps: u64,
    pub(super) kept: u64,
    pub(super) broken: u64,
    pub(super) probe_bytes: u64,
}

impl Early {
    pub(super) fn ratio(&self) -> Option<f64> {
        (self.late_bps > 0).then(|| self.early_bps as f64 / self.late_bps as f64)
    }

    pub(super) fn row(&self) -> Row {
        let fields = [
            ("kind", json!("set")),
            ("set", json!(self.set)),
            ("origin", json!(self.origin)),
            ("probability", json!(self.probability)),
            ("early_bps", json!(self.early_bps)),
            ("late_bps", json!(self.late_bps)),
            ("ratio", json!(self.ratio())),
            ("windows_kept", json!(self.kept)),
            ("windows_broken", json!(self.broken)),
            ("probe_bytes", json!(self.probe_bytes)),
        ];
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    }
}

/// The paths of a set, its seed, and the time from which its recordings are played; `None` if one cannot be played.
pub(super) fn played(set: &PathSet<'_>, seed: Seed) -> Option<(Vec<RecordedPath>, Seed, Duration)> {
    let paths: Option<Vec<RecordedPath>> = set
        .recordings
        .iter()
        .map(|one| RecordedPath::new(one))
        .collect();
    let mut paths = paths?;
    let sum: f64 = paths.iter().map(RecordedPath::mean_bps).sum();
    for path in &mut paths {
        path.scale = (SUM_MAX_BPS / sum).min(1.0);
    }
    let seed = seed.child(&set.name());
    let shortest = paths
        .iter()
        .map(RecordedPath::duration)
        .min()
        .unwrap_or_default();
    let spare_ms = shortest.saturating_sub(LEAST).as_millis() as u64;
    let begin = Duration::from_millis(seed.stream("begin").below(spare_ms + 1));
    Some((paths, seed, begin))
}

/// A row for each probability; none if a recording of the set cannot be played.
pub(super) fn of_set(set: &PathSet<'_>, seed: Seed) -> Vec<Early> {
    let Some((paths, seed, begin)) = played(set, seed) else {
        return Vec::new();
    };
    let mut late = world(seed, &paths, begin, vec![Load::bulk(1 << 40)]);
    late.run_until(Instant::EPOCH + LATE);
    let late_bps = PROBABILITIES.map(|probability| most(&mut late, probability));

    let begin = begin + (LATE - EARLY);
    let mut early = world(seed, &paths, begin, Vec::new());
    let early_bps = asked_again(&mut early);
    let probe_bytes = (0..paths.len())
        .map(|wire| early.wire(wire).duplex.forward.stats().offered.bytes)
        .sum();

    let each = PROBABILITIES.into_iter().zip(early_bps).zip(late_bps);
    each.map(|((probability, early_bps), late_bps)| {
        let (kept, broken) = match early_bps {
            0 => (0, 0),
            bps => kept(
                seed,
                &paths,
                begin,
                Guarantee::rate(Rate::from_bps(bps), probability),
            ),
        };
        Early {
            set: set.name(),
            origin: set.origin(),
            probability,
            early_bps,
            late_bps,
            kept,
            broken,
            probe_bytes,
        }
    })
    .collect()
}

/// A session over `paths`, whose recordings are played from `begin` on.
pub(super) fn world(
    seed: Seed,
    paths: &[RecordedPath],
    begin: Duration,
    mut loads: Vec<Load>,
) -> World {
    // A sender needs something to send.
    loads.push(Load::messages(100, Duration::from_secs(10), u64::MAX));
    let mut world = World::new(seed);
    let a = world.add_node(
        Config::default(),
        AllowList::default(),
        Sender::new(World::node_id(1), loads),
    );
    let b = world.add_node(
        Config::default(),
        AllowList::of([World::node_id(0)]),
        Receiver::new(),
    );
    let mut links = Vec::new();
    for (path, delay_ms) in paths.iter().zip(DELAYS_MS) {
        let forward = LinkConfig {
            rate: RateSource::Trace(Playback {
                trace: path.trace().clone(),
                scale: path.scale,
                start: begin,
            }),
            delay: Duration::from_millis(delay_ms),
            queue: Queue::time(QUEUE),
            ..LinkConfig::default()
        };
        let backward = LinkConfig {
            rate: RateSource::Constant(BACKWARD),
            ..forward.clone()
        };
        let wire = world.add_wire(a, b, Configs { forward, backward });
        links.push(world.link(a, wire.expect("recordings are valid")));
    }
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    world
}

/// Asks a session at its beginning, and again; what would be promised then.
fn asked_again(world: &mut World) -> [u64; PROBABILITIES.len()] {
    world.run_until(Instant::EPOCH + ASKED);
    most(world, PROBABILITIES[0]);
    world.run_until(Instant::EPOCH + EARLY);
    PROBABILITIES.map(|probability| most(world, probability))
}

/// The largest rate that would be promised; 0: nothing.
fn most(world: &mut World, probability: f64) -> u64 {
    let Some(session) = world.app::<Sender>(0).session() else {
        return 0;
    };
    let spec = StreamSpec::default().with_guarantee(Guarantee::rate(TOO_MUCH, probability));
    let answer = world.with_node(0, |context| {
        let now = context.now();
        context.engine().session(session)?.admit(now, &spec)
    });
    match answer {
        Err(StreamError::Refused(refusal)) => refusal.offer.rate.map_or(0, Rate::as_bps),
        _ => 0,
    }
}

/// Windows kept and broken of a stream that is promised `guarantee` and sends as much.
fn kept(seed: Seed, paths: &[RecordedPath], begin: Duration, guarantee: Guarantee) -> (u64, u64) {
    let rate = guarantee.required();
    let load = Load {
        spec: StreamSpec {
            label: LABEL.to_owned(),
            guarantee: Some(Box::new(guarantee)),
            ..StreamSpec::default()
        },
        start: Instant::EPOCH + EARLY,
        ..Load::messages(
            rate.bytes_in(EVERY).max(16) as usize,
            EVERY,
            (SENDS_FOR.as_millis() / EVERY.as_millis()) as u64,
        )
    };
    let mut world = world(seed, paths, begin, vec![load]);
    asked_again(&mut world);
    world.run_until(Instant::EPOCH + EARLY + SENDS_FOR);
    let Some(session) = world.app::<Sender>(0).session() else {
        return (0, 0);
    };
    let Ok(mut session) = world.engine(0).session(session) else {
        return (0, 0);
    };
    let promises = session.promises();
    let own = promises.iter().find(|(spec, _)| spec.label == LABEL);
    own.map_or((0, 0), |(_, explained)| {
        (explained.account.kept, explained.account.broken)
    })
}
