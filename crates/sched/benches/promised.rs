//! Cost of promised streams: `cargo bench -p anabranch-sched --bench promised`.
//!
//! The mapping of 100 streams on 8 paths, at admission and at review, and decisions of `pgos` at 1,000 promised streams
//! on 8 paths: one packet with its booking, and the beginning of a run of the pump in which no stream changed; these
//! alone with the argument `decisions`.
//! Prints one JSON object in the lab's shape. Times are wall-clock times of one thread, the median of several
//! runs with the smallest and the largest; quote ratios, and never across machines.

mod common;

use std::{
    hint::black_box,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{ChannelId, Instant, Rate, Seed, StreamId};
use anabranch_sched::{
    Assignment, Changes, ChannelMask, ChannelView, Decision, Guarantee, Plan, Policy, Priority,
    StreamView, View,
    mapping::{Capacity, Request, Term, map},
};
use serde_json::{Value, json};

const PATHS: usize = 8;
const MAPPED: u64 = 100;
const SCHEDULED: u64 = 1_000;
/// Samples that capacity is judged by.
const ROWS: usize = 500;

/// Windows of simultaneous rates, with the sorted sums of each set that was asked about: as a session keeps
/// a forecast for each.
struct Known {
    rows: Vec<[f64; PATHS]>,
    sums: Vec<(ChannelMask, Vec<f64>)>,
}

impl Known {
    fn new() -> Self {
        let mut state = 1_u64;
        let mut unit = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let rows = (0..ROWS)
            .map(|_| std::array::from_fn(|path| (20.0 + 5.0 * path as f64) * 1e6 * (0.5 + unit())))
            .collect();
        Self {
            rows,
            sums: Vec::new(),
        }
    }

    fn sorted(&mut self, set: ChannelMask) -> &[f64] {
        let at = self.sums.iter().position(|(known, _)| *known == set);
        let at = at.unwrap_or_else(|| {
            let sum = |row: &[f64; PATHS]| set.iter().map(|path| row[path]).sum();
            let mut sums: Vec<f64> = self.rows.iter().map(sum).collect();
            sums.sort_by(f64::total_cmp);
            self.sums.push((set, sums));
            self.sums.len() - 1
        });
        &self.sums[at].1
    }
}

impl Capacity for Known {
    fn paths(&self) -> usize {
        PATHS
    }

    fn holds(&mut self, set: ChannelMask, probability: f64, _: Term) -> Option<f64> {
        let sorted = self.sorted(set);
        let missed = ((1.0 - probability) * sorted.len() as f64 + 1e-9) as usize;
        sorted.get(missed).copied()
    }

    fn shortfall(&mut self, set: ChannelMask, need_bps: f64, _: Term) -> Option<f64> {
        let sorted = self.sorted(set);
        let missing: f64 = sorted.iter().map(|sum| (need_bps - sum).max(0.0)).sum();
        Some(missing / sorted.len() as f64)
    }

    fn probabilities(&self) -> &[f64] {
        &[0.99, 0.95, 0.9, 0.75, 0.5]
    }
}

/// Streams that together want `mbps`.
fn requests(mbps: f64) -> Vec<Request> {
    let levels = [0.99, 0.95, 0.9, 0.75, 0.5];
    let mut requests: Vec<Request> = (0..MAPPED)
        .map(|id| {
            // From a half of the mean rate to one and a half.
            let rate = mbps / MAPPED as f64 * (0.5 + (id % 11) as f64 / 10.0);
            let rate = Rate::from_bps((rate * 1e6) as u64);
            let guarantee = Guarantee::rate(rate, levels[id as usize % levels.len()]);
            Request {
                is_divisible: id % 2 == 0,
                ..Request::new(StreamId(id), &guarantee, Term::Renewable)
            }
        })
        .collect();
    Request::sort(&mut requests);
    requests
}

/// Mean nanoseconds of `count` calls, after a tenth as many.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn nanos_each(count: usize, mut call: impl FnMut(usize)) -> f64 {
    for index in 0..count / 10 {
        call(index);
    }
    let start = Clock::now();
    for index in 0..count {
        call(index);
    }
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

fn mapping(name: &str, mbps: f64) -> Value {
    let mut known = Known::new();
    let mut requests = requests(mbps);
    let placed = map(&requests, &mut known);
    let is_placed = placed.is_ok();
    if let (Ok(placed), "review") = (placed, name) {
        for (request, placement) in requests.iter_mut().zip(placed) {
            request.before = placement;
        }
    }
    let [median, least, most] = common::times(10.0, || {
        nanos_each(200, |_| {
            let _ = black_box(map(black_box(&requests), &mut known));
        })
    });
    json!({
        "bench": format!("mapping_{name}"),
        "streams": MAPPED,
        "paths": PATHS,
        "wanted_mbps": mbps,
        "is_placed": is_placed,
        "ns_median": median,
        "ns_min": least,
        "ns_max": most,
        "runs": common::RUNS,
    })
}

fn channels() -> Vec<ChannelView> {
    let channel = |id: u64| {
        let rtt = Duration::from_millis(20 + 10 * id);
        let rate = 20e6 / 8.0;
        ChannelView {
            id: ChannelId(id),
            slots: 4,
            packet_bytes: 1400,
            rtt_smoothed: rtt,
            rtt_min: rtt * 9 / 10,
            rtt_variation: rtt / 20,
            rate_bytes_per_s: rate,
            window_bytes: (rate * rtt.as_secs_f64()) as u64,
            in_flight_bytes: 0,
            loss: 0.0,
        }
    };
    (0..PATHS as u64).map(channel).collect()
}

/// 1,000 streams of 100 kbit/s, each on one path or divided over two.
fn plan() -> Plan {
    let window = Guarantee::WINDOW;
    let assignments = (0..SCHEDULED).map(|id| {
        let bytes = 12_500.0;
        let path = |offset| ChannelId((id + offset) % PATHS as u64);
        let may_split = id % 4 == 0;
        Assignment {
            stream: StreamId(id),
            window,
            window_bytes: bytes,
            constraint: 1.0,
            may_split,
            shares: if may_split {
                vec![(path(0), bytes / 2.0), (path(1), bytes / 2.0)]
            } else {
                vec![(path(0), bytes)]
            },
        }
    });
    Plan {
        assignments: assignments.collect(),
    }
}

fn views() -> Vec<StreamView> {
    let view = |id| StreamView {
        id: StreamId(id),
        priority: Priority::NORMAL,
        weight: 100,
        backlog_bytes: 1 << 20,
        deadline: None,
        pinned: None,
        claim: None,
    };
    (0..SCHEDULED).map(view).collect()
}

/// Of a decision with its booking in runs of the pump of `per_run` packets, and of the beginning of a run.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn decisions(per_run: usize, paths_full: usize, between: Duration) -> [f64; 2] {
    let mut scheduler = Policy::Pgos.build(Seed(1));
    scheduler.remap(Instant::EPOCH, &plan());
    let streams = views();
    let mut channels = channels();
    for channel in channels.iter_mut().take(paths_full) {
        channel.slots = 0;
        channel.in_flight_bytes = channel.window_bytes;
    }
    let (mut deciding, mut beginning, mut sent) = (Duration::ZERO, Duration::ZERO, 0_usize);
    let runs = 200_000 / per_run;
    for run in 0..runs + runs / 10 {
        let now = Instant::EPOCH + between * (run * per_run) as u32;
        let view = View {
            now,
            channels: &channels,
            streams: &streams,
        };
        let changes = if run == 0 {
            Changes::Any
        } else {
            Changes::Only(&[])
        };
        let start = Clock::now();
        scheduler.begin(black_box(&view), changes);
        let began = Clock::now();
        let mut decided = 0;
        for _ in 0..per_run {
            if let Decision::Send { stream, channels } = black_box(scheduler.next(&view)) {
                scheduler.sent(&view, stream, channels, 1400);
                decided += 1;
            }
        }
        let end = Clock::now();
        if run >= runs / 10 {
            beginning += began - start;
            deciding += end - began;
            sent += decided;
        }
    }
    [
        deciding.as_secs_f64() * 1e9 / sent.max(1) as f64,
        beginning.as_secs_f64() * 1e9 / runs as f64,
    ]
}

fn pgos(per_run: usize, paths_full: usize, between_us: u64) -> Vec<Value> {
    let between = Duration::from_micros(between_us);
    let mut both = Vec::new();
    for (index, name) in ["pgos_decision_and_booking", "pgos_begin"]
        .iter()
        .enumerate()
    {
        let [median, least, most] =
            common::times(10.0, || decisions(per_run, paths_full, between)[index]);
        both.push(json!({
            "bench": name,
            "streams": SCHEDULED,
            "paths": PATHS,
            "paths_full": paths_full,
            "packets_per_run": per_run,
            "us_between_packets": between_us,
            "ns_median": median,
            "ns_min": least,
            "ns_max": most,
            "runs": common::RUNS,
        }));
    }
    both
}

fn main() {
    if !common::is_measuring() {
        return;
    }
    let mut rows = Vec::new();
    if std::env::args().all(|argument| argument != "decisions") {
        rows.extend([
            mapping("admission", 100.0),
            mapping("review", 100.0),
            // So much that some are divided, and so much that it fails in both attempts.
            mapping("admission", 170.0),
            mapping("refusal", 400.0),
        ]);
    }
    // What is promised is a packet every 112 µs. With more time than that everything is late; with less, streams run
    // ahead of their plan, and elastic packets fill what is left.
    for (per_run, paths_full, between_us) in [
        (64, 0, 112),
        (64, 0, 140),
        (64, 0, 80),
        (64, 4, 140),
        (8, 0, 140),
    ] {
        rows.extend(pgos(per_run, paths_full, between_us));
    }
    common::print("promised", &rows);
}
