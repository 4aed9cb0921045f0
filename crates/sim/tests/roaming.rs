//! A node whose interfaces get new addresses again and again, with a promise in force: it is renewed, warned or withdrawn by its
//! rules, and memory does not grow. This file has a single test, because the allocator counts for the whole process.

use std::{alloc::System, time::Duration};

use anabranch_base::{Instant, Rate, Seed, SocketId, StreamId};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config, Guarantee, Link, StreamSpec};
use anabranch_sim::{
    Hop, World,
    apps::{Load, Receiver, Sender},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of times that an interface gets another address.
const MOVES: u64 = 500;
/// Time between two of them.
const EVERY: Duration = Duration::from_secs(4);
/// Time for which the interface has no address.
const GAP: Duration = Duration::from_millis(500);
/// Growth of memory for each move, all of it in the simulated network, which remembers every address.
const GROWTH_MAX: u64 = 1_024;

/// Bytes allocated and not freed.
fn allocated() -> u64 {
    let stats = ALLOCATOR.stats();
    stats
        .bytes_allocated
        .saturating_sub(stats.bytes_deallocated) as u64
}

fn network(kbps: u64, rtt_ms: u64) -> Configs {
    let rate = Rate::from_kbps(kbps);
    let rtt = Duration::from_millis(rtt_ms);
    Configs::symmetric(LinkConfig {
        rate: RateSource::Constant(rate),
        delay: rtt / 2,
        queue: Queue::bdp(rate, rtt),
        ..LinkConfig::default()
    })
}

/// An interface and the network behind it.
struct Interface {
    name: &'static str,
    wire: usize,
    link: Link,
}

/// A new address of `name`, by which the nodes reach each other over `wire`.
fn address(world: &mut World, name: &str, wire: usize) -> Link {
    let (there, back) = ([Hop::forward(wire)], [Hop::backward(wire)]);
    let route = world.add_route([0, 1], &there, &back);
    let link = world.route_link(0, route);
    world.engine(0).set_socket_name(link.socket, name);
    link
}

fn down(world: &mut World, socket: SocketId) {
    world.with_node(0, |context| {
        let now = context.now();
        context.engine().socket_down(now, socket);
    });
}

fn up(world: &mut World, link: Link) -> bool {
    let session = world.app::<Sender>(0).session().expect("connected");
    world.with_node(0, |context| {
        let now = context.now();
        let session = context.engine().session(session);
        session.expect("it is open").add_link(now, link)
    })
}

#[test]
fn promises_and_memory_survive_five_hundred_addresses() {
    let mut world = World::new(Seed(11));
    let guarantee = Guarantee::rate(Rate::from_kbps(400), 0.9).waiting();
    let live = Load {
        spec: StreamSpec {
            label: "live".to_owned(),
            guarantee: Some(Box::new(guarantee)),
            ..StreamSpec::default()
        },
        ..Load::messages(2_000, Duration::from_millis(40), u64::MAX)
    };
    let loads = vec![Load::bulk(1 << 40), live];
    let sender = Sender::new(World::node_id(1), loads);
    world.add_node(Config::default(), AllowList::default(), sender);
    let allowed = AllowList::of([World::node_id(0)]);
    world.add_node(Config::default(), allowed, Receiver::new());
    let mut interfaces = [("wlan0", 2_000, 40), ("wwan0", 1_500, 80)].map(|(name, kbps, rtt)| {
        let wire = world.add_trunk(network(kbps, rtt)).expect("a valid link");
        let link = address(&mut world, name, wire);
        Interface { name, wire, link }
    });
    let links = interfaces.iter().map(|interface| interface.link).collect();
    world.app::<Sender>(0).dial(Instant::EPOCH, links);
    world.with_node(0, |_| ());
    world.run_until(Instant::from_secs(60));
    let explain = |world: &mut World| {
        let session = world.app::<Sender>(0).session().expect("connected");
        let session = world.engine(0).session(session).expect("it is open");
        let explained = session.stream(StreamId::new(1, true)).explain();
        explained.expect("it asked for a promise")
    };
    assert!(
        explain(&mut world).term.is_some(),
        "{:#?}",
        explain(&mut world)
    );
    let mut before = 0;
    let mut in_force = 0;
    for number in 0..MOVES {
        // The receiver of the tests keeps a record of every message.
        for record in world.app::<Receiver>(1).records.values_mut() {
            record.numbers = Vec::new();
            record.delays = Vec::new();
        }
        if number == MOVES / 5 {
            before = allocated();
        }
        let interface = &mut interfaces[number as usize % 2];
        down(&mut world, interface.link.socket);
        world.run_for(GAP);
        interface.link = address(&mut world, interface.name, interface.wire);
        assert!(up(&mut world, interface.link), "move {number} has a place");
        world.run_for(EVERY - GAP);
        in_force += u64::from(explain(&mut world).term.is_some());
    }
    let growth = allocated().saturating_sub(before) / (MOVES - MOVES / 5);
    let account = explain(&mut world).account;
    eprintln!("{growth} bytes a move; in force after {in_force} of {MOVES}; {account:?}");
    assert!(growth <= GROWTH_MAX, "{growth} bytes for each move");
    assert!(
        in_force >= MOVES * 95 / 100,
        "in force after {in_force} moves"
    );
    let share = account.kept as f64 / (account.kept + account.broken) as f64;
    assert!(share >= 0.9, "{account:?}");
}
