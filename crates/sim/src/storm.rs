//! Random worlds with faults, and the checkers of what must hold in all of them.
//!
//! A seed decides everything: links, streams in both directions, policy, controller, neighbours who send
//! over the same wires, and a weather of faults (cuts, rate drops, loss, longer delays). Then the sky
//! clears, the neighbours fall silent, and every promise is checked:
//!
//! - a reliable stream without lifetime delivers every ADU, once, intact, in order where asked;
//! - no stream delivers anything twice, out of order where asked, or damaged;
//! - every ADU of a stream that reports fates has exactly one, and what is acknowledged was delivered;
//! - nothing is delivered long after its lifetime;
//! - copies, buffers and windows stay within their budgets;
//! - the session outlives the weather;
//! - the network accounts for every packet and keeps order where it says so.
//!
//! `cargo run --release -p anabranch-sim --bin storm -- --seeds 2000` runs many; a failing seed is
//! printed and runs again with `--seed N --log`.

mod checks;
mod weather;

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, NodeId, Random, Rate, Seed, SessionId};
use anabranch_link::{
    Config as LinkConfig, Jitter, Loss, Queue, RateSource, Traffic, duplex::Configs, source::Walk,
};
use anabranch_session::{
    AllowList, Config, Controller, Event, Link, Order, Policy, Priority, StreamSpec,
};

use crate::{
    app::{App, Context},
    apps::{Load, Receiver, Sender},
    network::Hop,
    world::World,
};

/// Time given to finish after the sky has cleared.
const CLEARING: Duration = Duration::from_secs(120);

/// What a storm came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Broken promises, in words; empty when all held.
    pub broken: Vec<String>,
    /// Virtual time it took.
    pub virtual_time: Duration,
    /// Packets delivered.
    pub packets: u64,
    /// What the seed decided, for people.
    pub plan: String,
    /// The packet log, if asked for.
    pub log: Option<String>,
}

/// A node of a storm: sends and receives.
struct Actor {
    sender: Sender,
    receiver: Receiver,
    /// Largest numbers of bytes seen in the session's buffers: to send, to read.
    held_max: (u64, u64),
    session: Option<SessionId>,
}

impl Actor {
    fn new(peer: NodeId, loads: Vec<Load>) -> Self {
        Self {
            sender: Sender::new(peer, loads),
            receiver: Receiver::new(),
            held_max: (0, 0),
            session: None,
        }
    }

    fn watch(&mut self, context: &mut Context<'_>) {
        if let Some(stats) = self
            .session
            .and_then(|session| context.engine().session_stats(session))
        {
            self.held_max.0 = self.held_max.0.max(stats.send_held_bytes);
            self.held_max.1 = self.held_max.1.max(stats.recv_held_bytes);
        }
    }
}

impl App for Actor {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        if let Event::Connected { session, .. } = event {
            self.session = Some(session);
        }
        self.watch(context);
        self.receiver.on_event(context, event.clone());
        self.sender.on_event(context, event);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        self.sender.on_wake(context);
        self.watch(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.sender.next_wake()
    }
}

/// Everything a seed decides before the first packet.
#[derive(Debug)]
struct Plan {
    wires: Vec<Configs>,
    /// Loads of the initiator and of the responder.
    loads: [Vec<Load>; 2],
    config: Config,
    faults: Vec<weather::Fault>,
    /// Cross-traffic by wire and direction, until the sky clears.
    neighbours: Vec<(Hop, Traffic)>,
}

impl Plan {
    fn new(seed: Seed) -> Self {
        let mut random = seed.stream("plan");
        let wires: Vec<Configs> = (0..random.between(1, 4))
            .map(|_| any_wire(&mut random))
            .collect();
        let mut config = Config {
            policy: Policy::ALL[random.below(Policy::ALL.len() as u64) as usize],
            ..Config::default()
        };
        config.channel.controller = match random.below(8) {
            0 => Controller::Cubic,
            1 => Controller::NewReno,
            2 => Controller::Bbr3,
            3 => Controller::Fixed(Rate::from_kbps(random.between(500, 4000))),
            _ => Controller::Auto,
        };
        if config.policy.may_plan() {
            config.objectives = any_objectives(&mut seed.stream("objectives"));
            let models = ["auto", "generic", "cellular", "satellite"];
            let model = models[seed.stream("model").below(models.len() as u64) as usize];
            config.model = model.parse().expect("a name");
        }
        let loads = [0, 1].map(|side| {
            (0..random.between(u64::from(side == 0), 4))
                .map(|index| any_load(&mut random, &format!("{side}/{index}")))
                .collect()
        });
        let faults = weather::forecast(&mut seed.stream("weather"), wires.len());
        let neighbours = weather::neighbours(&mut seed.stream("neighbours"), &wires);
        Self {
            wires,
            loads,
            config,
            faults,
            neighbours,
        }
    }
}

impl Plan {
    fn describe(&self) -> String {
        let mut lines = vec![format!(
            "policy {}, controller {}, model {}",
            self.config.policy, self.config.channel.controller, self.config.model
        )];
        lines.extend(self.config.objectives.iter().map(ToString::to_string));
        for (index, wire) in self.wires.iter().enumerate() {
            lines.push(format!("wire {index}: {}", wire.forward));
        }
        for load in self.loads.iter().flatten() {
            lines.push(format!(
                "stream {}: {} x {} B every {:?} from {}, reliable {}, {:?}, lifetime {:?}, {:?}",
                load.spec.label,
                load.adus,
                load.adu_bytes,
                load.every,
                load.start,
                load.spec.reliable,
                load.spec.order,
                load.spec.lifetime,
                load.spec.priority
            ));
        }
        lines.extend(self.faults.iter().map(|fault| format!("{fault:?}")));
        let neighbours = self.neighbours.iter();
        lines.extend(neighbours.map(|neighbour| format!("{neighbour:?}")));
        lines.join("\n")
    }
}

/// What some streams want; nothing that forbids sending for ever, so that all must arrive in the end.
fn any_objectives(random: &mut Random) -> Option<Arc<str>> {
    const TEXTS: [&str; 5] = [
        "objective { context { adu:a { stream_id <= 1 } } goal { expected(a::latency) < 800 }
           utility { a { 800 - expected(a::latency) } } }",
        "objective { context { adu:a { stream_id >= 2 } } goal { prob(a::lost?) < 10 }
           utility { a { 100 * (10 - prob(a::lost?)) } } }",
        "objective { context { adu:a { length < 500 } } goal { expected(a::latency) < 100 } utility { a { 3 } } }",
        "objective { context { adu:a { stream_id == 0 } adu:b { stream_seq == a::stream_seq + 1 } }
           goal { correlated_loss(a, b) <= 25 } utility { a { 125 } } }",
        "objective { context { stream:s { stream_id == 0 } adu:a { stream_id == 0 } }
           goal { expected(s::latency) > 0 } utility { a { 1000 / expected(a::latency) } } }",
    ];
    let text: String = TEXTS.into_iter().filter(|_| random.chance(0.4)).collect();
    (!text.is_empty()).then(|| text.into())
}

fn any_wire(random: &mut Random) -> Configs {
    let rate = Rate::from_kbps(random.between(300, 20_000));
    let delay = Duration::from_micros(random.between(500, 150_000));
    let loss = match random.below(4) {
        0 => Loss::random(random.uniform(0.0, 0.05)).expect("a probability"),
        1 => Loss::bursts(random.uniform(0.001, 0.05), random.uniform(1.5, 8.0))
            .expect("a rate and a length"),
        _ => Loss::None,
    };
    let jitter = match random.below(4) {
        0 => Jitter::uniform(delay / 4),
        1 => Jitter::uniform(delay / 4).reordering(),
        _ => Jitter::None,
    };
    let source = if random.chance(0.3) {
        RateSource::Walk(Walk {
            base: rate,
            spread: 0.5,
            every: Duration::from_millis(500),
        })
    } else {
        RateSource::Constant(rate)
    };
    let one = LinkConfig {
        rate: source,
        delay,
        jitter,
        loss,
        queue: Queue::time(Duration::from_millis(random.between(20, 400))),
        mtu_bytes: if random.chance(0.3) { 1280 } else { 1500 },
        ..LinkConfig::default()
    };
    Configs::symmetric(one)
}

fn any_load(random: &mut Random, label: &str) -> Load {
    let reliable = random.chance(0.7);
    let timed = random.chance(0.5);
    let adu_bytes = match random.below(4) {
        0 => random.between(16, 100),
        1 => random.between(100, 1500),
        2 => random.between(1500, 20_000),
        _ => random.between(20_000, 300_000),
    } as usize;
    let budget = random.between(10_000, 800_000);
    let adus = (budget / adu_bytes as u64).clamp(1, 400);
    let spec = StreamSpec {
        reliable,
        order: if random.chance(0.5) {
            Order::Ordered
        } else {
            Order::Unordered
        },
        lifetime: random
            .chance(0.4)
            .then(|| Duration::from_millis(random.between(30, 2000))),
        priority: Priority([0, 64, 128, 192, 255][random.below(5) as usize]),
        weight: random.between(1, 1000) as u32,
        notify: true,
        label: label.to_owned(),
        ..StreamSpec::default()
    };
    Load {
        spec,
        adu_bytes,
        every: timed.then(|| Duration::from_millis(random.between(1, 60))),
        adus,
        start: Instant::from_millis(random.below(3000)),
    }
}

/// Runs the storm of this seed.
pub fn run(seed: u64, with_log: bool) -> Report {
    let seed = Seed(seed);
    let plan = Plan::new(seed);
    let mut world = World::new(seed);
    if with_log {
        world.record();
    }
    let [first, second] = plan.loads.clone();
    let a = world.add_node(
        plan.config.clone(),
        AllowList::default(),
        Actor::new(World::node_id(1), first),
    );
    let b = world.add_node(
        plan.config.clone(),
        AllowList::of([World::node_id(0)]),
        Actor::new(World::node_id(0), second),
    );
    let links: Vec<Link> = plan
        .wires
        .iter()
        .map(|configs| {
            let wire = world.add_wire(a, b, configs.clone()).expect("a valid plan");
            world.link(a, wire)
        })
        .collect();
    world.app::<Actor>(a).sender.dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    let clear_at = weather::schedule(&mut world, &plan.faults, &plan.neighbours);

    let end = clear_at + CLEARING;
    let mut looks = 0u64;
    world.run_while(end, |world| {
        looks += 1;
        !looks.is_multiple_of(64) || !is_over(world)
    });
    // What ends last, such as the news that an ADU expired, is still under way.
    world.run_for(Duration::from_secs(5));
    let report_time = world.now();
    let mut broken = Vec::new();
    checks::check(&mut world, &plan, &mut broken);
    broken.extend(world.audit());
    Report {
        seed: seed.0,
        broken,
        virtual_time: report_time.since_epoch(),
        packets: world.packets_delivered,
        plan: plan.describe(),
        log: world.log().map(|log| log.text().to_owned()),
    }
}

fn is_over(world: &mut World) -> bool {
    [0, 1].iter().all(|&node| {
        let actor = world.app::<Actor>(node);
        actor.sender.is_done() || actor.sender.closed.is_some()
    })
}
