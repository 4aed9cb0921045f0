#![doc = include_str!("plan.md")]

mod figures;
mod measure;
mod summary;

use anabranch_base::{Random, Seed};
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        parallel,
        series::{self, Series, insert},
    },
};
use measure::{Figures, OURS, PERCENTILES, TERM};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "calibration",
    summary: "promised probability against kept frequency on recorded paths, and its cost [IQ-Paths §IV, §VI-A]",
    plan: include_str!("plan.md"),
    folders: &["paths"],
    run,
    compare: figures::compare,
    plots: figures::plots,
};

/// Sampling, in seconds.
const WINDOWS_S: [f64; 2] = [0.1, 1.0];
/// Samples without which a recording is left out.
const SAMPLES_MIN: usize = 700;
/// Samples from which a recording counts as long.
const SAMPLES_LONG: usize = 2000;

/// Measurements of a series.
struct Measured {
    own: Vec<Figures>,
    /// The same samples in a random order; for series that are summed up.
    shuffled: Vec<Figures>,
}

/// Runs every recording; see the module.
fn run(options: &Options<'_>) -> Vec<Row> {
    let wants = |trace: &str, method: &str| options.wants(&format!("{trace} {method}"));
    let wants_any = |trace: &str| {
        let methods = OURS.iter().chain(&PERCENTILES).chain(&[TERM]);
        methods.into_iter().any(|method| wants(trace, method))
    };
    let all = series::all(options, &WINDOWS_S, SAMPLES_MIN, wants_any);
    let measured: Vec<Measured> = parallel::map(&all, |series| {
        let name = &series.recording.name;
        let wanted = |mut figures: Vec<Figures>| {
            figures.retain(|figures| wants(name, figures.method));
            figures
        };
        let own = wanted(measure::all(&series.bps));
        let shuffled = if series.is_summed_up() {
            let bps = shuffled(series, options.seed);
            let mut all = measure::of_next(&bps);
            all.extend(measure::of_terms(&bps));
            wanted(all)
        } else {
            Vec::new()
        };
        (options.progress)(&format!(
            "{name} at {} s: {} samples",
            series.window_s,
            series.bps.len()
        ));
        Measured { own, shuffled }
    });
    let mut rows = Vec::new();
    for (series, measured) in all.iter().zip(&measured) {
        rows.extend(measured.own.iter().map(|figures| row_of(series, figures)));
    }
    for (header, members) in series::groups(&all, &WINDOWS_S) {
        let own = |index: &usize| -> (usize, &[Figures]) {
            (all[*index].bps.len(), &measured[*index].own)
        };
        let own: Vec<_> = members.iter().map(own).collect();
        rows.extend(summary::rows(&header, &own));
        if series::is_total(&header) {
            let shuffled = |index: &usize| -> (usize, &[Figures]) {
                (all[*index].bps.len(), &measured[*index].shuffled)
            };
            let shuffled: Vec<_> = members.iter().map(shuffled).collect();
            let mut header = header;
            header.insert("kind".into(), json!("shuffled"));
            rows.extend(summary::rows(&header, &shuffled));
        }
    }
    rows
}

/// Samples in a random order (Fisher and Yates).
fn shuffled(series: &Series<'_>, seed: Seed) -> Vec<f64> {
    let mut random: Random = seed.stream(&format!("shuffle {}", series.recording.name));
    let mut bps = series.bps.clone();
    for last in (1..bps.len()).rev() {
        bps.swap(last, random.below(last as u64 + 1) as usize);
    }
    bps
}

fn begin(row: &mut Row, figures: &Figures) {
    row.insert("method".into(), json!(figures.method));
    row.insert("hold".into(), json!(figures.hold));
    row.insert("promised_fraction".into(), json!(figures.promised));
}

fn row_of(series: &Series<'_>, figures: &Figures) -> Row {
    let score = &figures.score;
    let mut row = series.header();
    begin(&mut row, figures);
    row.insert("judged".into(), json!(score.count));
    insert(&mut row, "kept_fraction", score.kept());
    insert(
        &mut row,
        "error_points",
        100.0 * (score.kept() - figures.promised),
    );
    insert(&mut row, "worst_block_fraction", score.block_kept_least);
    match &figures.term {
        Some(term) => {
            insert(&mut row, "renewed_kept_fraction", term.renewed[0]);
            row.insert(
                "renewed_within_point".into(),
                json!(term.within_point(figures.promised)),
            );
            insert(&mut row, "useful_over_whole", term.over_whole);
        }
        None => {
            if let Some(repeat) = score.repeat() {
                insert(&mut row, "repeat_fraction", repeat);
            }
        }
    }
    insert(&mut row, "useful_rate_bps", score.useful);
    insert(&mut row, "useful_over_best_fixed", figures.over_fixed);
    insert(&mut row, "useful_over_best_constant", figures.over_constant);
    insert(&mut row, "pinball_over_window500", figures.pinball_ratio);
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::corpus::Corpus;

    fn rows(only: Option<&str>) -> Vec<Row> {
        run(&Options {
            seed: Seed(1),
            only,
            corpus: &Corpus::bundled(),
            progress: &|_| {},
        })
    }

    #[test]
    fn a_row_for_every_method_and_level_and_the_same_again() {
        let all = rows(None);
        let of = |kind: &str| all.iter().filter(|row| row["kind"] == kind).count();
        // Only the bus ride is long enough.
        assert_eq!((of("trace"), of("network"), of("shuffled")), (55, 55, 15));
        assert_eq!(of("all"), 110, "own step, and windows of 1 s");
        assert_eq!(all, rows(None));
        let held = rows(Some("bus held_5"));
        assert_eq!(held.len(), 4 * 5);
        assert!(held.iter().all(|row| row["method"] == "held_5"));
        assert!(!figures::compare(&all).is_empty());
        for plot in figures::plots(&all) {
            assert!(plot.to_svg().is_some(), "{}", plot.file);
        }
    }

    #[test]
    fn a_summary_of_one_recording_is_that_recording() {
        let all = rows(Some("calibrated"));
        let find = |kind: &str| {
            all.iter()
                .find(|row| row["kind"] == kind && row["promised_fraction"] == 0.95)
                .unwrap()
        };
        let (trace, total) = (find("trace"), find("all"));
        for field in ["kept_fraction", "useful_over_best_fixed", "repeat_fraction"] {
            assert_eq!(trace[field], total[field], "{field}");
        }
        assert_eq!(total["traces"], 1);
        assert_eq!(total["within_half_point"], 1);
        assert!(find("shuffled")["useful_over_best_fixed"].as_f64().unwrap() < 1.05);
    }
}
