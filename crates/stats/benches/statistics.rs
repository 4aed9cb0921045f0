//! Cost of the estimators: `cargo bench -p anabranch-stats`.
//!
//! Prints one JSON object in the lab's shape. Times are wall-clock times of one thread, the median of
//! several runs with the smallest and the largest; quote ratios, and never across machines.
#![allow(clippy::disallowed_methods)] // A bench reads the clock.

use std::{hint::black_box, time::Instant as Clock};

use anabranch_base::{Rate, Seed};
use anabranch_stats::{
    bandwidth::{Sample, Survival},
    forecast::{Config, Forecaster, Judged},
    order::Window,
};
use serde_json::{Value, json};

const RUNS: usize = 7;

/// The times of one operation of `RUNS` runs of `count` operations each.
fn measure(name: &str, unit: &str, per_second: f64, count: usize, mut run: impl FnMut()) -> Value {
    run(); // fills windows and caches
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Clock::now();
            run();
            start.elapsed().as_secs_f64() * per_second / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let rounded = |time: f64| (time * 1000.0).round() / 1000.0;
    json!({
        "bench": name,
        format!("{unit}_median"): rounded(times[RUNS / 2]),
        format!("{unit}_min"): rounded(times[0]),
        format!("{unit}_max"): rounded(times[RUNS - 1]),
        "runs": RUNS,
    })
}

/// A path that wanders, with outages, in bits per second.
fn series(count: usize) -> Vec<f64> {
    let mut random = Seed(1).stream("bench");
    let mut log = 0.0;
    (0..count)
        .map(|_| {
            log = 0.95 * log + random.normal(0.0, 0.3);
            if random.chance(0.01) {
                0.0
            } else {
                1e7 * f64::exp(log)
            }
        })
        .collect()
}

fn window(values: &[f64], capacity: usize) -> Value {
    let mut window = Window::new(capacity);
    let name = format!("insert_and_quantile_n{capacity}");
    measure(&name, "ns", 1e9, values.len(), || {
        for &value in values {
            let _ = window.push(value);
            black_box(window.quantile(0.05));
        }
    })
}

fn partial_mean(values: &[f64], capacity: usize) -> Value {
    let mut window = Window::new(capacity);
    for &value in values {
        let _ = window.push(value);
    }
    let name = format!("partial_mean_n{capacity}");
    measure(&name, "ns", 1e9, values.len(), || {
        for &value in values {
            black_box(window.partial_mean(value));
        }
    })
}

/// The whole update of a channel for one window of time: five levels, promises read back.
fn update(values: &[f64], hold: usize, judged: Judged) -> Value {
    let config = Config {
        hold,
        judged,
        ..Config::default()
    };
    let mut forecaster = Forecaster::new(&config).expect("a valid configuration");
    let name = match judged {
        Judged::Whole => format!("forecaster_update_5_levels_hold{hold}"),
        Judged::Each => format!("forecaster_update_5_levels_terms_of_{hold}"),
    };
    measure(&name, "us", 1e6, values.len(), || {
        for &value in values {
            forecaster.observe(Sample::exact(Rate::from_bps(value as u64)));
            black_box(forecaster.promise(0.95));
        }
    })
}

fn survival(values: &[f64], capacity: usize) -> Value {
    let mut survival = Survival::new(capacity);
    let name = format!("kaplan_meier_n{capacity}");
    measure(&name, "us", 1e6, values.len(), || {
        for &value in values {
            survival.push(Sample::exact(Rate::from_bps(value as u64)));
            survival.refresh();
            black_box(survival.quantile(0.05));
        }
    })
}

fn main() {
    // `cargo test --benches` runs this, too; measuring there would only cost time.
    if std::env::args().any(|argument| argument == "--test") || cfg!(debug_assertions) {
        return;
    }
    let values = series(20_000);
    let rows = vec![
        window(&values, 500),
        window(&values, 1000),
        partial_mean(&values, 1000),
        update(&values, 1, Judged::Whole),
        update(&values, 30, Judged::Whole),
        update(&values, 10, Judged::Each),
        update(&values, 60, Judged::Each),
        survival(&values[..2000], 500),
    ];
    let outcome = json!({
        "experiment": "statistics",
        "version": env!("CARGO_PKG_VERSION"),
        "seed": 1,
        "rows": rows,
    });
    let text = serde_json::to_string_pretty(&outcome).expect("rows are JSON");
    #[allow(clippy::print_stdout)] // The bench's result.
    {
        println!("{text}");
    }
}
