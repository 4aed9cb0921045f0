#![doc = include_str!("plan.md")]

mod fluid;
mod measured;
mod overlay;
mod transfer;

use crate::{
    Experiment, Options, Row,
    kit::output::{Axis, Curve, Mark, Plot, Published},
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "quickest",
    summary: "predicted against measured finishing times over quickest paths, and against the earliest possible",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// Permitted relative error of a prediction of the measured time [target].
const TOLERANCE: f64 = 0.1;

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut rows = fluid::rows(options);
    rows.extend(measured::rows(options));
    rows
}

fn number(row: &Row, field: &str) -> Option<f64> {
    row.get(field)?.as_f64()
}

/// Ratios of predicted to measured time, for rows of one kind of message and estimates.
fn ratios(rows: &[Row], message: &str, estimates: &str, bytes: Option<u64>) -> Vec<f64> {
    rows.iter()
        .filter(|row| row["kind"] == "measured")
        .filter(|row| row["message"] == message && row["estimates"] == estimates)
        .filter(|row| bytes.is_none_or(|bytes| row["bytes"] == bytes))
        .map(|row| {
            // A message that did not arrive counts as not predicted.
            let measured = number(row, "measured_s").unwrap_or(f64::INFINITY);
            number(row, "predicted_s").unwrap_or(f64::NAN) / measured
        })
        .collect()
}

fn within(ratios: &[f64]) -> f64 {
    let near = ratios
        .iter()
        .filter(|ratio| (*ratio - 1.0).abs() <= TOLERANCE);
    near.count() as f64 / ratios.len() as f64
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for message in measured::REGIMES {
        for estimates in measured::ESTIMATES {
            let all = ratios(rows, message, estimates, None);
            if all.is_empty() {
                continue;
            }
            let by_size = measured::SIZES.map(|bytes| {
                let share = within(&ratios(rows, message, estimates, Some(bytes)));
                format!("{:.0} % at {} MiB", share * 100.0, bytes >> 20)
            });
            lines.push(Published::new(
                format!(
                    "{message} message of a session, {estimates} estimates: predicted within 10 %"
                ),
                "target",
                if estimates == "transport" {
                    "≥ 90 %"
                } else {
                    "–"
                },
                format!("{:.1} % ({})", within(&all) * 100.0, by_size.join(", ")),
            ));
        }
    }
    for (method, _) in fluid::METHODS {
        let of_method = rows
            .iter()
            .filter(|row| row.get("method").is_some_and(|w| w == method));
        let of_method: Vec<&Row> = of_method.collect();
        let field = |name| of_method.iter().filter_map(move |row| number(row, name));
        if of_method.is_empty() {
            continue;
        }
        let count = of_method.len() as f64;
        lines.push(Published::new(
            format!("{method}: part of the earliest end, median and tenth percentile (means over rows); ≥ 97 % of it in"),
            "target",
            if method == "joint_4" { "≥ 0.97 where two paths do" } else { "–" },
            format!(
                "{:.3}, {:.3}; {:.0} %",
                field("of_optimum_median").sum::<f64>() / count,
                field("of_optimum_p10").sum::<f64>() / count,
                field("near_optimum_fraction").sum::<f64>() / count * 100.0
            ),
        ));
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let prediction = |estimates: &&str| Curve {
        name: format!("first message, {estimates} estimates"),
        mark: Mark::Points,
        points: rows
            .iter()
            .filter(|row| row["kind"] == "measured" && row["message"] == "first")
            .filter(|row| row["estimates"] == **estimates)
            .filter_map(|row| Some((number(row, "measured_s")?, number(row, "predicted_s")?)))
            .collect(),
    };
    let optimum = |method: &str| Curve {
        name: method.to_owned(),
        mark: Mark::Line,
        points: rows
            .iter()
            .filter(|row| row.get("method").is_some_and(|w| w == method))
            .filter(|row| row["bytes"] == 10_000_000)
            .filter_map(|row| Some((number(row, "nodes")?, number(row, "of_optimum_p10")?)))
            .collect(),
    };
    vec![
        Plot {
            file: "predicted".into(),
            title: "Predicted against measured finishing time".into(),
            x: Axis::log("measured, s"),
            y: Axis::log("predicted, s"),
            curves: measured::ESTIMATES.iter().map(prediction).collect(),
        },
        Plot {
            file: "optimum".into(),
            title: "Part of the earliest end that 90 % of overlays reach, 10 MB".into(),
            x: Axis::linear("nodes"),
            y: Axis::linear("part of the optimum"),
            curves: fluid::METHODS
                .iter()
                .map(|(method, _)| optimum(method))
                .collect(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_judged_by_measurements() {
        let row = |predicted: f64, measured: Option<f64>| {
            let mut row = Row::new();
            row.insert("kind".into(), "measured".into());
            row.insert("message".into(), "first".into());
            row.insert("estimates".into(), "transport".into());
            row.insert("bytes".into(), 5.into());
            row.insert("predicted_s".into(), predicted.into());
            row.insert("measured_s".into(), measured.into());
            row
        };
        let rows = [
            row(1.0, Some(1.09)),
            row(1.0, Some(1.2)),
            row(1.0, None),
            row(1.05, Some(1.0)),
        ];
        let found = ratios(&rows, "first", "transport", Some(5));
        assert_eq!((found.len(), within(&found)), (4, 0.5));
    }
}
