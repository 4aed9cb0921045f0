use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    graph::{Builder, Estimate},
    partition::{Leg, finish},
    quickest::Limits,
    testing,
};

fn estimate(mbps: u64, delay_ms: u64) -> Estimate {
    Estimate {
        bandwidth: Rate::from_mbps(mbps),
        delay_min: Duration::from_millis(delay_ms),
        error: 0.0,
    }
}

fn query(bytes: u64) -> Query<'static> {
    Query {
        from: NodeIndex(0),
        to: NodeIndex(1),
        bytes,
        limits: Limits::default(),
    }
}

fn found(graph: &Graph, query: &Query<'_>, wanted: &Wanted<'_>) -> Vec<(usize, u64)> {
    let paths = paths(&mut Finder::new(), graph, query, wanted);
    let shown = paths
        .iter()
        .map(|path| (path.links.len(), path.bandwidth.as_bps() / 1_000_000));
    shown.collect()
}

/// The three sites of [Daemons Figure 5]: a direct link, and one via a third site.
fn sites() -> Graph {
    let mut builder = Builder::new();
    builder.link(0, 1, estimate(10, 30));
    builder.link(0, 2, estimate(25, 10));
    builder.link(2, 1, estimate(9, 10));
    builder.build().0
}

#[test]
fn two_paths_of_three_sites() {
    let both = found(&sites(), &query(1_000_000), &Wanted::default());
    assert_eq!(both, [(1, 10), (2, 9)]);
    let one = Wanted {
        paths_max: 1,
        ..Wanted::default()
    };
    assert_eq!(found(&sites(), &query(1_000_000), &one), [(1, 10)]);
    // Complete before the second would help: 1,000 bytes by 2 hops, 20.9 ms.
    assert_eq!(found(&sites(), &query(1_000), &Wanted::default()), [(2, 9)]);
    let published = Wanted {
        choice: Choice::Published,
        ..Wanted::default()
    };
    assert_eq!(
        found(&sites(), &query(1_000), &published),
        [(2, 9), (1, 10)]
    );
}

/// The direct path is used anyway: others are added to it, although the other alone would be enough.
#[test]
fn given_paths_come_first_and_are_not_counted() {
    let graph = sites();
    let direct = [graph.path(&[LinkIndex(0)])];
    let beside = Wanted {
        given: &direct,
        paths_max: 1,
        ..Wanted::default()
    };
    let both = found(&graph, &query(1_000_000), &beside);
    assert_eq!(both, [(1, 10), (2, 9)]);
    // 1,000 bytes: complete before the given one would help.
    assert_eq!(found(&graph, &query(1_000), &beside), [(1, 10), (2, 9)]);
    // No capacity is given out twice.
    let twice = [direct[0].clone(), direct[0].clone()];
    let beside = Wanted {
        given: &twice,
        ..beside
    };
    assert_eq!(found(&graph, &query(1_000_000), &beside), both);
}

#[test]
fn relays_and_shared_bottlenecks_limit() {
    let graph = sites();
    let headroom = [Rate::ZERO, Rate::ZERO, Rate::from_mbps(4)];
    let mut limited = query(1_000_000);
    limited.limits.headroom = Some(&headroom);
    assert_eq!(
        found(&graph, &limited, &Wanted::default()),
        [(1, 10), (2, 4)]
    );
    // Both first links leave by an uplink of 12 Mbit/s.
    let links = vec![LinkIndex(0), LinkIndex(1)];
    let uplink = [Group {
        links,
        bandwidth: Rate::from_mbps(12),
    }];
    let wanted = Wanted {
        groups: &uplink,
        ..Wanted::default()
    };
    assert_eq!(found(&graph, &query(1_000_000), &wanted), [(1, 10), (2, 2)]);
    // The relayed path crosses it twice.
    let links = vec![LinkIndex(0), LinkIndex(1), LinkIndex(2)];
    let uplink = [Group {
        links,
        bandwidth: Rate::from_mbps(16),
    }];
    let wanted = Wanted {
        groups: &uplink,
        ..Wanted::default()
    };
    assert_eq!(found(&graph, &query(1_000_000), &wanted), [(1, 10), (2, 3)]);
}

/// Two relayed paths; one that crosses the uplink twice would get nothing.
#[test]
fn a_path_that_would_starve_itself_gives_way() {
    let mut builder = Builder::new();
    builder.link(0, 2, estimate(10, 1));
    builder.link(2, 1, estimate(10, 1));
    builder.link(0, 3, estimate(10, 50));
    builder.link(3, 1, estimate(10, 50));
    let graph = builder.build().0;
    let bandwidth = Rate::from_bps(1_500);
    let links = vec![LinkIndex(0), LinkIndex(2)];
    let groups = [Group { links, bandwidth }];
    let wanted = Wanted {
        groups: &groups,
        ..Wanted::default()
    };
    assert_eq!(graph.link(LinkIndex(2)).from, NodeIndex(2));
    assert_eq!(found(&graph, &query(1_000_000), &wanted), [(2, 10)]);
    let crossed = Wanted {
        bandwidth_min: Rate::from_bps(1),
        ..wanted
    };
    assert_eq!(found(&graph, &query(10), &crossed).len(), 2);
}

#[test]
fn disjoint_paths_first() {
    let mut builder = Builder::new();
    builder.link(0, 2, estimate(30, 5));
    builder.link(2, 1, estimate(10, 5));
    builder.link(2, 3, estimate(10, 5));
    builder.link(3, 1, estimate(10, 5));
    builder.link(0, 3, estimate(4, 90));
    let graph = builder.build().0;
    let query = query(5_000_000);
    let by = |disjoint, is_disjoint_only| {
        let wanted = Wanted {
            disjoint,
            is_disjoint_only,
            ..Wanted::default()
        };
        found(&graph, &query, &wanted)
    };
    assert_eq!(by(Disjoint::No, false), [(2, 10), (3, 10)]);
    assert_eq!(by(Disjoint::Links, true), [(2, 10), (2, 4)]);
    assert_eq!(by(Disjoint::Relays, true), [(2, 10), (2, 4)]);
    assert_eq!(by(Disjoint::Relays, false), [(2, 10), (2, 4), (3, 6)]);
}

proptest! {
    /// The bandwidth that paths take together is available, and every path chosen jointly makes the message earlier.
    #[test]
    fn nothing_is_taken_twice(seed in 0u64..1 << 40, nodes in 3u64..12, links in 0u64..60, bytes in 1u64..3_000_000) {
        let graph = testing::overlay(seed, nodes, links);
        let headroom: Vec<Rate> = (0..nodes).map(|node| Rate::from_kbps(node % 5 * 2_000)).collect();
        let groups: Vec<Group> = (0..3u64).map(|group| Group {
            links: (0..graph.links().len() as u32)
                .filter(|&link| u64::from(link) % 7 == group)
                .map(LinkIndex)
                .collect(),
            bandwidth: Rate::from_kbps(3_000 + 1_000 * group),
        }).collect();
        let mut query = query(bytes);
        query.limits.headroom = Some(&headroom);
        for choice in [Choice::Published, Choice::Joint] {
            let wanted = Wanted { choice, groups: &groups, paths_max: 9, ..Wanted::default() };
            let found = paths(&mut Finder::new(), &graph, &query, &wanted);
            let over = |is_over: &dyn Fn(&Path) -> usize| -> u64 {
                found.iter().map(|path| path.bandwidth.as_bps() * is_over(path) as u64).sum()
            };
            for (link, index) in graph.links().iter().zip(0..) {
                let taken = over(&|path| path.links.iter().filter(|link| link.0 == index).count());
                prop_assert!(taken <= link.estimate.bandwidth.as_bps());
            }
            for node in 2..nodes as u32 {
                let taken = over(&|path| path.relays(&graph).filter(|relay| relay.0 == node).count());
                prop_assert!(taken <= headroom[node as usize].as_bps());
            }
            for group in &groups {
                let taken = over(&|path| path.links.iter().filter(|link| group.links.contains(link)).count());
                prop_assert!(taken <= group.bandwidth.as_bps());
            }
            // Nothing has changed.
            prop_assert_eq!(&again(&mut Finder::new(), &graph, &query, &wanted, &found), &found);
            let legs: Vec<Leg> = found.iter().map(Leg::from).collect();
            let ends: Vec<_> = (1..=legs.len()).map(|count| finish(&legs[..count], bytes)).collect();
            if choice == Choice::Joint {
                prop_assert!(ends.windows(2).all(|two| two[1] <= two[0]), "{:?}", ends);
            }
        }
    }

    /// Paths chosen as disjoint are disjoint.
    #[test]
    fn disjoint_paths_share_nothing(seed in 0u64..1 << 40, links in 0u64..60) {
        let graph = testing::overlay(seed, 10, links);
        let wanted = Wanted { disjoint: Disjoint::Relays, is_disjoint_only: true, paths_max: 9, ..Wanted::default() };
        let found = paths(&mut Finder::new(), &graph, &query(1_000_000), &wanted);
        let relays: Vec<_> = found.iter().flat_map(|path| path.relays(&graph)).collect();
        let links: Vec<_> = found.iter().flat_map(|path| &path.links).collect();
        prop_assert_eq!(relays.iter().collect::<BTreeSet<_>>().len(), relays.len());
        prop_assert_eq!(links.iter().collect::<BTreeSet<_>>().len(), links.len());
    }
}
