//! Table of paths.

use std::collections::{BTreeMap, BTreeSet};

use anabranch::base::Rate;
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

/// A path to a peer: the rows of all sessions with it that are on this path, as those of a transfer and of a node's link are for a while.
struct Line<'r> {
    /// The row that stands for it: of an active one, that which carried most.
    row: &'r Value,
    rates: Option<[Rate; 2]>,
    /// Part of what the peer's sessions carried together.
    share: Option<f64>,
}

fn carried(row: &Value) -> u64 {
    let bytes = |key: &str| row[key].as_u64().unwrap_or_default();
    bytes("sent_bytes").saturating_add(bytes("received_bytes"))
}

impl<'r> Line<'r> {
    /// As it is in one session.
    fn of_one(row: &'r Value, rates: &Rates) -> Self {
        Self {
            row,
            rates: rates.of(row),
            share: row["share_fraction"].as_f64(),
        }
    }

    /// Of several sessions; `of_peer` is what all of the peer's carried.
    fn of_all(rows: &[&'r Value], of_peer: u64, rates: &Rates) -> Self {
        let rank = |row: &&'r Value| (row["state"] == "active", carried(row));
        let sum = |[a, b]: [Rate; 2], [c, d]: [Rate; 2]| [a + c, b + d];
        let total: u64 = rows.iter().map(|row| carried(row)).sum();
        Self {
            row: rows.iter().copied().max_by_key(rank).unwrap_or(rows[0]),
            rates: rows.iter().filter_map(|row| rates.of(row)).reduce(sum),
            share: Some(total as f64 / of_peer.max(1) as f64),
        }
    }
}

/// Lines by peer and path, so that a path has its place whichever was connected first.
fn lines<'r>(rows: &'r [Value], rates: &Rates, is_wide: bool) -> Vec<Line<'r>> {
    let mut places: BTreeMap<_, Vec<&Value>> = BTreeMap::new();
    // What the sessions of each peer carried, and their names.
    let mut peers: BTreeMap<_, (u64, BTreeSet<_>)> = BTreeMap::new();
    for row in rows {
        let id = row["peer"].as_str();
        places
            .entry((peer(row), id, ends(row)))
            .or_default()
            .push(row);
        let (carried_by_all, sessions) = peers.entry(id).or_default();
        *carried_by_all += carried(row);
        sessions.insert(row["session"].as_str());
    }
    let mut lines = Vec::new();
    for ((_, id, _), rows) in &places {
        let (carried_by_all, sessions) = &peers[id];
        match is_wide || sessions.len() == 1 {
            true => lines.extend(rows.iter().map(|row| Line::of_one(row, rates))),
            false => lines.push(Line::of_all(rows, *carried_by_all, rates)),
        }
    }
    lines
}

/// A line for each path to a peer; if it is wide, for each session on it.
pub(super) fn table(rows: &[Value], rates: &Rates, is_wide: bool) -> Table {
    let lines = lines(rows, rates, is_wide);
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
    let cells = |line: &Line<'_>| {
        let row = line.row;
        let [sending, receiving] = match line.rates {
            Some(rates) => rates.map(|rate| rate.to_string()),
            None => ["-".to_owned(), "-".to_owned()],
        };
        let recent = row["loss_recent_fraction"].as_f64();
        let mut cells = vec![
            peer(row),
            ends(row),
            state(row),
            millis(row, "rtt_ms"),
            percent(recent.or(row["loss_fraction"].as_f64())),
            sending,
            receiving,
            percent(line.share),
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
    Table::new(columns, lines.iter().map(cells))
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
    fn sessions_on_one_path_are_one_line_unless_it_is_wide() {
        let at = "203.0.113.7:4433";
        let mut rows = [("a", "eth0"), ("a", "eth0"), ("a", "wlan0")]
            .map(|(name, interface)| row(name, interface, at));
        rows[1]["session"] = "session-1".into();
        rows[1]["state"] = "active".into();
        for (row, bytes) in rows.iter_mut().zip([6_000, 1_000, 3_000]) {
            row["sent_bytes"] = bytes.into();
            row["received_bytes"] = 0.into();
        }
        let mut rates = Rates::default();
        rates.note(&rows);
        rates.note(&rows);
        let lines = table(&rows, &rates, false).lines(COLUMNS_MAX);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[1].contains(" active "), "{lines:?}");
        assert!(lines[1].ends_with("70 %"), "{lines:?}");
        assert!(lines[2].ends_with("30 %"), "{lines:?}");
        let wide = table(&rows, &rates, true).lines(usize::MAX);
        assert_eq!(wide.len(), 4, "{wide:?}");
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
