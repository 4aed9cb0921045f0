//! The graph of all links.

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

/// Ways of one link more must be quicker by this.
const HOP_GAIN: f64 = 0.05;

/// What is known of the overlay now; nodes by their places in the roster.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) graph: Graph,
    /// By node; zero for one that does not relay.
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
                // Each of them measured alone sees the bottleneck that they share.
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

    fn wanted<'a>(&'a self, config: &Routing, given: &'a [Path]) -> Wanted<'a> {
        Wanted {
            given,
            paths_max: config.paths,
            disjoint: Disjoint::Relays,
            groups: &self.groups,
            ..Wanted::default()
        }
    }

    /// The best ways for a message, each as the nodes it visits. Preferably no two have a relay in common, so
    /// that none takes two along when it fails; and relays are spent only where they help: among many noisy
    /// estimates, a long way looks best by chance, and takes relays that others would need. `with_direct`: the direct link is used in any
    /// case; it comes first, and relays are to add to it.
    pub(crate) fn best(
        &self,
        finder: &mut Finder,
        (from, to): Pair,
        bytes: u64,
        config: &Routing,
        with_direct: bool,
    ) -> Vec<Vec<usize>> {
        if self.headroom.is_empty() {
            return Vec::new();
        }
        let direct = self.find((from, to)).filter(|_| with_direct);
        let given: Vec<Path> = direct
            .map(|link| self.graph.path(&[link]))
            .into_iter()
            .collect();
        let mut best: (Duration, Vec<Path>) = (Duration::MAX, Vec::new());
        for hops in 1..=config.hops {
            let query = self.query(from, to, bytes, hops);
            let found = paths(finder, &self.graph, &query, &self.wanted(config, &given));
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

    /// The given ways by the present estimates; `None` when one of them cannot be used.
    pub(crate) fn judge(
        &self,
        finder: &mut Finder,
        (from, to): Pair,
        bytes: u64,
        config: &Routing,
        ways: &[Vec<usize>],
    ) -> Option<Vec<Path>> {
        let along = |way: &Vec<usize>| {
            let links: Option<Vec<LinkIndex>> = way
                .windows(2)
                .map(|pair| self.find((pair[0], pair[1])))
                .collect();
            Some(self.graph.path(&links?))
        };
        let known: Vec<Path> = ways.iter().map(along).collect::<Option<_>>()?;
        if known.is_empty() {
            return None;
        }
        let query = self.query(from, to, bytes, config.hops);
        let judged = again(
            finder,
            &self.graph,
            &query,
            &self.wanted(config, &[]),
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

    /// What is believed of a link.
    pub(crate) fn estimate(&self, link: Pair) -> Option<Estimate> {
        self.find(link).map(|link| self.graph.link(link).estimate)
    }
}
