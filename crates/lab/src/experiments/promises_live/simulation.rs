//! A run in virtual time.

use anabranch_base::{Instant, Seed};
use anabranch_session::{AllowList, Config, Explanation};
use anabranch_sim::{Hop, World, apps::Receiver};

use super::{
    observed::Observed,
    origin::Origin,
    setting::{PEERS, Setting, WINDOW},
};

/// Observations of each promised stream; `None` if the paths cannot be laid.
pub fn simulate(setting: &Setting, seed: Seed) -> Option<Vec<Observed>> {
    let plan = setting.plan;
    let mut world = World::new(seed);
    let peers: Vec<_> = (1..=PEERS).map(World::node_id).collect();
    let origin = Origin::new(&setting.streams, &peers, plan.end());
    let origin = world.add_node(Config::default(), AllowList::default(), origin);
    let allowed = AllowList::of([World::node_id(origin)]);
    let peers =
        [(); PEERS].map(|()| world.add_node(Config::default(), allowed.clone(), Receiver::new()));
    let mut wires = Vec::new();
    for path in &setting.paths {
        wires.push(world.add_trunk(path.configs()).ok()?);
    }
    let mut added = Vec::new();
    for (index, &peer) in peers.iter().enumerate() {
        // Both sessions take the same wires.
        let links = wires.iter().map(|&wire| {
            let route = world.add_route(
                [origin, peer],
                &[Hop::forward(wire)],
                &[Hop::backward(wire)],
            );
            world.route_link(origin, route)
        });
        let mut links: Vec<_> = links.collect();
        added.push(links.pop()?);
        world.app::<Origin>(origin).set_links(index, links);
    }
    world.nudge(origin);

    let cut = plan.cut();
    world.run_until(Instant::EPOCH + cut.start);
    world.set_wire_up(wires[0], false);
    world.run_until(Instant::EPOCH + cut.end);
    world.set_wire_up(wires[0], true);
    world.run_until(Instant::EPOCH + plan.join());
    for (peer, link) in added.into_iter().enumerate() {
        let session = world.app::<Origin>(origin).session(peer)?;
        world.with_node(origin, |context| {
            let now = context.now();
            let session = context.engine().session(session);
            session.is_ok_and(|mut session| session.add_link(now, link))
        });
    }
    world.run_until(Instant::EPOCH + plan.end());
    let explained = explanations(&mut world, origin);
    // Packets in transit arrive.
    world.run_for(WINDOW * 2);
    let mut observed = world.app::<Origin>(origin).observed();
    let streams = setting.streams.iter().zip(explained);
    for (observed, (stream, explained)) in observed.iter_mut().zip(streams) {
        let record = world
            .app::<Receiver>(peers[stream.peer])
            .record(stream.label);
        let arrivals = record.numbers.iter().zip(&record.delays);
        observed.arrivals = arrivals
            .map(|(&number, &delay)| (number, stream.due(number) + delay))
            .collect();
        let account = explained.map(|explained| explained.account);
        observed.account = account.map_or((0, 0), |account| (account.kept, account.broken));
    }
    Some(observed)
}

fn explanations(world: &mut World, origin: usize) -> Vec<Option<Explanation>> {
    let ids = world.app::<Origin>(origin).promised();
    let explain = |ids: Option<_>| {
        let (session, stream) = ids?;
        let session = world.engine(origin).session(session).ok()?;
        session.stream(stream).explain()
    };
    ids.into_iter().map(explain).collect()
}
