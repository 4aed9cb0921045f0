//! Shortest paths over links that are wide enough, and the iteration over the relevant bandwidths.

use std::{cmp::Reverse, collections::BinaryHeap};

use anabranch_base::Rate;

use super::{Effort, Query, Target};
use crate::graph::Graph;

/// No delay, no node.
pub(super) const NONE: u64 = u64::MAX;
const NO_LABEL: u32 = u32::MAX;

/// Label: a path from the source to a node, as its last link and the path before it.
#[derive(Debug, Clone, Copy)]
struct Label {
    node: u32,
    link: u32,
    before: u32,
    hops: u32,
    delay_ns: u64,
}

/// The path found last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    pub(crate) links: Vec<u32>,
    pub(crate) bandwidth_bps: u64,
    pub(crate) delay_ns: u64,
}

/// Working memory, and the usable bandwidths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Search {
    /// Usable bandwidth of each link, in bit/s; 0 for links that may not be used. Filled by the code that prepares the
    /// search.
    pub(crate) usable: Vec<u64>,
    pub(crate) found: Found,
    pub(crate) effort: Effort,
    /// Least delay to the sink over all usable links.
    pub(super) delay_to_go: Vec<u64>,
    /// Least delay from the source in the current search (or greatest width).
    pub(super) best: Vec<u64>,
    /// Fewest hops of the paths settled at each node.
    hops_settled: Vec<u32>,
    labels: Vec<Label>,
    pub(super) heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl Search {
    /// Fills `usable` with the bandwidth that the graph's links and the relays' headroom allow.
    pub(crate) fn prepare(&mut self, graph: &Graph, query: &Query<'_>) {
        query.check(graph);
        let headroom = query.limits.headroom;
        self.usable.clear();
        let usable = graph.links().iter().zip(0..).map(|(link, index)| {
            if link.to == query.from || link.from == query.to {
                return 0;
            }
            let relayed = match headroom {
                Some(headroom) if link.to != query.to => headroom[link.to.at()],
                _ => Rate::from_bps(u64::MAX),
            };
            graph.bandwidth_bps(index).min(relayed.as_bps())
        });
        self.usable.extend(usable);
        self.effort = Effort::default();
    }

    /// Finds the path that makes `target` earliest, if one makes it earlier than it is, and stores it in `found`.
    pub(crate) fn best(&mut self, graph: &Graph, query: &Query<'_>, target: Target) -> bool {
        let (from, to, hops) = (query.from.0, query.to.0, query.limits.hops_max);
        let mut time = target.time();
        let widest = self.widest(graph, from, to, hops);
        if widest == 0 {
            return false;
        }
        let Some(limit) = target.delay_limit(time, widest) else {
            return false;
        };
        self.delays_to_go(graph, to, limit);
        let mut is_found = false;
        // The widest path first, so that most others need not be examined.
        if let Some((label, delay_ns)) = self.shortest(graph, query, widest, limit) {
            time = target.time_with(widest, delay_ns);
            self.keep(label, widest, delay_ns);
            is_found = true;
        }
        let mut least_bps = 1;
        while least_bps <= widest {
            let Some(limit) = target.delay_limit(time, widest) else {
                break;
            };
            let Some((label, delay_ns)) = self.shortest(graph, query, least_bps, limit) else {
                break;
            };
            let bandwidth_bps = self.narrowest(label);
            let reached = target.time_with(bandwidth_bps, delay_ns);
            if reached < time {
                time = reached;
                self.keep(label, bandwidth_bps, delay_ns);
                is_found = true;
            }
            // Wider paths are not shorter.
            let Some(needed_bps) = target.bandwidth_limit(time, delay_ns) else {
                break;
            };
            least_bps = needed_bps.max(bandwidth_bps + 1);
        }
        is_found
    }

    /// Shortest path by delay over links of at least `least_bps`, unless it is longer than `limit`.
    fn shortest(
        &mut self,
        graph: &Graph,
        query: &Query<'_>,
        least_bps: u64,
        limit: u64,
    ) -> Option<(u32, u64)> {
        let hops_max = query.limits.hops_max;
        let (from, to) = (query.from.0, query.to.0);
        self.begin(graph.nodes(), from);
        while let Some(Reverse((_, _, at))) = self.heap.pop() {
            let label = self.labels[at as usize];
            if label.node == to {
                return Some((at, label.delay_ns));
            }
            let Some(hops) = self.settle(label, hops_max) else {
                continue;
            };
            for arc in graph.leaving(label.node) {
                let node = arc.node as usize;
                let to_go = self.delay_to_go[node];
                if self.usable[arc.link as usize] < least_bps || to_go == NONE {
                    continue;
                }
                let delay_ns = label.delay_ns.saturating_add(arc.delay_ns);
                let whole = delay_ns.saturating_add(to_go);
                let is_better = match hops_max {
                    None => delay_ns < self.best[node],
                    Some(_) => hops < self.hops_settled[node],
                };
                if whole <= limit && is_better {
                    self.best[node] = self.best[node].min(delay_ns);
                    self.push(whole, arc.node, arc.link, at, hops, delay_ns);
                }
            }
        }
        None
    }

    /// Shortest path when each relay receives the whole message before it forwards it.
    pub(crate) fn stored(&mut self, graph: &Graph, query: &Query<'_>) -> bool {
        let hops_max = query.limits.hops_max;
        self.begin(graph.nodes(), query.from.0);
        while let Some(Reverse((_, _, at))) = self.heap.pop() {
            let label = self.labels[at as usize];
            if label.node == query.to.0 {
                let bandwidth_bps = self.narrowest(at);
                let delays = self.links(at).map(|link| graph.delay_ns(link));
                let delay_ns = delays.fold(0, u64::saturating_add);
                self.keep(at, bandwidth_bps, delay_ns);
                return true;
            }
            let Some(hops) = self.settle(label, hops_max) else {
                continue;
            };
            for arc in graph.leaving(label.node) {
                let usable = self.usable[arc.link as usize];
                if usable == 0 || hops >= self.hops_settled[arc.node as usize] {
                    continue;
                }
                let sending = Rate::from_bps(usable).time_to_send(query.bytes);
                let sending = u64::try_from(sending.as_nanos()).unwrap_or(u64::MAX);
                let whole = label.delay_ns.saturating_add(arc.delay_ns);
                let whole = whole.saturating_add(sending);
                self.push(whole, arc.node, arc.link, at, hops, whole);
            }
        }
        false
    }

    /// Settles a node, and returns the hops of a path that goes on from it; `None`: none does, because of the limit or because
    /// a path that came before has no more hops.
    fn settle(&mut self, label: Label, hops_max: Option<u32>) -> Option<u32> {
        let settled = &mut self.hops_settled[label.node as usize];
        // Paths come in the order of their delays: a later one is of use only if it has fewer hops.
        if label.hops >= *settled || (hops_max.is_none() && *settled != u32::MAX) {
            return None;
        }
        *settled = label.hops;
        self.effort.settled += 1;
        let hops = label.hops + 1;
        hops_max.is_none_or(|most| hops <= most).then_some(hops)
    }

    fn begin(&mut self, nodes: usize, from: u32) {
        self.effort.searches += 1;
        self.best.clear();
        self.best.resize(nodes, NONE);
        self.best[from as usize] = 0;
        self.hops_settled.clear();
        self.hops_settled.resize(nodes, u32::MAX);
        self.labels.clear();
        self.heap.clear();
        self.push(0, from, NO_LABEL, NO_LABEL, 0, 0);
    }

    fn push(&mut self, key: u64, node: u32, link: u32, before: u32, hops: u32, delay_ns: u64) {
        let at = self.labels.len() as u32;
        self.labels.push(Label {
            node,
            link,
            before,
            hops,
            delay_ns,
        });
        self.heap.push(Reverse((key, hops, at)));
    }

    /// Links of a path, from its end.
    fn links(&self, label: u32) -> impl Iterator<Item = u32> {
        let mut at = label;
        std::iter::from_fn(move || {
            let label = self.labels[at as usize];
            at = label.before;
            (label.before != NO_LABEL).then_some(label.link)
        })
    }

    fn narrowest(&self, label: u32) -> u64 {
        let widths = self.links(label).map(|link| self.usable[link as usize]);
        widths.min().unwrap_or(0)
    }

    fn keep(&mut self, label: u32, bandwidth_bps: u64, delay_ns: u64) {
        let mut links = std::mem::take(&mut self.found.links);
        links.clear();
        links.extend(self.links(label));
        links.reverse();
        self.found = Found {
            links,
            bandwidth_bps,
            delay_ns,
        };
    }
}
