//! `anabranch process`: streams that are processed on the way.
//!
//! | file | holds |
//! |---|---|
//! | `serve` | `process serve`: a processing node, through the running node |
//! | `modules` | WebAssembly modules of a folder, and files that a subscriber brings (feature `wasm`) |
//! | `offer` | `process offer`: a source |
//! | `subscribe` | `process subscribe`: a subscriber |
//! | `status` | `process status`: the state of a processing node |
//! | `place` | `process place`: the place where a pipeline costs least |
//! | `reach` | one session with a processing node after the other |
//! | `places` | the next of several nodes |
//! | `moves` | the better of several nodes, for a source |

mod modules;
mod moves;
mod offer;
mod place;
mod places;
mod reach;
mod serve;
mod status;
mod subscribe;

use anabranch::{Field, Outgoing};
use anabranch_processing::{
    ProcessingError,
    process::{Fields, Value},
    wire::is_name,
};

use crate::{
    events,
    exit::{Failure, Outcome, print_line},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Process the streams of peers, through the running node.
    Serve(serve::Arguments),
    /// Offer standard input, or a file, to a processing node.
    Offer(Box<offer::Arguments>),
    /// Print what a pipeline derives from a stream at a processing node.
    Subscribe(Box<subscribe::Arguments>),
    /// Find the place where a pipeline costs least, by what the running node knows of its overlay.
    Place(Box<place::Arguments>),
    /// Show the sources, derivations and subscribers of a processing node.
    Status(status::Arguments),
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments).await,
        Command::Offer(arguments) => offer::run(&arguments).await,
        Command::Subscribe(arguments) => subscribe::run(&arguments).await,
        Command::Place(arguments) => place::run(&arguments).await,
        Command::Status(arguments) => status::run(&arguments).await,
    }
}

fn parse_name(text: &str) -> Result<String, String> {
    if is_name(text) {
        return Ok(text.to_owned());
    }
    Err("a name has 1 to 64 letters, digits, '-', '_' and '.', such as frames".to_owned())
}

/// Fields of a message.
fn fields_of(message: &Outgoing) -> Result<Fields, Failure> {
    let mut fields = Fields::default();
    for (name, value) in &message.fields {
        let value = match value {
            Field::Number(number) => Value::Number(*number),
            Field::Boolean(truth) => Value::Boolean(*truth),
            Field::Text(text) => Value::from(&**text),
        };
        let set = fields.set(name, value);
        set.map_err(|error| Failure::usage(format!("field '{name}': {error}")))?;
    }
    Ok(fields)
}

/// A number for this run of a command.
fn run_number() -> Result<u64, Failure> {
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(Failure::other)?;
    Ok(u64::from_ne_bytes(number))
}

/// Prints an event as JSON, or in words.
fn tell(is_json: bool, event: &serde_json::Value, words: &str) -> Outcome {
    if is_json {
        events::print(event)
    } else {
        print_line(words)
    }
}

/// Failure of a command.
fn failure(error: ProcessingError) -> Failure {
    match &error {
        ProcessingError::Over(_) | ProcessingError::Lost(_) | ProcessingError::NotYet(_) => {
            Failure::interrupted(error)
        }
        ProcessingError::NoRight { .. } | ProcessingError::Busy | ProcessingError::Refused(_) => {
            Failure::refused(error)
        }
        _ => Failure::other(error),
    }
}
