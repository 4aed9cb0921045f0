//! A full mesh of hosts with agents, over the real engine.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, Rate, Seed};
use anabranch_link::{
    Config as LinkConfig, ConfigError as LinkError, Queue, RateSource, duplex::Configs,
    source::Walk,
};
use anabranch_overlay::{Agent, Config as AgentConfig, ConfigError, FakeKeys, Member};
use anabranch_session::{AllowList, Config, Link};

use super::host::{Host, Path};
use crate::{Hop, NodeIndex, WireIndex, World};

/// Nodes with agents, each pair joined by a wire; node 0 sends to node 1, directly or through any other node.
pub struct Mesh {
    /// The world.
    pub world: World,
    /// Wire between two nodes, by the numbers of both.
    wires: Vec<Vec<WireIndex>>,
    count: usize,
    /// Nodes that have crashed.
    dead: Vec<NodeIndex>,
}

/// The node that sends.
pub const SOURCE: NodeIndex = 0;
/// The node that it sends to.
pub const SINK: NodeIndex = 1;

/// A symmetric link with a queue of one round trip; its rate varies by `spread` around the mean every half second,
/// uniformly.
pub fn link(rate: Rate, round_trip: Duration, spread: f64) -> Configs {
    let source = if spread > 0.0 {
        RateSource::Walk(Walk {
            base: rate,
            spread,
            every: Duration::from_millis(500),
        })
    } else {
        RateSource::Constant(rate)
    };
    Configs::symmetric(LinkConfig {
        rate: source,
        delay: round_trip / 2,
        queue: Queue::bdp(rate, round_trip),
        ..LinkConfig::default()
    })
}

/// Reason for which no mesh can be made.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// A link is not valid.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The agents' configuration is not valid.
    #[error(transparent)]
    Agent(#[from] ConfigError),
}

/// All pairs of `count` nodes, the lower one first.
fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |a| (a + 1..count).map(move |b| (a, b)))
}

impl Mesh {
    /// A mesh of `count` nodes; `links` gives the link between two of them. Agents start at time 0, each with the address of node 0.
    ///
    /// # Errors
    /// If a link or the configuration is not valid.
    pub fn new(
        count: usize,
        config: &AgentConfig,
        seed: Seed,
        links: impl Fn(usize, usize) -> Configs,
    ) -> Result<Self, MeshError> {
        let mut world = World::new(seed);
        let ids: Vec<NodeId> = (0..count).map(World::node_id).collect();
        let members: Vec<Member> = ids
            .iter()
            .map(|&node| Member {
                node,
                addresses: Vec::new(),
            })
            .collect();
        for (n, &id) in ids.iter().enumerate() {
            let mut config = config.clone();
            config.seeds = vec![ids[SOURCE]];
            let keys = Box::new(FakeKeys(id));
            let seed = seed.child(&format!("agent {n}"));
            let agent = Agent::new(config, id, &members, keys, seed, Instant::EPOCH)?;
            let allowed = AllowList::of(ids.iter().copied());
            world.add_node(Config::default(), allowed, Host::new(agent, []));
        }
        let mut wires = vec![vec![0; count]; count];
        for (a, b) in pairs(count) {
            let wire = world.add_wire(a, b, links(a, b))?;
            (wires[a][b], wires[b][a]) = (wire, wire);
        }
        let mut mesh = Self {
            world,
            wires,
            count,
            dead: Vec::new(),
        };
        mesh.lay_paths();
        Ok(mesh)
    }

    fn lay_paths(&mut self) {
        let ids: Vec<NodeId> = (0..self.count).map(World::node_id).collect();
        for a in 0..self.count {
            let direct: Vec<(Path, Link)> = (0..self.count)
                .filter(|&b| b != a)
                .map(|b| {
                    let link = self.world.link(a, self.wires[a][b]);
                    ((ids[b], Vec::new()), link)
                })
                .collect();
            self.world.app::<Host>(a).add_paths(direct);
        }
        for relay in 2..self.count {
            let there = [self.hop(SOURCE, relay), self.hop(relay, SINK)];
            let back = Hop::reversed(&there);
            let route = self.world.add_route([SOURCE, SINK], &there, &back);
            let link = self.world.route_link(SOURCE, route);
            let path = ((ids[SINK], vec![ids[relay]]), link);
            self.world.app::<Host>(SOURCE).add_paths([path]);
        }
        for n in 0..self.count {
            self.world.with_node(n, |_| ());
        }
    }

    fn hop(&self, from: usize, to: usize) -> Hop {
        let wire = self.wires[from][to];
        if from < to {
            Hop::forward(wire)
        } else {
            Hop::backward(wire)
        }
    }

    /// Starts the transfer.
    pub fn send(&mut self, bytes: u64) {
        self.world.with_app::<Host, ()>(SOURCE, |host, context| {
            host.send(context, World::node_id(SINK), bytes);
        });
    }

    /// The host of a node.
    pub fn host(&mut self, n: usize) -> &mut Host {
        self.world.app::<Host>(n)
    }

    /// Relays in use by the transfer.
    pub fn relays(&mut self) -> Vec<usize> {
        let paths = self.host(SOURCE).open_paths();
        (2..self.count)
            .filter(|&n| paths.iter().any(|path| path.contains(&World::node_id(n))))
            .collect()
    }

    /// Crashes node `n`, and everything that goes through it.
    pub fn crash(&mut self, n: usize) {
        self.dead.push(n);
        self.world.suspend(n);
        for other in (0..self.count).filter(|&other| other != n) {
            self.world.set_wire_up(self.wires[n][other], false);
        }
    }

    /// Sets the rate of the link between two nodes, in both directions.
    ///
    /// # Errors
    /// If the rate is zero.
    pub fn set_rate(&mut self, a: usize, b: usize, rate: Rate) -> Result<(), LinkError> {
        let now = self.world.now();
        let duplex = &mut self.world.wire(self.wires[a][b]).duplex;
        duplex.forward.set_rate(now, RateSource::Constant(rate))?;
        duplex.backward.set_rate(now, RateSource::Constant(rate))
    }

    /// Cuts the wires between islands, and restores those within.
    pub fn partition(&mut self, island: impl Fn(usize) -> usize) {
        for (a, b) in pairs(self.count) {
            let is_dead = self.dead.contains(&a) || self.dead.contains(&b);
            let is_up = island(a) == island(b) && !is_dead;
            self.world.set_wire_up(self.wires[a][b], is_up);
        }
    }
}
