//! What objective-driven scheduling costs: `cargo bench -p anabranch-sched --bench assign`.
//!
//! One cycle from nothing: objectives evaluated, ADUs assigned, ties broken; with and without an objective over
//! several ADUs. Decisions per packet, as a session asks for them. And the assignment alone: made from nothing, and kept while one slot is used and another comes. Prints one
//! JSON object in the lab's shape. Times are wall-clock times of one thread, the median of several runs with the
//! smallest and the largest; quote ratios, and never across machines.

mod common;

use std::{
    hint::black_box,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{ChannelId, Instant, Random, Seed, StreamId};
use anabranch_hose::{Limits, Objectives, Vocabulary};
use anabranch_sched::{
    Changes, ChannelView, Decision, Policy, Priority, StreamView, View,
    assign::Matching,
    objective::{Adu, Assign, Correlation, Cycle, Fields, Planner, RandomWalk, Schedule, Slot},
};
use serde_json::{Value, json};

const CHANNELS: u32 = 6;

#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn row(name: &str, size: usize, objectives: usize, count: u32, mut call: impl FnMut()) -> Value {
    call();
    let [median, least, most] = common::times(1.0, || {
        let start = Clock::now();
        (0..count).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    });
    json!({
        "bench": name,
        "slots": size,
        "adus": size,
        "objectives": objectives,
        "ns_median": median,
        "ns_min": least,
        "ns_max": most,
        "runs": common::RUNS,
    })
}

/// Slots of six channels, some of them phantoms; ADUs of as many streams as there are objectives.
fn cycle(size: usize, streams: usize, random: &mut Random) -> Cycle {
    let slot = |at: usize| {
        let channel = at as u32 % CHANNELS;
        Slot {
            channel,
            sequence: at as u64 / u64::from(CHANNELS),
            wait_ms: if at < size / 4 { 0.0 } else { at as f64 },
            confidence: if at < size / 4 { 1.0 } else { 0.9 },
            loss: 0.01 * f64::from(channel),
            round_trip_ms: 900.0 - 100.0 * f64::from(channel),
            deviation_ms: 20.0,
            cost_per_byte: 0.0,
            bytes_max: 1_400,
        }
    };
    let mut adus: Vec<Adu> = (0..size)
        .map(|at| Adu {
            stream: StreamId((at % streams) as u64),
            sequence: at as u64,
            bytes: 768,
            length: 768,
            waited_ms: random.uniform(0.0, 100.0),
            deadline_ms: f64::NAN,
            fields: Fields::default(),
            turn: 0,
            only: None,
        })
        .collect();
    adus.sort_by_key(|adu| (adu.stream, adu.sequence));
    let mut correlation = Correlation::independent(CHANNELS as usize);
    for channel in 0..CHANNELS as usize {
        correlation.set_apart(channel, vec![1.0, 0.5, 0.25]);
    }
    Cycle {
        slots: (0..size).map(slot).collect(),
        adus,
        correlation,
        ..Cycle::default()
    }
}

fn objectives(count: usize, is_combinatorial: bool) -> Objectives {
    let mut objectives = Objectives::new(Limits::default(), Vocabulary::default());
    for stream in 0..count {
        let (goal, utility) = if stream % 2 == 0 {
            ("expected(a::latency) <= 700", "700 - expected(a::latency)")
        } else {
            ("prob(a::lost?) < 10", "100 * (10 - prob(a::lost?))")
        };
        let text = format!(
            "objective {{ context {{ adu:a {{ stream_id == {stream} }} }} goal {{ {goal} }} utility {{ a {{ {utility} }} }} }}"
        );
        objectives.inject(&text).expect("a good text");
    }
    if is_combinatorial {
        let text = "objective { context { adu:a { stream_id == 0 } adu:b { stream_id == 0 } }
            goal { correlated_loss(a, b) <= 25 } utility { a { 125 } } }";
        objectives.inject(text).expect("a good text");
    }
    objectives
}

fn cycles(size: usize, count: u32, rows: &mut Vec<Value>) {
    const OBJECTIVES: usize = 20;
    let mut random = Seed(1).stream("cycle");
    let cycle = cycle(size, OBJECTIVES, &mut random);
    let mut schedule = Schedule::new();
    let mut planners: [(&str, Box<dyn Planner>); 2] = [
        ("cycle_assign", Box::new(Assign::default())),
        (
            "cycle_random_walk",
            Box::new(RandomWalk::new(RandomWalk::WALK_LENGTH, random)),
        ),
    ];
    for (name, planner) in &mut planners {
        for is_combinatorial in [false, true] {
            let mut objectives = objectives(OBJECTIVES, is_combinatorial);
            let name = if is_combinatorial {
                format!("{name}_combinatorial")
            } else {
                (*name).to_owned()
            };
            let number = OBJECTIVES + usize::from(is_combinatorial);
            rows.push(row(&name, size, number, count, || {
                planner.plan(black_box(&cycle), &mut objectives, &mut schedule);
                black_box(&schedule);
            }));
        }
    }
}

/// A run of decisions as a session asks for it: a cycle is planned, and what goes into the slots that exist (a quarter)
/// is sent. Per packet.
fn decisions(size: usize, count: u32, rows: &mut Vec<Value>) {
    const OBJECTIVES: usize = 20;
    let mut random = Seed(1).stream("cycle");
    let cycle = cycle(size, OBJECTIVES, &mut random);
    let mut objectives = objectives(OBJECTIVES, false);
    let channel = |index: u32| ChannelView {
        id: ChannelId(u64::from(index)),
        slots: size,
        packet_bytes: 1_400,
        rtt_smoothed: Duration::from_millis(u64::from(900 - 100 * index)),
        rtt_min: Duration::from_millis(u64::from(900 - 100 * index)),
        rtt_variation: Duration::from_millis(20),
        rate_bytes_per_s: 1e6,
        window_bytes: 100_000,
        in_flight_bytes: 50_000,
        loss: 0.01 * f64::from(index),
    };
    let channels: Vec<ChannelView> = (0..CHANNELS).map(channel).collect();
    let stream = |id: usize| StreamView {
        id: StreamId(id as u64),
        priority: Priority::NORMAL,
        weight: 100,
        backlog_bytes: 1_000_000,
        deadline: None,
        pinned: None,
        claim: None,
    };
    let streams: Vec<StreamView> = (0..OBJECTIVES).map(stream).collect();
    let mut scheduler = Policy::Assign.build(Seed(1));
    let mut run = || {
        let view = View {
            now: Instant::from_secs(1),
            channels: &channels,
            streams: &streams,
        };
        let mut sent = 0_u32;
        scheduler.prepare(&objectives);
        scheduler.begin(&view, Changes::Only(&[]));
        scheduler.plan(&view, black_box(&cycle), &mut objectives);
        while let Decision::SendAdu {
            stream, channels, ..
        } = scheduler.next(&view)
        {
            scheduler.sent(&view, stream, channels, 768);
            sent += 1;
        }
        sent
    };
    let sent = run();
    let mut row = row("decisions_assign", size, OBJECTIVES, count, || {
        black_box(run());
    });
    for key in ["ns_median", "ns_min", "ns_max"] {
        row[key] = json!(row[key].as_f64().unwrap_or_default() / f64::from(sent.max(1)));
    }
    row["packets"] = json!(sent);
    rows.push(row);
}

/// The assignment alone, of values that are all different.
fn matchings(size: usize, count: u32, rows: &mut Vec<Value>) {
    let mut random = Seed(1).stream("values");
    let values: Vec<i64> = (0..size * size)
        .map(|_| random.below(1_000_000_000) as i64)
        .collect();
    let mut matching = Matching::new();
    rows.push(row("matching_from_nothing", size, 0, count, || {
        matching.clear();
        for _ in 0..size {
            matching.add_column(|_| 0);
        }
        for row in 0..size {
            matching.add_row(0, |column| values[row * size + column]);
        }
    }));
    let mut at = 0;
    rows.push(row("matching_one_slot", size, 0, count * 20, || {
        // The slot is used: it and its ADU go, another of each comes.
        at += 1;
        let column = at % size;
        if let Some(row) = matching.row_of(column) {
            matching.remove_row(row);
        }
        matching.remove_column(column);
        matching.add_column(|row| values[(row * 7 + at) % values.len()]);
        if matching.rows() < size {
            matching.add_row(0, |column| values[(column * 11 + at) % values.len()]);
        }
    }));
}

fn main() {
    if !common::is_measuring() {
        return;
    }
    let mut rows = Vec::new();
    cycles(64, 200, &mut rows);
    cycles(512, 5, &mut rows);
    decisions(64, 200, &mut rows);
    decisions(512, 5, &mut rows);
    matchings(64, 200, &mut rows);
    matchings(512, 5, &mut rows);
    common::print("assign", &rows);
}
