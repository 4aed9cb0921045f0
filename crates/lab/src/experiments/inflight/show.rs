//! Rows, comparison with the targets, plots.

use std::time::Duration;

use anabranch_session::{Explanation, Term};
use serde_json::{Value, json};

use super::{
    change, changing, failover, place,
    steady::{self, Operators, Steady},
    viewers::{VIEWERS, is_critical, name},
};
use crate::{
    Row,
    kit::{
        output::{Axis, Curve, Mark, Plot, Published},
        streams::{
            figures::exceeded,
            show::{find, mbps, number, rounded},
        },
    },
};

/// Time of a unit of work for the share of a processor, in nanoseconds: a byte that is read or written. A host measures its own.
const UNIT_NS: f64 = 1.0;

fn labelled(kind: &str, part: &str) -> Row {
    let mut row = Row::new();
    row.insert("kind".into(), json!(kind));
    row.insert("part".into(), json!(part));
    row
}

/// Rows of a run without a failure.
pub(super) fn steady_rows(part: &str, run: &Steady) -> Vec<Row> {
    let seconds = run.duration.as_secs_f64();
    let mut rows = Vec::new();
    let mut legs = vec![("source → node".to_owned(), run.first_bytes)];
    let last = VIEWERS.iter().zip(&run.last_bytes);
    legs.extend(last.map(|(viewer, bytes)| (format!("node → {}", viewer.name), *bytes)));
    for (leg, bytes) in legs {
        let mut row = labelled("leg", part);
        row.insert("leg".into(), json!(leg));
        row.insert("sent_mb".into(), rounded(bytes as f64 / 1e6));
        row.insert("sent_mbps".into(), mbps(bytes as f64 * 8.0 / seconds));
        rows.push(row);
    }
    rows.extend(run.rows.iter().map(|row| stream_row(part, row)));
    for operators in &run.operators {
        rows.extend(operator_rows(part, operators));
    }
    rows
}

fn stream_row(part: &str, figures: &steady::Row) -> Row {
    let mut row = labelled("stream", part);
    let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
    put("viewer", json!(figures.viewer));
    put("stream", json!(name(figures.stream)));
    put("pipeline", json!(figures.pipeline));
    put("derived_mbps", mbps(figures.derived_bps));
    put("arrived_adus", json!(figures.arrived[0]));
    put("due_adus", json!(figures.arrived[1]));
    put("wrong_adus", json!(figures.wrong));
    put("age_p50_ms", rounded(figures.age_ms[0]));
    put("age_p99_ms", rounded(figures.age_ms[1]));
    put("is_asked", json!(is_critical(figures.stream)));
    if is_critical(figures.stream) {
        put("kept_fraction", rounded(figures.kept[1]));
        put("kept_source_leg_fraction", rounded(figures.kept[0]));
        put("kept_last_leg_fraction", rounded(figures.kept[2]));
        put("failed_source_leg", json!(figures.failed[0]));
        put("failed_last_leg", json!(figures.failed[1]));
        for (leg, promise) in ["source_leg", "last_leg"].iter().zip(&figures.promises) {
            put(&format!("promise_{leg}"), json!(term(promise.as_ref())));
            let account = promise.as_ref().map(|promise| promise.account);
            let account = account.unwrap_or_default();
            put(&format!("promise_{leg}_kept"), json!(account.kept));
            put(&format!("promise_{leg}_broken"), json!(account.broken));
        }
    }
    if !figures.refused.is_empty() {
        put("refused", json!(figures.refused));
    }
    row
}

fn term(promise: Option<&Explanation>) -> &'static str {
    match promise.and_then(|promise| promise.term) {
        None => "none",
        Some(Term::Durable) => "durable",
        Some(Term::Renewable) => "renewable",
    }
}

fn operator_rows(part: &str, operators: &Operators) -> Vec<Row> {
    let row = |(step, cost): &(String, anabranch_process::Cost)| {
        let mut row = labelled("operator", part);
        let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
        put("stream", json!(name(operators.stream)));
        put("pipeline", json!(operators.pipeline));
        put("subscribers", json!(operators.subscribers));
        put("step", json!(step));
        put("adus_in", json!(cost.adus_in));
        put("adus_out", json!(cost.adus_out));
        put("failures", json!(cost.failures));
        put("work_units", json!(cost.work));
        let each = cost.work as f64 / cost.adus_in.max(1) as f64;
        put("work_units_per_adu", rounded(each));
        put("busy_us_per_adu", rounded(each * UNIT_NS / 1e3));
        row
    };
    operators.steps.iter().map(row).collect()
}

/// Rows of a run in which viewers change their pipelines.
pub(super) fn change_rows(part: &str, rows: &[change::Row]) -> Vec<Row> {
    let one = |figures: &change::Row| {
        let latencies = figures.changes.iter().filter_map(changing::Change::latency);
        let mut ms: Vec<f64> = latencies.map(|time| time.as_secs_f64() * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        let mut row = labelled("change", part);
        let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
        put("viewer", json!(figures.viewer));
        put("stream", json!(name(figures.stream)));
        put("is_reliable", json!(is_critical(figures.stream)));
        put("changes", json!(figures.changes.len()));
        put("unseen_changes", json!(figures.changes.len() - ms.len()));
        put("within_adus_fraction", rounded(figures.within_adus()));
        put("within_time_fraction", rounded(figures.within_time()));
        let stale = figures.changes.iter().map(changing::Change::stale);
        put("stale_max_adus", json!(stale.max()));
        put(
            "round_trip_ms",
            rounded(figures.round_trip.as_secs_f64() * 1e3),
        );
        put("change_p50_ms", rounded(exceeded(&ms, 0.5)));
        put("change_p95_ms", rounded(exceeded(&ms, 0.05)));
        put(
            "change_max_ms",
            rounded(ms.last().copied().unwrap_or(f64::NAN)),
        );
        row
    };
    rows.iter().map(one).collect()
}

/// Rows of a run in which the processing node dies.
pub(super) fn failover_rows(part: &str, rows: &[failover::Row]) -> Vec<Row> {
    let ms = |time: Option<Duration>| match time {
        Some(time) => rounded(time.as_secs_f64() * 1e3),
        None => Value::Null,
    };
    let one = |figures: &failover::Row| {
        let mut row = labelled("failover", part);
        let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
        put("viewer", json!(figures.viewer));
        put("stream", json!(failover::stream_name(figures)));
        put("pipeline", json!(figures.pipeline));
        put("lost_adus", json!(figures.lost));
        put("repeated_adus", json!(figures.repeated));
        put("wrong_adus", json!(figures.wrong));
        put("left_out_adus", json!(figures.left_out));
        put("detected_ms", ms(figures.detected));
        put("source_detected_ms", ms(figures.source_detected));
        put("resumed_ms", ms(figures.resumed));
        let round_trips = figures
            .resumed
            .map(|time| time.as_secs_f64() / figures.round_trip.as_secs_f64());
        put(
            "resumed_round_trips",
            round_trips.map_or(Value::Null, rounded),
        );
        put("gap_ms", ms(figures.gap));
        put("caught_up_ms", ms(figures.caught_up));
        row
    };
    rows.iter().map(one).collect()
}

/// Rows of an operator at each of its candidates.
pub(super) fn place_rows(part: &str, rows: &[place::Row]) -> Vec<Row> {
    let one = |figures: &place::Row| {
        let mut row = labelled("place", part);
        let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
        let (estimate, measured) = (&figures.estimate, &figures.measured);
        put("place", json!(figures.name));
        put("is_placed", json!(figures.is_placed));
        put("expected_fraction", rounded(estimate.share));
        let time = estimate.time_s.is_finite();
        put(
            "expected_ms",
            if time {
                rounded(estimate.time_s * 1e3)
            } else {
                Value::Null
            },
        );
        put("tightest", json!(estimate.tightest.to_string()));
        put("kept_fraction", rounded(measured.kept));
        put("age_p50_ms", rounded(measured.age_ms[0]));
        put("age_p99_ms", rounded(measured.age_ms[1]));
        put("arrived_adus", json!(measured.frames[0]));
        put("due_adus", json!(measured.frames[1]));
        put("sent_mb", rounded(measured.bytes as f64 / 1e6));
        row
    };
    rows.iter().map(one).collect()
}

/// The placed operator beside the others.
fn compare_places(rows: &[Row]) -> Option<Published> {
    let own = || rows.iter().filter(|row| row["kind"] == "place");
    let kept = |row: &Row| number(row, "kept_fraction").unwrap_or_default();
    let placed = own().find(|row| row["is_placed"] == true)?;
    let first = own().next()?;
    let best = own().map(kept).fold(0.0, f64::max);
    let worst = own().map(kept).fold(1.0, f64::min);
    let words =
        "windows kept: operator as placed, at the best place, first in the list, at the worst";
    Some(Published::new(
        words.to_owned(),
        "target",
        "placed = best".to_owned(),
        format!(
            "{:.3}, {best:.3}, {:.3}, {worst:.3}",
            kept(placed),
            kept(first)
        ),
    ))
}

/// Targets beside the figures.
pub(super) fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    let sums = ["unprocessed", "processed"].map(|part| {
        let own = rows
            .iter()
            .filter(|row| row["kind"] == "leg" && row["part"] == part);
        let last = own.filter(|row| row["leg"] != "source → node");
        last.filter_map(|row| number(row, "sent_mb")).sum::<f64>()
    });
    if sums[0] > 0.0 && sums[1] > 0.0 {
        lines.push(Published::new(
            "bytes on the last legs, processed, of those unprocessed".to_owned(),
            "target",
            "less than 1".to_owned(),
            format!("{:.3}", sums[1] / sums[0]),
        ));
    }
    for part in ["unprocessed", "processed"] {
        for viewer in VIEWERS {
            let kept = [0, 1].map(|stream| {
                let wanted = [
                    ("kind", "stream"),
                    ("part", part),
                    ("viewer", viewer.name),
                    ("stream", name(stream)),
                ];
                find(rows, &wanted, "kept_fraction")
            });
            if let [Some(atoms), Some(bonds)] = kept {
                lines.push(Published::new(
                    format!(
                        "{}, {part}: windows kept over both legs, Atom and Bond1",
                        viewer.name
                    ),
                    "target, processed",
                    "0.95, 0.95".to_owned(),
                    format!("{atoms:.3}, {bonds:.3}"),
                ));
            }
        }
    }
    for part in ["failover-source", "failover-node"] {
        let own: Vec<&Row> = rows
            .iter()
            .filter(|row| row["kind"] == "failover" && row["part"] == part)
            .collect();
        if own.is_empty() {
            continue;
        }
        let sum = |field: &str| -> f64 { own.iter().filter_map(|row| number(row, field)).sum() };
        let times = own.iter().map(|row| number(row, "resumed_round_trips"));
        let longest = times.fold(0.0, |longest: f64, time| {
            longest.max(time.unwrap_or(f64::INFINITY))
        });
        lines.push(Published::new(
            format!(
                "{part}: ADUs lost, repeated; round trips from detection to the first ADU, at most"
            ),
            "target",
            "0, 0; 3".to_owned(),
            format!(
                "{:.0}, {:.0}; {longest:.2}",
                sum("lost_adus"),
                sum("repeated_adus")
            ),
        ));
    }
    for viewer in VIEWERS {
        let shares = [1, 2].map(|stream| {
            let wanted = [
                ("kind", "change"),
                ("viewer", viewer.name),
                ("stream", name(stream)),
            ];
            find(rows, &wanted, "within_adus_fraction")
        });
        if let [Some(reliable), Some(unreliable)] = shares {
            lines.push(Published::new(
                format!(
                    "{}: changes in effect within a round trip and two ADUs, Bond1 (reliable) and Bond2",
                    viewer.name
                ),
                "target",
                "1, 1".to_owned(),
                format!("{reliable:.3}, {unreliable:.3}"),
            ));
        }
    }
    lines.extend(compare_places(rows));
    lines
}

/// Windows kept, by the rate of the last leg.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let curve = |part: &str| {
        let points = VIEWERS.iter().filter_map(|viewer| {
            let wanted = [
                ("kind", "stream"),
                ("part", part),
                ("viewer", viewer.name),
                ("stream", "Bond1"),
            ];
            let kept = find(rows, &wanted, "kept_fraction")?;
            Some((viewer.share, kept))
        });
        Curve {
            name: part.to_owned(),
            mark: Mark::Line,
            points: points.collect(),
        }
    };
    vec![Plot {
        file: "inflight-kept".to_owned(),
        title: "Windows of Bond1 kept over both legs".to_owned(),
        x: Axis::linear("rate of the last leg, relative to the first"),
        y: Axis::linear("share of windows"),
        curves: ["unprocessed", "processed"].map(curve).into(),
    }]
}
