//! `anabranch flows`: the open flows of a running node, and its rules for flows.

use std::time::Duration;

use anabranch::{base::duration, control::Request};
use serde_json::Value;

use crate::{
    bytes, control,
    exit::{Outcome, print_line},
    overlay::table::text,
    table::{Column, Table},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A flow is a connection of a program, or its datagrams with one target, through a forward, SOCKS or the tunnel; or one that a peer asked \
for. Of the tunnel's packets, the 256 flows with the latest ones are shown. See docs/gateway.md and docs/tunnel.md.")]
pub(crate) struct Arguments {
    /// Show the rules instead, with the flows that each was the first to match.
    #[arg(long)]
    rules: bool,
    #[command(flatten)]
    control: control::Asking,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let request = match arguments.rules {
        true => Request::FlowRules {},
        false => Request::Flows {},
    };
    let answer = arguments.control.ask(&request).await?;
    if arguments.control.json {
        return print_line(&answer.to_string());
    }
    let rows = control::rows(&answer);
    if rows.is_empty() {
        return print_line("no flows");
    }
    let lines = match arguments.rules {
        true => rules(rows),
        false => flows(rows),
    };
    for line in lines {
        print_line(&line)?;
    }
    match answer["rows_left_out"].as_u64() {
        Some(more) if more > 0 => print_line(&format!("and {more} more")),
        _ => Ok(()),
    }
}

fn with_heading(head: &[&'static str], rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let columns = head.iter().map(|&head| Column::text(head)).collect();
    // Addresses are not shortened: they are what one looks for.
    Table::new(columns, rows).lines(usize::MAX)
}

/// State of the promise, and of the peer's for the way back if there is one.
fn promise(row: &Value) -> String {
    let own = text(row, "promise");
    match row["promise_back"].as_str() {
        Some(back) if back != own => format!("{own}, back {back}"),
        _ => own.to_owned(),
    }
}

fn flows(rows: &[Value]) -> Vec<String> {
    let cells = |row: &Value| {
        let peer = text(row, "peer");
        let (source, by) = match row["is_incoming"] == true {
            true => (peer, "this node"),
            false => (text(row, "source"), peer),
        };
        let age = row["age_ms"].as_f64().unwrap_or_default().max(0.0);
        vec![
            source.to_owned(),
            text(row, "target").to_owned(),
            text(row, "protocol").to_owned(),
            by.to_owned(),
            text(row, "rule").to_owned(),
            text(row, "service").to_owned(),
            promise(row),
            bytes::of(row, "sent_bytes"),
            bytes::of(row, "received_bytes"),
            duration::format(Duration::from_secs((age / 1e3) as u64)),
        ]
    };
    let head = [
        "from", "to", "protocol", "by", "rule", "service", "promise", "sent", "received", "age",
    ];
    with_heading(&head, rows.iter().map(cells))
}

fn rules(rows: &[Value]) -> Vec<String> {
    let cells = |row: &Value| {
        vec![
            text(row, "rule").to_owned(),
            text(row, "match").to_owned(),
            text(row, "action").to_owned(),
            row["flows"].to_string(),
            row["denied"].to_string(),
            row["open"].to_string(),
            bytes::of(row, "sent_bytes"),
            bytes::of(row, "received_bytes"),
        ]
    };
    let head = [
        "rule", "match", "action", "flows", "denied", "open", "sent", "received",
    ];
    with_heading(&head, rows.iter().map(cells))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flows_are_a_table() {
        let rows = [
            json!({"source": "127.0.0.1:40000", "is_incoming": false, "target": "udp:10.0.0.9:5004", "protocol": "udp", "peer": "studio",
                "rule": "video", "service": "live", "promise": "waiting", "sent_bytes": 1_500_000, "received_bytes": 0, "age_ms": 62_000.0}),
            json!({"source": null, "is_incoming": true, "target": "db:5432", "protocol": "tcp", "peer": "studio", "rule": null,
                "service": "of the peer", "sent_bytes": 1, "received_bytes": 2, "age_ms": 500.0}),
            json!({"source": "10.77.0.2:40000", "is_incoming": false, "target": "udp:10.0.0.9:5004", "protocol": "udp", "peer": "exit",
                "rule": "call", "service": "live", "promise": "promised", "promise_back": "waiting", "sent_bytes": 1, "received_bytes": 2,
                "age_ms": 500.0}),
        ];
        let lines = flows(&rows);
        assert!(lines[0].starts_with("from             to "), "{}", lines[0]);
        assert!(
            lines[1].contains("video  live         waiting                 1.50 MB"),
            "{}",
            lines[1]
        );
        assert!(
            lines[2].starts_with("studio           db:5432"),
            "{}",
            lines[2]
        );
        assert!(lines[2].contains("this node  -"), "{}", lines[2]);
        assert!(lines[3].contains("promised, back waiting"), "{}", lines[3]);
    }
}
