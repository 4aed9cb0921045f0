#![doc = include_str!("plan.md")]

mod horde;
mod measure;

use std::collections::BTreeMap;

use anabranch_sim::topology::HORDE_CHANNELS;
use serde_json::json;

use crate::{
    Experiment, Options, Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        parallel,
        recording::Recording,
    },
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "channels",
    summary: "statistics of recorded and simulated channels: throughput, round trips, loss bursts, correlation [Horde Appendix A]",
    plan: include_str!("plan.md"),
    folders: &["paths", "rtt"],
    run,
    compare,
    plots,
};

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let simulated: Vec<_> = HORDE_CHANNELS
        .iter()
        .filter(|channel| options.wants(&format!("horde/{}", channel.name)))
        .collect();
    rows.extend(
        parallel::map(&simulated, |channel| {
            let probes = horde::probe(channel, options.seed.child(channel.name))?;
            let mut row = begin(&format!("horde/{}", channel.name), "simulated");
            measure::bandwidth(&mut row, &probes.bandwidth_bps);
            measure::round_trips(&mut row, &probes.rtt_ms);
            measure::losses(&mut row, &probes.lost);
            Some(row)
        })
        .into_iter()
        .flatten(),
    );
    let recordings: Vec<&Recording> = options
        .corpus
        .recordings
        .iter()
        .filter(|recording| options.wants(&recording.name))
        .collect();
    rows.extend(
        parallel::map(&recordings, |recording| of_recording(recording))
            .into_iter()
            .flatten(),
    );
    (options.progress)(&format!("{} channels", rows.len()));
    rows.extend(pairs(&recordings));
    rows
}

fn begin(name: &str, network: &str) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!("channel"));
    row.insert("channel".into(), json!(name));
    row.insert("network".into(), json!(network));
    row
}

/// `None` if it is too short for a result.
fn of_recording(recording: &Recording) -> Option<Row> {
    let mut row = begin(&recording.name, &recording.network);
    let fields = row.len();
    if let Some(step) = recording.step_s() {
        row.insert("step_s".into(), json!((step * 1e3).round() / 1e3));
    }
    let header = row.len().max(fields);
    measure::bandwidth(&mut row, &recording.bandwidths_bps());
    let measured = |column: &Option<Vec<Option<f64>>>| -> Vec<f64> {
        column.iter().flatten().flatten().copied().collect()
    };
    measure::round_trips(&mut row, &measured(&recording.rtt_ms));
    let loss = measured(&recording.loss);
    if loss.iter().all(|&loss| loss == 0.0 || loss == 1.0) {
        let lost: Vec<bool> = loss.iter().map(|&loss| loss == 1.0).collect();
        measure::losses(&mut row, &lost);
    } else if loss.len() >= measure::SAMPLES_MIN {
        // Fractions of many packets each; single packets were not recorded.
        let mean = loss.iter().sum::<f64>() / loss.len() as f64;
        row.insert("loss_fraction".into(), json!((mean * 1e4).round() / 1e4));
    }
    (row.len() > header).then_some(row)
}

/// Pairs of recordings made at the same time.
fn pairs(recordings: &[&Recording]) -> Vec<Row> {
    let mut groups: BTreeMap<&str, Vec<&Recording>> = BTreeMap::new();
    for recording in recordings {
        if !recording.group.is_empty() {
            groups.entry(&recording.group).or_default().push(recording);
        }
    }
    let mut rows = Vec::new();
    for (group, members) in groups {
        for (index, first) in members.iter().enumerate() {
            for second in &members[index + 1..] {
                let (what, xs, ys) = simultaneous(first, second);
                let mut row = Row::new();
                row.insert("kind".into(), json!("pair"));
                row.insert("channel".into(), json!(first.name));
                row.insert("other".into(), json!(second.name));
                row.insert("group".into(), json!(group));
                row.insert("of".into(), json!(what));
                let header = row.len();
                measure::correlation(&mut row, &xs, &ys);
                if row.len() > header {
                    rows.push(row);
                }
            }
        }
    }
    rows
}

/// Samples of two recordings at the same time: of bandwidth where both have it, else of round trips.
fn simultaneous(first: &Recording, second: &Recording) -> (&'static str, Vec<f64>, Vec<f64>) {
    let has_bandwidth = first.bandwidth_bps.is_some() && second.bandwidth_bps.is_some();
    let step = first
        .step_s()
        .into_iter()
        .chain(second.step_s())
        .fold(0.001, f64::max);
    let by_time = |recording: &Recording| -> BTreeMap<i64, f64> {
        let column = if has_bandwidth {
            &recording.bandwidth_bps
        } else {
            &recording.rtt_ms
        };
        let values = column.iter().flatten();
        let timed = recording.times_s.iter().zip(values);
        timed
            .filter_map(|(&time, value)| Some(((time / step).round() as i64, (*value)?)))
            .collect()
    };
    let (first, second) = (by_time(first), by_time(second));
    let both = first
        .iter()
        .filter_map(|(time, x)| Some((*x, *second.get(time)?)));
    let (xs, ys) = both.unzip();
    (if has_bandwidth { "bandwidth" } else { "rtt" }, xs, ys)
}

fn channel<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter()
        .find(|row| row["kind"] == "channel" && row["channel"] == name)
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let source = "Horde Figures 7-5, 7-6";
    let mut lines = Vec::new();
    for published in &HORDE_CHANNELS {
        let Some(row) = channel(rows, &format!("horde/{}", published.name)) else {
            continue;
        };
        let field = |name: &str| {
            row.get(name)
                .and_then(serde_json::Value::as_f64)
                .unwrap_or(f64::NAN)
        };
        lines.push(Published::new(
            format!("{}: rate kbit/s; round trip ms; loss", published.name),
            source,
            format!(
                "{}; {} ± {}; {}",
                published.rate.as_bps() / 1000,
                published.rtt_mean.as_millis(),
                published.rtt_deviation.as_millis(),
                published.loss
            ),
            format!(
                "{:.1}; {:.0} ± {:.0}; {:.4}",
                field("bandwidth_mean_bps") / 1e3,
                field("rtt_mean_ms"),
                field("rtt_deviation_ms"),
                field("loss_fraction")
            ),
        ));
    }
    let correlations: Vec<f64> = rows
        .iter()
        .filter(|row| row["kind"] == "pair" && row["of"] == "bandwidth")
        .filter_map(|row| row["correlation"].as_f64())
        .collect();
    if !correlations.is_empty() {
        let weak = correlations.iter().filter(|r| r.abs() < 0.3).count();
        lines.push(Published::new(
            "correlation of the throughput of channels used together",
            "Horde §A.5",
            "no strong correlations",
            format!("below 0.3 in {weak} of {} pairs", correlations.len()),
        ));
    }
    lines
}

fn plots(rows: &[Row]) -> Vec<Plot> {
    let channels = || rows.iter().filter(|row| row["kind"] == "channel");
    let points = |x: &str, y: &str| -> Vec<(f64, f64)> {
        channels()
            .filter_map(|row| Some((row.get(x)?.as_f64()?, row.get(y)?.as_f64()?)))
            .collect()
    };
    let mut correlations: Vec<f64> = rows
        .iter()
        .filter(|row| row["kind"] == "pair")
        .filter_map(|row| row["correlation"].as_f64())
        .collect();
    correlations.sort_by(f64::total_cmp);
    let count = correlations.len() as f64;
    let shares = correlations
        .iter()
        .enumerate()
        .map(|(index, &r)| (r, (index + 1) as f64 / count))
        .collect();
    vec![
        Plot {
            file: "floor".into(),
            title: "What a channel holds most of the time, and on average".into(),
            x: Axis::log("mean bandwidth, bit/s"),
            y: Axis::log("5th percentile, bit/s"),
            curves: vec![Curve {
                name: "channels".into(),
                mark: Mark::Points,
                points: points("bandwidth_mean_bps", "bandwidth_p5_bps"),
            }],
        },
        Plot {
            file: "correlation".into(),
            title: "Correlation of channels recorded together".into(),
            x: Axis::linear("correlation"),
            y: Axis::linear("share of pairs below"),
            curves: vec![Curve {
                name: "pairs".into(),
                mark: Mark::Line,
                points: shares,
            }],
        },
    ]
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;
    use crate::kit::corpus::Corpus;

    #[test]
    fn the_simulated_channels_are_those_of_the_figure() {
        let corpus = Corpus::default();
        let rows = run(&Options {
            seed: Seed(1),
            only: Some("horde/"),
            corpus: &corpus,
            progress: &|_| {},
        });
        assert_eq!(rows.len(), HORDE_CHANNELS.len());
        for published in &HORDE_CHANNELS {
            let row = channel(&rows, &format!("horde/{}", published.name)).unwrap();
            let near = |field: &str, value: f64, tolerance: f64| {
                let ours = row[field].as_f64().unwrap();
                assert!(
                    (ours / value - 1.0).abs() < tolerance,
                    "{} {field}: {ours}, published {value}",
                    published.name
                );
            };
            near("rtt_mean_ms", published.rtt_mean.as_secs_f64() * 1e3, 0.05);
            near(
                "rtt_deviation_ms",
                published.rtt_deviation.as_secs_f64() * 1e3,
                0.1,
            );
            near("loss_fraction", published.loss, 0.25);
            let filled = published.rate.as_bps() as f64 * (1.0 - published.loss);
            near("bandwidth_mean_bps", filled, 0.03);
        }
    }

    #[test]
    fn channels_recorded_together_are_compared_at_the_same_times() {
        let recording = |name: &str, skip: usize| {
            let rows: String = (skip..200)
                .map(|i| {
                    format!(
                        "{i},{}\n",
                        1e6 + 1e5 * (i as f64 * 0.7).sin() * (i as f64 * 1.3).cos()
                    )
                })
                .collect();
            let mut recording =
                Recording::parse(name, &format!("t_s,bandwidth_bps\n{rows}")).unwrap();
            recording.name = name.into();
            recording.group = "g".into();
            recording
        };
        let (a, b) = (recording("a", 0), recording("b", 7));
        let rows = pairs(&[&a, &b]);
        assert_eq!(rows[0]["samples"], 193);
        assert_eq!(rows[0]["correlation"], 1.0);
    }
}
