#![doc = include_str!("plan.md")]

pub(crate) mod links;
mod live;

use std::time::Duration;

use anabranch_base::{Random, Seed};
use anabranch_stats::regression::{DelaySource, Line, LinkEstimate, LinkEstimator, bound};
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
    },
};
use links::{Case, PACKET_BYTES, Probed};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "regression",
    summary: "effective bandwidth and minimum delay from sized messages, against the truth and the bound [Daemons Figure 2]",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

const PROBES: [usize; 6] = [10, 20, 50, 100, 200, 500];
const TRIALS: u64 = 60;
/// Messages of one size in a probe, as published.
const REPEATS: u32 = 3;
/// Messages from which the true parameters of a link with other traffic are taken.
const TRUTH_MESSAGES: usize = 6_000;
/// Mean pause between messages.
const PAUSE: Duration = Duration::from_millis(100);
const METHODS: [&str; 2] = ["least_squares", "theil_sen"];

/// Delay model of a link, once enough is known.
#[derive(Clone, Copy, Debug)]
struct Truth {
    bandwidth_bps: f64,
    delay_min_s: f64,
}

impl Truth {
    fn of(case: &Case, seed: Seed) -> Option<Self> {
        if case.is_quiet() {
            return Some(Self {
                bandwidth_bps: case.rate.as_bps() as f64,
                delay_min_s: case.delay.as_secs_f64(),
            });
        }
        let mut fit =
            anabranch_stats::regression::LineFit::new(TRUTH_MESSAGES as f64 * 100.0).ok()?;
        probe(
            &case.lossless(),
            seed.child("truth"),
            TRUTH_MESSAGES / REPEATS as usize,
            |bytes, delay| {
                let _ = fit.observe(bytes as f64, delay.as_secs_f64());
            },
        )?;
        let line = fit.line().ok()?;
        Some(Self {
            bandwidth_bps: 8.0 / line.slope,
            delay_min_s: line.intercept,
        })
    }
}

/// One fit of one trial.
#[derive(Clone, Copy, Debug)]
struct Fit {
    probes: usize,
    method: usize,
    bandwidth_error: f64,
    delay_error_ms: f64,
    excess: f64,
    is_fallback: bool,
}

/// Sends `probes` means of [`REPEATS`] messages of one size each, with every size equally often.
fn probe(
    case: &Case,
    seed: Seed,
    probes: usize,
    mut observe: impl FnMut(u64, Duration),
) -> Option<()> {
    let mut random = seed.stream("sizes");
    let mut link = Probed::new(case, seed).ok()?;
    let mut sizes = case.sizes();
    for index in 0..probes {
        if index % sizes.len() == 0 {
            shuffle(&mut sizes, &mut random);
        }
        let bytes = sizes[index % sizes.len()];
        let mut total = Duration::ZERO;
        for _ in 0..REPEATS {
            link.now += PAUSE.mul_f64(random.exponential(1.0));
            total += link.message(bytes);
        }
        observe(bytes, total / REPEATS);
    }
    Some(())
}

fn shuffle(sizes: &mut [u64], random: &mut Random) {
    for index in (1..sizes.len()).rev() {
        sizes.swap(index, random.below(index as u64 + 1) as usize);
    }
}

fn estimates(estimator: &mut LinkEstimator) -> [Option<LinkEstimate>; 2] {
    [estimator.least_squares().ok(), estimator.robust().ok()]
}

fn fit(case: &Case, truth: Truth, probes: usize, method: usize, estimate: &LinkEstimate) -> Fit {
    Fit {
        probes,
        method,
        bandwidth_error: (estimate.bandwidth.as_bps() as f64 / truth.bandwidth_bps - 1.0).abs(),
        delay_error_ms: (estimate.delay_min.as_secs_f64() - truth.delay_min_s).abs() * 1e3,
        excess: excess(case, truth, estimate.line),
        is_fallback: estimate.delay_source == DelaySource::SmallMessage,
    }
}

/// Mean squared distance of the two lines over the sizes, with delays scaled by the largest.
fn excess(case: &Case, truth: Truth, line: Line) -> f64 {
    let sizes = case.sizes();
    let true_delay = |bytes: f64| truth.delay_min_s + bytes * 8.0 / truth.bandwidth_bps;
    let scale = true_delay(sizes[sizes.len() - 1] as f64);
    let squares = sizes.iter().map(|&bytes| {
        let bytes = bytes as f64;
        ((line.at(bytes) - true_delay(bytes)) / scale).powi(2)
    });
    squares.sum::<f64>() / sizes.len() as f64
}

fn trial(case: &Case, truth: Truth, seed: Seed) -> Option<Vec<Fit>> {
    let most = *PROBES.last()?;
    let mut fits = Vec::new();
    let mut estimator = LinkEstimator::new(most).ok()?;
    // One small message, for the fallback.
    estimator.observe_small(
        Probed::new(case, seed.child("small"))
            .ok()?
            .message(PACKET_BYTES),
    );
    let mut count = 0;
    probe(case, seed, most, |bytes, delay| {
        let _ = estimator.observe(bytes, delay);
        count += 1;
        if PROBES.contains(&count) {
            for (method, estimate) in estimates(&mut estimator).iter().enumerate() {
                fits.extend(
                    estimate
                        .iter()
                        .map(|estimate| fit(case, truth, count, method, estimate)),
                );
            }
        }
    })?;
    Some(fits)
}

/// Every link; see the module.
fn run(options: &Options<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in links::all().iter().filter(|case| options.wants(case.name)) {
        let seed = options.seed.child(case.name);
        let Some(truth) = Truth::of(case, seed) else {
            continue;
        };
        let trials: Vec<u64> = (0..TRIALS).collect();
        let fits = parallel::map(&trials, |&number| {
            trial(case, truth, Seed(seed.0 ^ number << 32))
        });
        let fits: Vec<Fit> = fits.into_iter().flatten().flatten().collect();
        rows.extend(rows_of(case.name, truth, TRIALS, false, &fits));
        (options.progress)(&format!("{}: {} trials", case.name, TRIALS));
    }
    if options.wants(live::NAME) {
        match live::run(options.seed) {
            Ok((truth, fits)) => {
                rows.extend(rows_of(live::NAME, truth, live::TRIALS, true, &fits));
                (options.progress)(&format!(
                    "{}: {} trials on sockets",
                    live::NAME,
                    live::TRIALS
                ));
            }
            Err(error) => (options.progress)(&format!("{}: left out: {error}", live::NAME)),
        }
    }
    rows
}

fn rows_of(link: &str, truth: Truth, trials: u64, is_live: bool, fits: &[Fit]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (method, name) in METHODS.iter().enumerate() {
        for probes in PROBES {
            let of_these: Vec<&Fit> = fits
                .iter()
                .filter(|fit| fit.probes == probes && fit.method == method)
                .collect();
            if of_these.is_empty() {
                continue;
            }
            let quantile = |value: fn(&Fit) -> f64, p: f64| {
                let mut values: Vec<f64> = of_these.iter().map(|fit| value(fit)).collect();
                values.sort_by(f64::total_cmp);
                values[((values.len() - 1) as f64 * p).round() as usize]
            };
            let fallbacks = of_these.iter().filter(|fit| fit.is_fallback).count();
            let mut row = Row::new();
            row.insert("link".into(), json!(link));
            row.insert("method".into(), json!(name));
            row.insert("probes".into(), json!(probes));
            row.insert("trials".into(), json!(trials));
            row.insert("is_live".into(), json!(is_live));
            row.insert("bandwidth_mbps".into(), rounded(truth.bandwidth_bps / 1e6));
            row.insert("delay_min_ms".into(), rounded(truth.delay_min_s * 1e3));
            for (suffix, p) in [("median", 0.5), ("p90", 0.9)] {
                row.insert(
                    format!("bandwidth_error_{suffix}"),
                    rounded(quantile(|fit| fit.bandwidth_error, p)),
                );
                row.insert(
                    format!("delay_error_{suffix}_ms"),
                    rounded(quantile(|fit| fit.delay_error_ms, p)),
                );
            }
            row.insert("excess_p90".into(), json!(quantile(|fit| fit.excess, 0.9)));
            if let Some(epsilon) = bound_epsilon(probes as u64, 0.9) {
                row.insert("bound_epsilon".into(), rounded(epsilon));
            }
            row.insert(
                "fallback_fraction".into(),
                rounded(fallbacks as f64 / of_these.len() as f64),
            );
            row.insert("no_fit".into(), json!(trials as usize - of_these.len()));
            rows.push(row);
        }
    }
    rows
}

/// Smallest ε that the bound guarantees with this confidence; `None` if it guarantees nothing.
fn bound_epsilon(probes: u64, confidence: f64) -> Option<f64> {
    let holds = |epsilon: f64| bound::probability(epsilon, probes).is_ok_and(|p| p >= confidence);
    let (mut low, mut high) = (0.0, 1.0 - 1e-9);
    if !holds(high) {
        return None;
    }
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

fn rounded(value: f64) -> serde_json::Value {
    json!((value * 1e5).round() / 1e5)
}

fn find<'a>(rows: &'a [Row], link: &str, method: &str, probes: usize) -> Option<&'a Row> {
    rows.iter()
        .find(|row| row["link"] == link && row["method"] == method && row["probes"] == probes)
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let Some(row) = find(rows, "figure2", METHODS[0], 50) else {
        return Vec::new();
    };
    let source = "Daemons Figure 2";
    let value = |field: &str| row[field].as_f64().unwrap_or(f64::NAN);
    vec![
        Published::new(
            "effective bandwidth, Mbit/s; median error after 50 sizes",
            source,
            "about 1.0",
            format!(
                "{:.3} ± {:.2} %",
                value("bandwidth_mbps"),
                value("bandwidth_error_median") * 100.0
            ),
        ),
        Published::new(
            "least delay, ms; median error after 50 sizes",
            source,
            "about 35",
            format!(
                "{:.1} ± {:.1}",
                value("delay_min_ms"),
                value("delay_error_median_ms")
            ),
        ),
    ]
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut links: Vec<&str> = rows.iter().filter_map(|row| row["link"].as_str()).collect();
    links.dedup();
    let curve = |link: &str, method: &str, field: &str| Curve {
        name: format!("{link}, {method}"),
        mark: Mark::Line,
        points: rows
            .iter()
            .filter(|row| row["link"] == link && row["method"] == method)
            .filter_map(|row| Some((row["probes"].as_f64()?, row[field].as_f64()?)))
            .collect(),
    };
    let noisy = ["figure2", "busy", "lossy"];
    let curves = |field: &str| {
        noisy
            .iter()
            .filter(|link| links.contains(*link))
            .flat_map(|link| METHODS.map(|method| curve(link, method, field)))
            .collect()
    };
    vec![
        Plot {
            file: "bandwidth".into(),
            title: "Error of the effective bandwidth that 90 % of trials stay below".into(),
            x: Axis::log("probes"),
            y: Axis::log("relative error"),
            curves: curves("bandwidth_error_p90"),
        },
        Plot {
            file: "delay".into(),
            title: "Error of the least delay that 90 % of trials stay below".into(),
            x: Axis::log("probes"),
            y: Axis::log("ms"),
            curves: curves("delay_error_p90_ms"),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_link_is_known_after_ten_probes() {
        let case = &links::all()[0];
        let truth = Truth::of(case, Seed(1)).unwrap();
        let fits = trial(case, truth, Seed(2)).unwrap();
        assert_eq!(fits.len(), PROBES.len() * METHODS.len());
        for fit in fits {
            assert!(
                fit.bandwidth_error < 1e-6 && fit.delay_error_ms < 1e-3,
                "{fit:?}"
            );
        }
    }

    #[test]
    fn outliers_disturb_least_squares_more() {
        let case = links::all()
            .into_iter()
            .find(|case| case.name == "lossy")
            .unwrap();
        let truth = Truth::of(&case, Seed(1)).unwrap();
        let (mut squares, mut medians) = (0.0, 0.0);
        for seed in 0..10 {
            for fit in trial(&case, truth, Seed(seed)).unwrap() {
                if fit.probes == 100 {
                    *[&mut squares, &mut medians][fit.method] += fit.bandwidth_error;
                }
            }
        }
        assert!(medians < squares, "{medians} {squares}");
    }

    #[test]
    fn the_bound_needs_very_many_probes() {
        assert_eq!(bound_epsilon(500, 0.9), None);
        let epsilon = bound_epsilon(1_000_000, 0.9).unwrap();
        assert!((0.05..0.2).contains(&epsilon), "{epsilon}");
    }
}
