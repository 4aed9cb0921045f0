//! Rows and curves of runs.

use std::time::Duration;

use anabranch_base::Seed;
use anabranch_session::{Explanation, Term};
use serde_json::{Value, json};

use super::{
    figures::{exceeded, mean_and_deviation},
    lateness::{Cause, Transit},
    measure::{self, Measured, Timing},
    scene::Scene,
};
use crate::{
    Row,
    kit::output::{Axis, Curve, Mark, Plot},
};

/// Kind of the rows with the statistics of a stream.
pub const STREAM: &str = "stream";
/// Kind of the rows with the arrivals in one window; for plots.
pub const WINDOW: &str = "window";
/// Kind of the rows with the causes of a stream's late frames.
pub const LATE: &str = "late";
/// Kind of the rows with the cause of one late frame.
pub const FRAME: &str = "frame";
/// Kind of the rows with the capacity of a path.
pub const PATH: &str = "path";

/// Rounds Mbit/s to five decimals, which is more than the precision of these figures.
pub fn mbps(bps: f64) -> Value {
    json!((bps / 10.0).round() / 1e5)
}

/// Rounds to four decimals.
pub fn rounded(value: f64) -> Value {
    json!((value * 1e4).round() / 1e4)
}

/// A row for each stream. `labels` identify the run, for example by its algorithm.
pub fn stream_rows(labels: &[(&str, &str)], scene: &Scene, measured: &Measured) -> Vec<Row> {
    let streams = measured.streams.iter().zip(&measured.promises);
    let row = |(stream, promise): (&super::StreamFigures, &Option<Explanation>)| {
        let mut row = labelled(STREAM, labels);
        let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
        put("stream", json!(stream.name));
        put("target_mbps", mbps(stream.target_bps));
        put("made_mbps", mbps(stream.made_bps));
        put("p95_mbps", mbps(stream.frames.p95_bps));
        put("p99_mbps", mbps(stream.frames.p99_bps));
        put("mean_mbps", mbps(stream.frames.mean_bps));
        put("std_mbps", mbps(stream.frames.std_bps));
        put("met_fraction", rounded(stream.frames.met));
        put("own_phase_met_fraction", rounded(stream.own_phase_met));
        put("served_fraction", rounded(stream.frames.served));
        put("bytes_p95_mbps", mbps(stream.bytes.p95_bps));
        put("bytes_p99_mbps", mbps(stream.bytes.p99_bps));
        put("bytes_std_mbps", mbps(stream.bytes.std_bps));
        put("bytes_met_fraction", rounded(stream.bytes.met));
        put("bytes_served_fraction", rounded(stream.bytes.served));
        put("jitter_ms", rounded(stream.jitter_ms));
        put("jitter_std_ms", rounded(stream.jitter_std_ms));
        put("interval_ms", rounded(stream.interval_ms.0));
        put("interval_std_ms", rounded(stream.interval_ms.1));
        put("delay_p50_ms", rounded(stream.delay_ms[0]));
        put("delay_p95_ms", rounded(stream.delay_ms[1]));
        put("delay_p99_ms", rounded(stream.delay_ms[2]));
        if let Some(promise) = promise {
            let term = promise.term.map_or("none", |term| match term {
                Term::Durable => "durable",
                Term::Renewable => "renewable",
            });
            put("promise", json!(term));
            put("promise_kept", json!(promise.account.kept));
            put("promise_broken", json!(promise.account.broken));
            put("promise_withdrawn", json!(promise.account.withdrawn));
        }
        put("skipped_frames", json!(stream.skipped));
        put("goodput_mbps", mbps(measured.goodput_bps));
        put("available_mbps", mbps(measured.available_bps));
        for (path, share) in scene.paths().iter().zip(&measured.path_shares) {
            put(&format!("share of {path}"), rounded(*share));
        }
        row
    };
    streams.map(row).collect()
}

/// A row for each window, with the rate of each stream in arrived bytes.
pub fn window_rows(labels: &[(&str, &str)], measured: &Measured) -> Vec<Row> {
    let windows = measured
        .streams
        .first()
        .map_or(0, |stream| stream.bytes.series_bps.len());
    let row = |window: usize| {
        let mut row = labelled(WINDOW, labels);
        row.insert("window".into(), json!(window));
        for stream in &measured.streams {
            let rate = stream.bytes.series_bps[window];
            row.insert(format!("{}_mbps", stream.name), mbps(rate));
        }
        row
    };
    (0..windows).map(row).collect()
}

/// A row for each critical stream with the number of its late frames, and how many of them had which part of the delay as the
/// largest; and a row for each late frame. A frame is late if it misses the window in which it is due.
pub fn late_rows(labels: &[(&str, &str)], measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    let ms = |time: Duration| rounded(time.as_secs_f64() * 1e3);
    for (stream, transits) in measured.streams.iter().zip(&measured.transits) {
        if transits.is_empty() {
            continue;
        }
        let is_late = |transit: &&Transit| transit.delay > measured.delay_max;
        let late: Vec<&Transit> = transits.iter().filter(is_late).collect();
        let mut row = labelled(LATE, labels);
        row.insert("stream".into(), json!(stream.name));
        row.insert("frames".into(), json!(transits.len()));
        row.insert("late_frames".into(), json!(late.len()));
        for cause in Cause::ALL {
            let count = late
                .iter()
                .filter(|transit| transit.cause() == cause)
                .count();
            row.insert(format!("late_by_{}", cause.name()), json!(count));
        }
        rows.push(row);
        for transit in late {
            let mut row = labelled(FRAME, labels);
            let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
            put("stream", json!(stream.name));
            put("sequence", json!(transit.sequence));
            put("offered_s", rounded(transit.offered_at.as_secs_f64()));
            put("delay_ms", ms(transit.delay));
            put("packets", json!(transit.packets));
            put("lost_packets", json!(transit.lost));
            put("copied_packets", json!(transit.copies));
            put("first_left_ms", ms(transit.first_left));
            put("last_left_ms", ms(transit.last_left[0]));
            put("last_left_again_ms", ms(transit.last_left[1]));
            put("last_channel", json!(transit.last_channel.0));
            put("last_transit_ms", ms(transit.last_transit));
            put("last_expected_ms", ms(transit.last_expected));
            for (cause, part) in Cause::ALL.into_iter().zip(transit.parts) {
                put(&format!("{}_ms", cause.name()), ms(part));
            }
            put("cause", json!(transit.cause().name()));
            rows.push(row);
        }
    }
    rows
}

/// A row for each path, and one for all together: the capacity for us in the windows that count.
pub fn path_rows(scene: &Scene, seed: Seed, timing: Timing) -> Vec<Row> {
    let before = (timing.end().as_secs() as usize).saturating_sub(timing.windows);
    let windows = scene.available_bps(seed, (measure::WINDOW, before + timing.windows));
    let Ok(windows) = windows else {
        return Vec::new();
    };
    let sum = (0..before + timing.windows).map(|n| windows.iter().map(|path| path[n]).sum());
    let all = [("all".to_owned(), sum.collect())];
    let names = scene.paths().into_iter().map(str::to_owned);
    let paths = names.zip(windows).chain(all);
    let row = |(name, series): (String, Vec<f64>)| {
        let series = &series[before..];
        let mut sorted = series.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (mean, deviation) = mean_and_deviation(series);
        let mut row = labelled(PATH, &[("path", &name)]);
        row.insert("mean_mbps".into(), mbps(mean));
        row.insert("std_mbps".into(), mbps(deviation));
        row.insert("p95_mbps".into(), mbps(exceeded(&sorted, 0.95)));
        row.insert("p99_mbps".into(), mbps(exceeded(&sorted, 0.99)));
        row.insert("lag1_correlation".into(), rounded(lag1(series)));
        row
    };
    paths.map(row).collect()
}

/// Correlation of each value with the next; 0 for a constant.
fn lag1(series: &[f64]) -> f64 {
    let (mean, deviation) = mean_and_deviation(series);
    let products = series
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean));
    let square = deviation * deviation * series.len() as f64;
    if square > 0.0 {
        products.sum::<f64>() / square
    } else {
        0.0
    }
}

fn labelled(kind: &str, labels: &[(&str, &str)]) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!(kind));
    for (field, value) in labels {
        row.insert((*field).to_owned(), json!(value));
    }
    row
}

/// A field of a row as a number.
pub fn number(row: &Row, field: &str) -> Option<f64> {
    row.get(field)?.as_f64()
}

/// True if the row has these values in these fields.
pub fn has(row: &Row, fields: &[(&str, &str)]) -> bool {
    let has_one = |(field, words): &(&str, &str)| row.get(*field).is_some_and(|v| v == words);
    fields.iter().all(has_one)
}

/// Number in `field` of the first row with these values.
pub fn find(rows: &[Row], fields: &[(&str, &str)], field: &str) -> Option<f64> {
    number(rows.iter().find(|row| has(row, fields))?, field)
}

/// Distinct values in a field, in order of appearance.
pub fn distinct<'a>(rows: &'a [Row], field: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for words in rows
        .iter()
        .filter_map(|row| row.get(field).and_then(Value::as_str))
    {
        if !found.contains(&words) {
            found.push(words);
        }
    }
    found
}

/// Plot of each stream's arrivals over time, in the windows that have `word` in `field`.
pub fn time_plot(rows: &[Row], (field, word): (&str, &str), streams: &[&str]) -> Plot {
    let windows = windows_of(rows, field, word);
    let curves = streams.iter().map(|stream| Curve {
        name: (*stream).to_owned(),
        mark: Mark::Line,
        points: windows
            .iter()
            .filter_map(|row| {
                Some((
                    number(row, "window")?,
                    number(row, &format!("{stream}_mbps"))?,
                ))
            })
            .collect(),
    });
    Plot {
        file: format!("time-{}", word.replace(' ', "-")),
        title: format!("What arrives in each second: {word}"),
        x: Axis::linear("time, s"),
        y: Axis::linear("rate, Mbit/s"),
        curves: curves.collect(),
    }
}

/// Distribution of a stream's rate, one curve for each of `words` in `field`.
pub fn distribution_plot(rows: &[Row], (field, words): (&str, &[&str]), stream: &str) -> Plot {
    let curves = words.iter().map(|word| {
        let mut rates: Vec<f64> = windows_of(rows, field, word)
            .iter()
            .filter_map(|row| number(row, &format!("{stream}_mbps")))
            .collect();
        rates.sort_by(f64::total_cmp);
        let count = rates.len() as f64;
        let points = rates.iter().zip(1..);
        Curve {
            name: (*word).to_owned(),
            mark: Mark::Guide,
            points: points
                .map(|(&rate, rank)| (rate, f64::from(rank) / count))
                .collect(),
        }
    });
    Plot {
        file: format!("distribution-{}", stream.to_lowercase()),
        title: format!("Distribution of the rate of {stream}"),
        x: Axis::linear("rate, Mbit/s"),
        y: Axis::linear("share of windows with no more"),
        curves: curves.collect(),
    }
}

fn windows_of<'a>(rows: &'a [Row], field: &str, word: &str) -> Vec<&'a Row> {
    let wanted = [("kind", WINDOW), (field, word)];
    rows.iter().filter(|row| has(row, &wanted)).collect()
}
