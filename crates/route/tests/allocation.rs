//! A finder allocates nothing but the path that it returns, once it has seen a graph of that size.
//!
//! Runs without the test harness, whose threads would be counted, too.
#![allow(clippy::print_stdout, reason = "prints the harness's result line")]

use std::{alloc::System, time::Duration};

use anabranch_base::{Rate, Seed};
use anabranch_route::{
    Estimate, Graph, Link, NodeIndex,
    partition::{Leg, finish},
    quickest::{Finder, Limits, Query},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let mut random = Seed(1).stream("overlay");
    let links = (0..2_000).map(|_| {
        let from = random.below(100);
        Link {
            from: NodeIndex(from as u32),
            to: NodeIndex(((from + 1 + random.below(99)) % 100) as u32),
            estimate: Estimate {
                bandwidth: Rate::from_kbps(random.between(1, 100_000)),
                delay_min: Duration::from_micros(random.below(100_000)),
                error: 0.0,
            },
        }
    });
    let graph = Graph::new(100, links);
    let queries = || {
        (1..100).map(|to| Query {
            from: NodeIndex(0),
            to: NodeIndex(to),
            bytes: 10u64.pow(to % 9),
            limits: Limits::default(),
        })
    };
    let mut finder = Finder::new();
    let found = queries().filter_map(|query| finder.quickest(&graph, &query));
    let legs: Vec<Leg> = found.map(|path| Leg::from(&path)).collect();
    assert_eq!(legs.len(), 99, "connected");
    let region = Region::new(ALLOCATOR);
    for query in queries() {
        assert!(finder.quickest(&graph, &query).is_some());
        assert!(finish(&legs, query.bytes).is_some());
    }
    let change = region.change();
    assert_eq!(
        (change.allocations, change.reallocations),
        (legs.len(), 0),
        "a path is one vector of links"
    );
    println!("test one_allocation_a_path ... ok");
}
