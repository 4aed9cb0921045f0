//! Tables of an overlay's members, links, paths and circuits.

use serde_json::Value;

use crate::{
    bytes,
    show::{age, millis, seconds},
    table::{Column, Table, rate},
};

/// Rows of one kind.
pub(crate) fn of<'a>(rows: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row["kind"] == kind)
}

pub(crate) fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or("-")
}

fn delay(row: &Value) -> String {
    row["delay_min_ms"].as_f64().map_or("-".to_owned(), millis)
}

fn ago(row: &Value, key: &str) -> String {
    seconds(row, key).map_or("-".to_owned(), |since| format!("{} ago", age(since)))
}

fn left(row: &Value, key: &str) -> String {
    seconds(row, key).map_or("-".to_owned(), age)
}

fn columns(texts: &[&'static str], numbers: &[&'static str]) -> Vec<Column> {
    let texts = texts.iter().map(|&head| Column::text(head));
    let numbers = numbers.iter().map(|&head| Column::number(head));
    texts.chain(numbers).collect()
}

/// State of a member, with the time since it was heard of where it does not answer.
fn state(row: &Value) -> String {
    let words = match text(row, "state") {
        "suspect" => "not responding",
        words => words,
    };
    match seconds(row, "last_received_s") {
        Some(since) if matches!(words, "not responding" | "down") => {
            format!("{words}, {}", age(since))
        }
        _ => words.to_owned(),
    }
}

fn members(rows: &[Value], is_wide: bool) -> Table {
    let mut columns = columns(&["MEMBER", "STATE", "CONNECTED"], &["HEARD"]);
    if is_wide {
        columns.extend([Column::number("RECORD"), Column::text("NODE")]);
    }
    let cells = |row: &Value| {
        let connected = if row["has_session"] == true {
            "yes"
        } else {
            "no"
        };
        let mut cells = vec![
            text(row, "name").to_owned(),
            state(row),
            connected.to_owned(),
            ago(row, "last_received_s"),
        ];
        if is_wide {
            cells.extend([ago(row, "record_age_s"), text(row, "node").to_owned()]);
        }
        cells
    };
    Table::new(columns, of(rows, "member").map(cells))
}

/// Loads of members that process streams.
fn loads(rows: &[Value], is_wide: bool) -> Table {
    let mut columns = columns(
        &["PROCESSES AT"],
        &["OPERATORS", "MACHINE", "MEMORY", "WAITING", "AGE"],
    );
    if is_wide {
        columns.extend(["CORES", "ADUS", "UNIT"].map(Column::number));
    }
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let cells = |row: &Value| {
        let load = &row["load"];
        let number = |key: &str| load[key].as_f64().unwrap_or_default();
        let machine = load["machine_share"].as_f64();
        let mut cells = vec![
            text(row, "name").to_owned(),
            format!("{} of a core", percent(number("operators_cores"))),
            machine.map_or("-".to_owned(), percent),
            percent(number("memory_used") / number("memory_bound").max(1.0)),
            bytes::of(load, "queued_bytes"),
            left(row, "record_age_s"),
        ];
        if is_wide {
            let unit = load["unit_ps"].as_f64();
            cells.extend([
                load["cores"]
                    .as_u64()
                    .map_or("-".to_owned(), |cores| cores.to_string()),
                load["queued_adus"].to_string(),
                unit.map_or("-".to_owned(), |ps| format!("{:.2} ns", ps / 1e3)),
            ]);
        }
        cells
    };
    let processing = of(rows, "member").filter(|row| row["load"].is_object());
    Table::new(columns, processing.map(cells))
}

fn links(rows: &[Value], is_wide: bool) -> Table {
    let mut columns = columns(&["FROM", "TO"], &["CARRIES", "DELAY", "MEASURED"]);
    if is_wide {
        columns.extend([Column::number("DEVIATION"), Column::text("KNOWN BY")]);
    }
    let cells = |row: &Value| {
        let mut cells = vec![
            text(row, "from").to_owned(),
            text(row, "to").to_owned(),
            rate(row, "bandwidth_bps"),
            delay(row),
            ago(row, "age_s"),
        ];
        if is_wide {
            let deviation = row["deviation_fraction"].as_f64();
            let deviation =
                deviation.map_or("-".to_owned(), |part| format!("±{:.0} %", 100.0 * part));
            cells.extend([deviation, text(row, "source").to_owned()]);
        }
        cells
    };
    Table::new(columns, of(rows, "link").map(cells))
}

fn of_paths(rows: &[Value], is_wide: bool) -> Table {
    let mut columns = columns(&["TO", "VIA"], &["CARRIES", "DELAY"]);
    if is_wide {
        columns.push(Column::number("PART OF A MESSAGE"));
    }
    let cells = |row: &Value| {
        let mut cells = vec![
            text(row, "to").to_owned(),
            text(row, "via").to_owned(),
            rate(row, "bandwidth_bps"),
            delay(row),
        ];
        if is_wide {
            cells.push(bytes::text(row["bytes"].as_f64().unwrap_or_default() as u64));
        }
        cells
    };
    Table::new(columns, of(rows, "path").map(cells))
}

fn of_circuits(rows: &[Value], is_wide: bool) -> Table {
    let mut columns = columns(
        &["FROM", "TO"],
        &["GRANTED", "CARRIED", "CARRIED BACK", "EXPIRES IN"],
    );
    if is_wide {
        columns.extend(["ENTRY", "NEXT", "CIRCUIT"].map(Column::text));
    }
    let cells = |row: &Value| {
        let mut cells = vec![
            text(row, "source").to_owned(),
            text(row, "to").to_owned(),
            rate(row, "rate_bps"),
            bytes::of(row, "outward_bytes"),
            bytes::of(row, "back_bytes"),
            left(row, "left_s"),
        ];
        if is_wide {
            cells.extend(["near", "towards", "circuit"].map(|key| text(row, key).to_owned()));
        }
        cells
    };
    Table::new(columns, of(rows, "circuit").map(cells))
}

fn relay(row: &Value) -> Table {
    let pairs = [
        ("circuits", row["circuits"].to_string()),
        ("ports", row["ports"].to_string()),
        ("left for others", rate(row, "headroom_bps")),
    ];
    Table::list(pairs.map(|(name, value)| vec![name.to_owned(), value]))
}

/// The tables that have rows, each with its title.
pub(crate) fn tables(rows: &[Value], is_wide: bool) -> Vec<(&'static str, Table)> {
    let mut tables = vec![
        ("members", members(rows, is_wide)),
        ("processing", loads(rows, is_wide)),
        ("links", links(rows, is_wide)),
        ("paths", of_paths(rows, is_wide)),
    ];
    tables.extend(of(rows, "relay").map(|row| ("relay", relay(row))));
    tables.push(("circuits", of_circuits(rows, is_wide)));
    tables.retain(|(_, table)| !table.is_empty());
    tables
}

#[cfg(any(test, feature = "demo"))]
fn titled(title: &str, table: &Table) -> Vec<String> {
    if table.is_empty() {
        return Vec::new();
    }
    let lines = table.lines(crate::table::width());
    std::iter::once(title.to_owned()).chain(lines).collect()
}

/// All tables, as lines.
#[cfg(any(test, feature = "demo"))]
pub(crate) fn lines(rows: &[Value], is_wide: bool) -> Vec<String> {
    let tables = tables(rows, is_wide);
    let titled = tables.iter().map(|(title, table)| titled(title, table));
    titled.flatten().collect()
}

/// Table of the paths in use, by destination.
#[cfg(feature = "demo")]
pub(crate) fn paths(rows: &[Value]) -> Vec<String> {
    titled("paths", &of_paths(rows, false))
}

/// Table of the circuits of the node's relay.
#[cfg(feature = "demo")]
pub(crate) fn circuits(rows: &[Value]) -> Vec<String> {
    titled("circuits", &of_circuits(rows, false))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::COLUMNS_MAX;

    #[test]
    fn what_is_not_there_is_left_out_and_what_is_unknown_a_dash() {
        let rows = [
            json!({"kind": "member", "name": "studio", "state": "alive", "last_received_s": null, "record_age_s": 1.5,
                "has_session": true, "node": "abc"}),
            json!({"kind": "member", "name": "ship", "state": "suspect", "last_received_s": 75.0, "record_age_s": 90.0,
                "has_session": false, "node": "def"}),
            json!({"kind": "link", "from": "here", "to": "studio", "bandwidth_bps": 8_000_000, "deviation_fraction": 0.12,
                "delay_min_ms": 20.0, "age_s": 3.0, "source": "probes"}),
        ];
        assert_eq!(
            lines(&rows, false),
            [
                "members",
                "MEMBER  STATE                  CONNECTED      HEARD",
                "studio  alive                  yes                -",
                "ship    not responding, 1 min  no         1 min ago",
                "links",
                "FROM  TO          CARRIES    DELAY  MEASURED",
                "here  studio  8.00 Mbit/s  20.0 ms   3 s ago",
            ]
        );
        let wide = lines(&rows, true);
        assert!(wide[2].ends_with("1 s ago  abc"), "{}", wide[2]);
        assert!(wide[6].ends_with("±12 %  probes"), "{}", wide[6]);
    }

    #[test]
    fn loads_of_nodes_that_process_are_shown() {
        let load = json!({"machine_share": null, "cores": 4, "operators_cores": 1.25, "memory_used": 64 << 20, "memory_bound": 512 << 20,
            "queued_adus": 3, "queued_bytes": 2_000_000, "unit_ps": 1_250});
        let rows = [
            json!({"kind": "member", "name": "hub", "state": "alive", "record_age_s": 12.0, "load": load}),
            json!({"kind": "member", "name": "desk", "state": "alive", "load": null}),
        ];
        assert_eq!(
            lines(&rows, true)[5..],
            [
                "PROCESSES AT        OPERATORS  MACHINE  MEMORY  WAITING   AGE  CORES  ADUS     UNIT",
                "hub           125 % of a core        -    12 %  2.00 MB  12 s      4     3  1.25 ns",
            ]
        );
    }

    #[test]
    fn long_names_do_not_break_the_tables() {
        let long = "n".repeat(90);
        let rows = [
            json!({"kind": "path", "to": long, "via": format!("{long} > {long}"), "bandwidth_bps": 1_000, "delay_min_ms": 1.0, "bytes": 5}),
            json!({"kind": "relay", "circuits": 1, "ports": 2, "headroom_bps": 5_000_000}),
            json!({"kind": "circuit", "source": long, "to": long, "rate_bps": 1, "outward_bytes": 1, "back_bytes": 2, "left_s": 30.0}),
        ];
        let lines = lines(&rows, false);
        for line in &lines {
            assert!(line.chars().count() <= COLUMNS_MAX, "{line}");
        }
        assert!(
            lines.contains(&"left for others  5.00 Mbit/s".to_owned()),
            "{lines:?}"
        );
    }
}
