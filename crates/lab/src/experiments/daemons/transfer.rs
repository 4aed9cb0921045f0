//! One message, from one site to another, by one of several methods.

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_session::{AllowList, Config, Controller};
use anabranch_sim::{
    Hop, World,
    apps::{Load, Receiver, Sender},
    topology::Topology,
};

/// Size of the ADUs into which messages are cut; shares are rounded to it.
const ADU_BYTES: u64 = 10_000;
/// Time before the message at which sessions are opened.
const AHEAD: Duration = Duration::from_secs(2);
/// Time after which a message is given up.
const GIVEN_UP: Duration = Duration::from_secs(3_600);
const LOOK: Duration = Duration::from_millis(500);

/// A session, and its part of the message.
pub(super) struct Part<'a> {
    /// Sites that each of its channels visits.
    pub(super) paths: Vec<&'a [&'static str]>,
    pub(super) bytes: u64,
}

/// Time from handing the message over at `start` to its complete arrival; `None` if it does not arrive.
pub(super) fn run(
    topology: &Topology,
    controller: Controller,
    parts: &[Part<'_>],
    start: Duration,
    seed: Seed,
) -> Option<Duration> {
    let begin = Instant::EPOCH + start;
    let mut config = Config::default();
    config.channel.controller = controller;
    let mut world = World::new(seed);
    let mut ends = Vec::new();
    for part in parts {
        let adus = (part.bytes + ADU_BYTES / 2) / ADU_BYTES;
        let load = Load {
            adu_bytes: ADU_BYTES as usize,
            adus,
            start: begin,
            ..Load::bulk(0)
        };
        let sender = world.nodes();
        let app = Sender::new(World::node_id(sender + 1), vec![load]);
        world.add_node(config.clone(), AllowList::default(), app);
        let allowed = AllowList::of([World::node_id(sender)]);
        world.add_node(config.clone(), allowed, Receiver::new());
        // A session with an empty share has nothing to wait for.
        ends.push(([sender, sender + 1], adus > 0));
    }
    let laid = topology.lay(&mut world).ok()?;
    for (&(nodes, _), part) in ends.iter().zip(parts) {
        let mut links = Vec::new();
        for path in &part.paths {
            let hops = laid.path(path).ok()?;
            let route = world.add_route(nodes, &hops, &Hop::reversed(&hops));
            links.push(world.route_link(nodes[0], route));
        }
        let at = begin - AHEAD;
        world.app::<Sender>(nodes[0]).dial(at, links);
        world.with_node(nodes[0], |_| ());
    }
    world.run_until(begin);
    let is_done = |world: &mut World| {
        let mut parts = ends.iter().filter(|(_, has_load)| *has_load);
        parts.all(|&([_, receiver], _)| {
            let records = &world.app::<Receiver>(receiver).records;
            records.values().any(|record| record.finished)
        })
    };
    while !is_done(&mut world) {
        if world.now().since(begin) > GIVEN_UP {
            return None;
        }
        world.run_for(LOOK);
    }
    let last = ends.iter().filter_map(|&([_, receiver], _)| {
        let records = &world.app::<Receiver>(receiver).records;
        records.values().filter_map(|record| record.last_at).max()
    });
    Some(last.max()?.since(begin))
}
