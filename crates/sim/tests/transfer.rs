//! A session over simulated links.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

fn link(mbps: u64, rtt_ms: u64) -> Configs {
    let rate = Rate::from_mbps(mbps);
    let rtt = Duration::from_millis(rtt_ms);
    Configs::symmetric(LinkConfig {
        rate: RateSource::Constant(rate),
        delay: rtt / 2,
        queue: Queue::bdp(rate, rtt),
        ..LinkConfig::default()
    })
}

fn world(seed: u64, links: Vec<Configs>, loads: Vec<Load>) -> World {
    let mut world = World::new(Seed(seed));
    let sender = Sender::new(World::node_id(1), loads);
    let a = world.add_node(Config::default(), AllowList::default(), sender);
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

#[test]
fn a_transfer_over_two_paths_arrives_whole_and_in_order() {
    let mut world = world(
        1,
        vec![link(50, 20), link(20, 60)],
        vec![Load::bulk(4_000_000)],
    );
    world.run_while(Instant::from_secs(20), |w| !w.app::<Sender>(0).is_done());
    assert!(world.app::<Sender>(0).is_done());
    let book = world.app::<Receiver>(1).book("bulk");
    assert_eq!(book.corrupt, 0);
    assert!(book.finished);
    let expected: Vec<u64> = (0..book.numbers.len() as u64).collect();
    assert_eq!(book.numbers, expected);
    println!("took {}", world.now());
}

#[test]
fn same_seed_same_log() {
    let run = |seed| {
        let mut world = world(
            seed,
            vec![link(20, 20), link(10, 60)],
            vec![Load::bulk(300_000)],
        );
        world.record();
        world.run_until(Instant::from_secs(3));
        world.log().expect("recorded").text().to_owned()
    };
    let log = run(7);
    assert!(log.lines().count() > 300, "{}", log.lines().count());
    assert_eq!(log, run(7));
}
