//! Table of paths.

use serde_json::Value;

use super::{
    rates::Rates,
    words::{millis, peer, percent, state},
};
use crate::{
    bytes,
    table::{Column, Table, rate},
};

/// Both ends of a path, such as `wlan0 → 203.0.113.7:4433`.
pub(crate) fn ends(row: &Value) -> String {
    let remote = row["remote"].as_str().unwrap_or("-");
    match row["interface"].as_str() {
        Some(interface) => format!("{interface} → {remote}"),
        None => remote.to_owned(),
    }
}

/// By peer and path, so that a path has its place whichever was connected first.
pub(super) fn table(rows: &[Value], rates: &Rates, is_wide: bool) -> Table {
    let mut rows: Vec<&Value> = rows.iter().collect();
    rows.sort_by_cached_key(|row| (peer(row), ends(row)));
    let mut columns = vec![
        Column::text("PEER"),
        Column::text("PATH"),
        Column::text("STATE"),
        Column::number("RTT"),
        Column::number("LOSS"),
        Column::number("SENDING"),
        Column::number("RECEIVING"),
        Column::number("SHARE"),
    ];
    if is_wide {
        columns.extend(
            ["SENT", "RECEIVED", "SHORTEST RTT", "CARRIES", "PROMISED"].map(Column::number),
        );
        columns.extend(["SHARES LINK WITH", "CHANNEL", "SESSION"].map(Column::text));
    }
    let cells = |row: &&Value| {
        let [sending, receiving] = rates.texts(row);
        let recent = row["loss_recent_fraction"].as_f64();
        let mut cells = vec![
            peer(row),
            ends(row),
            state(row),
            millis(row, "rtt_ms"),
            percent(recent.or(row["loss_fraction"].as_f64())),
            sending,
            receiving,
            percent(row["share_fraction"].as_f64()),
        ];
        if is_wide {
            let text = |key: &str| match row[key].as_str() {
                None | Some("") => "-".to_owned(),
                Some(text) => text.to_owned(),
            };
            cells.extend([
                bytes::of(row, "sent_bytes"),
                bytes::of(row, "received_bytes"),
                millis(row, "rtt_min_ms"),
                rate(row, "bandwidth_mean_bps"),
                rate(row, "streams_promised_bps"),
                text("shares_bottleneck_with"),
                text("channel"),
                text("session"),
            ]);
        }
        cells
    };
    Table::new(columns, rows.iter().map(cells))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::COLUMNS_MAX;

    fn row(name: &str, interface: &str, remote: &str) -> Value {
        json!({"session": "session-0", "peer": "x", "peer_name": name, "channel": "channel-2", "interface": interface,
            "remote": remote, "state": "not responding", "silent_s": 754.0, "share_fraction": 0.31, "sent_bytes": 1_500_000,
            "received_bytes": 2, "rtt_ms": 131.2, "rtt_min_ms": 30.04, "loss_fraction": 0.5, "loss_recent_fraction": 0.012,
            "bandwidth_mean_bps": 8_000_000, "streams_promised_bps": 0, "shares_bottleneck_with": ""})
    }

    #[test]
    fn a_path_is_a_line() {
        let rows = [row("hospital", "wwan0", "203.0.113.7:4433")];
        let lines = table(&rows, &Rates::default(), false).lines(COLUMNS_MAX);
        assert_eq!(
            lines[1],
            "hospital  wwan0 → 203.0.113.7:4433  not responding, 12 min  131 ms  1.2 %        -          -   31 %"
        );
        let wide = table(&rows, &Rates::default(), true).lines(usize::MAX);
        assert!(wide[1].contains("1.50 MB"), "{}", wide[1]);
        assert!(wide[1].contains("8.00 Mbit/s"), "{}", wide[1]);
        assert!(
            wide[1].ends_with("-                 channel-2  session-0"),
            "{}",
            wide[1]
        );
    }

    #[test]
    fn paths_are_in_order_of_peers_and_interfaces() {
        let at = "203.0.113.7:4433";
        let rows = [("b", "eth0"), ("a", "wwan0"), ("a", "eth0")];
        let rows = rows.map(|(name, interface)| row(name, interface, at));
        let lines = table(&rows, &Rates::default(), false).lines(COLUMNS_MAX);
        let begins = ["a     eth0", "a     wwan0", "b     eth0"];
        for (line, begin) in lines[1..].iter().zip(begins) {
            assert!(line.starts_with(begin), "{line}");
        }
    }

    #[test]
    fn long_names_do_not_break_the_table() {
        let address = "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff]:65535";
        let rows = [
            row(&"h".repeat(80), "enx00e04c680001", address),
            row("b", "a", "192.0.2.1:1"),
        ];
        for line in table(&rows, &Rates::default(), false).lines(COLUMNS_MAX) {
            assert!(line.chars().count() <= COLUMNS_MAX, "{line}");
        }
    }
}
