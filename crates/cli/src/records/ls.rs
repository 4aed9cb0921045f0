//! `anabranch records ls`.

use anabranch::{AduSession, base::Rate};
use anabranch_records::{client::Records, wire::SetEntry};
use serde_json::json;

use super::{
    failure,
    reach::{ReachFlags, Reached, with},
};
use crate::{
    bytes, direct,
    exit::{Failure, Outcome, print_line, unless_stopped},
    table::{self, Column, Table},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The peer serves sets with `anabranch records serve`, and gives this node the right use-service to them.")]
pub(super) struct Arguments {
    /// PEER lists the sets, PEER:SET the components of one. PEER is the name or id of a peer of the running node; or without a node,
    /// ID@HOST:PORT or a ticket.
    #[arg(value_name = "PEER[:SET]")]
    place: String,
    /// Print a line of JSON for each set or component.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: ReachFlags,
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let place = &*arguments.place;
    let (peer, set) = match place.rsplit_once(':') {
        Some((peer, "")) => (peer, None),
        // ID@HOST:PORT, or a ticket, which ends with a port.
        Some((_, last)) if direct::is_meant_by(place) && last.parse::<u16>().is_ok() => {
            (place, None)
        }
        Some((peer, set)) => (peer, Some(set)),
        None => (place, None),
    };
    let opening = Reached::open(peer, &arguments.flags, "anabranch records ls");
    let reached = unless_stopped("stopped", opening).await?;
    let listed = async {
        match set {
            None => with!(&reached, records => sets(records, arguments.json).await),
            Some(set) => with!(&reached, records => components(records, set, arguments.json).await),
        }
    };
    let listed = unless_stopped("stopped", listed).await;
    reached.close().await;
    listed
}

async fn sets<S: AduSession>(records: &Records<S>, is_json: bool) -> Outcome {
    let sets = records.list().await.map_err(unreachable)?;
    if is_json {
        for set in &sets {
            let row = json!({
                "kind": "set", "name": set.name, "records": set.records, "components": set.components,
                "bytes": set.bytes, "manifest": set.manifest,
            });
            print_line(&row.to_string())?;
        }
        return Ok(());
    }
    if sets.is_empty() {
        return print_line("The peer serves no set.");
    }
    let columns = vec![
        Column::text("SET"),
        Column::number("RECORDS"),
        Column::number("SIZE"),
        Column::text("COMPONENTS"),
    ];
    let row = |set: &SetEntry| {
        vec![
            set.name.clone(),
            set.records.to_string(),
            set.bytes.map_or_else(|| "–".to_owned(), bytes::text),
            set.components.join(", "),
        ]
    };
    lines(&Table::new(columns, sets.iter().map(row)))
}

fn lines(table: &Table) -> Outcome {
    table
        .lines(table::width())
        .iter()
        .try_for_each(|line| print_line(line))
}

async fn components<S: AduSession>(records: &Records<S>, set: &str, is_json: bool) -> Outcome {
    let text = records.manifest(set).await.map_err(unreachable)?;
    let manifest = text.parse().map_err(Failure::other)?;
    let mut rows = Vec::new();
    for (index, component) in manifest.components.iter().enumerate() {
        let size = manifest.stated_bytes(index);
        let rate = component.service.rate.or_else(|| {
            let bits = 8.0 * size? as f64 * manifest.rate?;
            Some(Rate::from_bps(bits as u64))
        });
        if is_json {
            let row = json!({
                "kind": "component", "name": component.name, "bytes": size, "optional": component.is_optional,
                "rate_bps": rate.map(Rate::as_bps), "promise": component.service.promise,
                "deadline_ms": component.service.deadline.map(|deadline| deadline.as_millis() as u64),
            });
            print_line(&row.to_string())?;
            continue;
        }
        let none = || "–".to_owned();
        let share = |share: f64| format!("{:.4} %", share * 100.0).replace(".0000", "");
        rows.push(vec![
            component.name.clone(),
            size.map_or_else(none, bytes::text),
            rate.map_or_else(none, |rate| rate.to_string()),
            component.service.promise.map_or_else(none, share),
            (component.service.deadline).map_or_else(none, anabranch::base::duration::format),
        ]);
    }
    if is_json {
        return Ok(());
    }
    let rate = manifest
        .rate
        .map_or_else(String::new, |rate| format!(", {rate} a second"));
    print_line(&format!("{set}: {} records{rate}", manifest.len()))?;
    let columns = vec![
        Column::text("COMPONENT"),
        Column::number("SIZE"),
        Column::number("RATE"),
        Column::number("PROMISE"),
        Column::number("DEADLINE"),
    ];
    lines(&Table::new(columns, rows.into_iter()))
}

/// A session that is over before anything was fetched was none.
fn unreachable(error: anabranch_records::client::RecordsError) -> Failure {
    match failure(error) {
        failure if failure.code() == 5 => Failure::unreachable(failure.message()),
        failure => failure,
    }
}
