//! `anabranch records copy`.

use std::{
    collections::BTreeMap,
    io::IsTerminal,
    time::{Duration, Instant},
};

use anabranch::{
    AduSession,
    base::{Rate, text::printable},
};
use anabranch_records::client::{Copied, Records, RecordsError};
use indicatif::MultiProgress;
use serde_json::json;

use super::{
    failure, parse_place,
    paths::Lines,
    put::{missing, progress},
    reach::{ReachFlags, Reached, with},
};
use crate::{
    bytes, events,
    exit::{Outcome, print_line, unless_stopped},
};

/// Shortest time to which a rate refers.
const TICK_MIN: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
PEER serves the set, and gives this node the right use-service for records/1/copy/*; TO accepts sets of PEER, as with `records put`. The copy \
ends with this command. The same command sends what is lacking.")]
pub(super) struct Arguments {
    /// Set of a peer.
    #[arg(value_name = "PEER:SET")]
    place: String,
    /// Node that gets the set: its name or id in the configuration of PEER.
    #[arg(value_name = "TO")]
    to: String,
    /// Print events as lines of JSON on standard output (docs/records.md).
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: ReachFlags,
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let (peer, set) = parse_place(&arguments.place)?;
    let copying = async {
        let opening = Reached::open(&peer, &arguments.flags, "anabranch records copy");
        let reached = unless_stopped("stopped", opening).await?;
        let copied = async { with!(&reached, records => copy(records, &set, arguments).await) };
        let copied = unless_stopped("stopped", copied).await;
        reached.close().await;
        copied
    };
    let outcome = copying.await;
    if let (true, Err(failure)) = (arguments.json, &outcome) {
        events::failed(failure);
    }
    outcome
}

async fn copy<S: AduSession>(records: &Records<S>, set: &str, arguments: &Arguments) -> Outcome {
    let text = records.manifest(set).await.map_err(failure)?;
    let manifest = text
        .parse()
        .map_err(|error| failure(RecordsError::from(error)))?;
    let is_json = arguments.json;
    let is_shown = std::io::stderr().is_terminal();
    let screen = MultiProgress::new();
    let (mut lines, mut before) = (Lines::default(), BTreeMap::new());
    let mut at = Instant::now();
    let report = |moved: &[u64], paths: &[(u64, u64)]| {
        let elapsed = at.elapsed();
        at = Instant::now();
        let now: BTreeMap<u64, u64> = paths.iter().copied().collect();
        // The first numbers have the session's past.
        let rate = |channel: &u64, bytes: &u64| {
            let past = before.get(channel).copied().unwrap_or(*bytes);
            Rate::from_bytes_per(bytes.saturating_sub(past), elapsed.max(TICK_MIN))
        };
        if is_json {
            let mut event = progress(&manifest, moved);
            let rows = now.iter().map(|(channel, bytes)| {
                let rate = rate(channel, bytes).as_bps();
                json!({"name": format!("path {channel} of the peer"), "bytes": bytes, "rate_bps": rate})
            });
            event["paths"] = rows.collect();
            // A closed standard output ends the command at its next event.
            let _ = events::print(&event);
        } else if is_shown {
            let text = |(channel, sent): (&u64, &u64)| {
                let (rate, sent) = (rate(channel, sent), bytes::text(*sent));
                format!("path {channel} of the peer: {sent}, {rate}")
            };
            lines.show(&screen, now.iter().map(text).collect());
        }
        before = now;
    };
    let copied = records.copy(set, &arguments.to, report).await;
    let Copied {
        bytes: moved,
        is_complete,
        faults,
    } = copied.map_err(failure)?;
    let all: u64 = moved.iter().sum();
    if is_json {
        events::print(&json!({
            "kind": "sent", "set": set, "bytes_moved": all, "is_complete": is_complete, "missing": faults.len(),
        }))?;
    } else if is_complete {
        let (set, to) = (printable(set, 80), printable(&arguments.to, 80));
        let moved = bytes::text(all);
        print_line(&format!(
            "{set}: {moved} moved, the set is complete at {to}"
        ))?;
    }
    match is_complete {
        true => Ok(()),
        false => Err(missing(&manifest, &faults)),
    }
}
