//! Cost of computing routes: `cargo bench -p anabranch-route --bench routes`.
//!
//! Random overlays with links between random nodes: bandwidths over three decades without ties, delays of 1 to 200 ms.
//! Compares `quickest` with the published algorithm (one shortest path per distinct bandwidth), and times the search for
//! several paths, the quickest flow, and the division of a message. Prints one JSON object in the lab's format. Times are
//! wall-clock times of one thread: the median, minimum and maximum of several runs, each the mean over source–sink pairs
//! and sizes; and the slowest single call.

#[path = "../../sched/benches/common/mod.rs"]
mod common;

use std::{
    hint::black_box,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{Random, Rate, Seed};
use anabranch_route::{
    Estimate, Graph, Link, NodeIndex, flow,
    multiple::{self, Choice, Wanted},
    partition::{Leg, partition},
    quickest::{Finder, Limits, Query, published},
};
use serde_json::{Value, json};

const SIZES: [u64; 4] = [1_000, 100_000, 10_000_000, 1_000_000_000];
/// Numbers of nodes and links.
const OVERLAYS: [(u64, u64); 3] = [(20, 380), (100, 2_000), (1_000, 10_000)];

fn overlay(nodes: u64, links: u64) -> Graph {
    let mut random = Seed(1).stream("overlay");
    let link = |random: &mut Random| {
        let from = random.below(nodes);
        let to = (from + 1 + random.below(nodes - 1)) % nodes;
        Link {
            from: NodeIndex(from as u32),
            to: NodeIndex(to as u32),
            estimate: Estimate {
                bandwidth: Rate::from_bps((1e6 * 10f64.powf(random.uniform(0.0, 3.0))) as u64),
                delay_min: Duration::from_micros(random.between(1_000, 200_000)),
                error: 0.0,
            },
        }
    };
    let links: Vec<Link> = (0..links).map(|_| link(&mut random)).collect();
    Graph::new(nodes as usize, links)
}

fn queries(nodes: u64, count: u64) -> Vec<Query<'static>> {
    let mut random = Seed(2).stream("pairs");
    let query = |at: u64| Query {
        from: NodeIndex(random.below(nodes) as u32),
        to: NodeIndex(random.below(nodes) as u32),
        bytes: SIZES[(at % 4) as usize],
        limits: Limits::default(),
    };
    (0..count)
        .map(query)
        .filter(|query| query.from != query.to)
        .collect()
}

/// Times `work` on every query in several runs and returns a row.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn row(
    name: &str,
    graph: &Graph,
    queries: &[Query<'_>],
    mut work: impl FnMut(&Query<'_>),
) -> Value {
    queries.iter().take(8).for_each(&mut work);
    let mut slowest = Duration::ZERO;
    let [median, least, most] = common::times(1e4, || {
        let start = Clock::now();
        for query in queries {
            let begin = Clock::now();
            work(black_box(query));
            slowest = slowest.max(begin.elapsed());
        }
        start.elapsed().as_secs_f64() * 1e3 / queries.len() as f64
    });
    json!({
        "bench": name,
        "nodes": graph.nodes(),
        "links": graph.links().len(),
        "ms_median": median,
        "ms_min": least,
        "ms_max": most,
        "ms_slowest_call": (slowest.as_secs_f64() * 1e7).round() / 1e4,
        "calls": queries.len(),
        "runs": common::RUNS,
    })
}

fn rows(graph: &Graph) -> Vec<Value> {
    let nodes = graph.nodes() as u64;
    let many = queries(nodes, 200);
    let mut finder = Finder::new();
    let (mut searches, mut settled, mut searches_most) = (0, 0, 0);
    let mut quickest = row("quickest", graph, &many, |query| {
        black_box(finder.quickest(graph, query));
        let effort = finder.effort();
        searches += effort.searches;
        settled += effort.settled;
        searches_most = effort.searches.max(searches_most);
    });
    let calls = (many.len() * common::RUNS + many.len().min(8)) as f64;
    quickest["searches_mean"] = json!((searches as f64 / calls * 100.0).round() / 100.0);
    quickest["searches_most"] = json!(searches_most);
    quickest["settled_mean"] = json!((settled as f64 / calls).round());
    let mut rows = vec![quickest];
    let limits = Limits {
        hops_max: Some(4),
        headroom: None,
    };
    let limited: Vec<_> = many
        .iter()
        .map(|query| Query { limits, ..*query })
        .collect();
    rows.push(row("quickest_4_hops", graph, &limited, |query| {
        black_box(finder.quickest(graph, query));
    }));
    let few = queries(nodes, if nodes < 1_000 { 20 } else { 4 });
    rows.push(row("quickest_published", graph, &few, |query| {
        black_box(published::quickest(graph, query));
    }));
    for (name, choice) in [
        ("multiple_4_joint", Choice::Joint),
        ("multiple_4_published", Choice::Published),
    ] {
        let wanted = Wanted {
            choice,
            ..Wanted::default()
        };
        rows.push(row(name, graph, &many, |query| {
            black_box(multiple::paths(&mut finder, graph, query, &wanted));
        }));
    }
    rows.push(row("quickest_flow", graph, &many, |query| {
        black_box(flow::quickest(graph, query));
    }));
    rows
}

fn main() {
    if !common::is_measuring() {
        return;
    }
    let mut all = Vec::new();
    for (nodes, links) in OVERLAYS {
        all.extend(rows(&overlay(nodes, links)));
    }
    let graph = overlay(20, 380);
    let legs: Vec<Leg> = graph.links()[..4]
        .iter()
        .map(|link| Leg {
            bandwidth: link.estimate.bandwidth,
            delay_min: link.estimate.delay_min,
        })
        .collect();
    all.push(row("partition_4", &graph, &queries(20, 200), |query| {
        black_box(partition(&legs, query.bytes));
    }));
    common::print("routes", &all);
}
