//! Targets beside ours, and curves.

use super::measure::{HOLDS, OURS, PERCENTILES, TERM};
use crate::{
    Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        series::{is_summed_up, is_total},
    },
};

/// Levels that targets refer to.
const LEVELS: [f64; 3] = [0.9, 0.95, 0.99];

fn number(row: &Row, field: &str) -> Option<f64> {
    row.get(field)?.as_f64()
}

/// A row that sums up all recordings at their own sampling intervals.
fn total<'a>(rows: &'a [Row], method: &str, promised: f64) -> Option<&'a Row> {
    rows.iter().find(|row| {
        is_total(row) && row["method"] == method && row["promised_fraction"] == promised
    })
}

fn target(what: impl Into<String>, theirs: &str, ours: String) -> Published {
    Published::new(what, "target", theirs, ours)
}

pub(super) fn compare(rows: &[Row]) -> Vec<Published> {
    // Each level of `levels` that was run, in words.
    let each = |kind: fn(&[Row], f64) -> Option<&Row>,
                levels: &[f64],
                text: &dyn Fn(&Row) -> Option<String>| {
        let words: Vec<String> = levels
            .iter()
            .filter_map(|&p| Some(format!("{p}: {}", text(kind(rows, p)?)?)))
            .collect();
        words.join("; ")
    };
    let of = |counted: &'static str, among: &'static str| {
        move |row: &Row| {
            Some(format!(
                "{} of {}",
                number(row, counted)?,
                number(row, among)?
            ))
        }
    };
    let figure = |field: &'static str| move |row: &Row| Some(format!("{:.3}", number(row, field)?));
    let mut lines = vec![
        target(
            "kept within 0.5 point of P, recordings of 2,000 samples and more",
            "all",
            each(ours, &LEVELS, &of("long_within_half_point", "long_traces")),
        ),
        target(
            "kept within 0.5 point of P, recordings of 700 samples and more",
            "90 %",
            each(ours, &LEVELS, &of("within_half_point", "traces")),
        ),
        target(
            "worst 500 promises in a row at most 2 points below P",
            "98 %",
            each(ours, &LEVELS, &of("block_met", "traces")),
        ),
        target(
            "next promise broken after a broken one, pooled",
            "at most 0.2 at 0.95",
            each(ours, &LEVELS, &figure("repeat_fraction_pooled")),
        ),
        target(
            "useful rate over the best fixed quantile of a fixed window in hindsight, median",
            "1.5 at 0.9 and 0.95",
            each(ours, &LEVELS, &figure("useful_over_best_fixed")),
        ),
        target(
            "pinball loss over that of the quantile of 500 samples, median",
            "at most 0.72 at 0.95",
            each(ours, &LEVELS, &figure("pinball_over_window500")),
        ),
        target(
            "the same gain on shuffled samples, median",
            "0.95 to 1.02",
            each(shuffled, &LEVELS[..2], &figure("useful_over_best_fixed")),
        ),
    ];
    for (method, hold) in OURS.iter().zip(HOLDS).skip(1) {
        let words = LEVELS.iter().filter_map(|&p| {
            let row = total(rows, method, p)?;
            Some(format!(
                "{p}: {} of {} within 0.5 point, gain {:.2}",
                number(row, "within_half_point")?,
                number(row, "traces")?,
                number(row, "useful_over_best_fixed")?
            ))
        });
        lines.push(target(
            format!("promises that stand for {hold} samples"),
            "none",
            words.collect::<Vec<_>>().join("; "),
        ));
    }
    let words = LEVELS.iter().filter_map(|&p| {
        let row = total(rows, TERM, p)?;
        Some(format!(
            "{p}: {} of {}, renewed {} of {}; gain {:.2}, over promises kept as a whole {:.2}",
            number(row, "within_point")?,
            number(row, "traces")?,
            number(row, "renewed_within_point")?,
            number(row, "renewed")?,
            number(row, "useful_over_best_fixed")?,
            number(row, "useful_over_whole")?
        ))
    });
    lines.push(target(
        "promises for terms of 10 samples, each judged on its own: within 1 point of P",
        "93 %",
        words.collect::<Vec<_>>().join("; "),
    ));
    lines.retain(|line| !line.ours.is_empty());
    lines
}

fn ours(rows: &[Row], promised: f64) -> Option<&Row> {
    total(rows, OURS[0], promised)
}

fn shuffled(rows: &[Row], promised: f64) -> Option<&Row> {
    rows.iter().find(|row| {
        row["kind"] == "shuffled"
            && row["method"] == OURS[0]
            && row["promised_fraction"] == promised
    })
}

/// A field of the totals by the probability promised.
fn by_level(rows: &[Row], method: &str, field: &str, name: &str) -> Curve {
    let mut points: Vec<(f64, f64)> = rows
        .iter()
        .filter(|row| is_total(row) && row["method"] == method)
        .filter_map(|row| Some((number(row, "promised_fraction")?, number(row, field)?)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Curve {
        name: name.into(),
        mark: Mark::Line,
        points,
    }
}

/// Gains of the recordings at one level, from the smallest to the largest.
fn gains(rows: &[Row], promised: f64) -> Curve {
    let mut gains: Vec<f64> = rows
        .iter()
        .filter(|row| {
            is_summed_up(row) && row["method"] == OURS[0] && row["promised_fraction"] == promised
        })
        .filter_map(|row| number(row, "useful_over_best_fixed"))
        .collect();
    gains.sort_by(f64::total_cmp);
    let count = gains.len() as f64;
    let points = gains.iter().enumerate();
    Curve {
        name: format!("P = {promised}"),
        mark: Mark::Line,
        points: points
            .map(|(index, &gain)| ((index + 1) as f64 / count, gain))
            .collect(),
    }
}

pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let promised = || Axis::linear("promised probability");
    let kept = || Axis::linear("kept frequency");
    let as_promised = || Curve {
        name: "as promised".into(),
        mark: Mark::Guide,
        points: vec![(0.5, 0.5), (0.99, 0.99)],
    };
    let level = |name: &str, at: f64| Curve {
        name: name.into(),
        mark: Mark::Guide,
        points: vec![(0.0, at), (1.0, at)],
    };
    let mut of_holds: Vec<Curve> = OURS
        .iter()
        .zip(HOLDS)
        .map(|(method, hold)| by_level(rows, method, "kept_fraction", &format!("H = {hold}")))
        .collect();
    of_holds.push(as_promised());
    vec![
        Plot {
            file: "curve".into(),
            title: "Kept frequency of promises about the next sample".into(),
            x: promised(),
            y: kept(),
            curves: vec![
                by_level(rows, OURS[0], "kept_fraction", "calibrated, median"),
                by_level(
                    rows,
                    OURS[0],
                    "kept_fraction_p5",
                    "calibrated, 5th percentile",
                ),
                by_level(
                    rows,
                    OURS[0],
                    "kept_fraction_p95",
                    "calibrated, 95th percentile",
                ),
                by_level(rows, PERCENTILES[0], "kept_fraction", "500 samples, median"),
                by_level(
                    rows,
                    PERCENTILES[0],
                    "kept_fraction_p5",
                    "500 samples, 5th percentile",
                ),
                as_promised(),
            ],
        },
        Plot {
            file: "held".into(),
            title: "Kept frequency of promises that stand for H samples, medians".into(),
            x: promised(),
            y: kept(),
            curves: of_holds,
        },
        Plot {
            file: "gain".into(),
            title: "Useful rate over the best fixed quantile in hindsight".into(),
            x: Axis::linear("share of recordings below"),
            y: Axis::log("gain"),
            curves: vec![
                gains(rows, LEVELS[0]),
                gains(rows, LEVELS[1]),
                level("no gain", 1.0),
                level("target of the median", 1.5),
            ],
        },
    ]
}
