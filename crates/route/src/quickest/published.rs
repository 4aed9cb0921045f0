//! QP(G, r) as published [Daemons Figure 4; Chen and Chin 1990]: the reference for tests and benchmarks.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{Query, Search};
use crate::graph::{Graph, LinkIndex, Path};

/// The quickest path by one shortest path per distinct bandwidth. Exact; O(q·links·log nodes) for q bandwidths. Respects
/// `limits.headroom`, but not `limits.hops_max`.
///
/// # Panics
/// As [`super::Finder::quickest`].
pub fn quickest(graph: &Graph, query: &Query<'_>) -> Option<Path> {
    if query.from == query.to {
        return None;
    }
    let mut search = Search::default();
    search.prepare(graph, query);
    let usable = search.usable;
    let mut bandwidths: Vec<u64> = usable.iter().copied().filter(|&bps| bps > 0).collect();
    bandwidths.sort_unstable();
    bandwidths.dedup();
    let mut best: Option<Path> = None;
    for least_bps in bandwidths {
        let Some(links) = shortest(graph, query, &usable, least_bps) else {
            break;
        };
        let mut path = graph.path(&links);
        let narrowest = links.iter().map(|link| usable[link.at()]).min();
        path.bandwidth = anabranch_base::Rate::from_bps(narrowest.unwrap_or(0));
        let time = |path: &Path| path.time(query.bytes);
        if best.as_ref().is_none_or(|best| time(&path) < time(best)) {
            best = Some(path);
        }
    }
    best
}

/// Dijkstra's algorithm over the links of at least `least_bps`.
fn shortest(
    graph: &Graph,
    query: &Query<'_>,
    usable: &[u64],
    least_bps: u64,
) -> Option<Vec<LinkIndex>> {
    let mut delay = vec![u64::MAX; graph.nodes()];
    let mut last = vec![u32::MAX; graph.nodes()];
    delay[query.from.at()] = 0;
    let mut heap = BinaryHeap::from([Reverse((0, query.from.0))]);
    while let Some(Reverse((reached, node))) = heap.pop() {
        if node == query.to.0 {
            break;
        }
        if reached > delay[node as usize] {
            continue;
        }
        for arc in graph.leaving(node) {
            let longer = reached.saturating_add(arc.delay_ns);
            if usable[arc.link as usize] >= least_bps && longer < delay[arc.node as usize] {
                delay[arc.node as usize] = longer;
                last[arc.node as usize] = arc.link;
                heap.push(Reverse((longer, arc.node)));
            }
        }
    }
    let mut links = Vec::new();
    let mut node = query.to;
    while node != query.from {
        let link = last[node.at()];
        if link == u32::MAX {
            return None;
        }
        links.push(LinkIndex(link));
        node = graph.links()[link as usize].from;
    }
    links.reverse();
    Some(links)
}
