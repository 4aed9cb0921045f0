//! Figure 7 beside ours, and curves.

use super::measure::{MEANS, NEXT};
use crate::{
    Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        series::{self, is_summed_up, is_total},
    },
};

const SOURCE: &str = "IQ-Paths Figure 7";
/// Value of N of the figures that are compared and drawn.
const HISTORY: usize = 500;

fn number(row: &Row, field: &str) -> Option<f64> {
    row.get(field)?.as_f64()
}

fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

/// A field of each recording at its own sampling interval.
fn of_traces(rows: &[Row], method: &str, field: &str) -> Vec<f64> {
    rows.iter()
        .filter(|row| {
            is_summed_up(row) && row["method"] == method && row["history_samples"] == HISTORY
        })
        .filter_map(|row| number(row, field))
        .collect()
}

/// Median of a field over all recordings at their own sampling intervals.
fn total(rows: &[Row], method: &str, field: &str) -> Option<f64> {
    let row = rows.iter().find(|row| {
        is_total(row) && row["method"] == method && row["history_samples"] == HISTORY
    })?;
    number(row, field)
}

pub(super) fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    lines.extend(errors(rows));
    for (methods, theirs) in [
        (["percentile_10", "calibrated_90", "held_90"], "below 4 %"),
        (["percentile_20", "calibrated_80", "held_80"], "below 4 %"),
        (["percentile_30", "calibrated_70", "held_70"], "below 4 %"),
    ] {
        for field in [
            "failure_next_fraction",
            "failure_any_5_fraction",
            "failure_any_10_fraction",
        ] {
            lines.extend(failures(rows, methods, field, theirs));
        }
    }
    lines.extend(losses(rows));
    lines
}

fn errors(rows: &[Row]) -> Option<Published> {
    let median = |method: &str| total(rows, method, "error_above_1_percent_fraction");
    let best = MEANS
        .iter()
        .filter_map(|method| Some((*method, median(method)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let of = |method: &str| median(method).map_or_else(|| "–".to_owned(), percent);
    Some(Published::new(
        "relative error of mean predictors, samples above 1 % of the mean; median over recordings",
        SOURCE,
        "roughly 20 % (MA, SMA, EWMA)",
        format!(
            "best ({}) {}; MA {}, SMA over {HISTORY} {}, SMA over 10 {}, EWMA of weight 1/8 {}, 1/2 {}",
            best.0,
            percent(best.1),
            of("ma"),
            of("sma"),
            of("sma_10"),
            of("ewma_1_8"),
            of("ewma_1_2"),
        ),
    ))
}

/// Number of failures of the published percentile, with ours beside it.
fn failures(
    rows: &[Row],
    [percentile, calibrated, held]: [&str; 3],
    field: &str,
    theirs: &str,
) -> Option<Published> {
    let values = of_traces(rows, percentile, field);
    let median = series::median(values.iter().copied())?;
    let low = values.iter().filter(|value| **value < 0.04).count();
    let mut ours = format!(
        "{percentile} {} (below 4 % on {low} of {})",
        percent(median),
        values.len()
    );
    for method in [calibrated, held] {
        if let Some(value) = series::median(of_traces(rows, method, field)) {
            ours += &format!("; {method} {}", percent(value));
        }
    }
    let what = match field.split('_').nth(2) {
        Some(n) if field.contains("any") => format!("one of the next {n} samples"),
        _ => "the next sample".to_owned(),
    };
    Some(Published::new(
        format!("{percentile} of {HISTORY} samples undercut by {what}, median over recordings"),
        SOURCE,
        theirs,
        ours,
    ))
}

fn losses(rows: &[Row]) -> Option<Published> {
    let of = |method: &str, field: &str| total(rows, method, field);
    Some(Published::new(
        "pinball loss over that of the 10th percentile; median over recordings",
        "IQ-Paths §IV",
        "1",
        format!(
            "next sample {:.3} (calibrated_90), least of the next ten {:.3} (held_90)",
            of("calibrated_90", "pinball_over_percentile")?,
            of("held_90", "pinball_10_over_percentile")?
        ),
    ))
}

/// Distribution: the share of recordings below each value.
fn distribution(name: &str, mut values: Vec<f64>) -> Curve {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let points = values.iter().enumerate();
    Curve {
        name: name.into(),
        mark: Mark::Line,
        points: points
            .map(|(index, &value)| (value, (index + 1) as f64 / count))
            .collect(),
    }
}

pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut errors: Vec<Curve> = ["ma", "sma", "sma_10", "ewma_1_8", "ewma_1_2", "ar_4"]
        .iter()
        .map(|method| {
            let values = of_traces(rows, method, "error_above_1_percent_fraction");
            distribution(method, values)
        })
        .collect();
    errors.push(Curve {
        name: "published, about".into(),
        mark: Mark::Guide,
        points: vec![(0.2, 0.0), (0.2, 1.0)],
    });
    let of_n = |method: &str| -> Curve {
        let points = NEXT.iter().filter_map(|n| {
            let field = format!("failure_any_{n}_fraction");
            Some((*n as f64, total(rows, method, &field)?))
        });
        Curve {
            name: method.into(),
            mark: Mark::Line,
            points: points.collect(),
        }
    };
    let level = |name: &str, at: f64| Curve {
        name: name.into(),
        mark: Mark::Guide,
        points: vec![(NEXT[0] as f64, at), (NEXT[NEXT.len() - 1] as f64, at)],
    };
    vec![
        Plot {
            file: "errors".into(),
            title: "Errors of mean predictors".into(),
            x: Axis::log("mean relative error"),
            y: Axis::linear("share of recordings below"),
            curves: errors,
        },
        Plot {
            file: "failures".into(),
            title: "Promises at 0.9 undercut by one of the next n samples, medians".into(),
            x: Axis::linear("n"),
            y: Axis::linear("share of promises"),
            curves: vec![
                of_n("percentile_10"),
                of_n("calibrated_90"),
                of_n("held_90"),
                level("promised", 0.1),
                level("published, below", 0.04),
            ],
        },
        Plot {
            file: "next".into(),
            title: "Promises at 0.9 undercut by the next sample".into(),
            x: Axis::linear("share of promises"),
            y: Axis::linear("share of recordings below"),
            curves: ["percentile_10", "calibrated_90"]
                .iter()
                .map(|method| {
                    distribution(method, of_traces(rows, method, "failure_next_fraction"))
                })
                .collect(),
        },
    ]
}
