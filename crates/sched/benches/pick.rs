//! Cost of one decision of a policy: `cargo bench -p anabranch-sched`.
//!
//! Arguments that are names of policies: only those. Three channels with a slot each; 1, 100 or 10,000 streams that have a backlog, or one that has and
//! as many that were served and have fallen silent. Prints one JSON object in the lab's shape. Times
//! are wall-clock times of one thread, the median of several runs with the smallest and the largest;
//! quote ratios, and never across machines.

mod common;

use std::{
    hint::black_box,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{ChannelId, Instant, Seed, StreamId};
use anabranch_sched::{Changes, ChannelView, Decision, Policy, Scheduler, StreamView, View};
use anabranch_spec::{ChannelChoice, Priority};
use serde_json::{Value, json};

/// Streams looked at in one run, over all its decisions.
const WORK: usize = 4_000_000;

fn channel(id: u64, rtt_ms: u64, mbps: f64) -> ChannelView {
    let rtt = Duration::from_millis(rtt_ms);
    let rate = mbps * 1e6 / 8.0;
    ChannelView {
        id: ChannelId(id),
        slots: 1,
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
}

fn streams(count: u64) -> Vec<StreamView> {
    let stream = |id| StreamView {
        id: StreamId(id),
        priority: Priority::NORMAL,
        weight: 100,
        backlog_bytes: 1 << 20,
        deadline: (id % 2 == 1).then(|| Instant::from_millis(500 + id)),
        pinned: None,
        choice: ChannelChoice::default(),
        redundant: false,
        claim: None,
    };
    (0..count).map(stream).collect()
}

/// Nanoseconds per decision in a run of its own, its booking included.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn measure(policy: Policy, all: &[StreamView], active: usize) -> f64 {
    let mut channels = [
        channel(0, 20, 50.0),
        channel(1, 60, 20.0),
        channel(2, 40, 5.0),
    ];
    let mut scheduler = policy.build(Seed(1));
    let mut last = None;
    let mut decide = |streams: &[StreamView], now_ms: u64| {
        // One channel in three is full at a time, so that policies have something to weigh.
        for (index, channel) in channels.iter_mut().enumerate() {
            let is_full = index as u64 == now_ms % 3 && policy != Policy::Pinned;
            channel.slots = usize::from(!is_full);
            channel.in_flight_bytes = if is_full { channel.window_bytes } else { 0 };
        }
        let view = View {
            now: Instant::from_millis(now_ms),
            channels: &channels,
            streams,
        };
        let changed = last.as_slice();
        let is_same = last.is_some() && now_ms > 0;
        scheduler.begin(
            black_box(&view),
            match is_same {
                true => Changes::Only(changed),
                false => Changes::Any,
            },
        );
        if let Decision::Send { stream, channels } = black_box(scheduler.next(black_box(&view))) {
            scheduler.sent(&view, stream, channels, 1400);
            last = Some(streams[stream].id);
        }
    };
    // Every stream has been served at least once.
    for round in 0..all.len() as u64 + 100 {
        decide(all, round);
    }
    let streams = &all[..active];
    let decisions = (WORK / active).clamp(200, 400_000) as u64;
    for round in 0..decisions / 10 {
        decide(streams, round);
    }
    let start = Clock::now();
    for round in 0..decisions {
        decide(streams, round);
    }
    start.elapsed().as_secs_f64() * 1e9 / decisions as f64
}

fn row(policy: Policy, count: u64, is_idle: bool) -> Value {
    let all = streams(count);
    let active = if is_idle { 1 } else { all.len() };
    let [median, least, most] = common::times(10.0, || measure(policy, &all, active));
    json!({
        "bench": "decision_and_booking",
        "policy": policy.name(),
        "channels": 3,
        "streams": count,
        "streams_active": active,
        "ns_median": median,
        "ns_min": least,
        "ns_max": most,
        "runs": common::RUNS,
    })
}

fn main() {
    if !common::is_measuring() {
        return;
    }
    let mut rows = Vec::new();
    let asked: Vec<Policy> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    for policy in Policy::ALL {
        // These send nothing without a plan: see the bench 'assign'.
        let plans = matches!(policy, Policy::RandomWalk(_) | Policy::RandomRoundRobin);
        if plans || !asked.is_empty() && !asked.contains(&policy) {
            continue;
        }
        for count in [1, 100, 10_000] {
            rows.push(row(policy, count, false));
            if count > 1 {
                rows.push(row(policy, count, true));
            }
        }
    }
    common::print("pick", &rows);
}
