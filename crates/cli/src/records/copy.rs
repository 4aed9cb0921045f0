//! `anabranch records copy`.

use anabranch::{AduSession, base::text::printable};
use anabranch_records::client::{Copied, Records, RecordsError};
use serde_json::json;

use super::{
    failure, parse_place,
    put::{missing, progress},
    reach::{ReachFlags, Reached, with},
};
use crate::{
    bytes, events,
    exit::{Outcome, print_line, stopped},
};

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
        let reached = Reached::open(&peer, &arguments.flags, "anabranch records copy").await?;
        let copied = with!(&reached, records => copy(records, &set, arguments).await);
        reached.close().await;
        copied
    };
    let outcome = tokio::select! {
        outcome = copying => outcome,
        outcome = stopped() => outcome,
    };
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
    let report = |moved: &[u64]| {
        if is_json {
            // A closed standard output ends the command at its next event.
            let _ = events::print(&progress(&manifest, moved));
        }
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
