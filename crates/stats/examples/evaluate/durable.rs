//! Promises made once, after 500 samples, and judged by all that follow.

use anabranch_stats::{
    durable::{DRIFT_MAX, Durable, drift, kept_rate},
    order::Window,
};

use crate::common::Trace;

/// Samples of history.
const HISTORY: usize = 500;
const LEVELS: [f64; 3] = [0.9, 0.95, 0.99];

/// Outcome of the promise on one trace.
struct Outcome {
    durable: Durable,
    /// The share of what followed that reached the promise, and the quantile at half the failure rate alone.
    kept: f64,
    kept_half: f64,
    /// The samples that followed, compared with the history.
    drift: f64,
}

pub(crate) fn print(name: &str, traces: &[Trace], is_long: bool) {
    let long: Vec<&Trace> = traces
        .iter()
        .filter(|trace| trace.samples_bps.len() >= HISTORY + 200)
        .collect();
    println!("{name}: {} of at least 700 samples", long.len());
    for p in LEVELS {
        let outcomes: Vec<(&str, Outcome)> = long
            .iter()
            .filter_map(|trace| Some((trace.name.as_str(), outcome(&trace.samples_bps, p)?)))
            .collect();
        if is_long {
            for (name, outcome) in &outcomes {
                println!(
                    "    {name}: P {p:.2}: kept {:.4}, drift of the history {:.2}, afterwards {:.2}, broken over \
                     allowed {:.2}",
                    outcome.kept,
                    outcome.durable.drift,
                    outcome.drift,
                    outcome.durable.broken_over_allowed
                );
            }
        }
        let count = |among: &dyn Fn(&Outcome) -> bool, kept: fn(&Outcome) -> f64| {
            let all: Vec<&Outcome> = outcomes
                .iter()
                .map(|(_, f)| f)
                .filter(|f| among(f))
                .collect();
            let held = all.iter().filter(|f| kept(f) >= p - 1e-9).count();
            format!("{held} of {}", all.len())
        };
        let says = |among: &dyn Fn(&Outcome) -> bool| {
            let some = count(&|f| f.durable.rate > 0.0 && among(f), |f| f.kept);
            let half = count(&|f| f.durable.rate > 0.0 && among(f), |f| f.kept_half);
            format!("{some} ({half} at half the failure rate alone)")
        };
        println!(
            "P {p:.2}: rate 0 on {}; kept, of rates above 0: all {}; history drifts less than 1/4 {}; history would \
             have kept {}; what follows drifts less than 1/4 {}",
            outcomes
                .iter()
                .filter(|(_, f)| f.durable.rate <= 0.0)
                .count(),
            says(&|_| true),
            says(&|f| f.durable.drift < DRIFT_MAX),
            says(&|f| f.durable.is_steady()),
            says(&|f| f.drift < DRIFT_MAX),
        );
    }
}

fn outcome(samples_bps: &[f64], p: f64) -> Option<Outcome> {
    let (history, since) = samples_bps.split_at(HISTORY);
    let durable = Durable::of(history, p).ok()?;
    let mut window = Window::new(HISTORY);
    for &bps in history {
        window.push(bps).ok()?;
    }
    let half = window.quantile_of_next((1.0 - p) / 2.0)?;
    let mut sorted = since.to_vec();
    let after = kept_rate(&mut sorted, p)?;
    let kept = |rate: f64| {
        let reached = since.iter().filter(|bps| **bps >= rate).count();
        reached as f64 / since.len() as f64
    };
    Some(Outcome {
        kept: kept(durable.rate),
        kept_half: kept(half),
        drift: drift(durable.kept_rate, after),
        durable,
    })
}
