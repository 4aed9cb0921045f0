//! `anabranch records`: sets of records whose components matter differently.
//!
//! | file | holds |
//! |---|---|
//! | `serve` | `records serve`: the sets of a directory, through the running node |
//! | `ls` | `records ls`: the sets of a peer |
//! | `fetch` | `records get` and `records watch` |
//! | `follow` | their progress and events |
//! | `paths` | bytes and rates by path |
//! | `put`, `copy` | `records put`, `records copy` |
//! | `verify` | `records verify` |
//! | `reach` | the session with the peer |

mod copy;
mod fetch;
mod follow;
mod ls;
mod paths;
mod put;
mod reach;
mod serve;
mod verify;

use std::{ops::Range, time::Duration};

use anabranch::base::{duration, size, text::printable};
use anabranch_records::{
    client::{Plan, RecordsError},
    recordset::Layout,
};

use crate::exit::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Serve the sets of a directory to peers of the running node.
    Serve(serve::Arguments),
    /// List the sets of a peer, or the components of one.
    Ls(ls::Arguments),
    /// Fetch a set, or a part of it; an interrupted fetch goes on where it stopped.
    Get(Box<fetch::Arguments>),
    /// Fetch records at the rate of their set, as they are produced; what is late is left out.
    Watch(Box<fetch::Arguments>),
    /// Send a set to a peer that accepts it; an interrupted transfer goes on where it stopped.
    Put(put::Arguments),
    /// Have a peer send one of its sets to another node; the data does not pass through this one.
    Copy(copy::Arguments),
    /// Compare a directory with the set of a peer, without a transfer.
    Verify(verify::Arguments),
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments).await,
        Command::Ls(arguments) => ls::run(&arguments).await,
        Command::Get(arguments) => fetch::run(*arguments, false).await,
        Command::Watch(arguments) => fetch::run(*arguments, true).await,
        Command::Put(arguments) => put::run(&arguments).await,
        Command::Copy(arguments) => copy::run(&arguments).await,
        Command::Verify(arguments) => verify::run(&arguments).await,
    }
}

/// Part of a set that a command is about.
#[derive(Clone, Debug, clap::Args)]
struct Selecting {
    /// Component, by name; may be repeated [default: all].
    #[arg(short, long = "component", value_name = "NAME")]
    components: Vec<String>,
    /// Records by number, from 0: A..B is A up to but not B; A.. and ..B have no other end; A is one.
    #[arg(long, value_name = "A..B", value_parser = parse_numbers)]
    records: Option<Range<u64>>,
}

impl Selecting {
    fn plan(&self) -> Plan {
        Plan {
            components: (!self.components.is_empty()).then(|| self.components.clone()),
            records: self.records.clone(),
            ..Plan::default()
        }
    }
}

/// Reads `PEER:SET`.
fn parse_place(text: &str) -> Result<(String, String), Failure> {
    let wrong = || {
        Failure::usage(format!(
            "'{}': give PEER:SET, such as archive:climate; `anabranch records ls PEER` lists the sets",
            printable(text, 200)
        ))
    };
    let (peer, set) = text.rsplit_once(':').ok_or_else(wrong)?;
    match peer.is_empty() || set.is_empty() || set.contains('/') {
        true => Err(wrong()),
        false => Ok((peer.to_owned(), set.to_owned())),
    }
}

/// Reads `A..B` by `number`.
fn parse_range(
    text: &str,
    number: impl Fn(&str) -> Result<u64, String>,
) -> Result<Range<u64>, String> {
    let range = match text.split_once("..") {
        Some((from, to)) => {
            let from = if from.is_empty() { 0 } else { number(from)? };
            from..if to.is_empty() { u64::MAX } else { number(to)? }
        }
        None => {
            let one = number(text)?;
            one..one.saturating_add(1)
        }
    };
    match range.is_empty() {
        true => Err(format!(
            "{text} is empty: in A..B, B is greater than A, and not included"
        )),
        false => Ok(range),
    }
}

fn parse_numbers(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| {
        (text.replace('_', "").parse::<u64>())
            .map_err(|_| format!("'{text}' is no number; give A..B, such as 0..100"))
    };
    parse_range(text, number)
}

fn parse_sizes(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| match text.parse::<u64>() {
        Ok(bytes) => Ok(bytes),
        Err(_) => size::parse(text).map_err(|error| error.to_string()),
    };
    parse_range(text, number)
}

fn parse_layout(text: &str) -> Result<Layout, String> {
    text.parse()
        .map_err(|error: anabranch_records::recordset::LayoutError| error.to_string())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// Failure of a command.
fn failure(error: RecordsError) -> Failure {
    match &error {
        RecordsError::Over(_) => Failure::interrupted(error),
        RecordsError::NotServed | RecordsError::Busy | RecordsError::Refused { .. } => {
            Failure::refused(with_offer(&error))
        }
        RecordsError::Sink(_) => Failure::file(error),
        RecordsError::Selection(_) => Failure::usage(error),
        _ => Failure::other(error),
    }
}

/// The words of an error, with what could be had instead.
fn with_offer(error: &RecordsError) -> String {
    match error {
        RecordsError::Refused {
            why,
            offer_bps: Some(offer),
            ..
        } => {
            let why = printable(why, 500);
            let offer = anabranch::base::Rate::from_bps(*offer);
            format!("{why}; {offer} could be promised instead: --on-refusal offer takes it")
        }
        RecordsError::Refused { why, .. } => printable(why, 500),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_peer_and_a_set() {
        for (text, peer, set) in [
            ("archive:climate", "archive", "climate"),
            ("id@host:4433:climate", "id@host:4433", "climate"),
        ] {
            let expected = (peer.to_owned(), set.to_owned());
            assert_eq!(parse_place(text).unwrap(), expected);
        }
        for text in ["archive", "archive:", ":climate", "a:b/c"] {
            let failure = parse_place(text).unwrap_err();
            assert!(failure.message().contains("PEER:SET"), "{text}");
        }
    }

    #[test]
    fn ranges_have_one_end_both_or_are_one() {
        assert_eq!(parse_numbers("3..1_000"), Ok(3..1_000));
        assert_eq!(parse_numbers("..7"), Ok(0..7));
        assert_eq!(parse_numbers("7.."), Ok(7..u64::MAX));
        assert_eq!(parse_numbers("7"), Ok(7..8));
        assert_eq!(parse_sizes("1 KiB..2 KiB"), Ok(1_024..2_048));
        assert_eq!(parse_sizes("0..100"), Ok(0..100));
        for text in ["7..7", "9..3", "..", "x..", "-1"] {
            if text != ".." {
                assert!(parse_numbers(text).is_err(), "{text}");
            }
        }
    }
}
