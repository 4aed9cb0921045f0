//! `anabranch video`: stored video, from origin to players.

#[cfg(feature = "console")]
mod console;
#[cfg(not(feature = "console"))]
#[path = "no_console.rs"]
mod console;
mod index;
mod library;
mod ls;
mod origin;
mod proxy;
mod reach;
mod ticket;

use std::time::Duration;

use anabranch::base::duration;
#[cfg(feature = "s3")]
use anabranch_video::origin::library::s3::StoreError;
use anabranch_video::{
    origin::LibraryError,
    proxy::ProxyError,
    video::{CHUNK_LENGTH, Division, parse_policy},
};

use crate::{
    exit::{Failure, Outcome},
    recv::parse_size,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Serve a library of videos to proxies, and print the ticket that they need.
    Origin(origin::Arguments),
    /// Serve an origin's videos to players over plain HTTP, with a cache.
    Proxy(proxy::Arguments),
    /// Show the contents of a video file, and its division into two flows.
    Index(index::Arguments),
    /// List the videos of an origin.
    Ls(ls::Arguments),
    /// Manage the tickets of an origin: one for each proxy, each valid until it is revoked.
    Ticket(ticket::Arguments),
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Origin(arguments) => origin::run(&arguments).await,
        Command::Proxy(arguments) => proxy::run(arguments).await,
        Command::Index(arguments) => index::run(&arguments),
        Command::Ls(arguments) => ls::run(&arguments).await,
        Command::Ticket(arguments) => ticket::run(&arguments).await,
    }
}

/// Flags for the division of videos into flows, chunks and segments.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Dividing {
    /// Content of the essential flow, which must arrive: `intra` (key frames), `intra+audio`, `intra+referenced` (all but
    /// disposable frames), or a rate such as `500 kbit/s`, which is filled with the most important frames first.
    #[arg(long, value_name = "POLICY", default_value = "intra+audio")]
    essential: String,
    /// Target length of chunks, such as `4 s`; each begins with a key frame.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "4 s")]
    chunk: Duration,
    /// Length of segments; essential data is sent one segment ahead [default: a 24th of the video, from 4 to 256 s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    segment: Option<Duration>,
}

impl Dividing {
    fn division(&self) -> Result<Division, Failure> {
        let at_least = Duration::from_millis(500);
        for (name, length) in [("chunk", Some(self.chunk)), ("segment", self.segment)] {
            if length.is_some_and(|length| length < at_least) {
                return Err(Failure::usage(format!(
                    "--{name} must be at least 500 ms; {} is a good length",
                    duration::format(CHUNK_LENGTH)
                )));
            }
        }
        Ok(Division {
            policy: parse_policy(&self.essential).map_err(Failure::usage)?,
            chunk: self.chunk,
            segment: self.segment,
        })
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// Parses a size with its unit, such as `10 GB`.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < 1_000_000 {
        return Err(format!("'{text}' is too small; give at least 1 MB"));
    }
    Ok(bytes)
}

impl From<LibraryError> for Failure {
    fn from(error: LibraryError) -> Self {
        match &error {
            #[cfg(feature = "s3")]
            LibraryError::Store(error) => store(error),
            _ => Self::file(error),
        }
    }
}

#[cfg(feature = "s3")]
impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        store(&error)
    }
}

#[cfg(feature = "s3")]
fn store(error: &StoreError) -> Failure {
    use StoreError as E;
    match error {
        E::Location(_) | E::Endpoint(_) | E::Half { .. } => Failure::usage(error),
        E::Unreachable { .. } => Failure::unreachable(error),
        E::Certificates { .. } => Failure::file(error),
        _ => Failure::refused(error),
    }
}

impl From<ProxyError> for Failure {
    fn from(error: ProxyError) -> Self {
        match &error {
            ProxyError::Store(_) => Self::file(error),
            ProxyError::Refused(_) => Self::refused(error),
            ProxyError::Unreachable(_) => Self::unreachable(error),
            _ => Self::other(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(parse_bytes("10 GB"), Ok(10_000_000_000));
        assert_eq!(parse_bytes("1.5GiB"), Ok(1_610_612_736));
        for text in ["", "10", "10 kB", "GB", "-1 GB", "1e9 GB", "99999999999 TB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
