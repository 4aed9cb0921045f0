//! One run: builds the world, lets the source send, counts the arrivals.

use std::time::Duration;

use anabranch_base::{Instant, Seed, StreamId};
use anabranch_sched::{AnyScheduler, Opt};
use anabranch_session::{AllowList, Config, Explanation, Link};
use anabranch_sim::{World, topology::TopologyError};

use super::{
    algorithm::Algorithm,
    apps::{Arrival, Collector, Feed, Feeder, Schedule},
    changes::{self, Change},
    figures::{FrameRecord, LATE, StreamFigures, Windows},
    lateness::{Lateness, Transit},
    oracle::Future,
    published_pgos::PublishedPgos,
    scene::Scene,
};
use crate::kit::sources::Source;

/// Time at which the first frame is offered. Recordings hold a rate for a second and change at whole seconds, as they were
/// written; borders of windows lie between these steps.
pub(crate) const BEGIN: Duration = Duration::from_millis(1_500);
/// Time before the first frame at which an oracle takes over; channels are connected by then.
const STEP_BEFORE: Duration = Duration::from_millis(100);
/// Length of a window, over which rates are stated.
pub const WINDOW: Duration = Duration::from_secs(1);

/// Duration of a run, in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time from the first frame of the elastic streams until the critical streams open.
    pub alone: Duration,
    /// Time from the first frame until the first window that counts; whole seconds.
    pub warm_up: Duration,
    /// Number of windows that count.
    pub windows: usize,
}

impl Timing {
    /// A minute to measure the paths, a minute to settle, five minutes that count.
    pub const USUAL: Self = Self {
        alone: Duration::from_secs(60),
        warm_up: Duration::from_secs(120),
        windows: 300,
    };

    /// Time from zero to the end of the last window, rounded up.
    pub fn end(&self) -> Duration {
        BEGIN + self.warm_up + WINDOW * (self.windows as u32 + 1)
    }
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Figures of each stream, in the order of the source's offers.
    pub streams: Vec<StreamFigures>,
    /// Numbers of the frames of each stream that arrived whole in the windows that count.
    pub frames: Vec<Vec<u64>>,
    /// Transits of each stream's frames that should have arrived in these windows; empty for elastic ones.
    pub transits: Vec<Vec<Transit>>,
    /// Delay beyond which a frame is late.
    pub delay_max: Duration,
    /// Promise of each stream, and the session's own account of it, at the end; `None` for streams without a demand.
    pub promises: Vec<Option<Explanation>>,
    /// Application bytes sent on each path, in the order of the scene, as fractions of all in the windows
    /// that count; repairs and copies included.
    pub path_shares: Vec<f64>,
    /// Application bytes that arrived, over all streams and windows, in bits per second.
    pub goodput_bps: f64,
    /// Capacity that the paths had for us in the same time, in bits per second, whether or not they had failed.
    pub available_bps: f64,
}

/// Runs `source` over `scene` under `algorithm`.
///
/// Windows have one phase for all algorithms: they begin [`LATE`] of a frame after the arrival of a frame that meets no queue.
/// No frame can arrive earlier than that, so the margin is entirely for late ones.
///
/// # Errors
/// The scene's network is inconsistent.
pub fn measure(
    seed: Seed,
    scene: &Scene,
    algorithm: Algorithm,
    timing: Timing,
    source: Box<dyn Source>,
) -> Result<Measured, TopologyError> {
    measure_changing(seed, scene, &[], algorithm, timing, source)
}

/// The same over recorded paths that change on the way. In a network, changes are left out.
///
/// # Errors
/// As of [`measure`].
pub fn measure_changing(
    seed: Seed,
    scene: &Scene,
    changes: &[Change],
    algorithm: Algorithm,
    timing: Timing,
    source: Box<dyn Source>,
) -> Result<Measured, TopologyError> {
    let period = source.period();
    let begin = Instant::EPOCH + BEGIN;
    let schedule = Schedule {
        begin,
        critical: begin + timing.alone,
    };
    let mut world = World::new(seed);
    let config = Config {
        policy: algorithm.policy(),
        ..Config::default()
    };
    let feeder = Feeder::new(World::node_id(1), source, schedule);
    let a = world.add_node(config, AllowList::default(), feeder);
    let allowed = AllowList::of([World::node_id(a)]);
    let b = world.add_node(Config::default(), allowed, Collector::default());
    let links = scene.lay(&mut world, [a, b])?;
    let delay = scene.delay_max();
    let windows_begin = begin + delay + period.mul_f64(LATE);
    let first = windows_begin + timing.warm_up;
    let later = match scene {
        Scene::Recorded(_) => changes::schedule(&mut world, (a, &links), changes, windows_begin),
        Scene::Network(_) => Vec::new(),
    };
    let mut dialled = links.clone();
    dialled.retain(|link| !later.contains(link));
    world.app::<Feeder>(a).dial(dialled);
    world.with_node(a, |_| ());

    if algorithm == Algorithm::PublishedPgos {
        world.run_until(begin - STEP_BEFORE);
        let scheduler = Box::<PublishedPgos>::default();
        replace(&mut world, a, AnyScheduler::Promises(scheduler));
    }
    if algorithm == Algorithm::Opt {
        world.run_until(begin - STEP_BEFORE);
        let future = Future::new(scene, seed, timing.end())?;
        let before = first.since(Instant::EPOCH).as_secs() as u32;
        know(&mut world, a, &links, &future);
        let opt = Box::new(Opt::new(Box::new(future.clone())));
        replace(&mut world, a, AnyScheduler::Plain(opt));
        // Lost channels are replaced by channels with other names.
        for second in 1..before + timing.windows as u32 {
            let (future, links) = (future.clone(), links.clone());
            world.schedule(WINDOW * second, move |world| {
                know(world, a, &links, &future);
            });
        }
    }
    let mut arrived: Vec<Vec<u64>> = Vec::new();
    let mut sent_at_first = Vec::new();
    let mut lateness = Lateness::default();
    for window in 0..=timing.windows {
        world.run_until(first + WINDOW * window as u32);
        arrived.push(arrived_bytes(&mut world, [a, b]));
        if let Some(session) = world.app::<Feeder>(a).session() {
            if window == 0 {
                // The session exists, so the call cannot be refused.
                let _ = world
                    .engine(a)
                    .session(session)
                    .map(|mut session| session.keep_journal(true));
            }
            let entries = world
                .engine(a)
                .session(session)
                .map(|mut session| session.take_journal())
                .unwrap_or_default();
            lateness.read(&entries, &critical_streams(&mut world, a), delay);
        }
        if window == 0 {
            sent_at_first = sent_bytes(&mut world, a, &links);
        }
    }
    let sent = sent_bytes(&mut world, a, &links);
    let sent: Vec<f64> = sent
        .iter()
        .zip(sent_at_first)
        .map(|(now, before)| now.saturating_sub(before) as f64)
        .collect();
    let sent_sum: f64 = sent.iter().sum::<f64>().max(1.0);

    let promises = world.app::<Feeder>(a).ids();
    let promises = promises.into_iter().map(|(session, stream)| {
        let (session, stream) = (session?, stream?);
        world
            .engine(a)
            .session(session)
            .ok()
            .and_then(|session| session.stream(stream).explain())
    });
    let promises = promises.collect();
    let arrivals = std::mem::take(&mut world.app::<Collector>(b).arrivals);
    let feeder = world.app::<Feeder>(a);
    let grid = Windows {
        first,
        count: timing.windows,
        delay,
    };
    let streams: Vec<StreamFigures> = feeder
        .feeds
        .iter()
        .enumerate()
        .map(|(index, feed)| {
            let bytes: Vec<f64> = arrived
                .windows(2)
                .map(|pair| (pair[1][index] - pair[0][index]) as f64)
                .collect();
            let record = FrameRecord {
                feed,
                arrivals: arrivals.get(feed.offer.name).map_or(&[], Vec::as_slice),
                frame_at: &|number| feeder.frame_at(number),
                period,
            };
            StreamFigures::new(&grid, &record, &bytes)
        })
        .collect();
    let frames = feeder.feeds.iter().map(|feed| {
        let arrivals = arrivals.get(feed.offer.name).map_or(&[][..], Vec::as_slice);
        let counted = arrivals
            .iter()
            .filter(|arrival| grid.index(arrival.at).is_some());
        let frame = |arrival: &Arrival| {
            feed.accepted
                .get(usize::try_from(arrival.sequence).ok()?)
                .copied()
        };
        counted.filter_map(frame).collect()
    });
    let frames = frames.collect();
    let ids = feeder.ids();
    let least = scene.delays().into_iter().min().unwrap_or_default();
    let transits = feeder.feeds.iter().zip(&ids).map(|(feed, &(_, id))| {
        let arrivals = arrivals.get(feed.offer.name).map_or(&[][..], Vec::as_slice);
        let counted = arrivals.iter().filter(|arrival| arrival.at >= first);
        let transits = counted.filter_map(|arrival| {
            let frame = *feed.accepted.get(usize::try_from(arrival.sequence).ok()?)?;
            let times = (feeder.frame_at(frame), arrival.at);
            lateness.transit((id?, arrival.sequence), times, least)
        });
        transits.collect()
    });
    let transits = transits.collect();
    let seconds = WINDOW.as_secs_f64() * timing.windows as f64;
    let bytes = arrived.last().map_or(0, |last| last.iter().sum::<u64>())
        - arrived.first().map_or(0, |first| first.iter().sum::<u64>());
    let before = (first.since(Instant::EPOCH).as_secs_f64()).round() as usize;
    let windows = scene.available_bps(seed, (WINDOW, before + timing.windows))?;
    let available: f64 = windows
        .iter()
        .map(|path| path[before..].iter().sum::<f64>() / timing.windows as f64)
        .sum();
    Ok(Measured {
        streams,
        frames,
        transits,
        delay_max: delay + period.mul_f64(LATE),
        promises,
        path_shares: sent.iter().map(|bytes| bytes / sent_sum).collect(),
        goodput_bps: bytes as f64 * 8.0 / seconds,
        available_bps: available,
    })
}

/// Replaces the scheduler of the sender's session.
fn replace(world: &mut World, a: usize, scheduler: AnyScheduler) {
    if let Some(session) = world.app::<Feeder>(a).session() {
        // The session exists, so the call cannot be refused.
        let _ = world
            .engine(a)
            .session(session)
            .map(|mut session| session.set_scheduler(scheduler));
    }
}

/// Informs an oracle of the path that each channel runs over now.
fn know(world: &mut World, a: usize, links: &[Link], future: &Future) {
    let Some(session) = world.app::<Feeder>(a).session() else {
        return;
    };
    for report in world
        .engine(a)
        .session(session)
        .map(|mut session| session.channel_stats())
        .unwrap_or_default()
    {
        let own = |link: &Link| link.socket == report.socket && link.remote == report.remote;
        if let Some(path) = links.iter().position(own) {
            future.assign(report.channel, path);
        }
    }
}

/// Streams with a target.
fn critical_streams(world: &mut World, a: usize) -> Vec<StreamId> {
    let feeder = world.app::<Feeder>(a);
    let ids = feeder.ids();
    let critical = |&(feed, _): &(&Feed, _)| feed.offer.is_critical();
    let streams = feeder.feeds.iter().zip(&ids).filter(critical);
    streams.filter_map(|(_, &(_, id))| id).collect()
}

/// Bytes of each stream that have reached the receiver, including parts of incomplete frames.
fn arrived_bytes(world: &mut World, [a, b]: [usize; 2]) -> Vec<u64> {
    let feeds = &world.app::<Feeder>(a).feeds;
    let names: Vec<&str> = feeds.iter().map(|feed| feed.offer.name).collect();
    let session = world.app::<Collector>(b).session;
    let stats = session.map(|session| {
        world
            .engine(b)
            .session(session)
            .map(|mut session| session.stream_stats())
            .unwrap_or_default()
    });
    names
        .iter()
        .map(|name| {
            let mut streams = stats.iter().flatten();
            let found = streams.find(|stream| stream.spec.label == *name);
            found.map_or(0, |stream| stream.arrived_bytes)
        })
        .collect()
}

/// Application bytes sent on each link so far.
fn sent_bytes(world: &mut World, a: usize, links: &[Link]) -> Vec<u64> {
    let session = world.app::<Feeder>(a).session();
    let reports = session.map_or_else(Vec::new, |session| {
        world
            .engine(a)
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default()
    });
    links
        .iter()
        .map(|link| {
            let own = reports
                .iter()
                .filter(|report| report.socket == link.socket && report.remote == link.remote);
            own.map(|report| report.payload_sent_bytes).sum()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{recording::Recording, sources::Visualisation};
    use anabranch_base::Rate;

    const SHORT: Timing = Timing {
        alone: Duration::from_secs(3),
        warm_up: Duration::from_secs(6),
        windows: 8,
    };

    /// Two constant paths of the given rates in Mbit/s, and streams of 0.4, 2.6 and 20.
    fn run(algorithm: &str, paths_mbps: [f64; 2]) -> Measured {
        let path = |mbps: f64| Recording {
            name: format!("{mbps}"),
            times_s: vec![0.0, 1.0],
            bandwidth_bps: Some(vec![Some(mbps * 1e6); 2]),
            ..Recording::default()
        };
        let [one, other] = paths_mbps.map(path);
        let scene = Scene::of_recordings(&[&one, &other], Rate::from_mbps(1_000)).unwrap();
        let rates = [400, 2_600, 20_000].map(Rate::from_kbps);
        let source = Box::new(Visualisation::generated(rates));
        let algorithm = Algorithm::find(algorithm).unwrap();
        measure(Seed(1), &scene, algorithm, SHORT, source).unwrap()
    }

    #[test]
    fn with_capacity_for_all_every_window_has_every_frame() {
        let measured = run("min_rtt", [20.0, 20.0]);
        for stream in &measured.streams {
            assert_eq!(stream.frames.met, 1.0, "{stream:?}");
            assert_eq!(stream.own_phase_met, 1.0, "{stream:?}");
            assert_eq!(stream.skipped, 0, "{stream:?}");
            assert_eq!(stream.frames.mean_bps, stream.made_bps, "{stream:?}");
        }
        assert!((measured.goodput_bps / 23e6 - 1.0).abs() < 0.01);
        assert_eq!(measured.available_bps, 40e6);
        assert!((measured.path_shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn without_capacity_for_all_elastic_streams_yield_to_an_optimum_and_not_to_fair_shares() {
        let fair = run("round_robin", [8.0, 6.0]);
        let best = run("opt", [8.0, 6.0]);
        for stream in 0..2 {
            assert!(fair.streams[stream].own_phase_met < 0.5);
            // Draining a path for a round trip, every ten seconds, may delay a frame past the end of our window, not of its
            // own.
            assert_eq!(best.streams[stream].own_phase_met, 1.0);
        }
        for measured in [&fair, &best] {
            assert!(measured.goodput_bps > 0.85 * 14e6, "{measured:?}");
            assert!(measured.goodput_bps < 14e6, "{measured:?}");
        }
        // The session knows the promises, too.
        assert!(best.promises[0].is_some() && best.promises[2].is_none());
    }

    #[test]
    fn the_delay_of_a_frame_is_broken_down() {
        let measured = run("pgos", [8.0, 6.0]);
        assert!(
            measured.transits[2].is_empty(),
            "nobody waits for elastic frames"
        );
        let least_s = 0.02;
        for transits in &measured.transits[..2] {
            // Frames sent before the first window have no transit.
            assert!(transits.len() >= 8 * 25 - 5, "{}", transits.len());
            for transit in transits {
                let parts_s: f64 = transit.parts.iter().map(Duration::as_secs_f64).sum();
                // Acknowledgements may be held back for 4 ms, and frames sent in part twice count once.
                let off_s = (transit.delay.as_secs_f64() - least_s - parts_s).abs();
                assert!(off_s < 0.006, "{transit:?}");
                assert!(transit.first_left <= transit.last_left[0], "{transit:?}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_windows() {
        let [one, other] = [(); 2].map(|()| run("ecf", [8.0, 6.0]));
        for (one, other) in one.streams.iter().zip(&other.streams) {
            assert_eq!(one.frames, other.frames);
            assert_eq!(one.bytes, other.bytes);
        }
    }
}
