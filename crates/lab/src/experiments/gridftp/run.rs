//! A run of one layout.

use std::collections::BTreeSet;

use anabranch_base::{Instant, Seed};
use anabranch_recordset::Layout;
use anabranch_session::{AllowList, Config, Explanation};
use anabranch_sim::{World, topology::TopologyError};

use super::{
    lanes::{self, Assembly, Sender},
    testbed::Setting,
};
use crate::kit::{
    sources::{Source, records::PERIOD},
    streams::{
        Algorithm, Change, Measured, Timing, Windows,
        apps::{Collector, Schedule},
        figures::{LATE, Rates},
        measure,
        measure::{BEGIN, WINDOW},
        measure_changing,
    },
};

/// Division of the records among the paths, and the order of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// A connection for each path, as GridFTP's.
    Lanes(Layout),
    /// A stream for each component, under a scheduling policy or the optimum.
    Streams(Algorithm),
}

impl Method {
    /// Those that are compared, in the order of tables: GridFTP's layouts, ours, then other schedulers.
    pub(super) fn all() -> Vec<Self> {
        let blocked = Layout::Blocked { bytes: 64 << 10 };
        let lanes = [Layout::Partitioned, blocked].map(Self::Lanes);
        let algorithms =
            Algorithm::among(&["pgos", "published_pgos", "priority_mean", "msfq", "opt"]);
        let streams = algorithms.into_iter().map(Self::Streams);
        lanes.into_iter().chain(streams).collect()
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Lanes(Layout::Blocked { .. }) => "blocked".to_owned(),
            Self::Lanes(layout) => layout.to_string(),
            Self::Streams(algorithm) => algorithm.name().to_owned(),
        }
    }
}

/// Figures of a component.
#[derive(Clone, Debug)]
pub(super) struct Component {
    pub(super) name: &'static str,
    pub(super) target_bps: f64,
    /// Bytes, by window of arrival.
    pub(super) bytes: Rates,
    /// Whole components, by window of arrival.
    pub(super) whole: Rates,
    /// Promise at the end, and the session's account of it.
    pub(super) promise: Option<Explanation>,
}

/// Figures of a run.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) components: Vec<Component>,
    /// Records of which all components arrived, of a second.
    pub(super) records_per_s: f64,
    /// Records, or components of records, that were not read because too many waited, in the whole run.
    pub(super) skipped: u64,
    pub(super) goodput_bps: f64,
    pub(super) available_bps: f64,
}

impl Figures {
    /// Rate of a component in whole components per second.
    pub(super) fn components_per_s(&self, index: usize) -> f64 {
        let component = &self.components[index];
        component.whole.mean_bps / component.target_bps / PERIOD.as_secs_f64()
    }
}

/// Runs one method.
///
/// # Errors
/// The network is inconsistent.
pub(super) fn run(
    seed: Seed,
    setting: &Setting,
    method: Method,
    timing: Timing,
) -> Result<Figures, TopologyError> {
    match method {
        Method::Lanes(layout) => over_lanes(seed, setting, layout, timing),
        Method::Streams(algorithm) => {
            let measured = measure(seed, &setting.scene, algorithm, timing, source(setting));
            Ok(of_streams(measured?))
        }
    }
}

/// Figures of a stream for each component, over recorded paths that change on the way.
///
/// # Errors
/// The network is inconsistent.
pub(super) fn run_changing(
    seed: Seed,
    setting: &Setting,
    changes: &[Change],
    algorithm: Algorithm,
    timing: Timing,
) -> Result<Figures, TopologyError> {
    let source = source(setting);
    let measured = measure_changing(seed, &setting.scene, changes, algorithm, timing, source);
    Ok(of_streams(measured?))
}

fn source(setting: &Setting) -> Box<dyn Source> {
    Box::new(setting.records.clone().sharing(setting.elastic))
}

fn of_streams(measured: Measured) -> Figures {
    let seconds = measured.streams[0].frames.series_bps.len() as f64 * WINDOW.as_secs_f64();
    let mut frames = measured.frames.iter();
    let first: BTreeSet<u64> = frames.next().into_iter().flatten().copied().collect();
    let whole = frames.fold(first, |all, frames| {
        let own: BTreeSet<u64> = frames.iter().copied().collect();
        all.intersection(&own).copied().collect()
    });
    let skipped = measured.streams.iter().map(|stream| stream.skipped).sum();
    let streams = measured.streams.into_iter().zip(measured.promises);
    let components = streams.map(|(stream, promise)| Component {
        name: stream.name,
        target_bps: stream.target_bps,
        bytes: stream.bytes,
        whole: stream.frames,
        promise,
    });
    Figures {
        components: components.collect(),
        records_per_s: whole.len() as f64 / seconds,
        skipped,
        goodput_bps: measured.goodput_bps,
        available_bps: measured.available_bps,
    }
}

fn over_lanes(
    seed: Seed,
    setting: &Setting,
    layout: Layout,
    timing: Timing,
) -> Result<Figures, TopologyError> {
    let Setting { scene, records, .. } = setting;
    let begin = Instant::EPOCH + BEGIN;
    let schedule = Schedule {
        begin,
        critical: begin + timing.alone,
    };
    let mut world = World::new(seed);
    let sender = Sender::new(World::node_id(1), layout, records.sizes(), schedule);
    let a = world.add_node(Config::default(), AllowList::default(), sender);
    let allowed = AllowList::of([World::node_id(a)]);
    let b = world.add_node(Config::default(), allowed, Collector::default());
    let links = scene.lay(&mut world, [a, b])?;
    for (index, link) in links.iter().enumerate() {
        world
            .engine(a)
            .set_socket_name(link.socket, &lanes::name(index));
    }
    world.app::<Sender>(a).dial(links);
    world.with_node(a, |_| ());

    let delay = scene.delay_max();
    let first = begin + timing.warm_up + delay + PERIOD.mul_f64(LATE);
    let grid = Windows {
        first,
        count: timing.windows,
        delay,
    };
    world.run_until(first + WINDOW * timing.windows as u32);

    let arrivals = std::mem::take(&mut world.app::<Collector>(b).arrivals);
    let sender = world.app::<Sender>(a);
    let none = vec![0.0; timing.windows];
    let mut bytes = [(); 3].map(|()| none.clone());
    let mut whole = [(); 3].map(|()| none.clone());
    let mut assembly = Assembly::new(records.sizes());
    let mut pieces = Vec::new();
    for (lane, accepted) in sender.accepted().enumerate() {
        let arrived = arrivals
            .get(&lanes::name(lane))
            .map_or(&[][..], Vec::as_slice);
        pieces.extend(
            arrived
                .iter()
                .zip(accepted)
                .map(|(arrival, piece)| (arrival.at, *piece)),
        );
    }
    pieces.sort_by_key(|(at, _)| *at);
    let mut complete = std::collections::BTreeMap::<u64, usize>::new();
    for (at, piece) in pieces {
        let is_complete = assembly.take(piece);
        let Some(window) = grid.index(at) else {
            continue;
        };
        bytes[piece.component][window] += f64::from(piece.bytes) * 8.0;
        if is_complete {
            let size = records.sizes()[piece.component];
            whole[piece.component][window] += size as f64 * 8.0;
            *complete.entry(piece.record).or_default() += 1;
        }
    }
    let seconds = timing.windows as f64 * WINDOW.as_secs_f64();
    let sum: f64 = bytes.iter().flatten().sum();
    let skipped = sender.skipped();
    let available = scene.available_bps(seed, (WINDOW, timing.end().as_secs() as usize))?;
    let before = (first.since(Instant::EPOCH).as_secs_f64()).round() as usize;
    let available_bps = available.iter().map(|path| {
        path[before..].iter().take(timing.windows).sum::<f64>() / timing.windows as f64
    });
    let offers = records.offers().iter().zip(bytes.into_iter().zip(whole));
    let components = offers.map(|(offer, (bytes, whole))| {
        let target_bps = offer.target().as_bps() as f64;
        let due = vec![target_bps; timing.windows];
        Component {
            name: offer.name,
            target_bps,
            bytes: Rates::new(bytes, target_bps, &due),
            whole: Rates::new(whole, target_bps, &due),
            promise: None,
        }
    });
    Ok(Figures {
        components: components.collect(),
        records_per_s: complete.values().filter(|count| **count == 3).count() as f64 / seconds,
        skipped,
        goodput_bps: sum / seconds,
        available_bps: available_bps.sum(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anabranch_base::Rate;

    use super::*;
    use crate::kit::{recording::Recording, sources::Records, streams::Scene};

    const SHORT: Timing = Timing {
        alone: Duration::from_secs(3),
        warm_up: Duration::from_secs(6),
        windows: 8,
    };

    /// Two steady paths, and components of 2, 4 and 10 Mbit/s.
    fn figures(method: &str, paths_mbps: [f64; 2]) -> Figures {
        let path = |mbps: f64| Recording {
            name: format!("{mbps}"),
            times_s: vec![0.0, 1.0],
            bandwidth_bps: Some(vec![Some(mbps * 1e6); 2]),
            ..Recording::default()
        };
        let [one, other] = paths_mbps.map(path);
        let setting = Setting {
            scene: Scene::of_recordings(&[&one, &other], Rate::from_mbps(1_000)).unwrap(),
            records: Records::of_sizes([10_000, 20_000, 50_000]),
            elastic: Rate::from_mbps(7),
        };
        let methods = Method::all();
        let method = methods.iter().find(|known| known.name() == method);
        run(Seed(1), &setting, *method.unwrap(), SHORT).unwrap()
    }

    #[test]
    fn with_capacity_for_all_every_layout_carries_every_record() {
        for layout in ["partitioned", "blocked", "pgos", "published_pgos"] {
            let figures = figures(layout, [14.0, 14.0]);
            assert_eq!(figures.skipped, 0, "{layout}");
            assert!((figures.records_per_s - 25.0).abs() < 0.2, "{layout}");
            for component in &figures.components {
                let ratio = component.bytes.mean_bps / component.target_bps;
                assert!((ratio - 1.0).abs() < 0.01, "{layout} {component:?}");
            }
        }
    }

    /// As the paper shows: connections share what is missing among all components, streams leave it to the elastic one.
    #[test]
    fn without_it_lanes_take_from_every_component_and_streams_from_the_elastic_one() {
        for layout in ["partitioned", "blocked"] {
            let figures = figures(layout, [8.0, 6.0]);
            for component in &figures.components {
                assert!(component.whole.met < 0.3, "{layout} {component:?}");
            }
        }
        let figures = figures("pgos", [8.0, 6.0]);
        for component in &figures.components[..2] {
            assert!(component.bytes.met > 0.99, "{component:?}");
        }
        assert!(figures.components[2].whole.met < 0.3);
        assert!(figures.goodput_bps > 0.9 * 14e6, "{}", figures.goodput_bps);
    }
}
