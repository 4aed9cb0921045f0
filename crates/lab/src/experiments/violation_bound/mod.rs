#![doc = include_str!("plan.md")]

mod measure;
mod session;

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
        recording::Recording,
        series::{self, insert, median},
    },
};
use measure::{BOUNDS, Figures, PAIR, SINGLE};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "violation-bound",
    summary: "promised bound on late packets against measured, on recorded paths [IQ-Paths Lemma 2]",
    plan: include_str!("plan.md"),
    folders: &["paths"],
    run,
    compare,
    plots,
};

/// Sampling, in seconds.
const WINDOWS_S: [f64; 1] = [1.0];
/// Recordings over which sessions run.
const SESSIONS_MAX: usize = 8;
/// Samples without which a recording is left out.
const SAMPLES_MIN: usize = 300;

fn run(options: &Options<'_>) -> Vec<Row> {
    let wants = |name: &str, method: &str| options.wants(&format!("{name} {method}"));
    let wants_any = |name: &str| SINGLE.iter().any(|method| wants(name, method));
    let all = series::all(options, &WINDOWS_S, SAMPLES_MIN, wants_any);
    let measured: Vec<Vec<Figures>> = parallel::map(&all, |series| {
        let mut figures = measure::single(&series.bps, series.window_s);
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
        rows.extend(
            figures
                .iter()
                .map(|figures| row_of(series.header(), figures)),
        );
    }
    for (header, members) in series::groups(&all, &WINDOWS_S) {
        let figures: Vec<&Figures> = members.iter().flat_map(|&at| &measured[at]).collect();
        rows.extend(sums(&header, &SINGLE, &figures));
    }
    let pairs = pairs(&options.corpus.recordings, |name| {
        PAIR.iter().any(|method| wants(name, method))
    });
    let measured: Vec<Vec<Figures>> = parallel::map(&pairs, |pair| {
        let mut figures = measure::pair(&pair.rows, 1.0);
        figures.retain(|figures| wants(&pair.name, figures.method));
        (options.progress)(&format!("{}: {} samples", pair.name, pair.rows.len()));
        figures
    });
    for (pair, figures) in pairs.iter().zip(&measured) {
        rows.extend(figures.iter().map(|figures| {
            let mut row = Row::new();
            row.insert("kind".into(), json!("pair"));
            row.insert("trace".into(), json!(pair.name));
            row.insert("window_s".into(), json!(1.0));
            row.insert("samples".into(), json!(pair.rows.len()));
            row_of(row, figures)
        }));
    }
    let figures: Vec<&Figures> = measured.iter().flatten().collect();
    let mut header = Row::new();
    header.insert("kind".into(), json!("all_pairs"));
    rows.extend(sums(&header, &PAIR, &figures));
    rows.extend(sessions(options));
    rows
}

/// The engine over single recordings, spread over the corpus.
fn sessions(options: &Options<'_>) -> Vec<Row> {
    let long: Vec<&Recording> = options
        .corpus
        .recordings
        .iter()
        .filter(|recording| recording.bandwidths_bps().len() >= SAMPLES_MIN)
        .collect();
    let step = long.len().div_ceil(SESSIONS_MAX).max(1);
    let mut chosen: Vec<&Recording> = long.into_iter().step_by(step).collect();
    chosen.retain(|recording| options.wants(&format!("session {}", recording.name)));
    let runs = parallel::map(&chosen, |recording| {
        let run = session::run(options.seed.child(&recording.name), recording);
        (options.progress)(&format!("session over {}", recording.name));
        run
    });
    let row = |(recording, run): (&&Recording, &Option<session::OnSession>)| {
        let run = run.as_ref()?;
        let mut row = Row::new();
        row.insert("kind".into(), json!("session"));
        row.insert("trace".into(), json!(recording.name));
        row.insert("method".into(), json!("session"));
        row.insert("judged".into(), json!(run.seconds));
        row.insert("in_force".into(), json!(run.in_force));
        insert(&mut row, "rate_bps", run.rate_bps);
        insert(&mut row, "promised_late_packets", run.promised);
        if let Some(measured) = run.measured {
            insert(&mut row, "measured_late_packets", measured);
            insert(&mut row, "measured_over_promised", measured / run.promised);
        }
        insert(&mut row, "measured_late_packets_all", run.measured_all);
        Some(row)
    };
    chosen.iter().zip(&runs).filter_map(row).collect()
}

fn row_of(mut row: Row, figures: &Figures) -> Row {
    row.insert("method".into(), json!(figures.method));
    row.insert("bound_fraction".into(), json!(figures.bound));
    row.insert("judged".into(), json!(figures.windows));
    insert(&mut row, "promised_late_packets", figures.promised);
    insert(&mut row, "measured_late_packets", figures.measured);
    insert(
        &mut row,
        "measured_over_promised",
        figures.measured / figures.promised,
    );
    insert(&mut row, "rate_bps", figures.rate_bps);
    row
}

/// One row for each method and bound.
fn sums(header: &Row, methods: &[&'static str], figures: &[&Figures]) -> Vec<Row> {
    let mut rows = Vec::new();
    for bound in BOUNDS {
        for &method in methods {
            let ratios: Vec<f64> = figures
                .iter()
                .filter(|figures| figures.method == method && figures.bound == bound)
                .map(|figures| figures.measured / figures.promised)
                .collect();
            let Some(middle) = median(ratios.iter().copied()) else {
                continue;
            };
            let share = |most: f64| {
                let within = ratios.iter().filter(|ratio| **ratio <= most + 1e-9);
                within.count() as f64 / ratios.len() as f64
            };
            let mut row = header.clone();
            row.insert("method".into(), json!(method));
            row.insert("bound_fraction".into(), json!(bound));
            row.insert("traces".into(), json!(ratios.len()));
            insert(&mut row, "measured_over_promised", middle);
            insert(
                &mut row,
                "measured_over_promised_mean",
                ratios.iter().sum::<f64>() / ratios.len() as f64,
            );
            insert(&mut row, "within_fraction", share(1.0));
            insert(&mut row, "within_1_1_fraction", share(1.1));
            rows.push(row);
        }
    }
    rows
}

/// Two recordings made at the same time, row by row.
struct Pair {
    name: String,
    rows: Vec<[f64; 2]>,
}

/// Neighbours of each group with enough seconds in common.
fn pairs(recordings: &[Recording], wants: impl Fn(&str) -> bool) -> Vec<Pair> {
    let mut groups: BTreeMap<&str, Vec<&Recording>> = BTreeMap::new();
    for recording in recordings.iter().filter(|r| !r.group.is_empty()) {
        groups.entry(&recording.group).or_default().push(recording);
    }
    let mut pairs = Vec::new();
    for members in groups.values() {
        for neighbours in members.windows(2) {
            let name = format!("{} + {}", neighbours[0].name, neighbours[1].name);
            let (first, second) = (seconds(neighbours[0]), seconds(neighbours[1]));
            let rows: Vec<[f64; 2]> = first
                .iter()
                .filter_map(|(at, &bps)| Some([bps, *second.get(at)?]))
                .collect();
            if rows.len() >= SAMPLES_MIN && wants(&name) {
                pairs.push(Pair { name, rows });
            }
        }
    }
    pairs
}

/// Bandwidth by second, of recordings with one row a second.
fn seconds(recording: &Recording) -> BTreeMap<i64, f64> {
    let is_by_second = recording
        .step_s()
        .is_some_and(|step| (step - 1.0).abs() < 0.1);
    let values = recording.bandwidth_bps.iter().flatten();
    recording
        .times_s
        .iter()
        .zip(values)
        .filter(|_| is_by_second)
        .filter_map(|(&at, &bps)| Some((at.round() as i64, bps?)))
        .collect()
}

fn summary<'a>(rows: &'a [Row], method: &str, bound: f64) -> Option<&'a Row> {
    rows.iter().find(|row| {
        (series::is_total(row) || row["kind"] == "all_pairs")
            && row["method"] == method
            && row["bound_fraction"] == bound
    })
}

fn compare(rows: &[Row]) -> Vec<Published> {
    SINGLE
        .iter()
        .chain(&PAIR)
        .filter_map(|method| {
            let words: Vec<String> = BOUNDS
                .iter()
                .filter_map(|&bound| {
                    let row = summary(rows, method, bound)?;
                    let middle = row.get("measured_over_promised")?.as_f64()?;
                    let share = row.get("within_1_1_fraction")?.as_f64()?;
                    Some(format!(
                        "z = {bound}: {middle:.2}, {:.0} % within 1.1",
                        share * 100.0
                    ))
                })
                .collect();
            (!words.is_empty()).then(|| {
                Published::new(
                    format!("measured over promised late packets, median, {method}"),
                    "target",
                    "at most 1",
                    words.join("; "),
                )
            })
        })
        .collect()
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let curve = |method: &&'static str| {
        let points = rows.iter().filter(|row| {
            row["kind"] == "trace" && row["method"] == **method && row["bound_fraction"] == 0.05
        });
        Curve {
            name: (*method).to_owned(),
            mark: Mark::Points,
            points: points
                .filter_map(|row| {
                    let promised = row.get("promised_late_packets")?.as_f64()?;
                    let measured = row.get("measured_late_packets")?.as_f64()?;
                    (promised > 0.0 && measured > 0.0).then_some((promised, measured))
                })
                .collect(),
        }
    };
    let mut curves: Vec<Curve> = SINGLE[..2].iter().map(curve).collect();
    curves.push(Curve {
        name: "as promised".into(),
        mark: Mark::Guide,
        points: vec![(0.1, 0.1), (1000.0, 1000.0)],
    });
    vec![Plot {
        file: "late".into(),
        title: "Late packets a window, z = 5 % of what the path carries".into(),
        x: Axis::log("promised"),
        y: Axis::log("measured"),
        curves,
    }]
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::kit::corpus::Corpus;

    #[test]
    fn a_row_for_every_method_and_bound_and_the_same_again() {
        let rows = |only| {
            run(&Options {
                seed: Seed(1),
                only,
                corpus: &Corpus::bundled(),
                progress: &|_| {},
            })
        };
        // Sessions have a test of their own.
        let all = [
            rows(Some("once")),
            rows(Some("split")),
            rows(Some("renewed")),
        ]
        .concat();
        let traces: Vec<&Row> = all.iter().filter(|row| row["kind"] == "trace").collect();
        assert!(!traces.is_empty());
        assert_eq!(traces.len() % (2 * BOUNDS.len()), 0);
        let again = [
            rows(Some("once")),
            rows(Some("split")),
            rows(Some("renewed")),
        ]
        .concat();
        assert_eq!(all, again);
        let once = rows(Some("bus once"));
        assert!(!once.is_empty() && once.iter().all(|row| row["method"] == "once"));
        assert!(!compare(&all).is_empty());
        for plot in plots(&all) {
            assert!(plot.to_svg().is_some(), "{}", plot.file);
        }
    }

    #[test]
    fn neighbours_of_a_group_are_paired_by_the_second() {
        let recording = |name: &str, from: u32, bps: f64| {
            let rows: String = (from..from + 400).map(|t| format!("{t},{bps}\n")).collect();
            let text = format!("t_s,bandwidth_bps\n{rows}");
            Recording {
                group: "g".into(),
                ..Recording::parse(name, &text).unwrap()
            }
        };
        let recordings = [recording("a", 0, 1.0), recording("b", 50, 2.0)];
        let found = pairs(&recordings, |_| true);
        let [pair] = &found[..] else {
            panic!("one pair");
        };
        assert_eq!(pair.rows, vec![[1.0, 2.0]; 350]);
    }
}
