//! One session, its rivals, and the wires.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config, Controller, Coupling};
use anabranch_sim::{
    Flow, FlowPlan, Hop, World,
    apps::{Load, Receiver, Sender},
};

/// Positions of the bottleneck.
pub(super) const PLACES: [&str; 2] = ["shared", "separate"];
/// `one` is a single channel.
pub(super) const COUPLINGS: [&str; 4] = ["one", "off", "auto", "all"];

const BOTTLENECK: Rate = Rate::from_mbps(20);
const QUEUE: Duration = Duration::from_millis(50);
const BOTTLENECK_DELAY: Duration = Duration::from_millis(15);
/// One-way delays of the two channels' access wires, and of the rivals'.
const ACCESS_DELAYS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(7)];
const ACCESS: Rate = Rate::from_mbps(100);
/// Beginning and end of the time in which shares are counted.
const COUNTED: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];
const LOOK: Duration = Duration::from_secs(1);

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shares {
    /// Goodput of the session and of all rivals together, in bits per second.
    pub(super) session_bps: f64,
    pub(super) rivals_bps: f64,
    /// Part of the time in which the channels were reported to share a bottleneck.
    pub(super) found: f64,
}

impl Shares {
    pub(super) fn share(&self) -> f64 {
        self.session_bps / (self.session_bps + self.rivals_bps)
    }
}

fn wire(rate: Rate, delay: Duration, queue: Queue) -> Configs {
    Configs::symmetric(LinkConfig {
        rate: RateSource::Constant(rate),
        delay,
        queue,
        ..LinkConfig::default()
    })
}

/// `None` if a name is unknown, or no session was established.
pub(super) fn run(
    place: &str,
    rival: &str,
    controller: &str,
    coupling: &str,
    seed: Seed,
) -> Option<Shares> {
    let rival: Controller = rival.parse().ok()?;
    let mut config = Config::default();
    config.channel.controller = controller.parse().ok()?;
    let channels = if coupling == "one" { 1 } else { 2 };
    if let Ok(coupling) = coupling.parse::<Coupling>() {
        config.coupling = coupling;
    }

    let mut world = World::new(seed);
    let sender = Sender::new(World::node_id(1), vec![Load::bulk(1 << 45)]);
    let a = world.add_node(config.clone(), AllowList::default(), sender);
    let b = world.add_node(config, AllowList::of([World::node_id(a)]), Receiver::new());
    let bottlenecks = if place == "separate" { channels } else { 1 };
    let mut trunks = Vec::new();
    for _ in 0..bottlenecks {
        let configs = wire(BOTTLENECK, BOTTLENECK_DELAY, Queue::time(QUEUE));
        trunks.push(world.add_trunk(configs).ok()?);
    }
    let access = |world: &mut World, delay| {
        let queue = Queue::time(Duration::from_millis(100));
        world.add_trunk(wire(ACCESS, delay, queue)).ok()
    };
    let mut links = Vec::new();
    for (index, delay) in ACCESS_DELAYS.into_iter().take(channels).enumerate() {
        let own = access(&mut world, delay)?;
        let trunk = trunks[index % trunks.len()];
        let hops = [Hop::forward(own), Hop::forward(trunk)];
        let route = world.add_route([a, b], &hops, &Hop::reversed(&hops));
        links.push(world.route_link(a, route));
    }
    let mut rivals: Vec<Flow> = Vec::new();
    for &trunk in &trunks {
        let own = access(&mut world, ACCESS_DELAYS[0])?;
        let hops = [Hop::forward(own), Hop::forward(trunk)];
        let plan = FlowPlan::greedy(rival, Instant::from_millis(500));
        rivals.push(world.add_flow(&hops, &plan));
    }
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());

    let [from, to] = COUNTED.map(|time| Instant::EPOCH + time);
    let (mut found, mut looks) = (0_u32, 0_u32);
    world.run_until(from);
    while world.now() < to {
        world.run_for(LOOK);
        looks += 1;
        let session = world.app::<Sender>(a).session()?;
        let reports = world
            .engine(a)
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        let says = reports.iter().any(|report| {
            let path = report.path.as_ref();
            path.is_some_and(|path| !path.shares_with.is_empty())
        });
        found += u32::from(says);
    }
    let goodputs = rivals
        .iter()
        .map(|flow| flow.goodput_bps(&mut world, from, to));
    let rivals_bps = goodputs.sum();
    // Counted as for a flow.
    let session = Flow {
        sender: a,
        receiver: b,
        ..*rivals.first()?
    };
    Some(Shares {
        rivals_bps,
        session_bps: session.goodput_bps(&mut world, from, to),
        found: f64::from(found) / f64::from(looks.max(1)),
    })
}
