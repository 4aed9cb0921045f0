//! Several paths for one message [Daemons §4, Figure 4, MQP].
//!
//! As published: find the quickest path, subtract its bandwidth from its links, and search again in the residual graph.
//! Additions are a limit on the number of paths, the relays' remaining headroom, known shared bottlenecks, and
//! disjointness.
//!
//! [`Choice::Published`] searches at each step for the path on which the *whole* message would be quickest, although it
//! is to carry only a part. [`Choice::Joint`] searches for the path that makes the whole earliest together with those
//! chosen before; the first one is the same. It leaves out paths that do not help.

use std::collections::BTreeSet;

use anabranch_base::Rate;

use crate::{
    graph::{Graph, LinkIndex, NodeIndex, Path},
    quickest::{Finder, Query, Target},
};

/// Criterion by which the next path is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// Carrying the whole message alone [Daemons Figure 4].
    Published,
    /// Earliest completion together with the paths before; stops when no path helps any more.
    #[default]
    Joint,
}

/// Elements that paths may not have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Disjoint {
    /// None: they may share links and relays, as long as both have capacity left.
    #[default]
    No,
    /// Links.
    Links,
    /// Links and relays: no single failure between source and sink stops two.
    Relays,
}

/// Links that are known to share a bottleneck: together they carry no more than its bandwidth.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The links; each counts once for every path over it.
    pub links: Vec<LinkIndex>,
    /// Bandwidth of all of them together.
    pub bandwidth: Rate,
}

/// Requirements on the paths.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Paths that are used in any case: they come first, and take their bandwidth before others are searched for.
    pub given: &'a [Path],
    /// Largest number of further paths.
    pub paths_max: usize,
    /// Criterion by which the next path is chosen.
    pub choice: Choice,
    /// Elements that paths may not have in common.
    pub disjoint: Disjoint,
    /// True to stop when no disjoint path is left; otherwise, shared ones follow.
    pub is_disjoint_only: bool,
    /// Links that share bottlenecks; a link may be in several.
    pub groups: &'a [Group],
    /// Least bandwidth of a path that is worth a channel; the search ends with the first one below it.
    pub bandwidth_min: Rate,
}

impl Default for Wanted<'_> {
    /// Four paths, chosen together, each of at least 1 kbit/s.
    fn default() -> Self {
        Self {
            given: &[],
            paths_max: 4,
            choice: Choice::default(),
            disjoint: Disjoint::default(),
            is_disjoint_only: false,
            groups: &[],
            bandwidth_min: Rate::from_kbps(1),
        }
    }
}

/// Several paths for one message: the given ones, then the quickest first. Each has the bandwidth that it takes from its
/// links: all of them can be used together at their full bandwidths.
///
/// Runs one search by [`Finder::quickest`] more than there are paths; a relay's headroom counts once for each path over
/// it. A path with several links of one group gets only its share of the group, and may then not be the best choice; one
/// that would get nothing is searched for again without the later of these links.
///
/// # Panics
/// As [`Finder::quickest`]; a group with a link, or a given path, that is not in the graph.
pub fn paths(
    finder: &mut Finder,
    graph: &Graph,
    query: &Query<'_>,
    wanted: &Wanted<'_>,
) -> Vec<Path> {
    let mut paths = Vec::new();
    if query.from == query.to {
        return paths;
    }
    let mut residual = Residual::new(finder, graph, query, wanted.groups);
    let mut disjoint = wanted.disjoint;
    let mut target = Target::message(query.bytes);
    for path in wanted.given {
        let path = residual.judge(finder, graph, path);
        if path.bandwidth > Rate::ZERO {
            target.choose(path.bandwidth.as_bps(), nanos(&path));
            paths.push(path);
        }
    }
    let paths_max = paths.len() + wanted.paths_max;
    while paths.len() < paths_max {
        let goal = match wanted.choice {
            Choice::Published => Target::message(query.bytes),
            Choice::Joint => target,
        };
        residual.offer(finder, disjoint);
        let found = finder.search().best(graph, query, goal);
        if !found {
            if disjoint == Disjoint::No || wanted.is_disjoint_only {
                break;
            }
            disjoint = Disjoint::No;
            continue;
        }
        let path = finder.path();
        let part = residual.part(&path);
        let is_worth = part >= wanted.bandwidth_min.max(Rate::from_bps(1))
            && goal.time_with(part.as_bps(), nanos(&path)) < goal.time();
        if !is_worth {
            // A group that the path crosses twice leaves it less than the search assumed.
            if part < path.bandwidth && residual.drop_repeated(&path) {
                continue;
            }
            break;
        }
        let path = Path {
            bandwidth: part,
            ..path
        };
        residual.take(graph, &path);
        target.choose(path.bandwidth.as_bps(), nanos(&path));
        paths.push(path);
    }
    paths
}

/// The same paths by other estimates: each with the bandwidth that the graph leaves to it after those before, and its
/// delay; rate zero for one that cannot be used. For comparing routes in use with new ones.
///
/// # Panics
/// As [`paths`]; a path that is not of this graph.
pub fn again(
    finder: &mut Finder,
    graph: &Graph,
    query: &Query<'_>,
    wanted: &Wanted<'_>,
    paths: &[Path],
) -> Vec<Path> {
    let mut residual = Residual::new(finder, graph, query, wanted.groups);
    paths
        .iter()
        .map(|path| residual.judge(finder, graph, path))
        .collect()
}

fn nanos(path: &Path) -> u64 {
    u64::try_from(path.delay_min.as_nanos()).unwrap_or(u64::MAX)
}

/// Residual capacity of links, groups and relays.
struct Residual {
    links: Vec<u64>,
    /// By group.
    groups: Vec<u64>,
    /// By node; empty when relays are not limited.
    headroom: Vec<u64>,
    /// Relay to which each link leads, if it is one.
    relay: Vec<Option<NodeIndex>>,
    /// Pairs of a link and a group that contains it.
    members: Vec<(LinkIndex, usize)>,
    used_links: BTreeSet<LinkIndex>,
    used_relays: BTreeSet<NodeIndex>,
}

impl Residual {
    fn new(finder: &mut Finder, graph: &Graph, query: &Query<'_>, groups: &[Group]) -> Self {
        let search = finder.search();
        search.prepare(graph, query);
        let headroom = query.limits.headroom.unwrap_or(&[]);
        let members = groups.iter().zip(0..).flat_map(|(group, number)| {
            let links = group.links.iter();
            links.map(move |&link| (link, number))
        });
        let relay = graph
            .links()
            .iter()
            .map(|link| (link.to != query.to).then_some(link.to));
        let links = search.usable.iter().zip(0..).map(|(&usable, link)| {
            // Headroom is kept separately; a link that may not be used at all stays so.
            if usable == 0 {
                0
            } else {
                graph.bandwidth_bps(link)
            }
        });
        Self {
            links: links.collect(),
            groups: groups
                .iter()
                .map(|group| group.bandwidth.as_bps())
                .collect(),
            headroom: headroom.iter().map(|rate| rate.as_bps()).collect(),
            relay: relay.collect(),
            members: members.collect(),
            used_links: BTreeSet::new(),
            used_relays: BTreeSet::new(),
        }
    }

    /// Passes the residual capacity to the finder.
    fn offer(&self, finder: &mut Finder, disjoint: Disjoint) {
        let usable = &mut finder.search().usable;
        usable.clone_from(&self.links);
        for (usable, relay) in usable.iter_mut().zip(&self.relay) {
            let Some(relay) = relay else { continue };
            if let Some(&headroom) = self.headroom.get(relay.at()) {
                *usable = headroom.min(*usable);
            }
            if disjoint == Disjoint::Relays && self.used_relays.contains(relay) {
                *usable = 0;
            }
        }
        for &(link, group) in &self.members {
            usable[link.at()] = usable[link.at()].min(self.groups[group]);
        }
        if disjoint != Disjoint::No {
            for link in &self.used_links {
                usable[link.at()] = 0;
            }
        }
    }

    /// The path with its residual bandwidth, which it takes.
    fn judge(&mut self, finder: &mut Finder, graph: &Graph, path: &Path) -> Path {
        self.offer(finder, Disjoint::No);
        let usable = &finder.search().usable;
        let least_bps = path.links.iter().map(|link| usable[link.at()]).min();
        let mut path = Path {
            bandwidth: Rate::from_bps(least_bps.unwrap_or(0)),
            ..graph.path(&path.links)
        };
        path.bandwidth = self.part(&path);
        self.take(graph, &path);
        path
    }

    /// Residual bandwidth of a path, including groups that it crosses more than once.
    fn part(&self, path: &Path) -> Rate {
        let parts = self.groups.iter().zip(0..).map(|(&left, group)| {
            let crossings = self.crossings(path, group).max(1);
            if crossings > 1 {
                left / crossings
            } else {
                u64::MAX
            }
        });
        let least = parts.min().unwrap_or(u64::MAX);
        path.bandwidth.min(Rate::from_bps(least))
    }

    /// Removes the later links of groups that a path crosses more than once. Returns true if there were any.
    fn drop_repeated(&mut self, path: &Path) -> bool {
        let mut is_parted = false;
        for group in 0..self.groups.len() {
            let is_member = |link: &&LinkIndex| self.members.contains(&(**link, group));
            let later: Vec<LinkIndex> = path
                .links
                .iter()
                .filter(is_member)
                .skip(1)
                .copied()
                .collect();
            for link in later {
                self.links[link.at()] = 0;
                is_parted = true;
            }
        }
        is_parted
    }

    /// Number of links of the path that are in a group.
    fn crossings(&self, path: &Path, group: usize) -> u64 {
        let members = self.members.iter().filter(|(_, number)| *number == group);
        members
            .filter(|(link, _)| path.links.contains(link))
            .count() as u64
    }

    /// Subtracts the path's bandwidth [Daemons Figure 4].
    fn take(&mut self, graph: &Graph, path: &Path) {
        let bps = path.bandwidth.as_bps();
        for link in &path.links {
            self.links[link.at()] = self.links[link.at()].saturating_sub(bps);
            self.used_links.insert(*link);
        }
        for relay in path.relays(graph) {
            if let Some(headroom) = self.headroom.get_mut(relay.at()) {
                *headroom = headroom.saturating_sub(bps);
            }
            self.used_relays.insert(relay);
        }
        for number in 0..self.groups.len() {
            let taken = bps.saturating_mul(self.crossings(path, number));
            self.groups[number] = self.groups[number].saturating_sub(taken);
        }
    }
}

#[cfg(test)]
mod tests;
