//! Many overlays as fluid models: ratio of the earliest possible end to that of the chosen paths.

use std::time::Duration;

use anabranch_base::{Rate, Seed};
use anabranch_route::{
    Graph, NodeIndex, Path, flow,
    multiple::{self, Choice, Wanted},
    partition::{Leg, finish},
    quickest::{Finder, Limits, Query},
};
use serde_json::json;

use super::overlay::{self, SINK, SOURCE};
use crate::{
    Options, Row,
    kit::{parallel, streams::show::rounded},
};

pub(super) const NODES: [u32; 6] = [3, 4, 5, 8, 12, 20];
pub(super) const SIZES: [u64; 4] = [100_000, 1_000_000, 10_000_000, 100_000_000];
const OVERLAYS: u64 = 200;
/// Limit on the overlays of which all paths are tried, and on the paths at a time.
const BRUTE_NODES: u32 = 5;
const BRUTE_PATHS: usize = 3;

/// Method of choosing paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// The link from source to sink.
    Direct,
    /// Up to the given number of paths.
    Paths(usize, Choice),
    /// The best of all sequences of up to three paths, each using all the capacity that those before it leave.
    Brute,
}

pub(super) const METHODS: [(&str, Method); 9] = [
    ("direct", Method::Direct),
    ("quickest", Method::Paths(1, Choice::Joint)),
    ("published_2", Method::Paths(2, Choice::Published)),
    ("joint_2", Method::Paths(2, Choice::Joint)),
    ("published_4", Method::Paths(4, Choice::Published)),
    ("joint_4", Method::Paths(4, Choice::Joint)),
    ("published_all", Method::Paths(99, Choice::Published)),
    ("joint_all", Method::Paths(99, Choice::Joint)),
    ("brute_force_3", Method::Brute),
];

/// A message from the source to the sink, over any nodes.
pub(super) fn message(bytes: u64) -> Query<'static> {
    Query {
        from: SOURCE,
        to: SINK,
        bytes,
        limits: Limits::default(),
    }
}

/// Paths of a message, chosen by this method.
pub(super) fn paths(graph: &Graph, bytes: u64, most: usize, choice: Choice) -> Vec<Path> {
    let wanted = Wanted {
        paths_max: most,
        choice,
        ..Wanted::default()
    };
    multiple::paths(&mut Finder::new(), graph, &message(bytes), &wanted)
}

/// Time at which a message has arrived over these paths.
pub(super) fn end(paths: &[Path], bytes: u64) -> Option<Duration> {
    let legs: Vec<Leg> = paths.iter().map(Leg::from).collect();
    finish(&legs, bytes)
}

fn end_of(method: Method, graph: &Graph, bytes: u64) -> Option<Duration> {
    match method {
        Method::Direct => {
            let direct = graph.find(SOURCE, SINK)?;
            end(&[graph.path(&[direct])], bytes)
        }
        Method::Paths(most, choice) => end(&paths(graph, bytes, most, choice), bytes),
        Method::Brute => brute(graph, bytes),
    }
}

/// Earliest end of all sequences of up to [`BRUTE_PATHS`] simple paths.
fn brute(graph: &Graph, bytes: u64) -> Option<Duration> {
    if graph.nodes() > BRUTE_NODES as usize {
        return None;
    }
    let mut all = Vec::new();
    simple(graph, SOURCE, &mut Vec::new(), &mut all);
    let left: Vec<u64> = graph
        .links()
        .iter()
        .map(|link| link.estimate.bandwidth.as_bps())
        .collect();
    let mut best = None;
    extend(&all, &left, &mut Vec::new(), bytes, &mut best);
    best
}

fn simple(
    graph: &Graph,
    node: NodeIndex,
    method: &mut Vec<anabranch_route::LinkIndex>,
    all: &mut Vec<Path>,
) {
    if node == SINK {
        all.push(graph.path(method));
        return;
    }
    for link in graph.links_from(node) {
        let next = graph.link(link).to;
        if next != SOURCE && method.iter().all(|&before| graph.link(before).to != next) {
            method.push(link);
            simple(graph, next, method, all);
            method.pop();
        }
    }
}

fn extend(
    all: &[Path],
    left: &[u64],
    chosen: &mut Vec<Leg>,
    bytes: u64,
    best: &mut Option<Duration>,
) {
    for path in all {
        let bps = path.links.iter().map(|link| left[link.at()]).min();
        let Some(bps) = bps.filter(|&bps| bps > 0) else {
            continue;
        };
        chosen.push(Leg {
            bandwidth: Rate::from_bps(bps),
            delay_min: path.delay_min,
        });
        if let Some(end) = finish(chosen, bytes)
            && best.is_none_or(|best| end < best)
        {
            *best = Some(end);
        }
        if chosen.len() < BRUTE_PATHS {
            let mut left = left.to_vec();
            for link in &path.links {
                left[link.at()] -= bps;
            }
            extend(all, &left, chosen, bytes, best);
        }
        chosen.pop();
    }
}

/// Earliest end, and its ratio to the end of each method: 1 is the optimum.
fn fractions(seed: Seed, nodes: u32, bytes: u64) -> Option<[Option<f64>; METHODS.len()]> {
    let wires = overlay::draw(seed, nodes);
    let graph = overlay::graph(nodes, &wires, &overlay::truth(&wires));
    let best = flow::quickest(&graph, &message(bytes))?
        .finish
        .as_secs_f64();
    Some(METHODS.map(|(_, method)| Some(best / end_of(method, &graph, bytes)?.as_secs_f64())))
}

/// A row for each number of nodes, size and method.
pub(super) fn rows(options: &Options<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for nodes in NODES {
        let name = format!("fluid {nodes} nodes");
        if !options.wants(&name) {
            continue;
        }
        for bytes in SIZES {
            let seed = options.seed.child(&name);
            let numbers: Vec<u64> = (0..OVERLAYS).collect();
            let found = parallel::map(&numbers, |number| {
                fractions(seed.child(&number.to_string()), nodes, bytes)
            });
            for ((method, _), at) in METHODS.into_iter().zip(0..) {
                let reached = found.iter().filter_map(|found| found.as_ref()?[at]);
                let mut reached: Vec<f64> = reached.collect();
                if reached.is_empty() {
                    continue;
                }
                reached.sort_by(f64::total_cmp);
                let quantile = |q: f64| reached[((reached.len() - 1) as f64 * q).round() as usize];
                let near = reached.iter().filter(|&&fraction| fraction >= 0.97).count();
                let mut row = Row::new();
                row.insert("kind".into(), json!("fluid"));
                row.insert("nodes".into(), json!(nodes));
                row.insert("bytes".into(), json!(bytes));
                row.insert("method".into(), json!(method));
                row.insert("overlays".into(), json!(reached.len()));
                row.insert("of_optimum_median".into(), rounded(quantile(0.5)));
                row.insert("of_optimum_p10".into(), rounded(quantile(0.1)));
                row.insert("of_optimum_worst".into(), rounded(reached[0]));
                let near = near as f64 / reached.len() as f64;
                row.insert("near_optimum_fraction".into(), rounded(near));
                rows.push(row);
            }
        }
        (options.progress)(&format!("{name}: {OVERLAYS} overlays"));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_beats_the_flow_and_brute_force_is_no_worse_than_greedy() {
        let at = |name: &str| {
            METHODS
                .iter()
                .position(|(method, _)| *method == name)
                .expect("there")
        };
        for number in 0..40 {
            for (nodes, bytes) in [(3, 1_000_000), (4, 100_000), (5, 10_000_000)] {
                let found = fractions(Seed(number), nodes, bytes).expect("connected");
                assert!(
                    found
                        .iter()
                        .flatten()
                        .all(|&fraction| fraction <= 1.0 + 1e-6)
                );
                let [brute, greedy] = ["brute_force_3", "joint_2"].map(|name| found[at(name)]);
                assert!(brute.expect("small") >= greedy.expect("connected") - 1e-9);
            }
        }
    }
}
