//! Graph of all links.

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_route::{
    Estimate, Graph, Link, LinkIndex, NodeIndex, Path,
    multiple::{Disjoint, Group, Wanted, again, paths},
    partition::{Leg, partition},
    quickest::{Finder, Limits, Query},
};

use super::trust::Pair;
use crate::config::Routing;

/// Fraction by which paths with one more link must be quicker.
const HOP_GAIN: f64 = 0.05;

/// Paths as sequences of the nodes that they visit, by places in the member table.
pub(crate) type NodeRoutes = Vec<Vec<usize>>;

/// Graph of the overlay's present links; nodes by their places in the member table.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) graph: Graph,
    /// Headroom by node; zero for a node that does not relay.
    headroom: Vec<Rate>,
    groups: Vec<Group>,
}

/// One link for the map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) link: Pair,
    pub(crate) estimate: Estimate,
    /// See [`crate::wire::LinkState::group`].
    pub(crate) group: u8,
}

impl Map {
    pub(crate) fn new(headroom: Vec<Rate>, links: &[Known]) -> Self {
        let index = |at: usize| NodeIndex(at as u32);
        let graph = Graph::new(
            headroom.len(),
            links.iter().map(|known| Link {
                from: index(known.link.0),
                to: index(known.link.1),
                estimate: known.estimate,
            }),
        );
        let mut grouped: Vec<(usize, u8, LinkIndex)> = links
            .iter()
            .filter(|known| known.group != 0)
            .filter_map(|known| {
                let (from, to) = known.link;
                Some((from, known.group, graph.find(index(from), index(to))?))
            })
            .collect();
        grouped.sort_unstable();
        let groups = grouped
            .chunk_by(|a, b| (a.0, a.1) == (b.0, b.1))
            .filter(|group| group.len() > 1)
            .map(|group| {
                let links: Vec<LinkIndex> = group.iter().map(|&(_, _, link)| link).collect();
                // Measured alone, each link shows the bandwidth of the bottleneck that they share.
                let rates = links
                    .iter()
                    .map(|&link| graph.link(link).estimate.bandwidth);
                let bandwidth = rates.max().unwrap_or(Rate::ZERO);
                Group { links, bandwidth }
            })
            .collect();
        Self {
            graph,
            headroom,
            groups,
        }
    }

    fn query(&self, from: usize, to: usize, bytes: u64, hops: usize) -> Query<'_> {
        Query {
            from: NodeIndex(from as u32),
            to: NodeIndex(to as u32),
            bytes,
            limits: Limits {
                hops_max: Some(hops as u32),
                headroom: Some(&self.headroom),
            },
        }
    }

    fn wanted<'a>(&'a self, given: &'a [Path], paths_max: usize) -> Wanted<'a> {
        Wanted {
            given,
            paths_max,
            disjoint: Disjoint::Relays,
            groups: &self.groups,
            ..Wanted::default()
        }
    }

    /// The best paths for a message, each as the nodes it visits. Preferably no two share a relay, so that the failure
    /// of a relay breaks only one path; and relays are used only where they help: among many noisy estimates, a long
    /// path looks best by chance, and takes relays that other paths would need. `with_direct`: the direct link is used
    /// in any case; it comes first, and relayed paths are added to it.
    pub(crate) fn best(
        &self,
        finder: &mut Finder,
        pair: Pair,
        bytes: u64,
        config: &Routing,
        with_direct: bool,
    ) -> NodeRoutes {
        let direct = self.find(pair).filter(|_| with_direct);
        let given: Vec<Path> = (direct.iter())
            .map(|&link| self.graph.path(&[link]))
            .collect();
        self.beside(finder, pair, bytes, config, (&given, config.paths))
    }

    /// The given paths, the direct link if they lack it, and the best paths beside them, up to the configured number;
    /// `None` when there is nothing to add.
    pub(crate) fn wider(
        &self,
        finder: &mut Finder,
        pair: Pair,
        bytes: u64,
        config: &Routing,
        paths: &NodeRoutes,
    ) -> Option<NodeRoutes> {
        let direct = vec![pair.0, pair.1];
        let lacks_direct = self.find(pair).is_some() && !paths.contains(&direct);
        let relayed = paths.iter().filter(|path| **path != direct).count();
        let paths_left = config.paths.saturating_sub(relayed);
        if paths_left == 0 && !lacks_direct {
            return None;
        }
        let first = lacks_direct.then_some(&direct);
        let given = first.into_iter().chain(paths).map(|path| self.along(path));
        let given: Vec<Path> = given.collect::<Option<_>>()?;
        let wider = self.beside(finder, pair, bytes, config, (&given, paths_left));
        // A path in use that would carry nothing is not handled here.
        let is_wider = wider.len() > paths.len() && paths.iter().all(|path| wider.contains(path));
        is_wider.then_some(wider)
    }

    /// The given paths and at most `paths_max` of the best beside them.
    fn beside(
        &self,
        finder: &mut Finder,
        (from, to): Pair,
        bytes: u64,
        config: &Routing,
        (given, paths_max): (&[Path], usize),
    ) -> NodeRoutes {
        if self.headroom.is_empty() {
            return Vec::new();
        }
        let wanted = self.wanted(given, paths_max);
        let mut best: (Duration, Vec<Path>) = (Duration::MAX, Vec::new());
        for hops in 1..=config.hops {
            let query = self.query(from, to, bytes, hops);
            let found = paths(finder, &self.graph, &query, &wanted);
            let legs: Vec<Leg> = found.iter().map(Leg::from).collect();
            let finish = partition(&legs, bytes).map_or(Duration::MAX, |division| division.finish);
            if finish < best.0.div_f64(1.0 + HOP_GAIN) {
                best = (finish, found);
            }
        }
        best.1
            .iter()
            .map(|path| path.nodes(&self.graph).map(NodeIndex::at).collect())
            .collect()
    }

    /// A path by the present estimates; `None` when one of its links is not known.
    fn along(&self, path: &[usize]) -> Option<Path> {
        let pairs = path.windows(2).map(|pair| (pair[0], pair[1]));
        let links: Option<Vec<LinkIndex>> = pairs.map(|pair| self.find(pair)).collect();
        Some(self.graph.path(&links?))
    }

    /// The given paths by the present estimates; `None` when one of them cannot be used.
    pub(crate) fn judge(
        &self,
        finder: &mut Finder,
        (from, to): Pair,
        bytes: u64,
        config: &Routing,
        paths: &[Vec<usize>],
    ) -> Option<Vec<Path>> {
        let known = paths.iter().map(|path| self.along(path));
        let known: Vec<Path> = known.collect::<Option<_>>()?;
        if known.is_empty() {
            return None;
        }
        let query = self.query(from, to, bytes, config.hops);
        let judged = again(
            finder,
            &self.graph,
            &query,
            &self.wanted(&[], config.paths),
            &known,
        );
        judged
            .iter()
            .all(|path| path.bandwidth > Rate::ZERO)
            .then_some(judged)
    }

    fn find(&self, (from, to): Pair) -> Option<LinkIndex> {
        self.graph
            .find(NodeIndex(from as u32), NodeIndex(to as u32))
    }

    /// Estimate of a link in the map.
    pub(crate) fn estimate(&self, link: Pair) -> Option<Estimate> {
        self.find(link).map(|link| self.graph.link(link).estimate)
    }
}
