//! One bulk transfer in virtual time, for counting instructions (`tools/instructions`): `bulk [MB [MIB]]`, 20 unless given, with a
//! transcript of the sender's session in memory of so many MiB, none unless given. Two paths, no loss, one seed: the same packets
//! every time. Prints the number that arrived.

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
    let number = |place, default: &str| {
        let text = std::env::args().nth(place);
        text.as_deref().unwrap_or(default).parse::<u32>()
    };
    let (Ok(megabytes), Ok(transcript_mib)) = (number(1, "20"), number(2, "0")) else {
        eprintln!("usage: bulk [MB [MIB]]");
        return ExitCode::from(2);
    };
    let config = Config {
        transcript_bytes: (transcript_mib as usize) << 20,
        ..Config::default()
    };
    let load = Load::bulk(u64::from(megabytes) * 1_000_000);
    let adus = load.adus;
    let mut world = World::new(Seed(1));
    let sender = Sender::new(World::node_id(1), vec![load]);
    let a = world.add_node(config, AllowList::default(), sender);
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
