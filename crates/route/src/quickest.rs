//! The quickest path of a message [Daemons §4; Chen and Chin 1990].
//!
//! A path P of bandwidth b(P), the least of its links, and delay d(P), the sum of theirs, takes r/b(P) + d(P)
//! for r bytes. Chen and Chin compute a shortest path by delay for each of the q distinct bandwidths, over the links that
//! have at least that: O(q·(links + nodes·log nodes)). [`published`] does so.
//!
//! [`Finder::quickest`] is exact, too, and computes few of them:
//!
//! 1. *Only bandwidths that are not dominated.* The shortest path over links of at least b has a narrowest link of b' ≥ b. All
//!    bandwidths from b to b' give that path again, and no narrower one is shorter.
//! 2. *Only paths that can win.* With T the least time found so far and d a delay that wider paths cannot go below,
//!    the next must have r/b + d < T, so b > r/(T − d). T is found early, from the widest path.
//! 3. *Only towards the sink.* Delays to the sink over all links, computed once, bound each search from below (A*); nodes that
//!    cannot be in time even at the bandwidth of the widest path are not visited.
//!
//! Times are whole nanoseconds, so that comparisons are exact and equal everywhere.

mod bounds;
pub mod published;
mod search;
mod target;

use anabranch_base::Rate;

use crate::graph::{Graph, LinkIndex, NodeIndex, Path};
use search::Search;
pub(crate) use target::Target;

/// A message to be sent, and the limits on its path.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The source.
    pub from: NodeIndex,
    /// The sink.
    pub to: NodeIndex,
    /// Size of the message.
    pub bytes: u64,
    /// Limits on the path.
    pub limits: Limits<'a>,
}

impl Query<'_> {
    /// Panics if a node, or the headroom, is not of this graph.
    pub(crate) fn check(&self, graph: &Graph) {
        let nodes = graph.nodes();
        assert!(
            self.from.at() < nodes && self.to.at() < nodes,
            "a node outside of the graph"
        );
        assert!(
            self.limits
                .headroom
                .is_none_or(|headroom| headroom.len() == nodes),
            "headroom needs an entry for each node"
        );
    }
}

/// Limits on a path; by default none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits<'a> {
    /// Largest number of links of a path; `None`: any number. Searches take up to that many times as long.
    pub hops_max: Option<u32>,
    /// Rate that each node can relay for others, by [`NodeIndex`]; zero for one that is no relay. `None`: limited by its
    /// links only. Source and sink of a path are not limited by it.
    pub headroom: Option<&'a [Rate]>,
}

/// Work done by a search, as a measure of its cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Shortest-path searches.
    pub searches: u64,
    /// Total number of nodes that they settled.
    pub settled: u64,
}

/// Finder of quickest paths. Holds the working memory, which grows to about 60 bytes for each node and 30 for each link
/// of the largest graph, and is reused.
#[derive(Debug, Clone, Default)]
pub struct Finder {
    search: Search,
}

impl Finder {
    /// Creates a finder without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The path on which the message arrives first, if there is any. Of several that take equally long, one with the
    /// least delay among the narrowest found first; the same for the same graph.
    ///
    /// O(k·(links + nodes)·log nodes) for k paths that no other beats in both bandwidth and delay and that could
    /// have been quickest (5 searches on average on random overlays, at most 14; `cargo bench --bench routes`). Allocates
    /// nothing but the path once the memory is there.
    ///
    /// # Panics
    /// A node that is not in the graph; a `headroom` that has not one entry for each node.
    pub fn quickest(&mut self, graph: &Graph, query: &Query<'_>) -> Option<Path> {
        if query.from == query.to {
            return None;
        }
        self.search.prepare(graph, query);
        let target = Target::message(query.bytes);
        self.search.best(graph, query, target).then(|| self.path())
    }

    /// Cost of the last call.
    pub fn effort(&self) -> Effort {
        self.search.effort
    }

    pub(crate) fn search(&mut self) -> &mut Search {
        &mut self.search
    }

    /// The path found last.
    pub(crate) fn path(&self) -> Path {
        let found = &self.search.found;
        Path {
            links: found.links.iter().map(|&link| LinkIndex(link)).collect(),
            bandwidth: Rate::from_bps(found.bandwidth_bps),
            delay_min: std::time::Duration::from_nanos(found.delay_ns),
        }
    }
}

/// The quickest path of a message within one packet, which every relay receives whole before it forwards it [Daemons Eq.
/// (4)]: shortest by Σ(r/EBW + d_min), one search by Dijkstra's algorithm. `limits.headroom` excludes relays where it is
/// zero, and narrows the links that enter others.
///
/// # Panics
/// As [`Finder::quickest`].
pub fn quickest_stored(finder: &mut Finder, graph: &Graph, query: &Query<'_>) -> Option<Path> {
    if query.from == query.to {
        return None;
    }
    let search = finder.search();
    search.prepare(graph, query);
    search.stored(graph, query).then(|| finder.path())
}

#[cfg(test)]
mod tests;
