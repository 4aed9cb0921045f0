//! Table of streams.

use std::time::Duration;

use anabranch::{Priority, base::duration};
use serde_json::Value;

use super::{rates::Rates, words::peer};
use crate::{
    bytes,
    table::{Column, Table, rate},
};

/// Delivery of a stream: `reliable`, or the lifetime of its messages.
fn delivery(row: &Value) -> String {
    let lifetime = row["lifetime_ms"].as_f64();
    let lifetime = lifetime.map(|millis| duration::format(Duration::from_secs_f64(millis / 1e3)));
    match (row["is_reliable"] == true, lifetime) {
        (true, None) => "reliable".to_owned(),
        (true, Some(lifetime)) => format!("repaired, {lifetime}"),
        (false, Some(lifetime)) => lifetime,
        (false, None) => "unreliable".to_owned(),
    }
}

fn priority(row: &Value) -> String {
    let number = row["priority"]
        .as_u64()
        .and_then(|number| u8::try_from(number).ok());
    match number.map(Priority) {
        None => "-".to_owned(),
        Some(Priority::SCAVENGER) => "scavenger".to_owned(),
        Some(Priority::BULK) => "bulk".to_owned(),
        Some(Priority::NORMAL) => "normal".to_owned(),
        Some(Priority::URGENT) => "urgent".to_owned(),
        Some(Priority(other)) => other.to_string(),
    }
}

/// State of the promise, and in how many of its windows it was kept.
fn promise(row: &Value) -> String {
    let Some(state) = row["promise"].as_str() else {
        return "-".to_owned();
    };
    let count = |key: &str| row[key].as_u64().unwrap_or_default();
    let (kept, broken) = (count("windows_kept"), count("windows_broken"));
    match kept + broken {
        0 => state.to_owned(),
        all => format!("{state} {kept}/{all}"),
    }
}

pub(super) fn table(rows: &[Value], rates: &Rates, is_wide: bool) -> Table {
    let mut columns = vec![
        Column::text("PEER"),
        Column::text("STREAM"),
        Column::text("LABEL"),
        Column::text("DELIVERY"),
        Column::number("SENDING"),
        Column::number("RECEIVING"),
        Column::number("WAITING"),
        Column::number("LOST"),
        Column::text("PROMISE"),
    ];
    if is_wide {
        columns.extend([Column::text("ASKED"), Column::text("PRIORITY")]);
        let numbers = ["WEIGHT", "CAP", "SENT", "RECEIVED", "SENT AGAIN", "COPIES"];
        columns.extend(numbers.map(Column::number));
        columns.push(Column::text("SESSION"));
    }
    let cells = |row: &Value| {
        let [sending, receiving] = rates.texts(row);
        let count = |key: &str| row[key].as_u64().unwrap_or_default();
        let lost = count("lost_adus") + count("expired_adus") + count("shed_adus");
        let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
        let number = text("stream");
        let mut cells = vec![
            peer(row),
            number.trim_start_matches("stream-").to_owned(),
            text("label"),
            delivery(row),
            sending,
            receiving,
            bytes::of(row, "backlog_bytes"),
            lost.to_string(),
            promise(row),
        ];
        if is_wide {
            cells.extend([
                text("asked"),
                priority(row),
                row["weight"].to_string(),
                rate(row, "cap_bps"),
                bytes::of(row, "sent_bytes"),
                bytes::of(row, "received_bytes"),
                bytes::of(row, "repaired_bytes"),
                bytes::of(row, "copied_bytes"),
                text("session"),
            ]);
        }
        cells
    };
    // Those beyond the limit of an answer have no fields.
    let rows = rows.iter().filter(|row| !row.is_null());
    Table::new(columns, rows.map(cells))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::COLUMNS_MAX;

    #[test]
    fn a_stream_is_a_line() {
        let row = json!({"session": "session-0", "peer": "x", "peer_name": "hospital", "stream": "stream-4", "label": "ekg",
            "is_reliable": true, "lifetime_ms": 30_000.0, "priority": 64, "weight": 100, "cap_bps": null, "sent_adus": 3,
            "sent_bytes": 3, "lost_adus": 1, "expired_adus": 1, "shed_adus": 0, "backlog_bytes": 12_345, "received_bytes": 0,
            "repaired_bytes": 0, "copied_bytes": 0, "asked": "1 Mbit/s in 95 % of seconds", "promise": "promised",
            "windows_kept": 38, "windows_broken": 2});
        let lines = table(std::slice::from_ref(&row), &Rates::default(), false).lines(COLUMNS_MAX);
        assert!(
            lines[1].starts_with("hospital  4       ekg    repaired, 30.0 s"),
            "{}",
            lines[1]
        );
        assert!(
            lines[1].ends_with("12.3 kB     2  promised 38/40"),
            "{}",
            lines[1]
        );
        let wide = table(&[row], &Rates::default(), true).lines(usize::MAX);
        assert!(
            wide[1].contains("1 Mbit/s in 95 % of seconds"),
            "{}",
            wide[1]
        );
    }

    #[test]
    fn delivery_is_in_words() {
        let words = |is_reliable: bool, lifetime: Option<f64>| {
            delivery(&json!({"is_reliable": is_reliable, "lifetime_ms": lifetime}))
        };
        assert_eq!(words(true, None), "reliable");
        assert_eq!(words(false, Some(300.0)), "300 ms");
        assert_eq!(words(false, None), "unreliable");
    }
}
