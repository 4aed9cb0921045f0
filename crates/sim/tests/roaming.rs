//! A node whose interfaces get new addresses again and again, with a promise in force: it is renewed, warned or withdrawn by its
//! rules, and memory does not grow. This file has a single test, because the allocator counts for the whole process.

mod interfaces;

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed, StreamId};
use anabranch_session::{AllowList, Config, Guarantee, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

use crate::interfaces::{GROWTH_MAX, Interface, allocated};

/// Number of times that an interface gets another address.
const MOVES: u64 = 500;
/// Number of moves of which the mean of the memory in use is taken.
const SPAN: u64 = 50;
/// Time between two of them.
const EVERY: Duration = Duration::from_secs(4);
/// Time for which the interface has no address.
const GAP: Duration = Duration::from_millis(500);
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
    let networks = [("wlan0", 2_000, 40), ("wwan0", 1_500, 80)];
    let mut interfaces = networks.map(|network| Interface::new(&mut world, network));
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
    // What is in flight and in buffers varies from move to move: means of several are compared.
    let mut held = [0; 2];
    let mut in_force = 0;
    for number in 0..MOVES {
        // The receiver of the tests keeps a record of every message.
        for record in world.app::<Receiver>(1).records.values_mut() {
            record.numbers = Vec::new();
            record.delays = Vec::new();
        }
        let spans = [MOVES / 5, MOVES - SPAN];
        for (held, first) in held.iter_mut().zip(spans) {
            if (first..first + SPAN).contains(&number) {
                // So does the receiver of the tests, of every 100 ms.
                let records = world.app::<Receiver>(1).records.values();
                let counted = records.map(|record| 8 * record.per_100ms.capacity() as u64);
                *held += (allocated() - counted.sum::<u64>()) / SPAN;
            }
        }
        let interface = &mut interfaces[number as usize % 2];
        interface.lose(&mut world);
        world.run_for(GAP);
        let session = world.app::<Sender>(0).session().expect("connected");
        interface.gain(&mut world, session);
        world.run_for(EVERY - GAP);
        in_force += u64::from(explain(&mut world).term.is_some());
    }
    let growth = held[1].saturating_sub(held[0]) / (MOVES - SPAN - MOVES / 5);
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
