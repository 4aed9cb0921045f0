//! What the engine costs: `cargo bench -p anabranch-lab`.
//!
//! Prints one JSON object in the lab's shape. Times are wall-clock times of one thread, the median of
//! several runs with the smallest and the largest; quote ratios, and never across machines.

use std::time::{Duration, Instant as Clock};

use anabranch_base::{Instant, Rate, Seed};
use anabranch_lab::{Outcome, Row};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config, Controller};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};
use serde_json::json;

const RUNS: usize = 3;

fn world(links: &[(u64, u64)], config: &Config, loads: Vec<Load>) -> World {
    let mut world = World::new(Seed(1));
    let a = world.add_node(
        config.clone(),
        AllowList::default(),
        Sender::new(World::node_id(1), loads),
    );
    let b = world.add_node(
        config.clone(),
        AllowList::of([World::node_id(0)]),
        Receiver::new(),
    );
    let links = links
        .iter()
        .map(|&(mbps, rtt_ms)| {
            let rate = Rate::from_mbps(mbps);
            let rtt = Duration::from_millis(rtt_ms);
            let wire = world
                .add_wire(
                    a,
                    b,
                    Configs::symmetric(LinkConfig {
                        rate: RateSource::Constant(rate),
                        delay: rtt / 2,
                        queue: Queue::bdp(rate, rtt),
                        ..LinkConfig::default()
                    }),
                )
                .expect("a valid link");
            world.link(a, wire)
        })
        .collect();
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    world
}

/// Wall time of a transfer, and packets delivered in both directions.
fn transfer(links: &[(u64, u64)], config: &Config, bytes: u64) -> (Duration, u64, f64) {
    let mut world = world(links, config, vec![Load::bulk(bytes)]);
    let start = Clock::now();
    world.run_while(Instant::from_secs(600), |w| {
        !w.app::<Receiver>(1)
            .books
            .get("bulk")
            .is_some_and(|book| book.finished)
    });
    let elapsed = start.elapsed();
    (elapsed, world.packets_delivered, world.now().as_secs_f64())
}

fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    ]
}

fn row(name: &str, unit: &str, [low, median, high]: [f64; 3]) -> Row {
    let mut row = Row::new();
    row.insert("bench".into(), json!(name));
    for (suffix, value) in [("median", median), ("min", low), ("max", high)] {
        row.insert(
            format!("{unit}_{suffix}"),
            json!((value * 1000.0).round() / 1000.0),
        );
    }
    row.insert("runs".into(), json!(RUNS));
    row
}

/// One channel, full-size packets, both ends and the simulator: an upper bound of what sending and
/// receiving one packet costs together.
fn per_packet() -> Row {
    let mut config = Config::default();
    config.channel.controller = Controller::Fixed(Rate::from_mbps(2000));
    let values = (0..RUNS)
        .map(|_| {
            let bytes = 200_000_000;
            let (elapsed, ..) = transfer(&[(10_000, 1)], &config, bytes);
            elapsed.as_secs_f64() * 1e6 / (bytes as f64 / 1430.0)
        })
        .collect();
    row(
        "send_and_receive_one_packet_with_simulator",
        "us",
        spread(values),
    )
}

/// Virtual over real time of a 50 Mbit/s session on two paths.
fn simulator_speed() -> Row {
    let values = (0..RUNS)
        .map(|_| {
            let (elapsed, _, virtual_s) =
                transfer(&[(30, 20), (20, 60)], &Config::default(), 60_000_000);
            virtual_s / elapsed.as_secs_f64()
        })
        .collect();
    row(
        "simulator_50_mbps_two_paths",
        "times_real_time",
        spread(values),
    )
}

fn main() {
    // `cargo test --benches` runs this, too; measuring there would only cost time.
    if std::env::args().any(|argument| argument == "--test") || cfg!(debug_assertions) {
        return;
    }
    let outcome = Outcome {
        experiment: "engine",
        version: env!("CARGO_PKG_VERSION"),
        seed: 1,
        rows: vec![per_packet(), simulator_speed()],
    };
    let text = serde_json::to_string_pretty(&outcome).expect("rows are JSON");
    #[allow(clippy::print_stdout)] // The bench's result.
    {
        println!("{text}");
    }
}
