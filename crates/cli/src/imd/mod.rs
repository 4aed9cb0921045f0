//! `anabranch imd`: molecular dynamics simulations that are watched live.
//!
//! | file | holds |
//! |---|---|
//! | `source` | `imd source`: beside the simulation, through the running node |
//! | `viewer` | `imd viewer`: serves IMDv3 to clients |

mod source;
mod viewer;

use anabranch_visualise::{VisualiseError, wire::is_name};

use serde_json::Value;

use crate::{
    events,
    exit::{Failure, Outcome, print_line},
};

/// Name of a simulation that is given none.
const NAME: &str = "simulation";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Send the frames of a simulation that speaks IMDv3 to peers of the running node.
    Source(Box<source::Arguments>),
    /// Serve the frames of a peer's simulation to IMDv3 clients on this machine, such as MDAnalysis.
    Viewer(Box<viewer::Arguments>),
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Source(arguments) => source::run(&arguments).await,
        Command::Viewer(arguments) => viewer::run(&arguments).await,
    }
}

/// Reads a share of time windows in percent.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>();
    match number {
        Ok(percent) if (50.0..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("from 50 up to, but not including, 100".to_owned()),
    }
}

pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => {
            Err("a name has 1 to 64 letters, digits, '-', '_' and '.', such as adk-run7".to_owned())
        }
    }
}

/// Prints an event as JSON, or in words.
pub(crate) fn line(is_json: bool, event: &Value, words: &str) -> Outcome {
    match is_json {
        true => events::print(event),
        false => print_line(words),
    }
}

/// Failure of a command.
pub(crate) fn failure(error: VisualiseError) -> Failure {
    match &error {
        VisualiseError::Unreachable { .. } => Failure::unreachable(error),
        VisualiseError::Over(_) => Failure::interrupted(error),
        VisualiseError::NotShown { .. } | VisualiseError::Busy => Failure::refused(error),
        VisualiseError::Nothing { .. } => Failure::usage(error),
        VisualiseError::Molecule(_) => Failure::file(error),
        _ => Failure::other(error),
    }
}
