//! Progress of a fetch, its events as lines of JSON, and its report.

use std::{convert::Infallible, io::IsTerminal, path::Path, time::Duration};

use anabranch::base::{Rate, text::printable};
use anabranch_records::{
    client::{Fetch, Fetched, Up},
    recordset::Manifest,
    wire::Promised,
};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::paths::{Lines, Meter};
use crate::{
    bytes, events,
    exit::{Failure, Outcome, note, print_line},
};

/// Interval between two events of progress.
const EVERY: Duration = Duration::from_secs(1);
/// Interval between two updates of a terminal.
const SHOWN_EVERY: Duration = Duration::from_millis(250);
/// Characters of a name.
const NAME_CHARS: usize = 30;
/// Parts that are named in a report.
const NAMED_MAX: usize = 20;

/// Shows a fetch; does not return.
pub(super) async fn follow(
    fetch: &Fetch,
    meter: &mut Meter<'_>,
    set: &str,
    events: &mut mpsc::Receiver<Up>,
    [is_json, is_quiet]: [bool; 2],
) -> Infallible {
    if is_json {
        return print_events(fetch, meter, set, events).await;
    }
    if is_quiet || !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    show(fetch, meter).await
}

async fn print_events(
    fetch: &Fetch,
    meter: &mut Meter<'_>,
    set: &str,
    events: &mut mpsc::Receiver<Up>,
) -> Infallible {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = fetch.progress();
    loop {
        let event = tokio::select! {
            Some(up) = events.recv() => event_of(fetch.manifest(), &up),
            _ = ticks.tick() => {
                meter.update().await;
                let now = fetch.progress();
                if now == before {
                    continue;
                }
                let mut event = progress_of(fetch, set, &before, &now);
                event["paths"] = meter.event().into();
                before = now;
                event
            }
        };
        // A closed standard output ends the command at its next event.
        let _ = events::print(&event);
    }
}

/// Prints the events that are left.
pub(super) fn rest(manifest: &Manifest, left: &mut mpsc::Receiver<Up>) {
    while let Ok(up) = left.try_recv() {
        // A closed standard output ends the command at its next event.
        let _ = events::print(&event_of(manifest, &up));
    }
}

fn progress_of(fetch: &Fetch, set: &str, before: &[(u64, u64)], now: &[(u64, u64)]) -> Value {
    let components = fetch.manifest().components.iter();
    let rows = components.zip(before.iter().zip(now));
    let rows: Vec<Value> = rows
        .map(|(component, (before, now))| {
            let rate = Rate::from_bytes_per(now.0 - before.0, EVERY);
            json!({
                "name": component.name,
                "bytes_moved": now.0,
                "records": now.1,
                "rate_bps": rate.as_bps(),
            })
        })
        .collect();
    json!({"kind": "progress", "set": set, "components": rows})
}

/// An event for an application.
fn event_of(manifest: &Manifest, up: &Up) -> Value {
    let component = |number: u16| &*manifest.components[usize::from(number)].name;
    match up {
        Up::Part {
            record,
            component: number,
            bytes,
        } => json!({
            "kind": "part", "record": record, "component": component(*number), "bytes": bytes,
        }),
        Up::Record { record } => {
            let name = manifest.record_name(*record);
            json!({"kind": "record", "record": record, "name": name})
        }
        Up::Promise {
            component: number,
            promise: Promised::Promised { rate_bps },
        } => json!({
            "kind": "promise", "component": component(*number), "promised": true, "rate_bps": rate_bps,
        }),
        Up::Promise {
            component: number,
            promise: Promised::Waiting { why },
        } => json!({
            "kind": "promise", "component": component(*number), "promised": false, "why": why,
        }),
    }
}

/// Draws a bar for each component, and a line for each path.
async fn show(fetch: &Fetch, meter: &mut Meter<'_>) -> Infallible {
    let screen = MultiProgress::new();
    let records = fetch.selection().records.clone();
    let total = records.end - records.start;
    let manifest = fetch.manifest();
    let bar = |component: &u16| {
        let bar = screen.add(ProgressBar::new(total));
        let template = "{prefix:.bold} {wide_bar} {pos}/{len} records, {msg}";
        // The template is a constant of ours.
        bar.set_style(ProgressStyle::with_template(template).expect("the template is valid"));
        let name = &manifest.components[usize::from(*component)].name;
        bar.set_prefix(printable(name, NAME_CHARS));
        (*component, bar)
    };
    let bars: Vec<(u16, ProgressBar)> = fetch.selection().components.iter().map(bar).collect();
    let mut before = fetch.progress();
    let mut lines = Lines::default();
    loop {
        let now = fetch.progress();
        for (component, bar) in &bars {
            let index = usize::from(*component);
            let rate = Rate::from_bytes_per(now[index].0 - before[index].0, SHOWN_EVERY);
            bar.set_position(now[index].1.min(total));
            bar.set_message(format!("{}, {rate}", bytes::text(now[index].0)));
        }
        before = now;
        meter.update().await;
        lines.show(&screen, meter.lines());
        tokio::time::sleep(SHOWN_EVERY).await;
    }
}

/// Reports the result of a fetch, and what the paths carried meanwhile.
pub(super) fn report(
    (fetched, meter): (&Fetched, &Meter<'_>),
    manifest: &Manifest,
    set: &str,
    path: &Path,
    [is_watched, is_json, is_quiet]: [bool; 3],
) -> Outcome {
    let moved: u64 = fetched.bytes.iter().sum();
    let missing = fetched.missing;
    if is_json {
        let components: Vec<Value> = (manifest.components.iter().enumerate())
            .map(|(index, component)| {
                let (records, before) = fetched.records[index];
                json!({
                    "name": component.name,
                    "bytes_moved": fetched.bytes[index],
                    "records": records,
                    "records_present_before": before,
                })
            })
            .collect();
        let faults: Vec<Value> = (fetched.faults.iter().take(1_000))
            .map(|((record, component), fault)| {
                let component = &manifest.components[usize::from(*component)].name;
                json!({"record": record, "component": component, "reason": fault.to_string()})
            })
            .collect();
        let event = json!({
            "kind": "fetched", "set": set, "path": path.display().to_string(), "bytes_moved": moved,
            "is_complete": fetched.is_complete, "components": components, "missing": missing, "missing_parts": faults,
            "paths": meter.event(),
        });
        events::print(&event)?;
    } else if !is_quiet {
        let rest = match fetched.is_complete {
            true => "the set is complete",
            false => "a part of the set",
        };
        let place = path.display();
        print_line(&format!("{place}: {} moved, {rest}", bytes::text(moved)))?;
        meter
            .summary()
            .iter()
            .try_for_each(|line| print_line(line))?;
    }
    if missing == 0 {
        return Ok(());
    }
    for ((record, component), fault) in fetched.faults.iter().take(NAMED_MAX) {
        let component = &manifest.components[usize::from(*component)].name;
        let name = manifest.record_name(*record).unwrap_or_default();
        note(&format!(
            "missing: {} of record {}: {fault}",
            printable(component, NAME_CHARS),
            printable(&name, NAME_CHARS)
        ));
    }
    let named = fetched.faults.len().min(NAMED_MAX) as u64;
    if missing > named {
        note(&format!("missing: {} more", missing - named));
    }
    if is_watched && fetched.late == missing {
        // That is what deadlines are for.
        return Ok(());
    }
    Err(Failure::refused(format!(
        "{missing} parts are missing; the same command tries to fetch them again"
    )))
}
