//! Common parts of tests: random overlays, and all their paths.

use std::time::Duration;

use anabranch_base::{Random, Rate, Seed};

use crate::graph::{Estimate, Graph, Link, LinkIndex, NodeIndex};

/// A random overlay with few distinct values, so that there are ties.
pub(crate) fn overlay(seed: u64, nodes: u64, links: u64) -> Graph {
    let mut random = Seed(seed).stream("overlay");
    let links: Vec<Link> = (0..links).map(|_| link(&mut random, nodes)).collect();
    Graph::new(nodes as usize, links)
}

fn link(random: &mut Random, nodes: u64) -> Link {
    let from = random.below(nodes);
    let to = (from + 1 + random.below(nodes - 1)) % nodes;
    Link {
        from: NodeIndex(from as u32),
        to: NodeIndex(to as u32),
        estimate: Estimate {
            bandwidth: Rate::from_kbps(random.below(20) * 500),
            delay_min: Duration::from_millis(random.below(60)),
            error: 0.0,
        },
    }
}

/// All simple paths of at most `hops` links with bandwidth above zero.
pub(crate) fn paths(
    graph: &Graph,
    from: NodeIndex,
    to: NodeIndex,
    hops: usize,
) -> Vec<Vec<LinkIndex>> {
    let mut found = Vec::new();
    let mut path = Vec::new();
    extend(graph, from, to, hops, &mut path, &mut found);
    found
}

fn extend(
    graph: &Graph,
    node: NodeIndex,
    to: NodeIndex,
    hops: usize,
    path: &mut Vec<LinkIndex>,
    found: &mut Vec<Vec<LinkIndex>>,
) {
    if node == to {
        found.push(path.clone());
        return;
    }
    if path.len() == hops {
        return;
    }
    for link in graph.links_from(node) {
        let next = graph.link(link);
        let is_seen = path.iter().any(|&link| graph.link(link).from == next.to);
        if !is_seen && next.estimate.bandwidth > Rate::ZERO {
            path.push(link);
            extend(graph, next.to, to, hops, path, found);
            path.pop();
        }
    }
}
