//! Graph of the overlay: nodes, and the measured links between them.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::Rate;

/// A node of a [`Graph`], in `0..graph.nodes()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// A link of a [`Graph`], in `0..graph.links().len()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIndex(pub u32);

impl NodeIndex {
    /// The index, for a slice with one entry per node.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

impl LinkIndex {
    /// The index, for a slice with one entry per link.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// State of a link in one direction: delay(r) ≈ r/EBW + d_min [Daemons Eq. (2)].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// EBW; zero for a link that cannot be used now.
    pub bandwidth: Rate,
    /// d_min, capped at [`DELAY_MAX`].
    pub delay_min: Duration,
    /// Standard error of `bandwidth` relative to it, at least 0; 0 where it is unknown. No computation of paths uses it;
    /// it shows how reliable their results are.
    pub error: f64,
}

/// A link of the overlay, in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Node at which the link begins.
    pub from: NodeIndex,
    /// Node at which the link ends.
    pub to: NodeIndex,
    /// Measured state of the link.
    pub estimate: Estimate,
}

/// Longest delay of a link, about 13 days: no sum over a path overflows.
pub const DELAY_MAX: Duration = Duration::from_nanos(1 << 50);
/// Cap on a link's bandwidth in bit/s; larger ones count as this.
const BANDWIDTH_MAX_BPS: u64 = 1 << 60;

/// A link as searches read it, packed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arc {
    /// The node at the other end.
    pub(crate) node: u32,
    pub(crate) link: u32,
    pub(crate) delay_ns: u64,
}

/// A directed graph of measured links; several links from one node to another are allowed.
///
/// Links are ordered by their ends, then by the order in which they were added, so that the same links give the same
/// graph and the same paths everywhere. The data that searches read is stored twice, by either end: 100 bytes per link.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    links: Vec<Link>,
    /// Offsets: node v has `leaving[first_leaving[v]..first_leaving[v + 1]]`; an entry's position is the index of its
    /// link.
    first_leaving: Vec<u32>,
    leaving: Vec<Arc>,
    first_entering: Vec<u32>,
    entering: Vec<Arc>,
}

impl Graph {
    /// A graph of `nodes` nodes with the given links. O(links · log links).
    ///
    /// # Panics
    /// A link whose end is not in `0..nodes`; 2³² links or more.
    pub fn new(nodes: usize, links: impl IntoIterator<Item = Link>) -> Self {
        let mut links: Vec<Link> = links.into_iter().collect();
        assert!(u32::try_from(links.len()).is_ok(), "too many links");
        let inside = |node: NodeIndex| node.at() < nodes;
        assert!(
            links.iter().all(|l| inside(l.from) && inside(l.to)),
            "a link ends outside of the graph"
        );
        links.sort_by_key(|link| (link.from, link.to));
        let mut graph = Self {
            first_leaving: firsts(nodes, links.iter().map(|link| link.from)),
            first_entering: firsts(nodes, links.iter().map(|link| link.to)),
            leaving: Vec::with_capacity(links.len()),
            entering: vec![
                Arc {
                    node: 0,
                    link: 0,
                    delay_ns: 0
                };
                links.len()
            ],
            links,
        };
        let mut next = graph.first_entering.clone();
        for (link, index) in graph.links.iter().zip(0..) {
            let delay_ns = delay_ns(link.estimate.delay_min);
            let arc = |node: NodeIndex| Arc {
                node: node.0,
                link: index,
                delay_ns,
            };
            graph.leaving.push(arc(link.to));
            let place = &mut next[link.to.at()];
            graph.entering[*place as usize] = arc(link.from);
            *place += 1;
        }
        graph
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.first_leaving.len().saturating_sub(1)
    }

    /// All links, by [`LinkIndex`].
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// One link.
    pub fn link(&self, link: LinkIndex) -> &Link {
        &self.links[link.at()]
    }

    /// Links that leave `node`, in order.
    pub fn links_from(&self, node: NodeIndex) -> impl Iterator<Item = LinkIndex> {
        (self.first_leaving[node.at()]..self.first_leaving[node.at() + 1]).map(LinkIndex)
    }

    /// The first link between two nodes. O(log links of the node).
    pub fn find(&self, from: NodeIndex, to: NodeIndex) -> Option<LinkIndex> {
        let arcs = self.leaving(from.0);
        let place = arcs.partition_point(|arc| arc.node < to.0);
        (arcs.get(place)?.node == to.0).then(|| LinkIndex(arcs[place].link))
    }

    /// Replaces the estimate of a link. O(links that enter its end).
    pub fn set(&mut self, link: LinkIndex, estimate: Estimate) {
        let entry = &mut self.links[link.at()];
        entry.estimate = estimate;
        let to = entry.to.at();
        let delay_ns = delay_ns(estimate.delay_min);
        self.leaving[link.at()].delay_ns = delay_ns;
        let (first, end) = (self.first_entering[to], self.first_entering[to + 1]);
        for arc in &mut self.entering[first as usize..end as usize] {
            if arc.link == link.0 {
                arc.delay_ns = delay_ns;
            }
        }
    }

    /// Bandwidth of a link in bit/s.
    pub(crate) fn bandwidth_bps(&self, link: u32) -> u64 {
        let bandwidth = self.links[link as usize].estimate.bandwidth;
        bandwidth.as_bps().min(BANDWIDTH_MAX_BPS)
    }

    /// Least delay of a link in nanoseconds, at most 2⁵⁰.
    pub(crate) fn delay_ns(&self, link: u32) -> u64 {
        self.leaving[link as usize].delay_ns
    }

    pub(crate) fn leaving(&self, node: u32) -> &[Arc] {
        let node = node as usize;
        &self.leaving[self.first_leaving[node] as usize..self.first_leaving[node + 1] as usize]
    }

    pub(crate) fn entering(&self, node: u32) -> &[Arc] {
        let node = node as usize;
        &self.entering[self.first_entering[node] as usize..self.first_entering[node + 1] as usize]
    }

    /// Path over the given links, with the bandwidth of the narrowest [Daemons Eq. (3)].
    ///
    /// # Panics
    /// No links, or two in sequence that do not meet.
    pub fn path(&self, links: &[LinkIndex]) -> Path {
        assert!(!links.is_empty(), "a path has a link");
        assert!(
            links
                .windows(2)
                .all(|pair| self.link(pair[0]).to == self.link(pair[1]).from),
            "links of a path meet"
        );
        let bps = links.iter().map(|link| self.bandwidth_bps(link.0)).min();
        let delay_ns = links.iter().map(|link| self.delay_ns(link.0));
        Path {
            links: links.to_vec(),
            bandwidth: Rate::from_bps(bps.unwrap_or(0)),
            delay_min: Duration::from_nanos(delay_ns.fold(0, u64::saturating_add)),
        }
    }
}

/// Positions of each node's first link, by counting `ends`.
fn firsts(nodes: usize, ends: impl Iterator<Item = NodeIndex>) -> Vec<u32> {
    let mut first = vec![0; nodes + 1];
    for end in ends {
        first[end.at() + 1] += 1;
    }
    for node in 0..nodes {
        first[node + 1] += first[node];
    }
    first
}

fn delay_ns(delay: Duration) -> u64 {
    // At most 2^50, so it fits.
    delay.min(DELAY_MAX).as_nanos() as u64
}

/// A loop-free sequence of links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Links of the path, from the source on; at least one.
    pub links: Vec<LinkIndex>,
    /// Bandwidth of the path: at most that of its narrowest link [Daemons Eq. (3)], less where links are shared with
    /// other paths.
    pub bandwidth: Rate,
    /// Sum of the links' least delays.
    pub delay_min: Duration,
}

impl Path {
    /// Delay of a message of `bytes` [Daemons Eq. (2)].
    pub fn time(&self, bytes: u64) -> Duration {
        self.bandwidth
            .time_to_send(bytes)
            .saturating_add(self.delay_min)
    }

    /// Delay of a message that every relay receives whole before it forwards it: Σ(r/EBW + d_min) [Daemons Eq. (4)]. For
    /// messages within one packet; larger ones are pipelined, see [`Path::time`].
    pub fn time_stored(&self, graph: &Graph, bytes: u64) -> Duration {
        let delays = self.links.iter().map(|&link| {
            let estimate = &graph.link(link).estimate;
            let sending = estimate.bandwidth.time_to_send(bytes);
            sending.saturating_add(estimate.delay_min.min(DELAY_MAX))
        });
        delays.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Nodes of the path, source and sink included.
    pub fn nodes<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = NodeIndex> + 'a {
        let source = self.links.first().map(|&link| graph.link(link).from);
        let rest = self.links.iter().map(|&link| graph.link(link).to);
        source.into_iter().chain(rest)
    }

    /// Nodes between source and sink.
    pub fn relays<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = NodeIndex> + 'a {
        self.links.iter().skip(1).map(|&link| graph.link(link).from)
    }

    /// Relative standard error of the bandwidth: that of the narrowest link.
    pub fn error(&self, graph: &Graph) -> f64 {
        let estimates = self.links.iter().map(|&link| &graph.link(link).estimate);
        let narrowest = estimates.min_by_key(|estimate| estimate.bandwidth);
        narrowest.map_or(0.0, |estimate| estimate.error)
    }
}

/// Builder of a graph whose nodes have names of any ordered type, such as keys.
#[derive(Debug, Clone)]
pub struct Builder<K> {
    names: BTreeMap<K, ()>,
    links: Vec<(K, K, Estimate)>,
}

impl<K: Ord + Clone> Builder<K> {
    /// Creates a builder without nodes or links.
    pub const fn new() -> Self {
        Self {
            names: BTreeMap::new(),
            links: Vec::new(),
        }
    }

    /// Adds a node unless it is present.
    pub fn node(&mut self, name: K) {
        self.names.insert(name, ());
    }

    /// Adds a link, and its ends. A link from a node to itself is ignored: no path can use it.
    pub fn link(&mut self, from: K, to: K, estimate: Estimate) {
        if from != to {
            self.node(from.clone());
            self.node(to.clone());
            self.links.push((from, to, estimate));
        }
    }

    /// Builds the graph; nodes are numbered in the order of their names.
    pub fn build(self) -> (Graph, Names<K>) {
        let names = Names(self.names.into_keys().collect());
        let links = self.links.iter().filter_map(|(from, to, estimate)| {
            Some(Link {
                from: names.find(from)?,
                to: names.find(to)?,
                estimate: *estimate,
            })
        });
        (Graph::new(names.0.len(), links), names)
    }
}

impl<K: Ord + Clone> Default for Builder<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// Names of the nodes of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names<K>(Vec<K>);

impl<K: Ord> Names<K> {
    /// The node named `name`. O(log nodes).
    pub fn find(&self, name: &K) -> Option<NodeIndex> {
        self.0
            .binary_search(name)
            .ok()
            .map(|at| NodeIndex(at as u32))
    }

    /// Name of a node.
    ///
    /// # Panics
    /// A node of another, larger graph.
    pub fn of(&self, node: NodeIndex) -> &K {
        &self.0[node.at()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mbps: u64, delay_ms: u64) -> Estimate {
        Estimate {
            bandwidth: Rate::from_mbps(mbps),
            delay_min: Duration::from_millis(delay_ms),
            error: 0.1,
        }
    }

    /// The three sites of [Daemons Figure 5].
    fn sites() -> (Graph, Names<&'static str>) {
        let mut builder = Builder::new();
        builder.link("ornl", "lsu", estimate(10, 35));
        builder.link("gatech", "lsu", estimate(8, 20));
        builder.link("ornl", "gatech", estimate(20, 12));
        builder.link("ornl", "ornl", estimate(1, 1));
        builder.node("alone");
        builder.build()
    }

    #[test]
    fn names_and_links_are_found_again() {
        let (mut graph, names) = sites();
        assert_eq!((graph.nodes(), graph.links().len()), (4, 3));
        let node = |name| names.find(&name).expect("was added");
        let direct = graph.find(node("ornl"), node("lsu")).expect("was added");
        assert_eq!(graph.link(direct).estimate, estimate(10, 35));
        assert_eq!(graph.find(node("lsu"), node("ornl")), None);
        assert_eq!(*names.of(node("lsu")), "lsu");
        assert_eq!(names.find(&"mit"), None);
        assert_eq!(graph.links_from(node("ornl")).count(), 2);
        assert_eq!(graph.links_from(node("alone")).count(), 0);
        graph.set(direct, estimate(5, 1));
        let both = graph.entering(node("lsu").0);
        assert_eq!(
            both.iter()
                .map(|arc| arc.delay_ns / 1_000_000)
                .collect::<Vec<_>>(),
            [20, 1]
        );
        assert_eq!(graph.leaving(node("ornl").0)[1].delay_ns, 1_000_000);
    }

    #[test]
    fn a_path_is_as_wide_as_its_narrowest_link() {
        let (graph, names) = sites();
        let node = |name| names.find(&name).expect("was added");
        let first = graph.find(node("ornl"), node("gatech")).expect("there");
        let second = graph.find(node("gatech"), node("lsu")).expect("there");
        let path = graph.path(&[first, second]);
        assert_eq!(path.bandwidth, Rate::from_mbps(8));
        assert_eq!(path.delay_min, Duration::from_millis(32));
        assert_eq!(path.time(1_000_000), Duration::from_millis(1_032));
        // 1,250 bytes take 0.5 ms on the first link and 1.25 ms on the second.
        assert_eq!(
            path.time_stored(&graph, 1250),
            Duration::from_micros(33_750)
        );
        let visited: Vec<_> = path.nodes(&graph).map(|n| *names.of(n)).collect();
        assert_eq!(visited, ["ornl", "gatech", "lsu"]);
        assert_eq!(path.relays(&graph).collect::<Vec<_>>(), [node("gatech")]);
    }

    #[test]
    fn absurd_delays_are_cut() {
        let mut absurd = estimate(1, 0);
        absurd.delay_min = Duration::MAX;
        let mut builder = Builder::new();
        builder.link(0, 1, absurd);
        builder.link(1, 2, absurd);
        let (graph, _) = builder.build();
        let path = graph.path(&[LinkIndex(0), LinkIndex(1)]);
        assert_eq!(path.delay_min, DELAY_MAX * 2);
    }
}
