//! Rows, comparison and plots.

use std::time::Duration;

use anabranch_session::promise::Account;
use serde_json::json;

use super::{
    figures::{Figures, WINDOW_S},
    lines::Line,
};
use crate::{
    Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        streams::show::{PATH, STREAM, WINDOW, distinct, find, has, number, rounded},
    },
};

/// Kind of the rows about the picture as seen.
pub const PICTURE: &str = "picture";

/// A row of this kind, with what identifies its run.
pub(super) fn row(kind: &str, labels: &[(&str, &str)]) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!(kind));
    for (field, words) in labels {
        row.insert((*field).to_owned(), json!(words));
    }
    row
}

/// A row for each path.
pub fn path_rows(lines: &[Line]) -> Vec<Row> {
    let of = |line: &Line| {
        let mut row = row(PATH, &[("path", &line.name)]);
        row.insert("mean_kbps".into(), rounded(line.mean_bps() / 1e3));
        row.insert("scale".into(), json!(line.scale));
        row.insert("delay_ms".into(), rounded(line.delay.as_secs_f64() * 1e3));
        row.insert("loss_fraction".into(), rounded(line.loss.0));
        row.insert("loss_burst_packets".into(), rounded(line.loss.1));
        row
    };
    lines.iter().map(of).collect()
}

/// A row for each stream or kind of frame, one for the picture, and one for each window of it. `labels` identify the run.
pub fn rows(labels: &[(&str, &str)], figures: &Figures, shares: &[(&str, f64)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for class in &figures.classes {
        let mut row = row(STREAM, labels);
        row.insert("stream".into(), json!(class.name));
        let made = class.made.max(1) as f64;
        row.insert("made_adus".into(), json!(class.made));
        row.insert(
            "in_time_fraction".into(),
            rounded(class.in_time as f64 / made),
        );
        row.insert("late_fraction".into(), rounded(class.late as f64 / made));
        row.insert("lost_fraction".into(), rounded(class.lost() as f64 / made));
        row.insert("latency_p50_ms".into(), rounded(class.latency_ms[0]));
        row.insert("latency_p95_ms".into(), rounded(class.latency_ms[1]));
        row.insert("jitter_ms".into(), rounded(class.jitter_ms));
        rows.push(row);
    }
    let video = &figures.video;
    let seconds = |time: Duration| rounded(time.as_secs_f64());
    let made_p = figures.class("video P").map_or(0, |class| class.made);
    let mut picture = row(PICTURE, labels);
    let usable_p = video.usable_p as f64 / made_p.max(1) as f64;
    picture.insert("usable_p_fraction".into(), rounded(usable_p));
    picture.insert("playable_s".into(), seconds(video.playable));
    picture.insert("length_s".into(), seconds(video.length));
    picture.insert("shown_p95_ms".into(), rounded(video.shown_p95_ms));
    picture.insert("whole_seconds".into(), json!(video.whole_seconds));
    for (path, share) in shares {
        picture.insert(format!("share of {path}"), rounded(*share));
    }
    rows.push(picture);
    for (window, usable) in video.usable.iter().enumerate() {
        let mut row = row(WINDOW, labels);
        row.insert("window".into(), json!(window));
        row.insert("usable_fraction".into(), rounded(*usable));
        rows.push(row);
    }
    rows
}

/// Puts into the row of the EKG in how many windows its rate was promised, and in how many of those it was kept.
pub fn promise_into(rows: &mut [Row], account: &Account) {
    let is_ekg = |row: &&mut Row| has(row, &[("kind", STREAM), ("stream", "ekg")]);
    if let Some(row) = rows.iter_mut().find(is_ekg) {
        let all = account.kept + account.broken;
        row.insert("promised_windows".into(), json!(all));
        let kept = account.kept as f64 / all as f64;
        row.insert("promise_kept_fraction".into(), rounded(kept));
        row.insert("promise_withdrawn".into(), json!(account.withdrawn));
    }
}

/// Effects that objectives should have according to the thesis, and the fields that show them.
const WANTED: [(&str, &str, &str, &str); 4] = [
    ("video I", "lost_fraction", "I frames lost", "less"),
    ("video I", "in_time_fraction", "I frames in time", "more"),
    (
        "audio_up",
        "latency_p50_ms",
        "audio up, median latency, ms",
        "less",
    ),
    (
        "audio_down",
        "latency_p50_ms",
        "audio down, median latency, ms",
        "less",
    ),
];

pub(super) fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for policy in ["random_walk", "assign"] {
        for (stream, field, what, wanted) in WANTED {
            let of = |policy: &str| {
                let wanted = [("kind", STREAM), ("algorithm", policy), ("stream", stream)];
                find(rows, &wanted, field)
            };
            if let (Some(base), Some(ours)) = (of("round_robin"), of(policy)) {
                lines.push(Published::new(
                    format!("{what}: {policy}"),
                    "Horde §4.3 (direction only)",
                    format!("{wanted} than round_robin's {base}"),
                    ours.to_string(),
                ));
            }
        }
    }
    lines
}

pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let algorithms = distinct(rows, "algorithm");
    let usable = algorithms.iter().map(|word| {
        let wanted = [("kind", WINDOW), ("algorithm", *word)];
        let windows = rows.iter().filter(|row| has(row, &wanted));
        let point = |row: &Row| {
            let at = (number(row, "window")? + 0.5) * WINDOW_S as f64;
            Some((at, number(row, "usable_fraction")?))
        };
        Curve {
            name: (*word).to_owned(),
            mark: Mark::Line,
            points: windows.filter_map(point).collect(),
        }
    });
    let picture = Plot {
        file: "usable".to_owned(),
        title: format!("Share of video frames that can be shown, in {WINDOW_S} s"),
        x: Axis::linear("time, s"),
        y: Axis::linear("share of frames"),
        curves: usable.collect(),
    };
    vec![picture]
}
