//! `anabranch clinic`: telemedicine, from an ambulance to a hospital.
//!
//! | file | holds |
//! |---|---|
//! | `hospital` | `clinic hospital`: prints a ticket, and keeps what comes |
//! | `ambulance` | `clinic ambulance`: plays a case, and sends it |
//! | `inputs` | its inputs and outputs, from its options |
//! | `consent` | times for which cases are kept |

mod ambulance;
mod consent;
mod hospital;
mod inputs;

use anabranch_clinic::ClinicError;
use serde_json::Value;

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
    /// Receive the cases of an ambulance, and keep them in a folder; prints the ticket that the ambulance needs.
    Hospital(Box<hospital::Arguments>),
    /// Send a record (WFDB), video, speech and files to a hospital.
    Ambulance(Box<ambulance::Arguments>),
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Hospital(arguments) => hospital::run(&arguments).await,
        Command::Ambulance(arguments) => ambulance::run(&arguments).await,
    }
}

/// Prints an event as JSON, or in words.
fn tell(is_json: bool, event: &Value, words: &str) -> Outcome {
    match is_json {
        true => events::print(event),
        false => print_line(words),
    }
}

fn failure(error: ClinicError) -> Failure {
    match &error {
        ClinicError::Over(_) => Failure::interrupted(error),
        ClinicError::Refused(_) => Failure::refused(error),
        ClinicError::Record(_)
        | ClinicError::Video(_)
        | ClinicError::Speech(_)
        | ClinicError::File { .. } => Failure::file(error),
        _ => Failure::other(error),
    }
}
