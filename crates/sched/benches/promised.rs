//! Cost of promised streams: `cargo bench -p anabranch-sched --bench promised`.
//!
//! Decisions of `pgos` at 1,000 promised streams on 8 paths: one packet with its booking, and the beginning of a run of the
//! pump in which no stream changed.
//! Prints one JSON object in the lab's shape. Times are wall-clock times of one thread, the median of several
//! runs with the smallest and the largest; quote ratios, and never across machines.

mod common;

use std::{
    hint::black_box,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{ChannelId, Instant, Seed, StreamId};
use anabranch_sched::{Changes, ChannelView, Decision, Policy, Scheduler, StreamView, View};
use anabranch_spec::{Assignment, ChannelChoice, Guarantee, Plan, Priority};
use serde_json::{Value, json};

const PATHS: usize = 8;
const SCHEDULED: u64 = 1_000;
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
            rtt_usual: Duration::ZERO,
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
        choice: ChannelChoice::default(),
        redundant: false,
        claim: None,
    };
    (0..SCHEDULED).map(view).collect()
}

/// Of a decision with its booking in runs of the pump of `per_run` packets, and of the beginning of a run.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn decisions(per_run: usize, paths_full: usize, between: Duration) -> [f64; 2] {
    let mut scheduler = Policy::Default.build(Seed(1));
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
    // A promised packet is due every 112 µs. With more time than that everything is late; with less, streams run
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
