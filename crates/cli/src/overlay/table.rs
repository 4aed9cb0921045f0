//! Tables of an overlay's members, links, paths and circuits.

use serde_json::Value;

use crate::table::{COLUMNS_MAX, Column, Table, rate};

/// Rows of one kind.
pub(crate) fn of<'a>(rows: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row["kind"] == kind)
}

pub(crate) fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or("-")
}

fn number(row: &Value, key: &str, unit: &str) -> String {
    match row[key].as_f64() {
        Some(value) => format!("{value:.1} {unit}"),
        None => "-".to_owned(),
    }
}

fn section(title: &str, head: &[&'static str], rows: Vec<Vec<String>>) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let columns = head.iter().map(|&head| Column::text(head)).collect();
    let table = Table::new(columns, rows.into_iter());
    let mut lines = vec![title.to_owned()];
    let indented = table.lines(COLUMNS_MAX - 2).into_iter();
    lines.extend(indented.map(|line| format!("  {line}")));
    lines
}

/// Table of the paths in use, by destination.
pub(crate) fn paths(rows: &[Value]) -> Vec<String> {
    let cells = |row: &Value| {
        vec![
            text(row, "to").to_owned(),
            text(row, "via").to_owned(),
            rate(row, "bandwidth_bps"),
            number(row, "delay_min_ms", "ms"),
            number(row, "bytes", "").trim_end_matches(".0 ").to_owned(),
        ]
    };
    let head = ["to", "via", "carries", "delay", "bytes of a message"];
    section("paths", &head, of(rows, "path").map(cells).collect())
}

/// Summary of the node's relay, and a table of its circuits.
pub(crate) fn circuits(rows: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in of(rows, "relay") {
        lines.push(format!(
            "relay: {} circuits on {} ports, {} left for others",
            row["circuits"],
            row["ports"],
            rate(row, "headroom_bps")
        ));
    }
    let circuit = |row: &Value| {
        vec![
            text(row, "source").to_owned(),
            text(row, "to").to_owned(),
            text(row, "near").to_owned(),
            text(row, "towards").to_owned(),
            rate(row, "rate_bps"),
            row["outward_bytes"].to_string(),
            row["back_bytes"].to_string(),
            number(row, "left_s", "s"),
        ]
    };
    let head = [
        "from",
        "to",
        "by",
        "towards",
        "granted",
        "bytes out",
        "bytes back",
        "expires",
    ];
    lines.extend(section(
        "circuits",
        &head,
        of(rows, "circuit").map(circuit).collect(),
    ));
    lines
}

/// All tables: members, links, paths and circuits.
pub(crate) fn lines(rows: &[Value]) -> Vec<String> {
    let member = |row: &Value| {
        vec![
            text(row, "name").to_owned(),
            text(row, "state").to_owned(),
            number(row, "last_received_s", "s ago"),
            number(row, "record_age_s", "s"),
            text(row, "node").to_owned(),
        ]
    };
    let head = ["name", "state", "received", "record", "node"];
    let mut lines = section("members", &head, of(rows, "member").map(member).collect());
    let link = |row: &Value| {
        let deviation = row["deviation_fraction"].as_f64();
        vec![
            text(row, "from").to_owned(),
            text(row, "to").to_owned(),
            rate(row, "bandwidth_bps"),
            deviation.map_or("-".to_owned(), |part| format!("±{:.0} %", 100.0 * part)),
            number(row, "delay_min_ms", "ms"),
            number(row, "age_s", "s"),
            text(row, "source").to_owned(),
        ]
    };
    let head = ["from", "to", "bandwidth", "", "delay", "age", "known by"];
    lines.extend(section(
        "links",
        &head,
        of(rows, "link").map(link).collect(),
    ));
    lines.extend(paths(rows));
    lines.extend(circuits(rows));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_there_is_left_out_and_what_is_unknown_a_dash() {
        let rows = [
            json!({"kind": "member", "name": "studio", "state": "alive", "last_received_s": null, "record_age_s": 1.5, "node": "abc"}),
            json!({"kind": "link", "from": "here", "to": "studio", "bandwidth_bps": 8_000_000, "deviation_fraction": 0.12,
                "delay_min_ms": 20.0, "age_s": 3.0, "source": "probes"}),
        ];
        let lines = lines(&rows);
        assert_eq!(lines[0], "members");
        assert!(lines[2].starts_with("  studio  alive  -"), "{}", lines[2]);
        assert!(lines[5].contains("8.00 Mbit/s  ±12 %"), "{}", lines[5]);
        assert_eq!(lines.len(), 6);
    }
}
