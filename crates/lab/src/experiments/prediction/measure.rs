//! Errors of the predictions of one series.

use anabranch_stats::{
    forecast::Config,
    mean::{Arma, Ewma, MovingAverage, Percentile, Predictor, SlidingAverage},
    score::{held, pinball},
};

use crate::kit::series::{median, promises, ratio};

/// Samples that a promise is tested against [IQ-Paths §VI-A].
pub(super) const NEXT: [usize; 6] = [5, 6, 7, 8, 9, 10];
/// Probabilities promised: the 30th, 20th and 10th percentile.
pub(super) const LEVELS: [f64; 3] = [0.7, 0.8, 0.9];

/// Predictors of the mean. `sma` is over as many samples as the distribution.
pub(super) const MEANS: [&str; 9] = [
    "last", "ma", "sma", "sma_10", "ewma_1_8", "ewma_1_2", "ar_1", "ar_4", "arma_2_1",
];
/// Kinds of promises, each of the 10th, 20th and 30th percentile.
pub(super) const PROMISES: [[&str; 3]; 3] = [
    ["percentile_30", "percentile_20", "percentile_10"],
    ["calibrated_70", "calibrated_80", "calibrated_90"],
    ["held_70", "held_80", "held_90"],
];

/// The figures of a method on a series.
pub(super) struct Figures {
    pub(super) method: &'static str,
    /// N: number of samples of the distribution, from the last of which on it is judged.
    pub(super) history: usize,
    /// Probability promised; none for a mean.
    pub(super) promised: Option<f64>,
    pub(super) fields: Vec<(String, f64)>,
}

/// Promises of one method at one level, for each sample of a series: of the next one, if the method predicts it, and of the
/// next n, for each n of [`NEXT`].
struct Promised<'a> {
    next: Option<&'a [f64]>,
    over: [&'a [f64]; NEXT.len()],
}

/// All methods on `bps`, judged from sample N on, for each N of `histories` that leaves enough of the series.
pub(super) fn all(bps: &[f64], histories: &[usize], judged_min: usize) -> Vec<Figures> {
    let config = |hold| Config {
        levels: LEVELS.to_vec(),
        hold,
        ..Config::default()
    };
    let calibrated = promises(bps, &config(1));
    let durable = NEXT.map(|hold| promises(bps, &config(hold)));
    let mut all = Vec::new();
    for &history in histories {
        if bps.len() < history + judged_min {
            continue;
        }
        all.extend(MEANS.iter().filter_map(|method| {
            Some(Figures {
                method,
                history,
                promised: None,
                fields: mean_errors(bps, &predictions(bps, mean_of(method, history)?), history)?,
            })
        }));
        for (level, &promised) in LEVELS.iter().enumerate() {
            let percentile = predictions(bps, Box::new(Percentile::new(history, 1.0 - promised)));
            let series = |next: &[f64]| judge(bps, &steady(next), promised, history);
            let reference = series(&percentile);
            let methods = [
                reference.clone(),
                series(&calibrated[level]),
                judge(
                    bps,
                    &Promised {
                        next: None,
                        over: std::array::from_fn(|n| durable[n][level].as_slice()),
                    },
                    promised,
                    history,
                ),
            ];
            for (kind, mut fields) in methods.into_iter().enumerate() {
                against(&mut fields, &reference);
                all.push(Figures {
                    method: PROMISES[kind][level],
                    history,
                    promised: Some(promised),
                    fields,
                });
            }
        }
    }
    all
}

fn mean_of(method: &str, history: usize) -> Option<Box<dyn Predictor>> {
    Some(match method {
        "last" => Box::new(SlidingAverage::new(1)),
        "ma" => Box::new(MovingAverage::default()),
        "sma" => Box::new(SlidingAverage::new(history)),
        "sma_10" => Box::new(SlidingAverage::new(10)),
        "ewma_1_8" => Box::new(Ewma::with_weight(0.125)),
        "ewma_1_2" => Box::new(Ewma::with_weight(0.5)),
        "ar_1" => Box::new(Arma::new(1, 0).ok()?),
        "ar_4" => Box::new(Arma::new(4, 0).ok()?),
        "arma_2_1" => Box::new(Arma::new(2, 1).ok()?),
        _ => return None,
    })
}

/// Prediction of each sample before it came; 0 without one.
fn predictions(bps: &[f64], mut predictor: Box<dyn Predictor>) -> Vec<f64> {
    let predict = |&bps: &f64| {
        let predicted = predictor.predict().unwrap_or(0.0);
        predictor.observe(bps);
        predicted
    };
    bps.iter().map(predict).collect()
}

/// Errors of a mean, from sample `from` on. A relative error needs a sample above 0; `None` if there is none.
fn mean_errors(bps: &[f64], predicted: &[f64], from: usize) -> Option<Vec<(String, f64)>> {
    let pairs = || predicted[from..].iter().zip(&bps[from..]);
    let relative: Vec<f64> = pairs()
        .filter(|(_, actual)| **actual > 0.0)
        .map(|(predicted, actual)| (predicted - actual).abs() / actual)
        .collect();
    let mean = bps.iter().sum::<f64>() / bps.len() as f64;
    let audible: Vec<f64> = pairs()
        .filter(|(_, actual)| **actual > 0.01 * mean)
        .map(|(predicted, actual)| (predicted - actual).abs() / actual)
        .collect();
    let absolute: f64 = pairs().map(|(p, a)| (p - a).abs()).sum();
    let total: f64 = bps[from..].iter().sum();
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Some(vec![
        ("error_mean_fraction".into(), average(&relative)),
        ("error_above_1_percent_fraction".into(), average(&audible)),
        (
            "error_median_fraction".into(),
            median(relative.iter().copied())?,
        ),
        ("error_over_mean_rate_fraction".into(), absolute / total),
    ])
}

/// Promises of the next sample, used as promises of the next n.
fn steady(next: &[f64]) -> Promised<'_> {
    Promised {
        next: Some(next),
        over: [next; NEXT.len()],
    }
}

fn judge(bps: &[f64], promised: &Promised<'_>, p: f64, from: usize) -> Vec<(String, f64)> {
    let mut fields = Vec::new();
    if let Some(next) = promised.next {
        let (failed, useful, loss) = against_outcomes(&next[from..], &bps[from..], p);
        fields.push(("failure_next_fraction".into(), failed));
        fields.push(("useful_rate_bps".into(), useful));
        fields.push(("pinball_bps".into(), loss));
    }
    for (n, promises) in NEXT.into_iter().zip(promised.over) {
        let outcomes = held(bps, n);
        let promises = &promises[from..outcomes.len()];
        let (failed, useful, loss) = against_outcomes(promises, &outcomes[from..], p);
        fields.push((format!("failure_any_{n}_fraction"), failed));
        let below: usize = promises
            .iter()
            .zip(bps[from..].windows(n))
            .map(|(promise, next)| next.iter().filter(|bps| *bps < promise).count())
            .sum();
        fields.push((
            format!("failure_each_{n}_fraction"),
            below as f64 / (promises.len() * n) as f64,
        ));
        if n == NEXT[NEXT.len() - 1] {
            fields.push((format!("useful_rate_{n}_bps"), useful));
            fields.push((format!("pinball_{n}_bps"), loss));
        }
    }
    fields
}

/// Share of promises that were broken, the mean of those kept, and the mean pinball loss.
fn against_outcomes(promises: &[f64], outcomes: &[f64], p: f64) -> (f64, f64, f64) {
    let (mut broken, mut useful, mut loss) = (0_usize, 0.0, 0.0);
    for (&promise, &outcome) in promises.iter().zip(outcomes) {
        loss += pinball(promise, outcome, 1.0 - p);
        if outcome < promise {
            broken += 1;
        } else {
            useful += promise;
        }
    }
    let count = promises.len() as f64;
    let kept = promises.len() - broken;
    let useful = if kept > 0 { useful / kept as f64 } else { 0.0 };
    (broken as f64 / count, useful, loss / count)
}

/// Adds the pinball losses relative to those of the percentile.
fn against(fields: &mut Vec<(String, f64)>, reference: &[(String, f64)]) {
    for (loss, name) in [
        ("pinball_bps", "pinball_over_percentile"),
        ("pinball_10_bps", "pinball_10_over_percentile"),
    ] {
        let of = |fields: &[(String, f64)]| {
            let field = fields.iter().find(|(field, _)| field == loss);
            field.map(|(_, value)| *value)
        };
        if let (Some(ours), Some(theirs)) = (of(fields), of(reference)) {
            fields.push((name.into(), ratio(ours, theirs)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(fields: &[(String, f64)], name: &str) -> f64 {
        fields.iter().find(|(field, _)| field == name).unwrap().1
    }

    #[test]
    fn failures_are_counted_as_published() {
        // A promise of 3 of 1, 2, … 6, 1, 2, …: samples 1 and 2 of every six are below.
        let bps: Vec<f64> = (0..66).map(|t| f64::from(t % 6 + 1)).collect();
        let fields = judge(&bps, &steady(&[3.0; 66]), 0.9, 6);
        let near = |name: &str, value: f64| {
            let ours = field(&fields, name);
            assert!((ours - value).abs() < 1e-9, "{name}: {ours}, not {value}");
        };
        near("failure_next_fraction", 1.0 / 3.0);
        // Of the five from sample 6 on, all have a 1 or a 2 in them.
        near("failure_any_5_fraction", 1.0);
        near("failure_each_6_fraction", 1.0 / 3.0);
        near("useful_rate_bps", 3.0);
        // 0.9 · (2 + 1), and 0.1 · (0 + 1 + 2 + 3), over six.
        near("pinball_bps", 0.55);
    }

    #[test]
    fn errors_are_relative_to_the_outcome() {
        let fields = mean_errors(&[4.0, 2.0, 0.0], &[9.0, 3.0, 1.0], 1).unwrap();
        assert_eq!(field(&fields, "error_mean_fraction"), 0.5);
        assert_eq!(field(&fields, "error_over_mean_rate_fraction"), 1.0);
        assert!(mean_errors(&[1.0, 0.0], &[1.0, 0.0], 1).is_none());
    }

    #[test]
    fn all_names_are_known() {
        for method in MEANS {
            assert!(mean_of(method, 500).is_some(), "{method}");
        }
    }
}
