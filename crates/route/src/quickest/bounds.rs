//! Bounds on every path: the bandwidth of the widest, and delays to the sink over all links.

use std::cmp::Reverse;

use super::search::{NONE, Search};
use crate::graph::Graph;

impl Search {
    /// Bandwidth of the widest path; 0 if there is none. O(links · log nodes), by Dijkstra's algorithm with the lesser of
    /// two bandwidths in place of their sum; with a limit on hops O(hops · links), by Bellman's.
    pub(super) fn widest(&mut self, graph: &Graph, from: u32, to: u32, hops: Option<u32>) -> u64 {
        self.best.clear();
        self.best.resize(graph.nodes(), 0);
        self.best[from as usize] = u64::MAX;
        match hops {
            None => self.widest_free(graph, from, to),
            Some(hops) => self.widest_within(graph, hops),
        }
        self.best[to as usize]
    }

    fn widest_free(&mut self, graph: &Graph, from: u32, to: u32) {
        // Widths from the largest on: by their complements, the smallest first.
        self.heap.clear();
        self.heap.push(Reverse((0, 0, from)));
        while let Some(Reverse((complement, _, node))) = self.heap.pop() {
            let width = u64::MAX - complement;
            if node == to {
                return;
            }
            if width < self.best[node as usize] {
                continue;
            }
            for arc in graph.leaving(node) {
                let through = width.min(self.usable[arc.link as usize]);
                if through > self.best[arc.node as usize] {
                    self.best[arc.node as usize] = through;
                    self.heap.push(Reverse((u64::MAX - through, 0, arc.node)));
                }
            }
        }
    }

    fn widest_within(&mut self, graph: &Graph, hops: u32) {
        // No simple path is longer.
        for _ in 0..hops.min(graph.nodes() as u32) {
            self.delay_to_go.clone_from(&self.best);
            let before = &self.delay_to_go;
            let mut is_wider = false;
            for (link, &usable) in graph.links().iter().zip(&self.usable) {
                let through = before[link.from.at()].min(usable);
                let width = &mut self.best[link.to.at()];
                if through > *width {
                    *width = through;
                    is_wider = true;
                }
            }
            if !is_wider {
                return;
            }
        }
    }

    /// Fills `delay_to_go`: the least delay from each node to the sink over links that can be used, `NONE` if there is no
    /// path or it exceeds `limit`. O(links · log nodes).
    pub(super) fn delays_to_go(&mut self, graph: &Graph, to: u32, limit: u64) {
        self.delay_to_go.clear();
        self.delay_to_go.resize(graph.nodes(), NONE);
        self.delay_to_go[to as usize] = 0;
        self.heap.clear();
        self.heap.push(Reverse((0, 0, to)));
        while let Some(Reverse((delay, _, node))) = self.heap.pop() {
            if delay > self.delay_to_go[node as usize] {
                continue;
            }
            for arc in graph.entering(node) {
                if self.usable[arc.link as usize] == 0 {
                    continue;
                }
                let longer = delay.saturating_add(arc.delay_ns);
                if longer < self.delay_to_go[arc.node as usize] && longer <= limit {
                    self.delay_to_go[arc.node as usize] = longer;
                    self.heap.push(Reverse((longer, 0, arc.node)));
                }
            }
        }
    }
}
