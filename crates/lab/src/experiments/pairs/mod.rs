#![doc = include_str!("plan.md")]

mod cases;
mod measure;

use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
    },
};
use cases::Case;
use measure::{Measured, measure};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "pairs",
    summary: "transfers and messages over unequal paths in virtual time, against the best single path and the sum",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

/// One run to make.
struct Job {
    case: Case,
    setup: cases::Setup,
}

/// Runs every case with every set-up that it lists.
pub fn run(options: &Options<'_>) -> Vec<Row> {
    let jobs: Vec<Job> = cases::all()
        .into_iter()
        .filter(|case| options.wants(&case.name))
        .flat_map(|case| {
            let setups = case.setups.clone();
            setups.into_iter().map(move |setup| Job {
                case: case.clone(),
                setup,
            })
        })
        .collect();
    parallel::map(&jobs, |job| {
        let both = measure(options.seed, &job.case, &job.setup, None);
        // The best single path is measured only for the default set-up: it is what a user without bonding would have.
        let single = job.setup.with_single.then(|| {
            (0..job.case.links.len())
                .map(|link| measure(options.seed, &job.case, &job.setup, Some(link)))
                .max_by(|a, b| a.goodput_mbps.total_cmp(&b.goodput_mbps))
        });
        (options.progress)(&format!(
            "{} {} {}: {:.3}",
            job.case.name,
            job.setup.name(),
            job.setup.controller,
            both.goodput_fraction
        ));
        row(job, &both, single.flatten().as_ref())
    })
}

fn row(job: &Job, both: &Measured, single: Option<&Measured>) -> Row {
    let mut row = Row::new();
    row.insert("pair".into(), json!(job.case.name));
    row.insert("policy".into(), json!(job.setup.name()));
    row.insert("controller".into(), json!(job.setup.controller.to_string()));
    row.insert("goodput_fraction".into(), rounded(both.goodput_fraction));
    row.insert("goodput_mbps".into(), rounded(both.goodput_mbps));
    row.insert("sum_mbps".into(), rounded(both.sum_mbps));
    if let Some(single) = single {
        row.insert(
            "best_single_fraction".into(),
            rounded(single.goodput_mbps / both.sum_mbps),
        );
        row.insert(
            "over_best_single".into(),
            rounded(both.goodput_mbps / single.goodput_mbps),
        );
        if let (Some(a), Some(b)) = (&both.small, &single.small) {
            row.insert(
                "small_jitter_over_single".into(),
                rounded(a.jitter_ms / b.jitter_ms.max(1e-3)),
            );
        }
    }
    if let Some(small) = &both.small {
        row.insert("p50_ms".into(), rounded(small.p50_ms));
        row.insert("p95_ms".into(), rounded(small.p95_ms));
        row.insert("p99_ms".into(), rounded(small.p99_ms));
        row.insert("jitter_ms".into(), rounded(small.jitter_ms));
        row.insert("small_missing".into(), json!(small.missing));
    }
    row.insert("longest_gap_ms".into(), rounded(both.gap_ms));
    if let Some(return_ms) = both.full_rate_after_return_ms {
        row.insert("full_rate_after_return_ms".into(), rounded(return_ms));
    }
    row.insert("missing_adus".into(), json!(both.missing));
    row.insert("repeated_adus".into(), json!(both.repeated));
    row.insert("corrupt_adus".into(), json!(both.corrupt));
    row.insert(
        "duplicate_fraction".into(),
        rounded(both.duplicate_fraction),
    );
    row.insert("virtual_s".into(), rounded(both.virtual_s));
    row
}

/// Rounds to four decimals, which is more than the precision of these figures.
fn rounded(value: f64) -> serde_json::Value {
    json!((value * 1e4).round() / 1e4)
}

fn is_default(row: &Row) -> bool {
    row.get("policy").is_some_and(|policy| policy == "default")
        && row
            .get("controller")
            .is_some_and(|controller| controller == "auto")
}

fn number(row: &Row, field: &str) -> Option<f64> {
    row.get(field)?.as_f64()
}

/// A case, a field of its rows, the quantity measured, the published figures.
const FIGURES: [(&str, &str, &str, &str); 8] = [
    (
        "B",
        "goodput_fraction",
        "B: fraction of the sum",
        "MPTCP 0.91–0.93, noq 0.85–0.94, tquic 0.86–0.90",
    ),
    (
        "C",
        "goodput_fraction",
        "C: fraction of the sum",
        "MPTCP 0.08–0.87, noq 0.75–0.79, tquic 0.85",
    ),
    (
        "E",
        "longest_gap_ms",
        "E: longest gap, ms",
        "MPTCP 500–1500, noq 6000–7000, tquic 7000",
    ),
    (
        "F",
        "p50_ms",
        "F: median delay of messages, ms",
        "MPTCP 31–34, noq 11–72; the floor is 10",
    ),
    (
        "F",
        "p99_ms",
        "F: 99th percentile of their delay, ms",
        "MPTCP 71–84, noq 22–200",
    ),
    (
        "F",
        "goodput_fraction",
        "F: fraction of the sum",
        "noq 0.84–0.90",
    ),
    (
        "G",
        "goodput_fraction",
        "G: fraction of the sum",
        "a bonding tunnel 0.84",
    ),
    (
        "three",
        "goodput_fraction",
        "three: fraction of the sum",
        "MPTCP 0.80–0.87, noq 0.84–0.89, tquic 0.73",
    ),
];

fn compare(rows: &[Row]) -> Vec<Published> {
    FIGURES
        .iter()
        .filter_map(|(case, field, what, theirs)| {
            let row = rows
                .iter()
                .find(|row| is_default(row) && row.get("pair").is_some_and(|pair| pair == case))?;
            let ours = number(row, field)?;
            Some(Published::new(
                *what,
                "measured on the same links",
                *theirs,
                match field.ends_with("_ms") {
                    true => format!("{ours:.1}"),
                    false => format!("{ours:.3}"),
                },
            ))
        })
        .collect()
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut points: Vec<(f64, f64)> = rows
        .iter()
        .filter(|row| is_default(row))
        .filter_map(|row| {
            Some((
                number(row, "best_single_fraction")?,
                number(row, "goodput_fraction")?,
            ))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    vec![Plot {
        file: "against-single".into(),
        title: "Default policy against the best single path".into(),
        x: Axis::linear("best single path, fraction of the sum"),
        y: Axis::linear("together, fraction of the sum"),
        curves: vec![
            Curve {
                name: "pairs".into(),
                mark: Mark::Points,
                points,
            },
            Curve {
                name: "no better".into(),
                mark: Mark::Guide,
                points: vec![(0.4, 0.4), (0.95, 0.95)],
            },
        ],
    }]
}
