//! `anabranch hose`: checks, formats and evaluates files of objectives.

mod against;
mod check;
mod eval;
mod fmt;

use std::{
    fs,
    io::{self, Read},
};

use crate::exit::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check files of objectives: report their errors, names that nothing provides, and the kind of each objective.
    Check(check::Arguments),
    /// Format files of objectives.
    Fmt(fmt::Arguments),
    /// Compute the utility of a schedule under objectives, and explain it.
    Eval(eval::Arguments),
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments).await,
        Command::Fmt(arguments) => fmt::run(arguments),
        Command::Eval(arguments) => eval::run(arguments),
    }
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == "-" {
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    read.map_err(|error| Failure::file(format!("cannot read {file}: {error}")))
}

/// Name of a file in messages.
pub(crate) fn name(file: &str) -> &str {
    if file == "-" { "standard input" } else { file }
}
