//! Networks by name: points, wires between them, traffic over them, and the routes under study.
//!
//! A [`Topology`] is a plan: plain data that can be inspected and changed; [`Topology::lay`] puts it into a [`World`]. Paths
//! are written as the points they visit:
//!
//! ```
//! use anabranch_base::Seed;
//! use anabranch_session::{AllowList, Config};
//! use anabranch_sim::{World, apps::{Receiver, Sender}, topology};
//!
//! let mut world = World::new(Seed(1));
//! let a = world.add_node(Config::default(), AllowList::default(), Sender::new(World::node_id(1), vec![]));
//! let b = world.add_node(Config::default(), AllowList::of([World::node_id(0)]), Receiver::new());
//! let laid = topology::figure8().lay(&mut world)?;
//! // Both overlay paths of the testbed, as links that the node `a` can dial.
//! let links = laid.connect(&mut world, [a, b]);
//! assert_eq!(links.len(), 2);
//! # Ok::<(), topology::TopologyError>(())
//! ```
//!
//! | function | network |
//! |---|---|
//! | [`figure8`], [`figure8_with`] | two paths with cross-traffic [IQ-Paths Figure 8] |
//! | [`three_sites`] | a direct path and one through a third site [Daemons Figure 5] |
//! | [`horde_six`] | six radio channels [Horde Figure 7-5] |
//! | [`random`] | two to four routes with or without shared bottlenecks, and the ground truth |

mod figure8;
mod horde_six;
mod random;
mod three_sites;

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, Seed};
use anabranch_link::{
    Config, ConfigError, Traffic,
    duplex::Configs,
    traffic::{Source, bytes_per_window},
};
use anabranch_session::Link;

pub use figure8::{PATH_A, PATH_B, figure8, figure8_with};
pub use horde_six::{Channel, HORDE_CHANNELS, PACKET_BYTES, horde_six};
pub use random::{Bottleneck, Shared, random};
pub use three_sites::{DIRECT, VIA_GATECH, three_sites};

use crate::{
    flow::{Flow, FlowPlan},
    network::{CrossIndex, Hop, RouteIndex, WireIndex},
    world::{NodeIndex, World},
};

/// A plan of a network.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Topology {
    /// The wires; at most one between two points.
    pub wires: Vec<WirePlan>,
    /// Traffic of others that does not react to congestion.
    pub cross_traffic: Vec<CrossPlan>,
    /// Traffic of others with congestion control.
    pub flows: Vec<(Via, FlowPlan)>,
    /// The routes under study, from the source to the sink.
    pub routes: Vec<RoutePlan>,
}

/// Points that a path visits, first to last.
pub type Via = Vec<String>;

/// A wire between two points.
#[derive(Debug, Clone, PartialEq)]
pub struct WirePlan {
    /// The points; forward is from the first to the second.
    pub between: [String; 2],
    /// Both directions.
    pub configs: Configs,
}

/// Cross-traffic along a path.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossPlan {
    /// The points it visits.
    pub via: Via,
    /// The traffic.
    pub traffic: Traffic,
}

/// A route under study. Packets return along the same path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutePlan {
    /// Its name.
    pub name: String,
    /// The points it visits.
    pub via: Via,
}

/// Reason for which a plan cannot be laid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Two wires between the same points.
    #[error("there are two wires between {} and {}; a path would be ambiguous", between[0], between[1])]
    Twice {
        /// The points.
        between: [String; 2],
    },
    /// A path with two consecutive points that no wire joins.
    #[error("a path goes from {from} to {to}, between which there is no wire")]
    NoWire {
        /// The point before the gap.
        from: String,
        /// The point after the gap.
        to: String,
    },
    /// A path with fewer than two points.
    #[error("a path visits {points} points; it needs at least two")]
    TooShort {
        /// Number of points that it visits.
        points: usize,
    },
    /// A wire or source with a value out of range.
    #[error(transparent)]
    Range(#[from] ConfigError),
}

/// A topology laid in a world: the indices of its parts.
#[derive(Debug, Clone)]
pub struct Laid {
    hops: BTreeMap<(String, String), Hop>,
    routes: Vec<(String, Vec<Hop>)>,
    /// The cross-traffic, in the order of the plan.
    pub cross_traffic: Vec<CrossIndex>,
    /// The flows, in the order of the plan.
    pub flows: Vec<Flow>,
}

/// A network's name and the function that plans it.
type Named = (&'static str, fn() -> Topology);

/// The networks that need no seed, by name.
const NAMED: [Named; 3] = [
    ("figure8", figure8),
    ("three_sites", three_sites),
    ("horde_six", horde_six),
];

/// The names of the networks that need no seed.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMED.iter().map(|&(name, _)| name)
}

/// The network of this name.
pub fn by_name(name: &str) -> Option<Topology> {
    let (_, make) = NAMED.iter().find(|&&(other, _)| other == name)?;
    Some(make())
}

impl Topology {
    /// Adds a wire.
    pub fn wire(&mut self, a: &str, b: &str, configs: Configs) -> &mut Self {
        self.wires.push(WirePlan {
            between: [a.to_owned(), b.to_owned()],
            configs,
        });
        self
    }

    /// Adds cross-traffic.
    pub fn cross(&mut self, via: &[&str], traffic: Traffic) -> &mut Self {
        self.cross_traffic.push(CrossPlan {
            via: owned(via),
            traffic,
        });
        self
    }

    /// Adds a flow.
    pub fn flow(&mut self, via: &[&str], plan: FlowPlan) -> &mut Self {
        self.flows.push((owned(via), plan));
        self
    }

    /// Adds a route under study.
    pub fn route(&mut self, name: &str, via: &[&str]) -> &mut Self {
        self.routes.push(RoutePlan {
            name: name.to_owned(),
            via: owned(via),
        });
        self
    }

    /// The config of the direction from one point to the next; `None` without a wire.
    pub fn config(&self, from: &str, to: &str) -> Option<&Config> {
        self.wires.iter().find_map(|wire| {
            let [a, b] = &wire.between;
            if a == from && b == to {
                return Some(&wire.configs.forward);
            }
            (b == from && a == to).then_some(&wire.configs.backward)
        })
    }

    /// The mean rate of all cross-traffic that goes from one point to the next, in bits per second.
    pub fn load_bps(&self, from: &str, to: &str) -> u64 {
        let passes = |plan: &&CrossPlan| plan.via.windows(2).any(|hop| hop == [from, to]);
        let through = self.cross_traffic.iter().filter(passes);
        through.map(|plan| plan.traffic.mean().as_bps()).sum()
    }

    /// Rate that cross-traffic leaves from one point to the next in each of `count` windows of `width`, in bits per second;
    /// `None` without a wire of constant or mean rate between them.
    ///
    /// The result holds for a world with this seed into which the plan is laid at time zero, before any other cross-traffic: the
    /// ground truth for an oracle. Packets count at the time they are sent, not when they reach the wire; flows do not count.
    /// Negative where more is sent than fits.
    ///
    /// # Errors
    /// If cross-traffic has a value out of range.
    pub fn available_bps(
        &self,
        seed: Seed,
        [from, to]: [&str; 2],
        (width, count): (Duration, usize),
    ) -> Result<Option<Vec<f64>>, ConfigError> {
        let rate = self.config(from, to).and_then(|config| config.rate.mean());
        let Some(rate) = rate else {
            return Ok(None);
        };
        let mut sent_bytes = vec![0; count];
        for (index, plan) in self.cross_traffic.iter().enumerate() {
            if !plan.via.windows(2).any(|hop| hop == [from, to]) {
                continue;
            }
            let seed = World::cross_seed(seed, index);
            let source = Source::new(&plan.traffic, Instant::EPOCH, seed)?;
            let windows = bytes_per_window(source, width, count);
            for (sum, bytes) in sent_bytes.iter_mut().zip(windows) {
                *sum += bytes;
            }
        }
        let left = |bytes: u64| rate.as_bps() as f64 - bytes as f64 * 8.0 / width.as_secs_f64();
        Ok(Some(sent_bytes.into_iter().map(left).collect()))
    }

    /// Puts the network into a world: wires, cross-traffic from now on, and flows. The world's seed decides all randomness.
    /// Flows add nodes, so a scenario's own nodes come first.
    ///
    /// # Errors
    /// If the plan contradicts itself or has a value out of range. The world may hold a part of it then.
    pub fn lay(&self, world: &mut World) -> Result<Laid, TopologyError> {
        let mut laid = Laid {
            hops: BTreeMap::new(),
            routes: Vec::new(),
            cross_traffic: Vec::new(),
            flows: Vec::new(),
        };
        for plan in &self.wires {
            let wire = world.add_trunk(plan.configs.clone())?;
            let [a, b] = plan.between.clone();
            let there = laid.hops.insert((a.clone(), b.clone()), Hop::forward(wire));
            let back = laid.hops.insert((b, a), Hop::backward(wire));
            if there.is_some() || back.is_some() {
                let between = plan.between.clone();
                return Err(TopologyError::Twice { between });
            }
        }
        for plan in &self.routes {
            laid.routes.push((plan.name.clone(), laid.path(&plan.via)?));
        }
        for plan in &self.cross_traffic {
            let hops = laid.path(&plan.via)?;
            let cross = world.add_cross_traffic(&hops, &plan.traffic)?;
            laid.cross_traffic.push(cross);
        }
        for (via, plan) in &self.flows {
            let hops = laid.path(via)?;
            laid.flows.push(world.add_flow(&hops, plan));
        }
        Ok(laid)
    }
}

impl Laid {
    /// The hops of a path that visits these points.
    ///
    /// # Errors
    /// If there are fewer than two points, or no wire between two consecutive ones.
    pub fn path<S: AsRef<str>>(&self, via: &[S]) -> Result<Vec<Hop>, TopologyError> {
        if via.len() < 2 {
            let points = via.len();
            return Err(TopologyError::TooShort { points });
        }
        via.windows(2)
            .map(|pair| {
                let (from, to) = (pair[0].as_ref().to_owned(), pair[1].as_ref().to_owned());
                let hop = self.hops.get(&(from.clone(), to.clone())).copied();
                hop.ok_or(TopologyError::NoWire { from, to })
            })
            .collect()
    }

    /// The wire between two points, in either order; `None` if there is none.
    pub fn wire(&self, a: &str, b: &str) -> Option<WireIndex> {
        let hop = self.hops.get(&(a.to_owned(), b.to_owned()));
        hop.map(|hop| hop.wire)
    }

    /// The hops of the route of this name, from source to sink.
    pub fn hops(&self, route: &str) -> Option<&[Hop]> {
        let found = self.routes.iter().find(|(name, _)| name == route);
        found.map(|(_, hops)| hops.as_slice())
    }

    /// Joins two nodes by every route of the plan, in its order; returns the links by which the first
    /// reaches the second.
    pub fn connect(&self, world: &mut World, nodes: [NodeIndex; 2]) -> Vec<Link> {
        let routes = self.routes.iter();
        let hops = routes.map(|(_, hops)| hops);
        hops.map(|hops| self.join(world, nodes, hops).1).collect()
    }

    /// Joins two nodes by the route of this name; `None` if there is none.
    pub fn connect_by(
        &self,
        world: &mut World,
        nodes: [NodeIndex; 2],
        route: &str,
    ) -> Option<(RouteIndex, Link)> {
        Some(self.join(world, nodes, self.hops(route)?))
    }

    fn join(&self, world: &mut World, nodes: [NodeIndex; 2], hops: &[Hop]) -> (RouteIndex, Link) {
        let route = world.add_route(nodes, hops, &Hop::reversed(hops));
        (route, world.route_link(nodes[0], route))
    }
}

fn owned(via: &[&str]) -> Via {
    via.iter().map(|&point| point.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rate;
    use anabranch_link::traffic::Sizes;

    fn lay(topology: &Topology) -> Result<Laid, TopologyError> {
        topology.lay(&mut World::new(Seed(1)))
    }

    #[test]
    fn a_plan_that_contradicts_itself_is_refused() {
        let mut topology = Topology::default();
        topology.wire("a", "b", Configs::default());
        assert!(lay(&topology).is_ok());
        let mut twice = topology.clone();
        twice.wire("b", "a", Configs::default());
        assert!(matches!(lay(&twice), Err(TopologyError::Twice { .. })));
        let mut nowhere = topology.clone();
        nowhere.route("path", &["a", "c"]);
        let text = lay(&nowhere).unwrap_err().to_string();
        assert!(text.contains("from a to c"), "{text}");
        let mut short = topology.clone();
        short.cross(&["a"], Traffic::constant(Rate::from_mbps(1), 500));
        let refused = lay(&short).unwrap_err();
        assert_eq!(refused, TopologyError::TooShort { points: 1 });
        let mut slow = topology;
        slow.cross(&["a", "b"], Traffic::constant(Rate::ZERO, 500));
        assert!(matches!(lay(&slow), Err(TopologyError::Range(_))));
    }

    #[test]
    fn available_bandwidth_is_predicted() {
        let mut topology = Topology::default();
        let wide = "rate=50 Mbit/s, delay=1 ms".parse().unwrap();
        topology
            .wire("a", "b", Configs::symmetric(wide))
            .cross(
                &["a", "b"],
                Traffic::poisson(Rate::from_mbps(5), Sizes::Imix),
            )
            .cross(
                &["b", "a"],
                Traffic::poisson(Rate::from_mbps(9), Sizes::Imix),
            )
            .cross(
                &["a", "b"],
                Traffic::poisson(Rate::from_mbps(7), Sizes::Imix),
            );
        let windows = (Duration::from_secs(1), 4);
        let left = topology.available_bps(Seed(3), ["a", "b"], windows);
        let left = left.unwrap().unwrap();
        let mut world = World::new(Seed(3));
        let laid = topology.lay(&mut world).unwrap();
        let wire = laid.wire("a", "b").unwrap();
        let mut before = 0;
        for left in left {
            world.run_for(Duration::from_secs(1));
            let offered = world.wire(wire).duplex.forward.stats().offered.bytes;
            let sent_bps = ((offered - before) * 8) as f64;
            before = offered;
            assert_eq!(left, 50e6 - sent_bps);
            assert!((sent_bps - 12e6).abs() < 1e6, "{sent_bps}");
        }
        let nowhere = topology.available_bps(Seed(3), ["a", "c"], windows);
        assert_eq!(nowhere, Ok(None));
    }

    #[test]
    fn every_name_can_be_laid() {
        for name in names() {
            let topology = by_name(name).unwrap();
            let laid = lay(&topology).unwrap();
            for route in &topology.routes {
                let hops = laid.hops(&route.name).unwrap();
                assert_eq!(hops.len(), route.via.len() - 1, "{name}");
            }
        }
        assert_eq!(by_name("figure9"), None);
    }

    #[test]
    fn paths_have_a_direction() {
        let mut topology = Topology::default();
        topology
            .wire("a", "b", Configs::default())
            .wire("c", "b", Configs::default())
            .cross(&["a", "b", "c"], Traffic::constant(Rate::from_mbps(3), 500))
            .cross(&["b", "a"], Traffic::constant(Rate::from_mbps(5), 500));
        let laid = lay(&topology).unwrap();
        let hops = laid.path(&["a", "b", "c"]).unwrap();
        assert_eq!(hops, [Hop::forward(0), Hop::backward(1)]);
        assert_eq!(Hop::reversed(&hops), laid.path(&["c", "b", "a"]).unwrap());
        assert_eq!(laid.wire("b", "c"), Some(1));
        assert_eq!(topology.load_bps("a", "b"), 3_000_000);
        assert_eq!(topology.load_bps("b", "a"), 5_000_000);
        assert_eq!(topology.load_bps("c", "b"), 0);
    }
}
