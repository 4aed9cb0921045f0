//! `anabranch records verify`.

use std::path::PathBuf;

use anabranch::base::text::printable;
use anabranch_records::client::{Difference, Verified};
use serde_json::json;

use super::{
    Selecting, failure, parse_place,
    reach::{ReachFlags, Reached, with},
};
use crate::{
    bytes, events,
    exit::{Failure, Outcome, note, print_line, unless_stopped},
};

/// Differences that are named.
const NAMED_MAX: usize = 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Both sides read what they have, and compare the BLAKE3 hashes of blocks of 1 MiB. Exit code 1: something differs.")]
pub(super) struct Arguments {
    /// Set of a peer.
    #[arg(value_name = "PEER:SET")]
    place: String,
    /// Directory of the set here.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    selecting: Selecting,
    /// Print a line of JSON for each difference, and one for the result.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: ReachFlags,
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let (peer, set) = parse_place(&arguments.place)?;
    if !arguments.folder.is_dir() {
        return Err(Failure::file(format!(
            "{} is no directory",
            arguments.folder.display()
        )));
    }
    let verifying = async {
        let opening = Reached::open(&peer, &arguments.flags, "anabranch records verify");
        let reached = unless_stopped("stopped", opening).await?;
        let plan = arguments.selecting.plan();
        let verified = async {
            let verified = with!(
                &reached,
                records => records.verify(&set, &arguments.folder, &plan, |_| ()).await
            );
            verified.map_err(failure)
        };
        let verified = unless_stopped("stopped", verified).await;
        reached.close().await;
        report(&verified?, arguments.json)
    };
    let outcome = verifying.await;
    if let (true, Err(failure)) = (arguments.json, &outcome) {
        events::failed(failure);
    }
    outcome
}

fn report(verified: &Verified, is_json: bool) -> Outcome {
    let count = verified.differences.len();
    for (number, (record, component, difference)) in verified.differences.iter().enumerate() {
        let words = words(difference);
        let component = &verified.names[usize::from(*component)];
        if is_json {
            events::print(&json!({
                "kind": "difference", "record": record, "component": component, "words": words,
            }))?;
        } else if number < NAMED_MAX {
            let component = printable(component, 40);
            note(&format!("{component} of record {record}: {words}"));
        } else if number == NAMED_MAX {
            note(&format!("{} more differ", count - NAMED_MAX));
        }
    }
    let (parts, all) = (verified.parts, verified.bytes);
    if is_json {
        events::print(&json!({
            "kind": "verified", "parts": parts, "bytes": all, "differences": count,
        }))?;
    } else {
        print_line(&format!("{parts} parts compared, {}", bytes::text(all)))?;
    }
    match count {
        0 => Ok(()),
        _ => Err(Failure::other(format!("{count} parts differ"))),
    }
}

fn words(difference: &Difference) -> String {
    match difference {
        Difference::Missing => "it is not here".to_owned(),
        Difference::Length { here, there } => {
            format!("it has {here} bytes here, and {there} at the peer")
        }
        Difference::Bytes { offset } => {
            format!("the bytes differ in the MiB from byte {offset} on")
        }
        Difference::Surplus => "it is here, and the peer has none".to_owned(),
        Difference::Fault(fault) => printable(&format!("at the peer, {fault}"), 200),
    }
}
