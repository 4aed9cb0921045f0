//! `anabranch stream`: standard input and output as streams of a running node.
//!
//! | file | holds |
//! |---|---|
//! | `open` | `stream open`: a stream to a peer |
//! | `accept` | `stream accept`: the streams of peers |
//! | `framing` | ADUs as lines, frames, records or JSON |
//! | `message` | ADUs with header fields |
//! | `on_time` | messages that are sent only if they will probably be in time |
//! | `set` | `stream set`: changes to an open stream |
//! | `carry` | the two directions between a stream and the standard streams |

mod accept;
mod carry;
mod framing;
mod message;
mod on_time;
mod open;
mod set;

use anabranch::{
    Client,
    daemon::{CODE_BUSY, CODE_NO_RIGHT},
    local::CODE_DETACHED,
    net::CODE_DROPPED,
};

pub(crate) use self::framing::Framing;
#[cfg(feature = "process")]
pub(crate) use self::{
    carry::{input, output},
    framing::{Reader, parse as parse_form},
};
use crate::{
    attach::{Place, failure},
    exit::{Failure, Outcome},
};

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
    /// Change an open stream: its guarantee, weight, cap or redundancy.
    Set(set::Arguments),
}

/// Flags of both commands.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    place: Place,
    /// Messages: `lines`, one per line without its end; `frames`, each after its length as 32 bits, big endian; `record`, the
    /// bytes as they arrive, in messages of 64 KiB, or of N bytes with `record=N`; `json`, one object per line, such as
    /// {"data": "…", "fields": {"frame": "I"}}.
    #[arg(long = "as", value_name = "FORM", default_value = "lines", value_parser = framing::parse)]
    framing: Framing,
}

impl Common {
    async fn attach(&self) -> Result<Client, Failure> {
        let attached = self.place.attach(PROGRAM).await;
        attached.map_err(failure)
    }
}

/// Meaning of the code with which a stream was stopped.
fn refusal(code: u32) -> String {
    let cause = match code {
        CODE_NO_RIGHT => "nobody accepts its label there, or this node has no right to it",
        CODE_BUSY => "too many streams wait there to be accepted",
        CODE_DROPPED => "it closed the stream before it had read everything",
        CODE_DETACHED => "it ended before it had read everything",
        _ => "the code is its own",
    };
    format!("the peer's application stopped the stream (code {code}): {cause}")
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Open(arguments) => open::run(*arguments).await,
        Command::Accept(arguments) => accept::run(arguments).await,
        Command::Set(arguments) => set::run(arguments).await,
    }
}

/// Writes a message to standard output.
#[cfg(feature = "process")]
pub(crate) async fn write(output: &mut tokio::fs::File, form: Framing, message: &[u8]) -> Outcome {
    framing::write(output, form, message)
        .await
        .map_err(carry::writing)
}
