//! `anabranch stream`: standard input and output as streams of a running node.
//!
//! | file | holds |
//! |---|---|
//! | `open` | `stream open`: a stream to a peer |
//! | `accept` | `stream accept`: the streams of peers |
//! | `framing` | ADUs as lines, frames, records or JSON |
//! | `message` | ADUs with header fields |
//! | `carry` | the two directions between a stream and the standard streams |

mod accept;
mod carry;
mod framing;
mod message;
mod open;

use std::path::PathBuf;

use anabranch::{Client, ClientError, LocalAddress};

use self::framing::Framing;
use crate::exit::{Failure, Outcome};

/// Name of the program in the node's log.
const PROGRAM: &str = "anabranch stream";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Open a stream to a peer; send standard input, and print what the peer sends.
    Open(Box<open::Arguments>),
    /// Accept the streams that peers open with a label, and print what they send.
    Accept(accept::Arguments),
}

/// Flags of both commands.
#[derive(Debug, clap::Args)]
struct Common {
    /// Socket of the node's local interface, or tcp:127.0.0.1:PORT [default: $XDG_RUNTIME_DIR/anabranch-local.sock, or
    /// ~/.local/state/anabranch/run/anabranch-local.sock].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_LOCAL")]
    local: Option<PathBuf>,
    /// File with the node's token, for tcp:….
    #[arg(long, value_name = "FILE", env = "ANABRANCH_LOCAL_TOKEN")]
    local_token: Option<PathBuf>,
    /// Messages: `lines`, one a line without its end; `frames`, each after its length as 32 bits, big endian; `record`, the
    /// bytes as they come, in messages of 64 KiB, or of N bytes with `record=N`; `json`, one object a line, such as
    /// {"data": "…", "fields": {"frame": "I"}}.
    #[arg(long = "as", value_name = "FORM", default_value = "lines", value_parser = framing::parse)]
    framing: Framing,
}

impl Common {
    async fn attach(&self) -> Result<Client, Failure> {
        let attached = match &self.local {
            Some(place) => {
                let place = LocalAddress::parse(place, self.local_token.as_deref());
                Client::attach_at(&place.map_err(failure)?, PROGRAM).await
            }
            None => Client::attach_default(PROGRAM).await,
        };
        attached.map_err(failure)
    }
}

/// Failure of the command for an error of the node.
fn failure(error: ClientError) -> Failure {
    match &error {
        ClientError::NoSocket | ClientError::Address { .. } | ClientError::Send(_) => {
            Failure::usage(error)
        }
        ClientError::Token { .. } => Failure::file(error),
        ClientError::Attach { .. } | ClientError::TurnedAway(_) => Failure::unreachable(error),
        ClientError::Refused(_)
        | ClientError::Limited { .. }
        | ClientError::Reset(_)
        | ClientError::Stopped(_) => Failure::refused(error),
        ClientError::SessionOver(_) | ClientError::Detached(_) => Failure::unreachable(error),
        ClientError::Node { kind, .. } => match kind.as_str() {
            "unreachable" => Failure::unreachable(error),
            "peer" | "spec" | "request" => Failure::usage(error),
            _ => Failure::other(error),
        },
        _ => Failure::other(error),
    }
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Open(arguments) => open::run(*arguments).await,
        Command::Accept(arguments) => accept::run(arguments).await,
    }
}
