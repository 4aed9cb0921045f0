//! Cost of the mapping of promised streams: `cargo bench -p anabranch-admission --bench mapping`.
//!
//! 100 streams on 8 paths, at admission and at review. Prints one JSON object in the lab's shape. Times are wall-clock times of
//! one thread, the median of several runs with the smallest and the largest; quote ratios, and never across machines.

#[path = "../../sched/benches/common/mod.rs"]
mod common;

use std::{hint::black_box, time::Instant as Clock};

use anabranch_admission::mapping::{Capacity, Request, Term, map};
use anabranch_base::{Rate, StreamId};
use anabranch_spec::{ChannelMask, Guarantee};
use serde_json::{Value, json};

const PATHS: usize = 8;
const MAPPED: u64 = 100;
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

fn main() {
    if !common::is_measuring() {
        return;
    }
    let rows = [
        mapping("admission", 100.0),
        mapping("review", 100.0),
        // So much that some are divided, and so much that it fails in both attempts.
        mapping("admission", 170.0),
        mapping("refusal", 400.0),
    ];
    common::print("mapping", &rows);
}
