//! Tables of a node's state: itself, its interfaces, budgets and sessions.

use serde_json::Value;

use super::words::{age, peer, seconds};
use crate::{
    bytes,
    overlay::table::of,
    table::{Column, Table},
};

fn text(row: &Value, key: &str) -> String {
    match row[key].as_str() {
        None | Some("") => "-".to_owned(),
        Some(text) => text.to_owned(),
    }
}

fn node(row: &Value) -> Table {
    let up = seconds(row, "uptime_s").map_or("-".to_owned(), age);
    let pairs = [
        ("node", text(row, "node")),
        ("running for", up),
        ("addresses", text(row, "addresses").replace(',', ", ")),
    ];
    let rows = pairs.map(|(name, value)| vec![name.to_owned(), value]);
    Table::list(rows)
}

fn interfaces(rows: &[Value], is_wide: bool) -> Table {
    let mut columns = ["INTERFACE", "ADDRESS", "STATE"].map(Column::text).to_vec();
    if is_wide {
        let numbers = [
            "BATCHES SENT",
            "DELAYED BY THE SYSTEM",
            "REFUSED BY THE SYSTEM",
        ];
        columns.extend(numbers.map(Column::number));
    }
    let cells = |row: &Value| {
        let state = match (row["is_up"] == true, row["is_retired"] == true) {
            (true, true) => "retired",
            (true, false) => "up",
            (false, _) => "down",
        };
        let mut cells = vec![text(row, "interface"), text(row, "local"), state.to_owned()];
        if is_wide {
            let keys = ["batches_sent", "batches_overflowed", "packets_refused"];
            cells.extend(keys.map(|key| row[key].to_string()));
        }
        cells
    };
    Table::new(columns, of(rows, "socket").map(cells))
}

fn budgets(rows: &[Value], is_wide: bool) -> Table {
    let mut columns = vec![
        Column::text("PLACE"),
        Column::number("USED"),
        Column::number("LEFT"),
        Column::number("PAID"),
        Column::text("RENEWS"),
    ];
    if is_wide {
        columns.push(Column::text("PRICE"));
    }
    let cells = |row: &Value| {
        let left = match row["left_bytes"].as_u64() {
            _ if row["is_spent"] == true => "nothing".to_owned(),
            Some(left) => bytes::text(left),
            None => "no limit".to_owned(),
        };
        let paid = row["paid"].as_f64().unwrap_or_default();
        let paid = format!("{paid:.2} {}", row["unit"].as_str().unwrap_or_default());
        let mut cells = vec![
            text(row, "place"),
            bytes::of(row, "used_bytes"),
            left,
            paid.trim_end().to_owned(),
            text(row, "renews"),
        ];
        if is_wide {
            cells.push(text(row, "price"));
        }
        cells
    };
    Table::new(columns, of(rows, "budget").map(cells))
}

fn sessions(rows: &[Value], is_wide: bool) -> Table {
    let mut columns = vec![
        Column::text("PEER"),
        Column::text("OPENED BY"),
        Column::number("PATHS"),
        Column::number("STREAMS"),
        Column::number("TO SEND"),
        Column::number("TO READ"),
    ];
    if is_wide {
        columns.push(Column::number("WIRE FORMAT"));
        columns.extend(["POLICY", "SESSION", "NODE"].map(Column::text));
    }
    let cells = |row: &Value| {
        let by = match row["is_incoming"] == true {
            true => "the peer",
            false => "this node",
        };
        let mut cells = vec![
            peer(row),
            by.to_owned(),
            row["channels_active"].to_string(),
            row["streams"].to_string(),
            bytes::of(row, "send_held_bytes"),
            bytes::of(row, "recv_held_bytes"),
        ];
        if is_wide {
            let version = row["wire_version"].as_u64();
            cells.push(version.map_or("-".to_owned(), |version| version.to_string()));
            cells.extend(["policy", "session", "peer"].map(|key| text(row, key)));
        }
        cells
    };
    Table::new(columns, of(rows, "session").map(cells))
}

/// The tables that have rows, each with its title.
pub(super) fn tables(rows: &[Value], is_wide: bool) -> Vec<(&'static str, Table)> {
    let mut tables: Vec<(&str, Table)> = of(rows, "node").map(|row| ("", node(row))).collect();
    let others = [
        ("interfaces", interfaces(rows, is_wide)),
        ("budgets", budgets(rows, is_wide)),
        ("sessions", sessions(rows, is_wide)),
    ];
    tables.extend(others.into_iter().filter(|(_, table)| !table.is_empty()));
    tables
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::COLUMNS_MAX;

    #[test]
    fn a_status_has_a_table_for_each_kind_of_thing() {
        let rows = [
            json!({"kind": "node", "node": "abc", "uptime_s": 7500.0, "addresses": "192.0.2.1:4433,[2001:db8::1]:4433", "sessions": 1}),
            json!({"kind": "socket", "interface": "wlan0", "local": "192.0.2.1:4433", "is_up": true, "batches_sent": 9,
                "batches_overflowed": 0, "packets_refused": 0}),
            json!({"kind": "budget", "place": "wwan0", "used_bytes": 2_400_000, "left_bytes": 600_000, "paid": 0.2, "unit": "EUR",
                "is_spent": false, "renews": "2026-12-01", "price": "2 MB then 1 MB at 0.5/MB then stop"}),
            json!({"kind": "session", "session": "session-0", "peer": "x", "peer_name": "hospital", "is_incoming": true,
                "policy": "default", "channels_active": 2, "streams": 3, "send_held_bytes": 0, "recv_held_bytes": 10}),
        ];
        let tables = tables(&rows, false);
        let titles: Vec<&str> = tables.iter().map(|(title, _)| *title).collect();
        assert_eq!(titles, ["", "interfaces", "budgets", "sessions"]);
        let lines: Vec<String> = tables
            .iter()
            .flat_map(|(_, table)| table.lines(COLUMNS_MAX))
            .collect();
        assert_eq!(lines[1], "running for  2 h 5 min");
        assert_eq!(lines[2], "addresses    192.0.2.1:4433, [2001:db8::1]:4433");
        assert!(
            lines.contains(&"wwan0  2.40 MB  600 kB  0.20 EUR  2026-12-01".to_owned()),
            "{lines:?}"
        );
        assert!(
            lines.contains(&"hospital  the peer       2        3      0 B     10 B".to_owned()),
            "{lines:?}"
        );
    }
}
