//! Links measured by messages of several sizes, as a daemon does [Daemons §3].

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_route::{
    Builder, Estimate, Graph, LinkIndex, Names, Path, flow,
    multiple::{Wanted, paths},
    quickest::{Finder, Limits, Query},
};
use anabranch_session::{AllowList, Config, Controller, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
    topology::Topology,
};
use anabranch_stats::regression::{LinkEstimate, LinkEstimator};

/// Test messages; each is sent [`REPEATS`] times, as in the paper.
const SIZES: [usize; 6] = [1_000, 50_000, 100_000, 200_000, 300_000, 400_000];
const REPEATS: u64 = 3;
/// Time for one message; the next one finds only the load of the link's users.
const TURN: Duration = Duration::from_secs(5);
/// Time at which the first message leaves; the sessions are established by then.
const BEGIN: Duration = Duration::from_secs(2);
/// Bytes by which the smallest message is smaller than one MTU: it stands in for a negative intercept.
const SMALL: usize = 1_200;

/// Time at which all measurements are complete.
pub(super) const END: Duration =
    Duration::from_secs(BEGIN.as_secs() + TURN.as_secs() * SIZES.len() as u64 * REPEATS);

/// A daemon's view of its overlay.
pub(super) struct Overlay {
    graph: Graph,
    names: Names<&'static str>,
}

impl Overlay {
    /// Measures each of `links` of a topology, all at the same time, over [`END`] of virtual time.
    pub(super) fn measure(
        topology: &Topology,
        links: &[[&'static str; 2]],
        controller: Controller,
        seed: Seed,
    ) -> Option<Self> {
        let mut world = World::new(seed);
        let mut config = Config::default();
        config.channel.controller = controller;
        let ends = links.iter().map(|_| {
            let sender = world.nodes();
            let app = Sender::new(World::node_id(sender + 1), messages());
            world.add_node(config.clone(), AllowList::default(), app);
            let allowed = AllowList::of([World::node_id(sender)]);
            world.add_node(config.clone(), allowed, Receiver::new());
            [sender, sender + 1]
        });
        let ends: Vec<[usize; 2]> = ends.collect();
        let laid = topology.lay(&mut world).ok()?;
        for (nodes, link) in ends.iter().zip(links) {
            let hops = laid.path(link).ok()?;
            let back = anabranch_sim::Hop::reversed(&hops);
            let route = world.add_route(*nodes, &hops, &back);
            let path = world.route_link(nodes[0], route);
            world
                .app::<Sender>(nodes[0])
                .dial(Instant::EPOCH, vec![path]);
            world.with_node(nodes[0], |_| ());
        }
        world.run_until(Instant::EPOCH + END);
        let mut builder = Builder::new();
        for (nodes, [from, to]) in ends.iter().zip(links) {
            let estimate = estimate(world.app::<Receiver>(nodes[1]))?;
            let estimate = Estimate {
                bandwidth: estimate.bandwidth,
                delay_min: estimate.delay_min,
                error: 0.0,
            };
            builder.link(*from, *to, estimate);
        }
        let (graph, names) = builder.build();
        Some(Self { graph, names })
    }

    fn query(&self, from: &'static str, to: &'static str, bytes: u64) -> Option<Query<'static>> {
        Some(Query {
            from: self.names.find(&from)?,
            to: self.names.find(&to)?,
            bytes,
            limits: Limits::default(),
        })
    }

    /// Quickest paths for a message, at most two, and the sites that each visits.
    pub(super) fn two_quickest(
        &self,
        [from, to]: [&'static str; 2],
        bytes: u64,
    ) -> Option<Vec<(Path, Vec<&'static str>)>> {
        let wanted = Wanted {
            paths_max: 2,
            ..Wanted::default()
        };
        let query = self.query(from, to, bytes)?;
        let found = paths(&mut Finder::new(), &self.graph, &query, &wanted);
        let named = found.into_iter().map(|path| {
            let via = path.nodes(&self.graph).map(|node| *self.names.of(node));
            let via = via.collect();
            (path, via)
        });
        Some(named.collect())
    }

    /// Rate of all paths together, from the measurements.
    pub(super) fn maximum_flow(&self, [from, to]: [&'static str; 2]) -> Option<Rate> {
        Some(flow::maximum(&self.graph, &self.query(from, to, 1)?))
    }

    /// Estimate of a link.
    pub(super) fn link(&self, [from, to]: [&'static str; 2]) -> Option<Estimate> {
        let find = |name| self.names.find(name);
        let link: LinkIndex = self.graph.find(find(&from)?, find(&to)?)?;
        Some(self.graph.link(link).estimate)
    }
}

fn label(size: usize) -> String {
    format!("test {size}")
}

/// Every size in turn, repeated.
fn messages() -> Vec<Load> {
    let load = |(turn, &size): (usize, &usize)| Load {
        spec: StreamSpec::bulk(&label(size)),
        adu_bytes: size,
        every: Some(TURN * SIZES.len() as u32),
        adus: REPEATS,
        start: Instant::EPOCH + BEGIN + TURN * turn as u32,
    };
    SIZES.iter().enumerate().map(load).collect()
}

fn estimate(receiver: &Receiver) -> Option<LinkEstimate> {
    let mut estimator = LinkEstimator::new(SIZES.len() * REPEATS as usize).ok()?;
    for size in SIZES {
        for delay in receiver.record(&label(size)).delays {
            estimator.observe(size as u64, delay).ok()?;
            if size < SMALL {
                estimator.observe_small(delay);
            }
        }
    }
    estimator.least_squares().ok()
}
