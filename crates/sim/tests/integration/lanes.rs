//! Two streams of packets, an urgent one and one of normal priority, as the server of a tunnel has them.

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_link::describe::parse_both;
use anabranch_session::{AllowList, Config, Order, Priority, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Receiver, make_adu},
};

const PACKET_BYTES: usize = 1407;

fn lane(label: &str, priority: Priority) -> StreamSpec {
    StreamSpec {
        order: Order::Unordered,
        lifetime: Some(Duration::from_millis(1200)),
        priority,
        label: label.to_owned(),
        ..StreamSpec::default()
    }
}

/// A connection opens after some silence, and its first packets are more than the paths take at once. Little was sent until then, so
/// that the rate at which it was delivered is not that of the paths: no packet is given up because of it.
#[test]
fn first_packets_after_a_silence_are_not_given_up() {
    for seed in 1..=5 {
        let mut world = World::new(Seed(seed));
        let allowed = || AllowList::of([0, 1].map(World::node_id));
        let client = world.add_node(Config::default(), allowed(), Receiver::new());
        let server = world.add_node(Config::default(), allowed(), Receiver::new());
        let mut links = Vec::new();
        for path in [
            "rate=80 Mbit/s, delay=15 ms, queue=300000 B",
            "rate=40 Mbit/s, delay=50 ms, queue=500000 B",
        ] {
            let configs = parse_both(path, &mut |_| Err("no traces".to_owned())).unwrap();
            let wire = world
                .add_wire(client, server, configs)
                .expect("a valid link");
            links.push(world.link(client, wire));
        }
        world.with_node(client, |context| {
            context.connect(World::node_id(1), links);
        });
        world.run_until(Instant::from_millis(500));
        let session = world.engine(server).session_ids()[0];
        let lanes = world.with_node(server, |context| {
            [("urgent", Priority::URGENT), ("rest", Priority::NORMAL)]
                .map(|(label, priority)| context.open(session, lane(label, priority)).unwrap())
        });
        let mut send = |at: u64, lane: usize, count: u64, bytes: usize| {
            world.run_until(Instant::from_millis(at));
            world.with_node(server, |context| {
                for number in 0..count {
                    let adu = make_adu(context.now(), number, bytes);
                    context.send(session, lanes[lane], adu).unwrap();
                }
            });
        };
        send(600, 0, 1, 20);
        send(3000, 1, 1, 67);
        send(3032, 1, 3, PACKET_BYTES);
        send(3032, 0, 7, PACKET_BYTES);
        world.run_until(Instant::from_millis(6000));
        for (label, count) in [("urgent", 8), ("rest", 4)] {
            let record = world.app::<Receiver>(client).record(label);
            let delays = record.delays;
            assert_eq!(delays.len(), count, "seed {seed}, {label}: {delays:?}");
        }
    }
}
