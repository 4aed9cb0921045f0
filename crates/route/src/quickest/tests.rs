use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    graph::{Builder, Estimate},
    testing,
};

fn estimate(mbps: u64, delay_ms: u64) -> Estimate {
    Estimate {
        bandwidth: Rate::from_mbps(mbps),
        delay_min: Duration::from_millis(delay_ms),
        error: 0.0,
    }
}

/// A narrow short path, one of middle width, and a wide long one.
fn three_paths() -> (Graph, Query<'static>) {
    let mut builder = Builder::new();
    builder.link("a", "z", estimate(1, 10));
    builder.link("a", "m", estimate(10, 30));
    builder.link("m", "z", estimate(12, 30));
    builder.link("a", "w", estimate(100, 100));
    builder.link("w", "x", estimate(90, 100));
    builder.link("x", "z", estimate(100, 100));
    let (graph, names) = builder.build();
    let query = Query {
        from: names.find(&"a").expect("there"),
        to: names.find(&"z").expect("there"),
        bytes: 0,
        limits: Limits::default(),
    };
    (graph, query)
}

/// Crossings by hand: 1 Mbit/s + 10 ms and 10 Mbit/s + 60 ms meet at 6,944 bytes; the latter and 90 Mbit/s +
/// 300 ms at 337,500.
#[test]
fn the_size_decides() {
    let (graph, mut query) = three_paths();
    let mut finder = Finder::new();
    for (bytes, hops, time_us) in [
        (0, 1, 10_000),
        (6_900, 1, 65_200),
        (7_000, 2, 65_600),
        (337_000, 2, 329_600),
        (338_000, 3, 330_044),
        (1 << 30, 3, 95_743_717),
    ] {
        query.bytes = bytes;
        let path = finder.quickest(&graph, &query).expect("connected");
        assert_eq!(path.links.len(), hops, "{bytes}");
        assert_eq!(path.time(bytes).as_micros(), time_us, "{bytes}");
        assert_eq!(published::quickest(&graph, &query), Some(path));
    }
}

#[test]
fn limits_are_kept() {
    let (graph, mut query) = three_paths();
    query.bytes = 1 << 30;
    let mut finder = Finder::new();
    let mut hops = |most| {
        query.limits.hops_max = Some(most);
        finder.quickest(&graph, &query).map(|path| path.links.len())
    };
    assert_eq!(
        [hops(0), hops(1), hops(2), hops(3), hops(9)],
        [None, Some(1), Some(2), Some(3), Some(3)]
    );
    // m (node 1) and w (2) relay nothing; then w a little.
    let mut headroom = vec![Rate::from_mbps(1000); graph.nodes()];
    (headroom[1], headroom[2]) = (Rate::ZERO, Rate::ZERO);
    query.limits = Limits {
        hops_max: None,
        headroom: Some(&headroom),
    };
    assert_eq!(
        finder.quickest(&graph, &query).expect("direct").links.len(),
        1
    );
    let mut headroom = headroom.clone();
    headroom[2] = Rate::from_mbps(5);
    query.limits.headroom = Some(&headroom);
    let path = finder.quickest(&graph, &query).expect("by w");
    assert_eq!((path.links.len(), path.bandwidth), (3, Rate::from_mbps(5)));
}

#[test]
fn no_path() {
    let (graph, mut query) = three_paths();
    let mut finder = Finder::new();
    (query.from, query.to) = (query.to, query.from);
    assert_eq!(finder.quickest(&graph, &query), None);
    query.from = query.to;
    assert_eq!(finder.quickest(&graph, &query), None);
    assert_eq!(quickest_stored(&mut finder, &graph, &query), None);
    assert_eq!(published::quickest(&graph, &query), None);
}

/// Small messages by Eq. (4): 1,250 bytes at 1 Mbit/s take 10 ms.
#[test]
fn stored_and_forwarded() {
    let mut builder = Builder::new();
    builder.link(0, 1, estimate(10, 4));
    builder.link(1, 2, estimate(10, 4));
    builder.link(0, 2, estimate(1, 0));
    let (graph, _) = builder.build();
    let query = Query {
        from: NodeIndex(0),
        to: NodeIndex(2),
        bytes: 1250,
        limits: Limits::default(),
    };
    let mut finder = Finder::new();
    // 2·(1 + 4) ms, as the direct link takes: fewer hops win. A pipelined message takes 9 ms.
    let path = quickest_stored(&mut finder, &graph, &query).expect("there");
    assert_eq!(path.links.len(), 1);
    assert_eq!(path.time_stored(&graph, 1250), Duration::from_millis(10));
    let path = finder.quickest(&graph, &query).expect("there");
    assert_eq!(path.time(1250), Duration::from_millis(9));
}

proptest! {
    /// The quickest of all simple paths, by exhaustive search, and by the published algorithm.
    #[test]
    fn nothing_is_quicker(
        seed in 0u64..1 << 40, nodes in 2u64..8, links in 0u64..30, bytes in 0u64..200_000, hops in 1u32..8,
    ) {
        let graph = testing::overlay(seed, nodes, links);
        let (from, to) = (NodeIndex(0), NodeIndex(1));
        let mut finder = Finder::new();
        for hops_max in [None, Some(hops)] {
            let limits = Limits { hops_max, headroom: None };
            let query = Query { from, to, bytes, limits };
            let all = testing::paths(&graph, from, to, hops_max.map_or(99, |h| h as usize));
            let best = all.iter().map(|links| graph.path(links).time(bytes)).min();
            let path = finder.quickest(&graph, &query);
            prop_assert_eq!(path.as_ref().map(|path| path.time(bytes)), best);
            if let Some(path) = &path {
                prop_assert_eq!(path, &graph.path(&path.links));
                prop_assert!(all.contains(&path.links), "simple, from source to sink, within the hops");
            }
            let best = all.iter().map(|links| graph.path(links).time_stored(&graph, bytes)).min();
            let path = quickest_stored(&mut finder, &graph, &query);
            prop_assert_eq!(path.map(|path| path.time_stored(&graph, bytes)), best);
        }
        let query = Query { from, to, bytes, limits: Limits::default() };
        prop_assert_eq!(
            published::quickest(&graph, &query).map(|path| path.time(bytes)),
            finder.quickest(&graph, &query).map(|path| path.time(bytes))
        );
    }

    /// With relays of little headroom, on larger overlays.
    #[test]
    fn headroom_counts(seed in 0u64..1 << 40, bytes in 0u64..1_000_000) {
        let graph = testing::overlay(seed, 40, 300);
        let headroom: Vec<Rate> = (0..40).map(|node| Rate::from_kbps(node % 7 * 700)).collect();
        let limits = Limits { hops_max: None, headroom: Some(&headroom) };
        let query = Query { from: NodeIndex(3), to: NodeIndex(9), bytes, limits };
        let path = Finder::new().quickest(&graph, &query);
        let reference = published::quickest(&graph, &query);
        prop_assert_eq!(path.as_ref().map(|p| p.time(bytes)), reference.map(|p| p.time(bytes)));
        if let Some(path) = path {
            prop_assert!(path.relays(&graph).all(|relay| path.bandwidth <= headroom[relay.at()]));
        }
    }
}
