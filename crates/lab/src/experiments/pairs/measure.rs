//! One run: builds the world, runs it, reads the statistics.

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_session::{AllowList, Config};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender, StreamRecord},
};

use super::cases::{Case, Setup};

/// Limit on the virtual time of a run.
const TIME_MAX: Duration = Duration::from_secs(400);

/// Results of a run.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub goodput_fraction: f64,
    pub goodput_mbps: f64,
    pub sum_mbps: f64,
    pub gap_ms: f64,
    pub missing: u64,
    pub repeated: u64,
    pub corrupt: u64,
    pub duplicate_fraction: f64,
    pub virtual_s: f64,
    pub full_rate_after_return_ms: Option<f64>,
    pub small: Option<SmallMeasured>,
}

/// Statistics of the small stream.
#[derive(Clone, Debug)]
pub(super) struct SmallMeasured {
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    /// Mean absolute difference of successive delays (RFC 3550 §6.4.1, without the smoothing).
    pub jitter_ms: f64,
    pub missing: u64,
}

/// Runs `case` over all its links, or over the given one.
pub(super) fn measure(seed: Seed, case: &Case, setup: &Setup, only: Option<usize>) -> Measured {
    let mut config = Config {
        policy: setup.policy,
        ..Config::default()
    };
    config.channel.controller = setup.controller;
    let bulk = Load::bulk(case.bytes);
    let bulk_adus = bulk.adus;
    let bulk_bytes = bulk.adus * bulk.adu_bytes as u64;
    let mut loads = vec![bulk];
    if let Some(small) = case.small {
        loads.push(Load {
            start: Instant::from_millis(300),
            ..Load::messages(small.bytes, small.every, u64::MAX)
        });
    }
    let mut world = World::new(seed);
    let a = world.add_node(
        config.clone(),
        AllowList::default(),
        Sender::new(World::node_id(1), loads),
    );
    let b = world.add_node(config, AllowList::of([World::node_id(0)]), Receiver::new());
    let used: Vec<usize> = (0..case.links.len())
        .filter(|&index| only.is_none_or(|only| only == index))
        .collect();
    let mut wires = Vec::new();
    let mut links = Vec::new();
    for &index in &used {
        let wire = world
            .add_wire(a, b, case.links[index].configs())
            .expect("the cases are valid");
        wires.push(wire);
        links.push(world.link(a, wire));
    }
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    if let Some((from, to)) = case.outage
        && used[0] == 0
    {
        let wire = wires[0];
        world.schedule(from, move |world| world.set_wire_up(wire, false));
        world.schedule(to, move |world| world.set_wire_up(wire, true));
    }

    // Sum of the actual rates, sampled every 10 ms.
    let mut offered_bits = 0.0;
    let step = Duration::from_millis(10);
    let end = Instant::EPOCH + TIME_MAX;
    let mut done = false;
    while !done && world.now() < end {
        let from = world.now();
        for &wire in &wires {
            let rate = world.wire(wire).duplex.forward.rate_at(from);
            offered_bits += rate.map_or(0.0, |rate| rate.as_bps() as f64) * step.as_secs_f64();
        }
        world.run_while(from + step, |w| {
            done = w
                .app::<Receiver>(1)
                .records
                .get("bulk")
                .is_some_and(|b| b.finished);
            !done
        });
        // The sender never ends its small stream; the run ends with the bulk transfer.
    }
    let receiver = world.app::<Receiver>(b);
    let record = receiver.record("bulk");
    let small_record = receiver.record("messages");
    let elapsed = record.last_at.unwrap_or(end).as_secs_f64();
    let small_bytes = small_record.bytes;
    let bytes = (record.bytes + small_bytes) as f64;
    let sum_mbps = offered_bits / world_seconds(&world) / 1e6;
    let goodput_mbps = bytes * 8.0 / elapsed / 1e6;
    let outcomes = world.app::<Sender>(a).outcomes("messages");
    let session = world.app::<Sender>(a).session();
    let copied: u64 = session.map_or(0, |session| {
        let reports = world
            .engine(a)
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        reports.iter().map(|r| r.payload_sent_bytes).sum()
    });
    Measured {
        goodput_fraction: goodput_mbps / sum_mbps,
        goodput_mbps,
        sum_mbps,
        gap_ms: record.gap_max.as_secs_f64() * 1e3,
        missing: bulk_adus - record.numbers.len() as u64,
        repeated: repeated(&record),
        corrupt: record.corrupt + small_record.corrupt,
        duplicate_fraction: (copied as f64 - bulk_bytes as f64 - small_bytes as f64).max(0.0)
            / bytes,
        virtual_s: elapsed,
        full_rate_after_return_ms: case
            .outage
            .and_then(|(_, to)| full_rate_after(&record, to, goodput_mbps)),
        small: case.small.map(|_| {
            let ms = |q| small_record.delay_quantile(q).as_secs_f64() * 1e3;
            SmallMeasured {
                p50_ms: ms(0.5),
                p95_ms: ms(0.95),
                p99_ms: ms(0.99),
                jitter_ms: jitter_ms(&small_record),
                // The last ones may still have been in flight at the end of the run.
                missing: outcomes.map_or(0, |(sent, ..)| {
                    sent.saturating_sub(small_record.numbers.len() as u64)
                }),
            }
        }),
    }
}

fn world_seconds(world: &World) -> f64 {
    // Rates were sampled in whole steps.
    (world.now().as_secs_f64() / 0.01).ceil() * 0.01
}

fn repeated(record: &StreamRecord) -> u64 {
    let mut numbers = record.numbers.clone();
    numbers.sort_unstable();
    numbers.windows(2).filter(|w| w[0] == w[1]).count() as u64
}

fn jitter_ms(record: &StreamRecord) -> f64 {
    let steps = record.delays.windows(2).map(|w| {
        let (a, b) = (w[0].as_secs_f64(), w[1].as_secs_f64());
        (a - b).abs() * 1e3
    });
    let count = record.delays.len().saturating_sub(1).max(1) as f64;
    steps.sum::<f64>() / count
}

/// Time from the return of a path until the rate over 300 ms is again at 90 % of that before the
/// outage.
fn full_rate_after(record: &StreamRecord, return_at: Duration, _mean_mbps: f64) -> Option<f64> {
    let slots = &record.per_100ms;
    let before = slots.get(20..38)?.iter().sum::<u64>() as f64 / 18.0;
    let from = (return_at.as_millis() / 100) as usize;
    for start in from..slots.len().saturating_sub(3) {
        let mean = slots[start..start + 3].iter().sum::<u64>() as f64 / 3.0;
        if mean >= 0.9 * before {
            return Some((start - from) as f64 * 100.0);
        }
    }
    None
}
