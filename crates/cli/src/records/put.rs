//! `anabranch records put`.

use std::{
    collections::BTreeMap, convert::Infallible, io::IsTerminal, path::PathBuf, time::Duration,
};

use anabranch::{AduSession, base::text::printable};
use anabranch_records::{
    client::{Put, Records, RecordsError, Sent},
    recordset::Manifest,
    shelf::open_set,
    wire::{Fault, OnRefusal},
};
use indicatif::MultiProgress;
use serde_json::{Value, json};

use super::{
    parse_duration,
    paths::{Lines, Meter, Paths},
    reach::{Attempts, ReachFlags, Reached, settled, with},
};
use crate::{
    bytes, events,
    exit::{Failure, Outcome, STOPPED, note, print_line, unless_stopped},
    meter::{self, Direction},
};

/// Interval between two events of progress.
const EVERY: Duration = Duration::from_secs(1);
/// Interval between two updates of a terminal.
const SHOWN_EVERY: Duration = Duration::from_millis(250);
/// Parts that are named in a report.
const NAMED_MAX: usize = 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The peer runs `anabranch records serve DIR --accept`, and gives this node the right use-service for records/1/put/*. It serves the set when it \
is complete. After an interruption, the same command sends what is lacking.")]
pub(super) struct Arguments {
    /// Directory of a set, with its manifest.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Peer: the name or id of a peer of the running node; or without a node, ID@HOST:PORT or a ticket.
    #[arg(value_name = "PEER")]
    peer: String,
    /// Ask for the promises of the manifest: `fail` if one cannot be given, `wait` to go on without until it can.
    #[arg(long, value_name = "WHAT", value_parser = ["wait", "fail"])]
    promised: Option<String>,
    /// Time for which to try to reconnect after an interruption, such as `90 s`; `0 s`: not at all.
    #[arg(long, value_name = "DURATION", default_value = "10 min", value_parser = parse_duration)]
    retry: Duration,
    /// Print events as lines of JSON on standard output (docs/records.md).
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: ReachFlags,
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let outcome = put(arguments).await;
    if let (true, Err(failure)) = (arguments.json, &outcome) {
        events::failed(failure);
    }
    outcome
}

async fn put(arguments: &Arguments) -> Outcome {
    let folder = arguments.folder.clone();
    let opening = tokio::task::spawn_blocking(move || open_set(&folder));
    let opening = async { opening.await.map_err(Failure::other) };
    let source = unless_stopped(STOPPED, opening).await?;
    let source = source.map_err(Failure::file)?;
    let promises = arguments.promised.as_deref().map(|word| match word {
        "fail" => OnRefusal::Fail,
        _ => OnRefusal::Wait,
    });
    let put = Put::new(source.into(), promises);
    let program = "anabranch records put";
    let opening = Reached::open(&arguments.peer, &arguments.flags, program);
    let mut reached = unless_stopped(STOPPED, opening).await?;
    let paths = Paths::of(&reached);
    let mut meter = Meter::new(&paths, Direction::Sending);
    meter.update().await;
    let running = async {
        let mut attempts = Attempts::new(arguments.retry);
        loop {
            let before = put.progress();
            let ran = with!(&reached, records => settled(run_on(&put, records)).await)?;
            let interrupted = match ran {
                Ok(sent) => return Ok(sent),
                Err(interrupted) => interrupted,
            };
            if put.progress() != before {
                attempts.went_well();
            }
            attempts.again(interrupted).await?;
            loop {
                match Reached::open(&arguments.peer, &arguments.flags, program).await {
                    Ok(other) => {
                        paths.turn_to(&other);
                        std::mem::replace(&mut reached, other).close().await;
                        break;
                    }
                    Err(failure) if matches!(failure.code(), 3 | 5) => {
                        attempts.again(failure).await?;
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
    };
    let ran = tokio::select! {
        ran = unless_stopped(STOPPED, running) => ran,
        never = follow(&put, &mut meter, arguments.json) => match never {},
    };
    meter.update().await;
    reached.close().await;
    report(&put, &ran?, &meter, arguments.json)
}

async fn run_on<S: AduSession>(put: &Put, records: &Records<S>) -> Result<Sent, RecordsError> {
    put.run(records).await
}

/// Shows the progress; does not return.
async fn follow(put: &Put, meter: &mut Meter<'_>, is_json: bool) -> Infallible {
    if !is_json {
        return show(put, meter).await;
    }
    let mut before = Vec::new();
    loop {
        meter.update().await;
        let now = put.progress();
        if now != before && !before.is_empty() {
            let mut event = progress(put.source().manifest(), &now);
            event["paths"] = meter.event().into();
            // A closed standard output ends the command at its next event.
            let _ = events::print(&event);
        }
        before = now;
        tokio::time::sleep(EVERY).await;
    }
}

/// Draws a bar, if the length is known, and a line for each path; on a terminal only.
async fn show(put: &Put, meter: &mut Meter<'_>) -> Infallible {
    if !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    let screen = MultiProgress::new();
    let length = put.source().stated_bytes().filter(|length| *length > 0);
    let bar = length.map(|length| {
        let bar = screen.add(meter::total_bar());
        bar.set_prefix(printable(put.source().name(), 40));
        bar.set_length(length);
        bar
    });
    let mut lines = Lines::default();
    loop {
        if let Some(bar) = &bar {
            bar.set_position(put.progress().iter().sum());
        }
        meter.update().await;
        lines.show(&screen, meter.lines());
        tokio::time::sleep(SHOWN_EVERY).await;
    }
}

/// Event of progress, of this command or a copy.
pub(super) fn progress(manifest: &Manifest, moved: &[u64]) -> Value {
    let components = manifest.components.iter().zip(moved);
    let rows: Vec<Value> = components
        .map(|(component, bytes)| json!({"name": component.name, "bytes_moved": bytes}))
        .collect();
    json!({"kind": "progress", "components": rows})
}

/// Reports the result, and what the paths carried meanwhile.
fn report(put: &Put, sent: &Sent, meter: &Meter<'_>, is_json: bool) -> Outcome {
    let (set, manifest) = (put.source().name(), put.source().manifest());
    let all: u64 = put.progress().iter().sum();
    if is_json {
        events::print(&json!({
            "kind": "sent", "set": set, "bytes_moved": all, "is_complete": sent.is_complete,
            "missing": sent.faults.len(), "paths": meter.event(),
        }))?;
    } else if sent.is_complete {
        let name = printable(set, 80);
        print_line(&format!(
            "{name}: {} moved, the set is complete there",
            bytes::text(all)
        ))?;
        meter
            .summary()
            .iter()
            .try_for_each(|line| print_line(line))?;
    }
    match sent.is_complete {
        true => Ok(()),
        false => Err(missing(manifest, &sent.faults)),
    }
}

/// Names what is missing at a peer.
pub(super) fn missing(manifest: &Manifest, faults: &BTreeMap<(u64, u16), Fault>) -> Failure {
    for ((record, component), fault) in faults.iter().take(NAMED_MAX) {
        let component = manifest.components.get(usize::from(*component));
        let component = component.map_or("?", |component| &component.name);
        let name = manifest.record_name(*record).unwrap_or_default();
        note(&format!(
            "missing: {} of record {}: {fault}",
            printable(component, 40),
            printable(&name, 40)
        ));
    }
    Failure::refused(match faults.len() {
        0 => "the set is not complete there; the same command sends what is lacking".to_owned(),
        count => {
            format!("{count} parts are missing there; the same command tries to send them again")
        }
    })
}
