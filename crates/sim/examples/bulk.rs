//! One bulk transfer in virtual time, for counting instructions (`tools/instructions`): `bulk [MB]`, 20 unless given.
//! Two paths, no loss, one seed: the same packets every time. Prints the number that arrived.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program, not part of the engine"
)]

use std::{process::ExitCode, time::Duration};

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

fn link(mbps: u64, round_trip_ms: u64) -> Configs {
    let rate = Rate::from_mbps(mbps);
    let round_trip = Duration::from_millis(round_trip_ms);
    Configs::symmetric(LinkConfig {
        rate: RateSource::Constant(rate),
        delay: round_trip / 2,
        queue: Queue::bdp(rate, round_trip),
        ..LinkConfig::default()
    })
}

fn main() -> ExitCode {
    let text = std::env::args().nth(1);
    let Ok(megabytes) = text.as_deref().unwrap_or("20").parse::<u64>() else {
        eprintln!("usage: bulk [MB]");
        return ExitCode::from(2);
    };
    let load = Load::bulk(megabytes * 1_000_000);
    let adus = load.adus;
    let mut world = World::new(Seed(1));
    let sender = Sender::new(World::node_id(1), vec![load]);
    let a = world.add_node(Config::default(), AllowList::default(), sender);
    let allowed = AllowList::of([World::node_id(0)]);
    let b = world.add_node(Config::default(), allowed, Receiver::new());
    let links = [link(100, 20), link(50, 60)]
        .map(|configs| world.add_wire(a, b, configs).expect("a valid link"))
        .map(|wire| world.link(a, wire));
    world.app::<Sender>(a).dial(Instant::EPOCH, links.to_vec());
    world.with_node(a, |_| ());
    world.run_while(Instant::from_secs(3600), |world| {
        !world.app::<Sender>(a).is_done()
    });
    let record = world.app::<Receiver>(b).record("bulk");
    if record.numbers.len() as u64 != adus || record.corrupt > 0 {
        eprintln!("only {} of {adus} ADUs arrived", record.numbers.len());
        return ExitCode::FAILURE;
    }
    println!("{}", world.packets_delivered);
    ExitCode::SUCCESS
}
