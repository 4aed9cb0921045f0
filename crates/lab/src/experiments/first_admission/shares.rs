//! Shares of a path's lowest rate that hold in the next ten seconds.

use std::time::Duration;

use anabranch_base::{Random, Seed};
use serde_json::json;

use crate::{
    Row,
    kit::{corpus::Corpus, streams::RecordedPath},
};

/// Times of each recording.
const TIMES: usize = 80;
/// Seconds from the first to the last rate.
const SPANS_S: [usize; 8] = [2, 3, 4, 5, 8, 10, 15, 19];
/// Windows after them.
const AFTER: usize = 10;
/// Part of a second in which a rate is measured.
const PART: Duration = Duration::from_millis(200);
const PARTS: usize = 5;
/// Smallest over largest rate of a steady path.
const STEADY: f64 = 0.95;
/// Recordings are as long as this at least, and slower ones left out.
const LEAST_S: usize = 60;
const LEAST_BPS: f64 = 100e3;

pub(super) fn rows(corpus: &Corpus, seed: Seed) -> Vec<Row> {
    let paths: Vec<RecordedPath> = corpus
        .recordings
        .iter()
        .filter_map(RecordedPath::new)
        .collect();
    let usable = |path: &&RecordedPath| {
        path.duration().as_secs() as usize >= LEAST_S && path.mean_bps() >= LEAST_BPS
    };
    let rates: Vec<Vec<f64>> = paths
        .iter()
        .filter(usable)
        .map(|path| {
            let seconds = (path.duration().as_secs() as usize).min(600);
            path.windows_bps(PART, seconds * PARTS)
        })
        .collect();
    let mut random = seed.stream("shares");
    let mut rows = Vec::new();
    for span in SPANS_S {
        let (mut any, mut steady) = (Vec::new(), Vec::new());
        for rates in &rates {
            for _ in 0..TIMES {
                collect(rates, span, &mut random, (&mut any, &mut steady));
            }
        }
        for (is_steady, mut shares) in [(false, any), (true, steady)] {
            shares.sort_unstable_by(f64::total_cmp);
            rows.extend(row(rates.len(), span, is_steady, &shares));
        }
    }
    rows
}

/// Adds the shares after rates of `span` seconds from a random time on, one each second.
fn collect(
    rates: &[f64],
    span: usize,
    random: &mut Random,
    (any, steady): (&mut Vec<f64>, &mut Vec<f64>),
) {
    let needed = (span + 1 + AFTER) * PARTS;
    let Some(spare) = rates.len().checked_sub(needed) else {
        return;
    };
    let begin = random.below(spare as u64 + 1) as usize;
    let known = || (0..=span).map(|second| rates[begin + second * PARTS]);
    let level = known().fold(f64::INFINITY, f64::min);
    if level < LEAST_BPS / 10.0 {
        return;
    }
    let is_steady = level >= STEADY * known().fold(0.0, f64::max);
    let after = begin + (span + 1) * PARTS;
    for window in rates[after..after + AFTER * PARTS].chunks(PARTS) {
        let share = window.iter().sum::<f64>() / PARTS as f64 / level;
        any.push(share);
        if is_steady {
            steady.push(share);
        }
    }
}

fn row(recordings: usize, span: usize, is_steady: bool, sorted: &[f64]) -> Option<Row> {
    let quantile = |probability: f64| {
        let missed = ((1.0 - probability) * sorted.len() as f64) as usize;
        sorted.get(missed).copied()
    };
    quantile(0.5)?;
    let fields = [
        ("kind", json!("shares")),
        ("recordings", json!(recordings)),
        ("span_s", json!(span)),
        ("steady", json!(is_steady)),
        ("windows", json!(sorted.len())),
        ("p50", json!(quantile(0.5))),
        ("p75", json!(quantile(0.75))),
        ("p90", json!(quantile(0.9))),
        ("p95", json!(quantile(0.95))),
        ("p99", json!(quantile(0.99))),
    ];
    Some(
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
    )
}
