//! Residual network of a flow of least delay: what can still be added or taken back.

use std::{cmp::Reverse, collections::BinaryHeap};

use anabranch_base::Rate;

use crate::{
    graph::{Graph, LinkIndex, Path},
    quickest::Query,
};

/// Marker of a vertex that was not reached.
const NONE: u64 = u64::MAX;

/// Arc of the residual network: a possible change of the flow from one vertex to another, up to the residual capacity.
/// Arcs come in pairs, 2k and 2k + 1, each the reverse of the other.
#[derive(Debug, Clone, Copy)]
struct Arc {
    to: u32,
    left_bps: u64,
    delay_ns: i64,
}

/// Residual network. Every node v is two vertices: 2v, where links enter, and 2v + 1, where they leave; the capacity of
/// the arc between them is the node's headroom.
pub(super) struct Residual {
    from: u32,
    to: u32,
    arcs: Vec<Arc>,
    /// Arcs that leave each vertex.
    leaving: Vec<Vec<u32>>,
    /// Potentials: delays reduced by these are not negative (Johnson).
    potential: Vec<i64>,
    /// Number of arcs of links (and their reverses); these come first.
    links: usize,
    delay: Vec<u64>,
    last: Vec<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

/// A path of least delay through the residual network.
pub(super) struct Step {
    arcs: Vec<u32>,
    pub(super) bandwidth_bps: u64,
    pub(super) delay_ns: u64,
}

impl Residual {
    pub(super) fn new(graph: &Graph, query: &Query<'_>) -> Self {
        query.check(graph);
        let (nodes, headroom) = (graph.nodes(), query.limits.headroom);
        let mut residual = Self {
            from: query.from.0 * 2 + 1,
            to: query.to.0 * 2,
            arcs: Vec::with_capacity((graph.links().len() + nodes) * 2),
            leaving: vec![Vec::new(); nodes * 2],
            potential: vec![0; nodes * 2],
            links: graph.links().len() * 2,
            delay: vec![NONE; nodes * 2],
            last: vec![u32::MAX; nodes * 2],
            heap: BinaryHeap::new(),
        };
        for (link, index) in graph.links().iter().zip(0..) {
            let delay_ns = graph.delay_ns(index) as i64;
            let ends = [link.from.0 * 2 + 1, link.to.0 * 2];
            residual.add(ends, graph.bandwidth_bps(index), delay_ns);
        }
        for node in 0..nodes as u32 {
            let bps = headroom.map_or(u64::MAX / 2, |headroom| headroom[node as usize].as_bps());
            residual.add([node * 2, node * 2 + 1], bps.min(u64::MAX / 2), 0);
        }
        residual
    }

    fn add(&mut self, [from, to]: [u32; 2], left_bps: u64, delay_ns: i64) {
        let at = self.arcs.len() as u32;
        self.arcs.push(Arc {
            to,
            left_bps,
            delay_ns,
        });
        self.arcs.push(Arc {
            to: from,
            left_bps: 0,
            delay_ns: -delay_ns,
        });
        self.leaving[from as usize].push(at);
        self.leaving[to as usize].push(at + 1);
    }

    /// Path of least delay from source to sink; `None` when the flow is at its maximum.
    pub(super) fn shortest(&mut self) -> Option<Step> {
        if self.from / 2 == self.to / 2 {
            return None;
        }
        self.delay.fill(NONE);
        self.delay[self.from as usize] = 0;
        self.heap.clear();
        self.heap.push(Reverse((0, self.from)));
        while let Some(Reverse((delay, vertex))) = self.heap.pop() {
            if delay > self.delay[vertex as usize] {
                continue;
            }
            for &at in &self.leaving[vertex as usize] {
                let arc = self.arcs[at as usize];
                if arc.left_bps == 0 {
                    continue;
                }
                let reduced = arc.delay_ns + self.potential[vertex as usize]
                    - self.potential[arc.to as usize];
                let longer = delay.saturating_add_signed(reduced);
                if longer < self.delay[arc.to as usize] {
                    self.delay[arc.to as usize] = longer;
                    self.last[arc.to as usize] = at;
                    self.heap.push(Reverse((longer, arc.to)));
                }
            }
        }
        let reached = self.delay[self.to as usize];
        if reached == NONE {
            return None;
        }
        // Vertices beyond the sink, or not reached, take the sink's delay: reduced delays stay non-negative.
        for (potential, &delay) in self.potential.iter_mut().zip(&self.delay) {
            *potential = potential.saturating_add_unsigned(delay.min(reached));
        }
        let mut step = Step {
            arcs: Vec::new(),
            bandwidth_bps: u64::MAX,
            delay_ns: 0,
        };
        let (mut vertex, mut delay_ns) = (self.to, 0);
        while vertex != self.from {
            let at = self.last[vertex as usize];
            let arc = self.arcs[at as usize];
            step.bandwidth_bps = step.bandwidth_bps.min(arc.left_bps);
            delay_ns += arc.delay_ns;
            step.arcs.push(at);
            vertex = self.arcs[(at ^ 1) as usize].to;
        }
        step.delay_ns = u64::try_from(delay_ns).unwrap_or(0);
        Some(step)
    }

    /// Sends as much as fits along the path.
    pub(super) fn augment(&mut self, step: &Step) {
        for &at in &step.arcs {
            self.arcs[at as usize].left_bps -= step.bandwidth_bps;
            let undo = &mut self.arcs[(at ^ 1) as usize].left_bps;
            *undo = undo.saturating_add(step.bandwidth_bps);
        }
    }

    /// The flow as paths, the shortest first. Flows of least delay contain no loops except those without delay, which are
    /// left out.
    pub(super) fn into_paths(self, graph: &Graph) -> Vec<Path> {
        // The flow over a link is what can be taken back.
        let mut flow: Vec<u64> = self.arcs[..self.links]
            .chunks_exact(2)
            .map(|pair| pair[1].left_bps)
            .collect();
        let mut paths = Vec::new();
        while let Some(links) = path(graph, &flow, self.from / 2, self.to / 2) {
            let bps = links.iter().map(|link| flow[link.at()]).min().unwrap_or(0);
            for link in &links {
                flow[link.at()] -= bps;
            }
            let mut path = graph.path(&links);
            path.bandwidth = Rate::from_bps(bps);
            paths.push(path);
        }
        paths.sort_by_key(|path: &Path| (path.delay_min, Reverse(path.bandwidth)));
        paths
    }
}

/// Path of least delay along the flow, and therefore without loops.
fn path(graph: &Graph, flow: &[u64], from: u32, to: u32) -> Option<Vec<LinkIndex>> {
    let mut delay = vec![NONE; graph.nodes()];
    let mut last = vec![u32::MAX; graph.nodes()];
    delay[from as usize] = 0;
    let mut heap = BinaryHeap::from([Reverse((0u64, from))]);
    while let Some(Reverse((reached, node))) = heap.pop() {
        if reached > delay[node as usize] {
            continue;
        }
        for arc in graph.leaving(node) {
            let longer = reached.saturating_add(arc.delay_ns);
            if flow[arc.link as usize] > 0 && longer < delay[arc.node as usize] {
                delay[arc.node as usize] = longer;
                last[arc.node as usize] = arc.link;
                heap.push(Reverse((longer, arc.node)));
            }
        }
    }
    if delay[to as usize] == NONE {
        return None;
    }
    let mut links = Vec::new();
    let mut node = to;
    while node != from {
        let link = last[node as usize];
        links.push(LinkIndex(link));
        node = graph.links()[link as usize].from.0;
    }
    links.reverse();
    Some(links)
}
