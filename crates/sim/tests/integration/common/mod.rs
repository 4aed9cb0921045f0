//! Two nodes, the first of which sends to the second over some links.

pub(crate) mod flows;

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

/// A link of this rate and round trip, the same in both directions, with a queue of one round trip.
pub(crate) fn link(mbps: u64, rtt_ms: u64) -> Configs {
    let rate = Rate::from_mbps(mbps);
    let rtt = Duration::from_millis(rtt_ms);
    Configs::symmetric(LinkConfig {
        rate: RateSource::Constant(rate),
        delay: rtt / 2,
        queue: Queue::bdp(rate, rtt),
        ..LinkConfig::default()
    })
}

#[allow(dead_code)] // Not every test wants the plain sender.
/// Node 0 sends `loads` to node 1 over `links` from the start.
pub(crate) fn world(
    seed: u64,
    links: impl IntoIterator<Item = Configs>,
    loads: Vec<Load>,
) -> World {
    world_with(seed, Config::default(), links, loads)
}

/// As [`world`], with a configuration of the sender.
#[allow(dead_code)] // As above.
pub(crate) fn world_with(
    seed: u64,
    config: Config,
    links: impl IntoIterator<Item = Configs>,
    loads: Vec<Load>,
) -> World {
    let mut world = World::new(Seed(seed));
    let sender = Sender::new(World::node_id(1), loads);
    let a = world.add_node(config, AllowList::default(), sender);
    let allowed = AllowList::of([World::node_id(0)]);
    let b = world.add_node(Config::default(), allowed, Receiver::new());
    let links = links
        .into_iter()
        .map(|configs| {
            let wire = world.add_wire(a, b, configs).expect("a valid link");
            world.link(a, wire)
        })
        .collect();
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    world
}
