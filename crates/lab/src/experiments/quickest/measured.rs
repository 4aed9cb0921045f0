//! Predicted against measured: real sessions over paths chosen from estimates.

use std::time::Duration;

use anabranch_base::{Rate, Seed};
use anabranch_route::{
    Estimate, Graph, Path,
    multiple::Choice,
    start::{Sample, Start},
};
use anabranch_sim::Hop;
use anabranch_stats::regression::LinkEstimator;
use serde_json::json;

use super::{
    fluid,
    overlay::{self, Wire},
    transfer::{self, ADU_BYTES},
};
use crate::{
    Options, Row,
    kit::{parallel, streams::show::rounded},
};

const NODES: [u32; 6] = [3, 4, 5, 6, 7, 8];
/// Overlays of each number of nodes.
const OVERLAYS: u64 = 4;
pub(super) const SIZES: [u64; 3] = [2 << 20, 8 << 20, 32 << 20];
/// Limit on the paths of a transfer.
const PATHS: usize = 4;
/// Time that the last probe takes: messages are doubled until one takes that long, and the last of them are the probes.
const PROBE_LONG: Duration = Duration::from_millis(1_500);
const PROBES: usize = 4;
const PROBE_FIRST_BYTES: u64 = 4 * ADU_BYTES;
/// Messages before the measured one on a warm session.
const WARMING: usize = 1;

/// Position of a message in its session: the first one, or a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Regime {
    First,
    Later,
}

pub(super) const REGIMES: [&str; 2] = ["first", "later"];
/// Inputs of the prediction: rates and delays of the wires; messages timed over the transport; these, with the start of a path
/// as a whole.
pub(super) const ESTIMATES: [&str; 3] = ["nominal", "transport", "transport_start"];
/// Size of a message of one packet.
const SMALL_BYTES: u64 = 1_000;
/// Factor by which the engine's window grows in a round trip while it searches for the rate of a path (`auto`,
/// `channel/src/control/auto.rs`).
const GROWTH: f64 = 4.0;

/// One transfer.
#[derive(Debug, Clone, Copy)]
struct Measured {
    bytes: u64,
    /// By [`REGIMES`], then by [`ESTIMATES`]: predicted time, and measured time over the paths chosen by it.
    times_s: [[(f64, Option<f64>); 3]; 2],
    paths: usize,
    /// Number of links of the longest path.
    links: usize,
    /// Earliest end over all paths at the wires' rates.
    optimum_s: f64,
}

/// Time of a message over a wire; on a session of its own, or after another one.
fn probe(seed: Seed, wire: &Wire, bytes: u64, regime: Regime) -> Option<Duration> {
    let span = span(bytes, wire.rate);
    let sizes = match regime {
        Regime::First => vec![(bytes, span)],
        Regime::Later => vec![(bytes, span); WARMING + 1],
    };
    let paths = [vec![Hop::forward(0)]];
    *transfer::messages(seed, &[*wire], &paths, &sizes).last()?
}

/// Ample time for a message.
fn span(bytes: u64, rate: Rate) -> Duration {
    rate.time_to_send(bytes) * 2 + Duration::from_secs(8)
}

/// Times messages over a wire, each twice the size of the one before until they are long; fits a line through the longest.
fn estimate(seed: Seed, wire: &Wire, regime: Regime) -> Option<Sample> {
    let small = probe(seed, wire, SMALL_BYTES, regime)?;
    let mut timed: Vec<(u64, Duration)> = Vec::new();
    let mut bytes = PROBE_FIRST_BYTES;
    loop {
        let time = probe(seed, wire, bytes, regime)?;
        timed.push((bytes, time));
        if time >= PROBE_LONG && timed.len() >= PROBES {
            break;
        }
        bytes *= 2;
    }
    let mut estimator = LinkEstimator::new(512).ok()?;
    for &(bytes, time) in &timed[timed.len() - PROBES..] {
        estimator.observe(bytes, time).ok()?;
    }
    estimator.observe_small(small);
    let line = estimator.least_squares().ok()?;
    Some(Sample {
        bandwidth: line.bandwidth,
        delay_min: line.delay_min,
        delay_small: small,
    })
}

/// The path with a start of its own, in place of those of its links.
fn started(start: Option<Start>, mut path: Path, bed: &Bed<'_>) -> Path {
    let smalls = path.links.iter().filter_map(|&link| {
        let ends = [bed.graph.link(link).from, bed.graph.link(link).to];
        let is_same = |wire: &Wire| wire.ends == ends || wire.ends == [ends[1], ends[0]];
        Some(bed.known[bed.wires.iter().position(is_same)?].delay_small)
    });
    let small = smalls.sum();
    if let Some(start) = start {
        path.delay_min = start.delay_min(path.bandwidth, small);
    }
    path
}

fn measure(seed: Seed, nodes: u32) -> Option<Vec<Measured>> {
    let wires = overlay::draw(seed, nodes);
    let truth = overlay::truth(&wires);
    let ideal = overlay::graph(nodes, &wires, &truth);
    let mut beds = Vec::new();
    for regime in [Regime::First, Regime::Later] {
        let known = wires.iter().map(|wire| estimate(seed, wire, regime));
        let known: Vec<Sample> = known.collect::<Option<_>>()?;
        let line = |sample: &Sample| Estimate {
            bandwidth: sample.bandwidth,
            delay_min: sample.delay_min,
            error: 0.0,
        };
        let lines: Vec<Estimate> = known.iter().map(line).collect();
        beds.push(Bed {
            seed,
            regime,
            graph: overlay::graph(nodes, &wires, &lines),
            start: Start::learn(GROWTH, &known),
            known,
            wires: &wires,
        });
    }
    let transfers = SIZES.map(|bytes| {
        let optimum = anabranch_route::flow::quickest(&ideal, &fluid::message(bytes));
        let chosen = fluid::paths(&beds[0].graph, bytes, PATHS, Choice::Joint);
        Measured {
            bytes,
            times_s: [0, 1].map(|regime| beds[regime].times_s(&ideal, bytes)),
            paths: chosen.len(),
            links: chosen
                .iter()
                .map(|path| path.links.len())
                .max()
                .unwrap_or(0),
            optimum_s: optimum.map_or(f64::NAN, |flow| flow.finish.as_secs_f64()),
        }
    });
    Some(transfers.to_vec())
}

/// An overlay whose links have been measured.
struct Bed<'a> {
    seed: Seed,
    regime: Regime,
    graph: Graph,
    start: Option<Start>,
    known: Vec<Sample>,
    wires: &'a [Wire],
}

impl Bed<'_> {
    /// Predicted and measured times, by [`ESTIMATES`].
    fn times_s(&self, ideal: &Graph, bytes: u64) -> [(f64, Option<f64>); 3] {
        let choose = |graph| fluid::paths(graph, bytes, PATHS, Choice::Joint);
        let end_s =
            |paths: &[Path]| fluid::end(paths, bytes).map_or(f64::NAN, |end| end.as_secs_f64());
        let nominal = choose(ideal);
        let chosen = choose(&self.graph);
        let whole = chosen.iter().cloned();
        let whole: Vec<Path> = whole.map(|path| started(self.start, path, self)).collect();
        let time = self.transfer(&chosen, bytes);
        [
            (end_s(&nominal), self.transfer(&nominal, bytes)),
            (end_s(&chosen), time),
            (end_s(&whole), time),
        ]
    }

    /// Measured time of a message over these paths.
    fn transfer(&self, paths: &[Path], bytes: u64) -> Option<f64> {
        let paths = paths
            .iter()
            .map(|path| transfer::hops(&self.graph, self.wires, path));
        let paths: Vec<Vec<Hop>> = paths.collect::<Option<_>>()?;
        let mut sizes = vec![(bytes, span(bytes, Rate::from_mbps(2)))];
        if self.regime == Regime::Later {
            sizes = vec![sizes[0]; WARMING + 1];
        }
        let times = transfer::messages(self.seed, self.wires, &paths, &sizes);
        times.last()?.map(|time| time.as_secs_f64())
    }
}

/// A row for each transfer.
pub(super) fn rows(options: &Options<'_>) -> Vec<Row> {
    let all: Vec<(u32, u64)> = NODES
        .into_iter()
        .flat_map(|nodes| (0..OVERLAYS).map(move |number| (nodes, number)))
        .filter(|(nodes, _)| options.wants(&format!("measured {nodes} nodes")))
        .collect();
    let found = parallel::map(&all, |&(nodes, number)| {
        let seed = options.seed.child(&format!("measured {nodes} {number}"));
        let measured = measure(seed, nodes);
        (options.progress)(&format!("measured {nodes} nodes, overlay {number}"));
        measured
    });
    let mut rows = Vec::new();
    for (&(nodes, number), measured) in all.iter().zip(&found) {
        for measured in measured.iter().flatten() {
            for (regime, times) in REGIMES.iter().zip(measured.times_s) {
                for (estimates, (predicted, time)) in ESTIMATES.iter().zip(times) {
                    let mut row = Row::new();
                    row.insert("kind".into(), json!("measured"));
                    row.insert("nodes".into(), json!(nodes));
                    row.insert("overlay".into(), json!(number));
                    row.insert("bytes".into(), json!(measured.bytes));
                    row.insert("message".into(), json!(regime));
                    row.insert("estimates".into(), json!(estimates));
                    row.insert("paths".into(), json!(measured.paths));
                    row.insert("links_max".into(), json!(measured.links));
                    row.insert("predicted_s".into(), rounded(predicted));
                    row.insert("measured_s".into(), json!(time.map(rounded)));
                    row.insert("optimum_s".into(), rounded(measured.optimum_s));
                    rows.push(row);
                }
            }
        }
    }
    rows
}
