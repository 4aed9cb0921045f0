#![doc = include_str!("plan.md")]

mod figures;
mod measure;

use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        parallel,
        series::{self, Series},
    },
};
use measure::{Figures, MEANS, PROMISES};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "prediction",
    summary: "errors of mean predictors and failures of percentiles and of calibrated promises on recorded paths [IQ-Paths Figure 7]",
    plan: include_str!("plan.md"),
    folders: &["paths"],
    run,
    compare: figures::compare,
    plots: figures::plots,
};

/// Sampling intervals in seconds, and samples of the distribution [IQ-Paths §VI-A].
const WINDOWS_S: [f64; 3] = [0.1, 0.5, 1.0];
const HISTORIES: [usize; 2] = [500, 1000];
/// Number of predictions that a figure needs.
const JUDGED_MIN: usize = 200;

/// Runs every recording; see the module.
fn run(options: &Options<'_>) -> Vec<Row> {
    let wants = |trace: &str, method: &str| options.wants(&format!("{trace} {method}"));
    let wants_any = |trace: &str| {
        let promises = PROMISES.iter().flatten();
        MEANS
            .iter()
            .chain(promises)
            .any(|method| wants(trace, method))
    };
    let all = series::all(options, &WINDOWS_S, HISTORIES[0] + JUDGED_MIN, wants_any);
    let measured: Vec<Vec<Figures>> = parallel::map(&all, |series| {
        let mut figures = measure::all(&series.bps, &HISTORIES, JUDGED_MIN);
        figures.retain(|figures| wants(&series.recording.name, figures.method));
        (options.progress)(&format!(
            "{} at {} s: {} samples",
            series.recording.name,
            series.window_s,
            series.bps.len()
        ));
        figures
    });
    let mut rows = Vec::new();
    for (series, figures) in all.iter().zip(&measured) {
        rows.extend(figures.iter().map(|figures| row_of(series, figures)));
    }
    rows.extend(summaries(&all, &measured));
    rows
}

fn begin(row: &mut Row, figures: &Figures) {
    row.insert("method".into(), json!(figures.method));
    row.insert("history_samples".into(), json!(figures.history));
    if let Some(promised) = figures.promised {
        row.insert("promised_fraction".into(), json!(promised));
    }
}

fn row_of(series: &Series<'_>, figures: &Figures) -> Row {
    let mut row = series.header();
    begin(&mut row, figures);
    for (field, value) in &figures.fields {
        series::insert(&mut row, field, *value);
    }
    row
}

/// Medians over the series of each group, for every method and N.
fn summaries(all: &[Series<'_>], measured: &[Vec<Figures>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (header, members) in series::groups(all, &WINDOWS_S) {
        let figures = || members.iter().flat_map(|&index| &measured[index]);
        let mut kinds: Vec<(usize, &str)> = Vec::new();
        for figures in figures() {
            if !kinds.contains(&(figures.history, figures.method)) {
                kinds.push((figures.history, figures.method));
            }
        }
        kinds.sort_by_key(|(history, _)| *history);
        for (history, method) in kinds {
            let same: Vec<&Figures> = figures()
                .filter(|figures| figures.history == history && figures.method == method)
                .collect();
            let Some(first) = same.first() else { continue };
            let mut row = header.clone();
            begin(&mut row, first);
            row.insert("traces".into(), json!(same.len()));
            for (field, _) in &first.fields {
                let values = same.iter().flat_map(|figures| &figures.fields);
                let values = values.filter(|(name, _)| name == field);
                if let Some(median) = series::median(values.map(|(_, value)| *value)) {
                    series::insert(&mut row, field, median);
                }
            }
            rows.push(row);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::kit::{corpus::Corpus, recording::Recording};

    fn rows(corpus: &Corpus, only: Option<&str>) -> Vec<Row> {
        run(&Options {
            seed: Seed(1),
            only,
            corpus,
            progress: &|_| {},
        })
    }

    fn generated(name: &str, samples: usize, mut value: impl FnMut() -> f64) -> Recording {
        let rows: String = (0..samples).map(|t| format!("{t},{}\n", value())).collect();
        Recording {
            name: name.into(),
            network: "generated".into(),
            ..Recording::parse(name, &format!("t_s,bandwidth_bps\n{rows}")).unwrap()
        }
    }

    #[test]
    fn without_memory_the_percentile_is_as_good_as_published() {
        let mut random = Seed(1).stream("noise");
        let corpus = Corpus {
            recordings: vec![
                generated("noise", 2500, || 1e7 * random.normal(0.0, 0.2).exp()),
                generated("short", 600, || 1.0),
            ],
            ..Corpus::default()
        };
        let progress_lines = std::sync::Mutex::new(Vec::new());
        let rows = run(&Options {
            seed: Seed(1),
            only: None,
            corpus: &corpus,
            progress: &|words| progress_lines.lock().unwrap().push(words.to_owned()),
        });
        let progress_lines = progress_lines.into_inner().unwrap();
        assert!(
            progress_lines.iter().any(|words| words.contains("short")),
            "{progress_lines:?}"
        );
        assert!(
            rows.iter()
                .all(|row| row["kind"] != "trace" || row["trace"] == "noise")
        );
        let find = |method: &str| {
            rows.iter()
                .find(|row| row["method"] == method && row["history_samples"] == 500)
                .unwrap()
        };
        let near = |method: &str, field: &str, value: f64, tolerance: f64| {
            let ours = find(method)[field].as_f64().unwrap();
            assert!((ours - value).abs() < tolerance, "{method} {field}: {ours}");
        };
        near("percentile_10", "failure_next_fraction", 0.1, 0.015);
        near("percentile_30", "failure_next_fraction", 0.3, 0.03);
        near("calibrated_90", "failure_next_fraction", 0.1, 0.006);
        // One of ten independent samples: 1 − 0.9¹⁰.
        near("percentile_10", "failure_any_10_fraction", 0.651, 0.05);
        near("percentile_10", "failure_each_10_fraction", 0.1, 0.015);
        // A promise in force is kept as a whole.
        near("held_90", "failure_any_10_fraction", 0.1, 0.03);
        // E|N(0, 0.2)| is 0.16, and the mean of a lognormal is a little above its median.
        near("sma", "error_mean_fraction", 0.165, 0.02);
        assert!(
            find("sma")["error_mean_fraction"].as_f64()
                < find("last")["error_mean_fraction"].as_f64()
        );
    }

    #[test]
    fn a_row_for_every_method_and_the_same_again() {
        let corpus = Corpus::bundled();
        let all = rows(&corpus, None);
        let traces = all.iter().filter(|row| row["kind"] == "trace").count();
        // The bus ride has 1387 samples: enough for both N.
        assert_eq!(traces, (MEANS.len() + 9) * 2);
        assert_eq!(all, rows(&corpus, None));
        let held = rows(&corpus, Some("held_90"));
        assert!(!held.is_empty() && held.iter().all(|row| row["method"] == "held_90"));
        assert!(!figures::compare(&all).is_empty());
        for plot in figures::plots(&all) {
            assert!(plot.to_svg().is_some(), "{}", plot.file);
        }
    }
}
