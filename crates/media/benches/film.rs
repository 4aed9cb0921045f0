//! Cost of processing a film: `cargo bench -p anabranch-media`.
//!
//! Reading, storing and loading an index, per thousand samples; planning and merging fragments, in bytes per second. The
//! film is the one of the tests, in memory, so that no disk is measured. Prints one JSON object in the lab's format.
//! Times are CPU times of one thread, the median of several runs with the smallest and the largest; quote ratios, and
//! never across machines.

use std::{
    hint::black_box,
    time::{Duration, Instant as Clock},
};

use anabranch_media::{
    Index, Partition, Policy,
    chunk::chunks,
    write::{Layout, Options, fragment, plan},
};
use bytes::Bytes;
use serde_json::{Value, json};

const FILM: &[u8] = include_bytes!("../tests/data/bikes.mp4");
const RUNS: usize = 5;

/// CPU time of this thread in seconds, where the system reports it (Linux); otherwise elapsed time.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn seconds(start: Clock) -> f64 {
    let worked = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let worked = worked.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    worked.map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// Time of one call in nanoseconds: median, smallest and largest of `RUNS`, each over as many calls as take a while.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn measure(mut call: impl FnMut()) -> [f64; 3] {
    let clock = Clock::now();
    let mut run = |calls: u32| {
        let before = seconds(clock);
        (0..calls).for_each(|_| call());
        seconds(clock) - before
    };
    // The system counts CPU time in ticks of milliseconds: a run takes many of them.
    let mut calls = 1u32;
    while run(calls) < 0.05 && calls < 1 << 28 {
        calls *= 4;
    }
    let times = (0..RUNS).map(|_| run(calls) * 1e9 / f64::from(calls));
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    [times[RUNS / 2], times[0], times[RUNS - 1]]
}

fn time_row(bench: &str, samples: f64, [median, min, max]: [f64; 3]) -> Value {
    let us = |ns: f64| (ns / samples).round();
    json!({
        "bench": bench,
        "us_per_1000_samples_median": us(median),
        "us_per_1000_samples_min": us(min),
        "us_per_1000_samples_max": us(max),
        "runs": RUNS,
    })
}

fn rate_row(bench: &str, bytes: f64, [median, min, max]: [f64; 3]) -> Value {
    let rate = |ns: f64| (bytes / ns * 1e3).round();
    json!({
        "bench": bench,
        "mbyte_per_s_median": rate(median),
        "mbyte_per_s_min": rate(max),
        "mbyte_per_s_max": rate(min),
        "runs": RUNS,
    })
}

fn main() {
    // `cargo test --benches` runs this, too, where measuring would only cost time.
    if cfg!(debug_assertions) || std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let read = || {
        let mut file = FILM;
        Index::read(&mut file, FILM.len() as u64).expect("a film")
    };
    let index = read();
    let stored = index.encode();
    let samples = index.tracks[0].samples.len() as f64;
    let mut rows = vec![
        time_row("read", samples, measure(|| drop(black_box(read())))),
        time_row(
            "encode",
            samples,
            measure(|| drop(black_box(index.encode()))),
        ),
        time_row(
            "decode",
            samples,
            measure(|| drop(black_box(Index::decode(black_box(&stored))))),
        ),
        time_row(
            "partition",
            samples,
            measure(|| drop(black_box(Partition::new(&index, Policy::Intra)))),
        ),
    ];
    let film = Bytes::from_static(FILM);
    let get = |_: usize, at: usize| {
        let sample = &index.tracks[0].samples[at];
        Some(film.slice(sample.offset as usize..sample.end() as usize))
    };
    let chunks = chunks(&index, Duration::from_secs(4));
    for layout in [Layout::Compact, Layout::Stable] {
        let options = Options {
            layout,
            ..Options::default()
        };
        let planned = measure(|| {
            for chunk in &chunks {
                drop(black_box(plan(&index, &[0], chunk, &|_, _| true, options)));
            }
        });
        rows.push(time_row(&format!("plan {layout:?}"), samples, planned));
        let mut bytes = 0;
        let merged = measure(|| {
            bytes = 0;
            for chunk in &chunks {
                bytes += fragment(&index, &[0], chunk, &get, options).bytes.len();
            }
        });
        rows.push(rate_row(&format!("merge {layout:?}"), bytes as f64, merged));
    }
    let outcome = json!({
        "experiment": "media",
        "version": env!("CARGO_PKG_VERSION"),
        "film": { "samples": samples, "stored_index_bytes": stored.len() },
        "rows": rows,
    });
    let text = serde_json::to_string_pretty(&outcome).expect("rows are JSON");
    #[allow(clippy::print_stdout)] // The bench's result.
    {
        println!("{text}");
    }
}
