//! Cost of objective-driven scheduling: `cargo bench -p anabranch-sched --bench assign`.
//!
//! One cycle from nothing (all ADUs and slots are others than before): objectives evaluated, ADUs assigned, ties broken; with and
//! without an objective over several ADUs, and with 100 objectives. One decision: a slot is used with its ADU, another of each comes,
//! and a whole cycle is planned, at the same time or a millisecond later, so that every latency is another; by the planner alone, and
//! as a session asks the policy for it; with 20 objectives and with 100. Decisions per packet where many slots come at once. And the
//! assignment alone: made from nothing, and kept while one slot is used and another comes. Prints one JSON object in the lab's shape.
//! Times are wall-clock times of one thread, the median of several runs with the smallest and the largest; of single decisions
//! also the least and the mean of all calls, as the median says little about calls of which few are expensive. Quote ratios, and never
//! across machines. An argument selects rows by the beginning of their names.

mod common;

use std::{
    hint::black_box,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{ChannelId, Instant, Random, Seed, StreamId};
use anabranch_hose::{Limits, Objectives, Vocabulary};
use anabranch_sched::{
    Changes, ChannelView, Decision, Policy, Scheduler, StreamView, View,
    assign::Matching,
    objective::{Adu, Assign, Cycle, Fields, Planner, RandomWalk, Schedule},
};
use anabranch_spec::{ChannelChoice, ChannelMask, Correlation, Priority, Slot};
use serde_json::{Value, json};

const CHANNELS: u32 = 6;
const OBJECTIVES: usize = 20;
/// Streams, of which each has the same number of objectives.
const STREAMS: usize = 20;

/// True unless arguments select rows of other names.
fn is_wanted(name: &str) -> bool {
    let mut wanted = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .peekable();
    wanted.peek().is_none()
        || wanted.any(|start| name.starts_with(&start) || start.starts_with(name))
}

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
            predicted_ms: 900.0 - 100.0 * f64::from(channel),
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
            channels: ChannelMask::ALL,
            label: f64::NAN,
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
    for number in 0..count {
        let stream = number % STREAMS;
        let (goal, utility) = if stream.is_multiple_of(2) {
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

/// The same with other ADUs and slots.
fn others(cycle: &Cycle) -> Cycle {
    let mut others = cycle.clone();
    (others.slots.iter_mut()).for_each(|slot| slot.sequence += 1_000_000);
    (others.adus.iter_mut()).for_each(|adu| adu.sequence += 1_000_000);
    others
}

fn cycles(size: usize, number: usize, count: u32, rows: &mut Vec<Value>) {
    if !is_wanted("cycle") {
        return;
    }
    let mut random = Seed(1).stream("cycle");
    let one = cycle(size, STREAMS, &mut random);
    let both = [one.clone(), others(&one)];
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
            let mut objectives = objectives(number, is_combinatorial);
            let name = if is_combinatorial {
                format!("{name}_combinatorial")
            } else {
                (*name).to_owned()
            };
            let number = number + usize::from(is_combinatorial);
            let mut at = 0;
            rows.push(row(&name, size, number, count, || {
                at += 1;
                let cycle = black_box(&both[at % 2]);
                planner.plan(cycle, &mut objectives, &mut schedule);
                black_box(&schedule);
            }));
        }
    }
}

/// Channels and streams as a policy sees them.
fn views(slots: usize) -> (Vec<ChannelView>, Vec<StreamView>) {
    let channel = |index: u32| ChannelView {
        id: ChannelId(u64::from(index)),
        slots,
        packet_bytes: 1_400,
        rtt_smoothed: Duration::from_millis(u64::from(900 - 100 * index)),
        rtt_min: Duration::from_millis(u64::from(900 - 100 * index)),
        rtt_usual: Duration::ZERO,
        rtt_variation: Duration::from_millis(20),
        rate_bytes_per_s: 1e6,
        window_bytes: 100_000,
        in_flight_bytes: 50_000,
        loss: 0.01 * f64::from(index),
    };
    let stream = |id: usize| StreamView {
        id: StreamId(id as u64),
        priority: Priority::NORMAL,
        weight: 100,
        backlog_bytes: 1_000_000,
        deadline: None,
        pinned: None,
        choice: ChannelChoice::default(),
        redundant: false,
        claim: None,
    };
    (
        (0..CHANNELS).map(channel).collect(),
        (0..STREAMS).map(stream).collect(),
    )
}

/// Slots and ADUs that come and go.
struct Flow {
    cycle: Cycle,
    next: u64,
    /// Milliseconds from one decision to the next.
    step_ms: f64,
    now: Instant,
}

impl Flow {
    fn new(size: usize, step_ms: f64) -> Self {
        Self {
            cycle: cycle(size, STREAMS, &mut Seed(1).stream("cycle")),
            next: 1_000_000,
            step_ms,
            now: Instant::from_secs(1),
        }
    }

    /// An ADU goes out in a slot that exists; the next phantom exists then, and another of each comes.
    fn advance(&mut self, schedule: &Schedule) {
        let Cycle { slots, adus, .. } = &mut self.cycle;
        let is_sent = |&(_, slot): &(usize, &Option<u32>)| {
            slot.is_some_and(|slot| !slots[slot as usize].is_phantom())
        };
        let sent = schedule.iter().enumerate().rev().find(is_sent);
        let (adu, slot) = sent.map_or((0, Some(0)), |(adu, slot)| (adu, *slot));
        let gone = adus.remove(adu);
        let used = slots.remove(slot.unwrap_or(0) as usize);
        if let Some(next) = slots.iter_mut().find(|slot| slot.is_phantom()) {
            (next.wait_ms, next.confidence) = (0.0, 1.0);
        }
        self.now += Duration::from_secs_f64(self.step_ms / 1e3);
        for slot in slots.iter_mut().filter(|slot| slot.is_phantom()) {
            slot.wait_ms = (slot.wait_ms - self.step_ms).max(0.5);
        }
        adus.iter_mut()
            .for_each(|adu| adu.waited_ms += self.step_ms);
        self.next += 1;
        let last = slots.last().copied().unwrap_or(used);
        slots.push(Slot {
            sequence: self.next,
            wait_ms: last.wait_ms + 1.0,
            confidence: 0.9,
            ..used
        });
        let place = adus.partition_point(|adu| adu.stream <= gone.stream);
        adus.insert(
            place,
            Adu {
                sequence: self.next,
                waited_ms: 0.0,
                ..gone
            },
        );
    }
}

/// The median, the least and the mean time of `count` calls, in nanoseconds; those of what lies between them not counted.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn spent(count: usize, mut call: impl FnMut(&mut dyn FnMut(&mut dyn FnMut()))) -> [f64; 3] {
    let mut spent = Vec::with_capacity(count);
    for _ in 0..count {
        call(&mut |measured| {
            let start = Clock::now();
            measured();
            spent.push(start.elapsed());
        });
    }
    spent.sort_unstable();
    let mean = spent.iter().sum::<Duration>() / count as u32;
    [spent[count / 2], spent[0], mean].map(|time| time.as_secs_f64() * 1e9)
}

fn row_of(
    name: &str,
    (size, objectives): (usize, usize),
    step_ms: f64,
    mut measure: impl FnMut() -> [f64; 3],
) -> Value {
    measure();
    let (mut least_call, mut means) = (f64::INFINITY, Vec::new());
    let [median, least, most] = common::times(1.0, || {
        let [median, least, mean] = measure();
        least_call = least_call.min(least);
        means.push(mean);
        median
    });
    json!({
        "bench": name,
        "slots": size,
        "adus": size,
        "objectives": objectives,
        "step_ms": step_ms,
        "ns_least_call": least_call,
        "ns_mean_min": means.iter().copied().fold(f64::INFINITY, f64::min).round(),
        "ns_median": median,
        "ns_min": least,
        "ns_max": most,
        "runs": common::RUNS,
    })
}

/// One slot after the other: the planner alone, then the policy with all that a session asks of it.
fn one_by_one(size: usize, number: usize, count: usize, rows: &mut Vec<Value>) {
    let mut objectives = objectives(number, false);
    let shape = (size, number);
    for step_ms in [0.0, 0.02, 1.0] {
        if is_wanted("planner_one_slot") {
            let mut flow = Flow::new(size, step_ms);
            let (mut planner, mut schedule) = (Assign::default(), Schedule::new());
            rows.push(row_of("planner_one_slot", shape, step_ms, || {
                spent(count, |measure| {
                    flow.advance(&schedule);
                    measure(&mut || {
                        planner.plan(black_box(&flow.cycle), &mut objectives, &mut schedule);
                    });
                })
            }));
        }
        if !is_wanted("policy_one_slot") {
            continue;
        }
        let mut flow = Flow::new(size, step_ms);
        let (channels, streams) = views(1);
        let mut scheduler = Policy::Assign.build(Seed(1));
        rows.push(row_of("policy_one_slot", shape, step_ms, || {
            spent(count, |measure| {
                let mut choice = None;
                measure(&mut || {
                    let view = View {
                        now: flow.now,
                        channels: &channels,
                        streams: &streams,
                    };
                    scheduler.prepare(&objectives);
                    scheduler.begin(&view, Changes::Only(&[]));
                    scheduler.plan(&view, black_box(&flow.cycle), &mut objectives);
                    let decision = scheduler.next(&view);
                    if let Decision::SendAdu {
                        stream,
                        adu,
                        channels,
                    } = decision
                    {
                        scheduler.sent(&view, stream, channels, 768);
                        choice = Some((adu, channels));
                    }
                });
                // What was chosen goes in the first slot of its channel.
                let Some((adu, channels)) = choice else {
                    flow.advance(&Schedule::new());
                    return;
                };
                let slots = &flow.cycle.slots;
                let slot = slots
                    .iter()
                    .position(|slot| channels.contains(slot.channel as usize));
                let chosen = |one: &Adu| (one.sequence == adu).then_some(slot.unwrap_or(0) as u32);
                let sent: Schedule = flow.cycle.adus.iter().map(chosen).collect();
                flow.advance(&sent);
            })
        }));
    }
}

/// A run of decisions as a session asks for it: a cycle is planned, and what goes into the slots that exist (a quarter)
/// is sent. Per packet.
fn decisions(size: usize, count: u32, rows: &mut Vec<Value>) {
    if !is_wanted("decisions") {
        return;
    }
    let mut random = Seed(1).stream("cycle");
    let one = cycle(size, STREAMS, &mut random);
    let both = [one.clone(), others(&one)];
    let mut objectives = objectives(OBJECTIVES, false);
    let mut at = 0;
    let (channels, streams) = views(size);
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
        at += 1;
        scheduler.plan(&view, black_box(&both[at % 2]), &mut objectives);
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
    if !is_wanted("matching") {
        return;
    }
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
    for objectives in [OBJECTIVES, 5 * OBJECTIVES] {
        cycles(64, objectives, 200, &mut rows);
        one_by_one(64, objectives, 1_000, &mut rows);
    }
    cycles(512, OBJECTIVES, 5, &mut rows);
    one_by_one(512, OBJECTIVES, 200, &mut rows);
    decisions(64, 200, &mut rows);
    decisions(512, 5, &mut rows);
    matchings(64, 200, &mut rows);
    matchings(512, 5, &mut rows);
    common::print("assign", &rows);
}
