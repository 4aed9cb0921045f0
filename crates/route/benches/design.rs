//! Cost of planning probes: `cargo bench -p anabranch-route --bench design`.
//!
//! All links among 3, 8, 20 and 50 nodes, of 1 to 1,000 Mbit/s and with noise of 0.2 to 20 ms, five sizes each; the
//! budget is one mean probe per candidate. Prints one JSON object in the lab's format. Times are wall-clock times of one
//! thread: the median, minimum and maximum of several runs.

#[path = "../../sched/benches/common/mod.rs"]
mod common;

use std::{
    hint::black_box,
    time::{Duration, Instant as Clock},
};

use anabranch_base::{Rate, Seed};
use anabranch_route::design::{Belief, Criterion, Noise, Task, interest, plan, sizes};
use serde_json::{Value, json};

const NODES: [u64; 4] = [3, 8, 20, 50];

fn tasks(links: u64) -> Vec<Task> {
    let mut random = Seed(1).stream("links");
    let task = |_| {
        let bps = 1e6 * 10f64.powf(random.uniform(0.0, 3.0));
        let slope = 8.0 / bps;
        Task {
            belief: Belief::guess(0.1, slope),
            noise: Noise {
                fixed_s: 2e-4 * 10f64.powf(random.uniform(0.0, 2.0)),
                per_byte_s: 0.02 * slope,
            },
            sizes: sizes(
                5,
                1_400,
                Rate::from_bps(bps as u64),
                Duration::from_millis(250),
            ),
            overhead_bytes: 100,
            interest: interest(&[100_000, 10_000_000], 0.03, slope),
        }
    };
    (0..links).map(task).collect()
}

#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn row(nodes: u64, criterion: Criterion) -> Value {
    let tasks = tasks(nodes * (nodes - 1));
    let budget = tasks.iter().flat_map(|task| &task.sizes).sum();
    let mut gap = 0.0;
    let [median, least, most] = common::times(100.0, || {
        let start = Clock::now();
        gap = black_box(plan(&tasks, criterion, budget)).gap;
        start.elapsed().as_secs_f64() * 1e3
    });
    json!({
        "bench": "plan",
        "criterion": format!("{criterion:?}"),
        "nodes": nodes,
        "links": tasks.len(),
        "budget_bytes": budget,
        "gap": gap,
        "ms_median": median,
        "ms_min": least,
        "ms_max": most,
        "runs": common::RUNS,
    })
}

fn main() {
    if !common::is_measuring() {
        return;
    }
    let rows: Vec<Value> = NODES
        .iter()
        .flat_map(|&nodes| [Criterion::A, Criterion::D].map(|criterion| row(nodes, criterion)))
        .collect();
    common::print("design", &rows);
}
