//! `anabranch status`, `paths`, `streams` and `overlay`: state of a running node, a line for each thing.

mod paths;
pub(crate) mod rates;
mod status;
mod streams;
pub(crate) mod words;

use std::{
    io::{IsTerminal, stdout},
    time::Duration,
};

use anabranch::control::Request;
use serde_json::Value;

use self::rates::Rates;
use crate::{
    control::{self, Node},
    exit::{Outcome, print_line, stopped},
    overlay,
    table::{self, Table},
};

pub(crate) use self::{
    paths::ends as path,
    words::{age, peer_named, percent, round_trip as millis, seconds},
};

/// Time over which rates are measured, where the command does not go on.
const SAMPLE: Duration = Duration::from_millis(300);
/// Time between two looks with `--watch`.
const EVERY: Duration = Duration::from_secs(1);
/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    node: Node,
    /// Show it again every second until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// Show all columns, and nothing shortened.
    #[arg(long)]
    wide: bool,
    /// Print the node's answer as JSON; with --watch, a line each second.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The node to ask.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }
}

/// Subject of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Status,
    Paths,
    Streams,
    Overlay,
}

impl Subject {
    fn request(self) -> Request {
        match self {
            Self::Status => Request::Status {},
            Self::Paths => Request::Paths {},
            Self::Streams => Request::Streams {},
            Self::Overlay => Request::Overlay {},
        }
    }

    /// Tables of the rows, each with its title.
    fn tables(self, rows: &[Value], rates: &Rates, is_wide: bool) -> Vec<(&'static str, Table)> {
        match self {
            Self::Status => status::tables(rows, is_wide),
            Self::Paths => vec![("", paths::table(rows, rates, is_wide))],
            Self::Streams => vec![("", streams::table(rows, rates, is_wide))],
            Self::Overlay => overlay::table::tables(rows, is_wide),
        }
    }

    /// Line in place of an empty table.
    fn nothing(self) -> &'static str {
        match self {
            Self::Status => "nothing to show",
            Self::Paths => "no paths: no peer is connected",
            Self::Streams => "no streams",
            Self::Overlay => "nothing is known of the overlay yet",
        }
    }
}

pub(crate) async fn run(subject: Subject, arguments: &Arguments) -> Outcome {
    if !arguments.watch {
        return show(subject, arguments).await;
    }
    let stopped = stopped();
    tokio::select! {
        outcome = watch(subject, arguments) => outcome,
        stopped = stopped => stopped,
    }
}

async fn show(subject: Subject, arguments: &Arguments) -> Outcome {
    let place = arguments.node.place().await?;
    let request = subject.request();
    let mut answer = control::ask_at(&place, &request).await?;
    if arguments.json {
        return print_line(&answer.to_string());
    }
    let mut rates = Rates::default();
    if matches!(subject, Subject::Paths | Subject::Streams) && !control::rows(&answer).is_empty() {
        rates.note(control::rows(&answer));
        tokio::time::sleep(SAMPLE).await;
        answer = control::ask_at(&place, &request).await?;
        rates.note(control::rows(&answer));
    }
    print(subject, arguments, &answer, &rates)
}

async fn watch(subject: Subject, arguments: &Arguments) -> Outcome {
    // Once: if this process ends, another one must not take its place.
    let place = arguments.node.place().await?;
    let is_screen = stdout().is_terminal();
    let mut rates = Rates::default();
    let mut is_first = true;
    loop {
        let answer = control::ask_at(&place, &subject.request()).await?;
        if arguments.json {
            print_line(&answer.to_string())?;
        } else {
            rates.note(control::rows(&answer));
            if is_screen {
                crate::exit::print_bytes(CLEAR.as_bytes())?;
            } else if !std::mem::take(&mut is_first) {
                print_line("")?;
            }
            print(subject, arguments, &answer, &rates)?;
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn print(subject: Subject, arguments: &Arguments, answer: &Value, rates: &Rates) -> Outcome {
    let rows = control::rows(answer);
    if rows.is_empty() {
        return print_line(subject.nothing());
    }
    let width = match arguments.wide {
        true => usize::MAX,
        false => table::width(),
    };
    for (index, (title, table)) in subject
        .tables(rows, rates, arguments.wide)
        .into_iter()
        .enumerate()
    {
        if index > 0 {
            print_line("")?;
        }
        if !title.is_empty() {
            print_line(title)?;
        }
        for line in table.lines(width) {
            print_line(&line)?;
        }
    }
    match answer["rows_left_out"].as_u64() {
        Some(more) if more > 0 => print_line(&format!("and {more} more")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Cells of all tables as long as they get.
    #[test]
    fn no_line_of_a_narrow_table_is_longer_than_a_terminal() {
        let long = "n".repeat(90);
        let at = "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff]:65535";
        let huge = 999_999_999_999_999_u64;
        let row = |kind: &str, rest: Value| {
            let mut row = json!({"kind": kind, "peer": long, "peer_name": long, "session": "session-1000000", "node": long,
                "name": long, "from": long, "to": long, "via": long, "source": long, "interface": long, "local": at,
                "remote": at, "bandwidth_bps": huge, "delay_min_ms": 99_999.0, "age_s": 1e6, "left_s": 1e6,
                "sent_bytes": huge, "received_bytes": huge});
            let (Some(all), Some(rest)) = (row.as_object_mut(), rest.as_object()) else {
                unreachable!("both are objects");
            };
            all.extend(rest.clone());
            row
        };
        let load = json!({"machine_share": 0.999, "operators_cores": 100.0, "memory_used": 1, "memory_bound": 1, "queued_bytes": huge});
        let rows = [
            row(
                "node",
                json!({"uptime_s": 1e6, "addresses": format!("{at},{at},{at}"), "sessions": 1_000}),
            ),
            row("socket", json!({"is_up": true, "is_retired": true})),
            row(
                "budget",
                json!({"place": long, "used_bytes": huge, "left_bytes": huge, "paid": 1e6, "unit": "EUR", "renews": "2026-12-01"}),
            ),
            row(
                "session",
                json!({"channels_active": 128, "streams": 100_000, "send_held_bytes": huge, "recv_held_bytes": huge}),
            ),
            row(
                "member",
                json!({"state": "suspect", "last_received_s": 1e6, "record_age_s": 1e6, "load": load}),
            ),
            row("link", json!({})),
            row(
                "path",
                json!({"state": "not responding", "silent_s": 1e6, "rtt_ms": 99_999.0, "loss_fraction": 1.0,
                "share_fraction": 1.0}),
            ),
            row(
                "circuit",
                json!({"rate_bps": huge, "outward_bytes": huge, "back_bytes": huge}),
            ),
            row(
                "stream",
                json!({"stream": "stream-4611686018427387904", "label": long, "is_reliable": true, "lifetime_ms": 12_345.0,
                "backlog_bytes": huge, "lost_adus": 100_000_000, "promise": "best effort", "windows_kept": 100_000,
                "windows_broken": 100_000}),
            ),
        ];
        let mut rates = Rates::default();
        rates.note(&rows);
        rates.note(&rows);
        for subject in [
            Subject::Status,
            Subject::Paths,
            Subject::Streams,
            Subject::Overlay,
        ] {
            let tables = subject.tables(&rows, &rates, false);
            assert!(!tables.is_empty(), "{subject:?}");
            for (_, table) in tables {
                for line in table.lines(table::COLUMNS_MAX) {
                    assert!(line.chars().count() <= table::COLUMNS_MAX, "{line}");
                }
            }
        }
    }
}
