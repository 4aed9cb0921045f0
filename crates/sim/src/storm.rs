//! Random worlds with faults, and checks of the invariants that hold in all of them.
//!
//! A seed decides everything: paths (one wire, or two with a relay between them), streams in both directions and opened
//! by both nodes, windows, policy, controller, caps and budgets, other senders on the same wires, a series of faults
//! (cuts, rate drops, loss, longer delays), readers that pause, streams that are reset or stopped, a node that is
//! restarted or suspended, streams that demand a promise, and a hostile third node that sends any legal and illegal frame to the responder. Then all
//! faults are repaired, and every [`Invariant`] is checked, ADU by ADU.
//!
//! [`Tamper`] shows that each check can fail: a deliberate fault for each of them.
//!
//! | file | contents |
//! |---|---|
//! | `plan` | everything that a seed decides |
//! | `weather` | faults of wires, and neighbours |
//! | `actor` | the application of both nodes |
//! | `adu` | contents of ADUs |
//! | `ledger` | every ADU by its identity, from both ends |
//! | `invariant` | the invariants by name |
//! | `checks` | checks of the invariants |
//! | `hostile` | the hostile peer |
//! | `memory` | memory that the process may hold |
//! | `tamper` | deliberate faults |
//!
//! `make storm SEEDS=2000` runs many; a failing seed is printed and runs again with `--seed N --log`.

mod actor;
mod adu;
mod checks;
mod hostile;
mod invariant;
mod ledger;
mod memory;
mod plan;
mod tamper;
mod weather;

use std::{rc::Rc, time::Duration};

use anabranch_base::{Instant, Seed};
use anabranch_session::{
    AllowList, Link,
    metering::{Meter, Period},
};

pub use self::{checks::Broken, invariant::Invariant, tamper::Tamper};

use self::{
    actor::{Actor, Shared},
    hostile::Hostile,
    ledger::Ledger,
    plan::{Plan, Upset},
    tamper::Tampering,
};
use crate::{
    network::Hop,
    world::{NodeIndex, World},
};

/// Time allowed to finish after the faults have been repaired.
const CLEARING: Duration = Duration::from_secs(300);
/// The index of the hostile peer.
const HOSTILE: NodeIndex = 2;

/// Options of a storm.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Keep a packet log.
    pub with_log: bool,
    /// A deliberate fault.
    pub tamper: Option<Tamper>,
    /// Bytes that the process has allocated and not freed, for [`Invariant::Memory`]; nothing else may run in it.
    pub allocated: Option<fn() -> u64>,
}

/// Result of a storm.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Broken invariants; empty when all held.
    pub broken: Vec<Broken>,
    /// Part of each bound that was used.
    pub reach: Reach,
    /// Virtual time it took.
    pub virtual_time: Duration,
    /// Packets delivered.
    pub packets: u64,
    /// Description of what the seed decided.
    pub plan: String,
    /// The packet log, if asked for.
    pub log: Option<String>,
}

/// Largest share of each bound that was used at any time, by either node.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reach {
    /// Share of the bytes that may be held for sending.
    pub send_buffer: f64,
    /// Share of the session's window.
    pub session_window: f64,
    /// Share of a stream's window.
    pub stream_window: f64,
    /// Share of the copy budget.
    pub copies: f64,
    /// Share of a stream's cap.
    pub cap: f64,
    /// Share of a path's budget.
    pub budget: f64,
    /// Share of the memory that the process may hold.
    pub memory: f64,
    /// Share of the highest rate of a path that was promised on it.
    pub promised: f64,
    /// Windows of promised streams that were judged.
    pub windows_judged: u64,
    /// Number of containers that a hostile peer sent.
    pub hostile_containers: u32,
}

impl Reach {
    /// The larger of both, field by field.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            send_buffer: self.send_buffer.max(other.send_buffer),
            session_window: self.session_window.max(other.session_window),
            stream_window: self.stream_window.max(other.stream_window),
            copies: self.copies.max(other.copies),
            cap: self.cap.max(other.cap),
            budget: self.budget.max(other.budget),
            memory: self.memory.max(other.memory),
            promised: self.promised.max(other.promised),
            windows_judged: self.windows_judged.max(other.windows_judged),
            hostile_containers: self.hostile_containers.max(other.hostile_containers),
        }
    }
}

/// Runs the storm of this seed.
pub fn run(seed: u64, options: Options) -> Report {
    let base = options.allocated.map_or(0, |allocated| allocated());
    let faults = anabranch_channel::faults();
    let seed = Seed(seed);
    let plan = Rc::new(Plan::new(seed));
    let shared = Shared {
        plan: plan.clone(),
        ledger: Rc::default(),
    };
    let mut world = World::new(seed);
    if options.with_log {
        world.record();
    }
    let links = lay(&mut world, &plan, &shared, options.tamper);
    let clear_at = weather::schedule(&mut world, &plan);
    for upset in &plan.upsets {
        schedule_upset(&mut world, &shared, *upset, &links);
    }
    if plan.is_hostile {
        add_hostile(&mut world, seed);
    }
    let mut looks = 0u64;
    world.run_while(clear_at + CLEARING, |world| {
        looks += 1;
        if !looks.is_multiple_of(64) {
            return true;
        }
        if let Some(allocated) = options.allocated {
            let held = allocated().saturating_sub(base);
            let bound = memory::bound(world, &plan, &shared.ledger.borrow());
            shared.ledger.borrow_mut().memory.note(held, bound);
        }
        !is_over(world) || world.now() < clear_at
    });
    if options.tamper == Some(Tamper::Smuggle) {
        let now = world.now();
        let _ = world.wire(0).duplex.forward.offer(now, 1000, false);
    }
    // The last events, such as the expiry of an ADU, are still in transit.
    world.run_for(Duration::from_secs(5));
    let faults = anabranch_channel::faults() - faults;
    assert_eq!(faults, 0, "the QUIC library panicked");
    let ledger = shared.ledger.borrow();
    let broken = checks::check(&mut world, &plan, &ledger, options.tamper);
    Report {
        seed: seed.0,
        broken,
        reach: reach(&mut world, &plan, &ledger),
        virtual_time: world.now().since_epoch(),
        packets: world.packets_delivered,
        plan: plan.describe(),
        log: world.log().map(|log| log.text().to_owned()),
    }
}

fn actor(side: usize, shared: &Shared, tamper: Option<Tamper>) -> Actor {
    let peer = World::node_id(1 - side);
    Actor::new(side, peer, shared.clone(), Tampering::new(tamper))
}

fn allowed(side: usize) -> AllowList {
    match side {
        0 => AllowList::default(),
        _ => AllowList::of([World::node_id(0), World::node_id(HOSTILE)]),
    }
}

/// Lays the paths between the two nodes; returns the links by which the initiator reaches the responder.
fn lay(world: &mut World, plan: &Plan, shared: &Shared, tamper: Option<Tamper>) -> Vec<Link> {
    for side in [0, 1] {
        let app = actor(side, shared, tamper);
        world.add_node(plan.config.clone(), allowed(side), app);
    }
    let mut sockets = Vec::new();
    let mut links = Vec::new();
    for path in &plan.paths {
        let ends = match &path.trunks[..] {
            [one] => {
                let wire = world.add_wire(0, 1, one.clone()).expect("a valid plan");
                [world.link(0, wire), world.link(1, wire)]
            }
            trunks => {
                let wire = |trunk| world.add_trunk(trunk).expect("a valid plan");
                let wires: Vec<usize> = trunks.iter().cloned().map(wire).collect();
                let hops: Vec<Hop> = wires.into_iter().map(Hop::forward).collect();
                let route = world.add_route([0, 1], &hops, &Hop::reversed(&hops));
                [world.route_link(0, route), world.route_link(1, route)]
            }
        };
        links.push(ends[0]);
        sockets.push(ends.map(|link| link.socket));
    }
    if let Some(budget) = plan.budget {
        let price = format!("{} kB then stop", budget.cap_kilobytes);
        let model = price.parse().expect("a price list");
        let meter = Meter::new(model, Period(1), 0);
        let socket = sockets[budget.path][budget.side];
        let now = world.now();
        world
            .engine(budget.side)
            .set_meter(now, socket, Some(meter));
    }
    world.app::<Actor>(0).dial(Instant::EPOCH, links.clone());
    world.with_node(0, |_| ());
    links
}

fn schedule_upset(world: &mut World, shared: &Shared, upset: Upset, links: &[Link]) {
    match upset {
        Upset::Suspend { side, from, to } => {
            world.schedule(from, move |world| world.suspend(side));
            world.schedule(to, move |world| world.resume(side));
        }
        Upset::Restart { side, at } => {
            let (shared, links) = (shared.clone(), links.to_vec());
            world.schedule(at, move |world| {
                // A session that has not reached the node yet begins after the restart, as if there had been none.
                let is_known = world.app::<Actor>(side).session().is_some();
                for node in [side, 1 - side] {
                    let life = world.app::<Actor>(node).life();
                    if node == side || is_known {
                        shared.ledger.borrow_mut().end(life);
                    }
                }
                let mut app = actor(side, &shared, None);
                if side == 0 {
                    app.dial(world.now(), links);
                }
                let config = shared.plan.config.clone();
                world.restart(side, config, allowed(side), app);
            });
        }
    }
}

/// Adds the hostile peer, on a wire of its own to the responder.
fn add_hostile(world: &mut World, seed: Seed) {
    let key = World::node_key(HOSTILE);
    let victim = World::node_id(1);
    let random = seed.stream("hostile frames");
    let node = world.add_raw(Hostile::new(key, victim, random));
    let text = "rate=10 Mbit/s, delay=10 ms, queue=100 ms";
    let configs = anabranch_link::describe::parse_both(text, &mut |_| Err(String::new()));
    let wire = world.add_wire(node, 1, configs.expect("a link"));
    let link = world.link(node, wire.expect("a valid link"));
    world.app::<Hostile>(node).link = Some(link);
    world.nudge(node);
}

fn is_over(world: &mut World) -> bool {
    [0, 1]
        .iter()
        .all(|&node| world.app::<Actor>(node).is_done())
}

fn reach(world: &mut World, plan: &Plan, ledger: &Ledger) -> Reach {
    let budget = plan.budget.map_or(0.0, |budget| {
        let hop = plan.first_hop(budget.side, budget.path);
        let carried = world.wire(hop.wire).one_way(hop.forward).stats().offered;
        carried.bytes as f64 / (budget.cap_kilobytes * 1000) as f64
    });
    let most = |of: fn(&ledger::Gauges) -> ledger::Gauge| {
        let shares = ledger.gauges.iter().map(|gauges| of(gauges).share);
        shares.fold(0.0, f64::max)
    };
    Reach {
        send_buffer: most(|gauges| gauges.send_buffer),
        session_window: most(|gauges| gauges.session_window),
        stream_window: most(|gauges| gauges.stream_window),
        copies: most(|gauges| gauges.copies),
        cap: most(|gauges| gauges.cap),
        budget,
        memory: ledger.memory.share,
        promised: most(|gauges| gauges.promised),
        windows_judged: ledger.windows_judged,
        hostile_containers: if plan.is_hostile {
            world.app::<Hostile>(HOSTILE).containers()
        } else {
            0
        },
    }
}
