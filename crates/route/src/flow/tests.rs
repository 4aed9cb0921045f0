use proptest::prelude::*;

use super::*;
use crate::{
    graph::{Builder, Estimate, NodeIndex},
    multiple::{self, Choice, Wanted},
    partition::{Leg, finish, partition},
    quickest::{Finder, Limits},
    testing,
};

fn query(bytes: u64) -> Query<'static> {
    Query {
        from: NodeIndex(0),
        to: NodeIndex(1),
        bytes,
        limits: Limits::default(),
    }
}

/// The short path crosses the middle and blocks both others: the greedy choice carries 10 Mbit/s of 20.
fn crossing() -> Graph {
    let mut builder = Builder::new();
    let estimate = |delay_ms| Estimate {
        bandwidth: Rate::from_mbps(10),
        delay_min: Duration::from_millis(delay_ms),
        error: 0.0,
    };
    for (from, to, delay_ms) in [(0, 2, 1), (2, 3, 1), (3, 1, 1), (0, 3, 50), (2, 1, 50)] {
        builder.link(from, to, estimate(delay_ms));
    }
    builder.build().0
}

#[test]
fn takes_back_what_blocks_two() {
    let graph = crossing();
    let large = query(10_000_000);
    assert_eq!(maximum(&graph, &large), Rate::from_mbps(20));
    let flow = quickest(&graph, &large).expect("connected");
    // 8 s·10 Mbit/s in all: two paths of 51 ms.
    assert_eq!(flow.finish, Duration::from_millis(4_051));
    assert_eq!(flow.paths.len(), 2);
    let greedy = multiple::paths(&mut Finder::new(), &graph, &large, &Wanted::default());
    assert_eq!(greedy.len(), 1);
    // A message that arrives before the detour would help.
    let small = quickest(&graph, &query(10_000)).expect("connected");
    assert_eq!(small.finish, Duration::from_millis(11));
    assert_eq!(small.paths.len(), 1);
}

#[test]
fn no_path() {
    let graph = crossing();
    let mut back = query(5);
    (back.from, back.to) = (back.to, back.from);
    assert_eq!(maximum(&graph, &back), Rate::ZERO);
    assert_eq!(quickest(&graph, &back), None);
    let mut none = query(5);
    none.to = none.from;
    assert_eq!(maximum(&graph, &none), Rate::ZERO);
    // No node relays.
    let mut headroom = vec![Rate::ZERO; graph.nodes()];
    let limits = Limits {
        hops_max: None,
        headroom: Some(&headroom),
    };
    assert_eq!(maximum(&graph, &Query { limits, ..query(5) }), Rate::ZERO);
    headroom[2] = Rate::from_mbps(3);
    let limits = Limits {
        hops_max: None,
        headroom: Some(&headroom),
    };
    assert_eq!(
        maximum(&graph, &Query { limits, ..query(5) }),
        Rate::from_mbps(3)
    );
}

/// The smallest cut, by exhaustive search.
fn cut(graph: &Graph) -> Rate {
    let inner = graph.nodes() as u32 - 2;
    let cuts = (0..1u32 << inner).map(|side| {
        let is_near = |node: NodeIndex| node.0 == 0 || node.0 > 1 && side >> (node.0 - 2) & 1 == 1;
        let crossing = graph
            .links()
            .iter()
            .filter(|link| is_near(link.from) && !is_near(link.to));
        crossing.map(|link| link.estimate.bandwidth).sum()
    });
    cuts.min().unwrap_or(Rate::ZERO)
}

proptest! {
    #[test]
    fn maximum_is_the_smallest_cut(seed in 0u64..1 << 40, nodes in 2u64..8, links in 0u64..30) {
        let graph = testing::overlay(seed, nodes, links);
        prop_assert_eq!(maximum(&graph, &query(0)), cut(&graph));
    }

    /// The paths of the quickest flow can be used together and reach its finish; no paths chosen one by one are earlier.
    #[test]
    fn nothing_is_earlier(seed in 0u64..1 << 40, nodes in 2u64..9, links in 0u64..40, bytes in 1u64..2_000_000) {
        let graph = testing::overlay(seed, nodes, links);
        let query = query(bytes);
        let flow = quickest(&graph, &query);
        let mut finder = Finder::new();
        for choice in [Choice::Published, Choice::Joint] {
            let wanted = Wanted { choice, paths_max: 20, ..Wanted::default() };
            let greedy = multiple::paths(&mut finder, &graph, &query, &wanted);
            let legs: Vec<Leg> = greedy.iter().map(Leg::from).collect();
            let slack = Duration::from_nanos(1);
            match (&flow, finish(&legs, bytes)) {
                (Some(flow), Some(end)) => prop_assert!(flow.finish <= end + slack, "{:?} {:?}", flow, end),
                (None, None) => {}
                (flow, end) => prop_assert!(false, "{:?} {:?}", flow, end),
            }
        }
        if let Some(flow) = flow {
            let legs: Vec<Leg> = flow.paths.iter().map(Leg::from).collect();
            let whole = partition(&legs, bytes).expect("carried");
            // Shares are whole bytes.
            let rate: f64 = legs.iter().map(|leg| leg.bandwidth.as_bytes_per_s()).sum();
            let gap = whole.finish.as_secs_f64() - flow.finish.as_secs_f64();
            prop_assert!(gap.abs() <= legs.len() as f64 / rate + 2e-9, "{} {:?}", gap, flow);
            for (link, index) in graph.links().iter().zip(0..) {
                let over = flow.paths.iter().filter(|path| path.links.iter().any(|l| l.0 == index));
                prop_assert!(over.map(|path| path.bandwidth).sum::<Rate>() <= link.estimate.bandwidth);
            }
        }
    }
}
