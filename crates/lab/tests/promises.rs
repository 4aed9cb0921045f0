//! Comparison of the lab's figures of promises with `anabranch_stats`'s own evaluation, where both judge the same.

#[path = "../../stats/tests/integration/common/mod.rs"]
mod common;

use anabranch_base::Seed;
use anabranch_lab::{Experiment, Options, Row, kit::corpus::Corpus};
use anabranch_stats::forecast::Config;

fn run(name: &str, corpus: &Corpus, only: &str) -> Vec<Row> {
    let experiment = Experiment::find(name).expect("an experiment");
    let outcome = experiment.run(&Options {
        seed: Seed(1),
        only: Some(only),
        corpus,
        progress: &|_| {},
    });
    outcome.rows
}

/// The row about a trace at its own step with these values.
fn find<'a>(rows: &'a [Row], values: &[(&str, serde_json::Value)]) -> &'a Row {
    let is_own = |row: &Row| row["kind"] == "trace" && row["is_own_step"] == true;
    rows.iter()
        .find(|row| is_own(row) && values.iter().all(|(field, value)| row[*field] == *value))
        .unwrap_or_else(|| panic!("no row with {values:?}"))
}

#[track_caller]
fn agrees(row: &Row, field: &str, value: f64) {
    let ours = row[field].as_f64().expect("a number");
    assert!(
        (ours - value).abs() <= 1e-5 * value.abs().max(1.0),
        "{field}: {ours}, there {value}"
    );
}

/// A random walk of the logarithm at five samples a second, and the bus ride.
fn series() -> Vec<(&'static str, Corpus, Vec<f64>)> {
    let mut random = Seed(2).stream("walk");
    let mut level = 0.0;
    let walk: Vec<f64> = (0..1500)
        .map(|_| {
            level = 0.97 * level + random.normal(0.0, 0.2);
            (2e7 * f64::exp(level + random.normal(0.0, 0.1))).floor()
        })
        .collect();
    let rows: String = walk
        .iter()
        .enumerate()
        .map(|(index, bps)| format!("{},{bps}\n", index as f64 * 0.2))
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("walk.csv");
    std::fs::write(&file, format!("t_s,bandwidth_bps\n{rows}")).expect("written");
    let bus = common::parse(include_str!("../../../data/hsdpa-bus.csv"));
    vec![
        ("walk", Corpus::read(&[file]).expect("a recording"), walk),
        ("bus", Corpus::bundled(), bus),
    ]
}

#[test]
fn calibration_agrees_with_the_evaluation() {
    for (name, corpus, samples) in series() {
        let rows = run("calibration", &corpus, name);
        for (method, hold) in [("calibrated", 1), ("held_10", 10)] {
            let config = Config {
                hold,
                ..Config::default()
            };
            for figures in common::figures(&samples, &config, common::FROM) {
                let row = find(
                    &rows,
                    &[
                        ("method", method.into()),
                        ("promised_fraction", figures.kept_promised.into()),
                    ],
                );
                let score = &figures.score;
                agrees(row, "judged", score.count as f64);
                agrees(row, "kept_fraction", score.kept());
                agrees(row, "worst_block_fraction", score.block_kept_least);
                agrees(row, "repeat_fraction", score.repeat().unwrap());
                agrees(row, "useful_rate_bps", score.useful);
                agrees(row, "useful_over_best_fixed", figures.gain);
                agrees(row, "pinball_over_window500", figures.pinball_ratio);
            }
        }
    }
}

#[test]
fn terms_agree_with_the_evaluation() {
    for (name, corpus, samples) in series() {
        let rows = run("calibration", &corpus, name);
        let levels = Config::default().levels;
        for figures in common::term_figures(&samples, &levels, 10, common::FROM) {
            let row = find(
                &rows,
                &[
                    ("method", "term_10".into()),
                    ("promised_fraction", figures.kept_promised.into()),
                ],
            );
            let first = &figures.renewed[0];
            agrees(row, "judged", figures.rolling.count as f64);
            agrees(row, "kept_fraction", figures.rolling.kept());
            agrees(row, "renewed_kept_fraction", first.kept());
            agrees(row, "worst_block_fraction", first.block_kept_least);
            agrees(row, "useful_rate_bps", figures.rolling.useful);
            agrees(row, "useful_over_best_fixed", figures.gain);
            agrees(row, "useful_over_whole", figures.over_whole);
            agrees(row, "pinball_over_window500", figures.pinball_ratio);
        }
    }
}

#[test]
fn prediction_agrees_with_the_evaluation() {
    const METHODS: [([&str; 3], [&str; 3], usize); 2] = [
        (
            ["calibrated_70", "calibrated_80", "calibrated_90"],
            ["failure_next_fraction", "useful_rate_bps", "pinball_bps"],
            1,
        ),
        (
            ["held_70", "held_80", "held_90"],
            [
                "failure_any_10_fraction",
                "useful_rate_10_bps",
                "pinball_10_bps",
            ],
            10,
        ),
    ];
    for (name, corpus, samples) in series() {
        let rows = run("prediction", &corpus, name);
        for (methods, [failure, useful, pinball], hold) in METHODS {
            let config = Config {
                levels: vec![0.7, 0.8, 0.9],
                hold,
                ..Config::default()
            };
            let all = common::figures(&samples, &config, 500);
            for (method, figures) in methods.into_iter().zip(all) {
                let values = [("method", method.into()), ("history_samples", 500.into())];
                let row = find(&rows, &values);
                agrees(row, failure, 1.0 - figures.score.kept());
                agrees(row, useful, figures.score.useful);
                agrees(row, pinball, figures.score.pinball);
            }
        }
    }
}
