//! Transfers by the real engine, in virtual time.

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_link::{Config, Queue, RateSource, duplex::Configs};
use anabranch_route::{Graph, Path};
use anabranch_session::{AllowList, StreamSpec};
use anabranch_sim::{
    Hop, World,
    apps::{Load, Receiver, Sender},
};

use super::overlay::Wire;

/// Queue of every wire.
const QUEUE: Duration = Duration::from_millis(100);
/// Time at which the first message begins: all channels are connected.
const BEGIN: Instant = Instant::from_secs(2);
/// Minimum pause between a message and the next.
const PAUSE: Duration = Duration::from_secs(1);
/// Size of the ADUs into which messages are cut.
pub(super) const ADU_BYTES: u64 = 16 << 10;

/// Times that messages of the given sizes take over the given paths, each a sequence of hops, on one session: from the
/// beginning of sending to the arrival of the last byte. One after the other, each in `spans` after the one before. A message
/// is a whole number of [`ADU_BYTES`], or less than one. `None` for one that is not complete when the next begins.
pub(super) fn messages(
    seed: Seed,
    wires: &[Wire],
    paths: &[Vec<Hop>],
    sizes: &[(u64, Duration)],
) -> Vec<Option<Duration>> {
    let mut begin = BEGIN;
    let mut loads = Vec::new();
    for (&(bytes, span), number) in sizes.iter().zip(0..) {
        loads.push(Load {
            spec: StreamSpec::bulk(&format!("message {number}")),
            adu_bytes: ADU_BYTES.min(bytes) as usize,
            every: None,
            adus: bytes.div_ceil(ADU_BYTES),
            start: begin,
        });
        begin += span + PAUSE;
    }
    let mut world = World::new(seed);
    let config = anabranch_session::Config::default();
    let sender = Sender::new(World::node_id(1), loads.clone());
    let a = world.add_node(config.clone(), AllowList::default(), sender);
    let b = world.add_node(config, AllowList::of([World::node_id(0)]), Receiver::new());
    for wire in wires {
        let one_way = Config {
            rate: RateSource::Constant(wire.rate),
            delay: wire.delay,
            queue: Queue::time(QUEUE),
            ..Config::default()
        };
        world
            .add_trunk(Configs::symmetric(one_way))
            .expect("what is drawn is in range");
    }
    let links = paths
        .iter()
        .map(|path| {
            let route = world.add_route([a, b], path, &Hop::reversed(path));
            world.route_link(a, route)
        })
        .collect();
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    world.run_while(begin, |world| !world.app::<Sender>(a).is_done());
    let records = &world.app::<Receiver>(b).records;
    let time = |load: &Load| {
        let record = records.get(&load.spec.label)?;
        let is_whole = record.numbers.len() as u64 == load.adus && record.corrupt == 0;
        is_whole.then(|| record.last_at.map(|at| at.since(load.start)))?
    };
    loads.iter().map(time).collect()
}

/// Hops of a path.
pub(super) fn hops(graph: &Graph, wires: &[Wire], path: &Path) -> Option<Vec<Hop>> {
    let hop = |link| {
        let link = graph.link(link);
        let find = |ends| wires.iter().position(|wire| wire.ends == ends);
        find([link.from, link.to])
            .map(Hop::forward)
            .or_else(|| find([link.to, link.from]).map(Hop::backward))
    };
    path.links.iter().map(|&link| hop(link)).collect()
}
