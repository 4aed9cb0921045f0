//! `anabranch hose`: checks, formats and evaluates files of objectives, and explains plans.

mod against;
mod check;
mod choices;
mod eval;
mod explain;
mod fmt;
mod library;
mod lines;

use std::{
    fs,
    io::{self, Read},
    path::Path,
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
    /// List the objectives that can be used by name.
    List(library::List),
    /// Print the objectives that a name stands for.
    Show(library::Show),
    /// Compute the utility of a schedule under objectives, and explain it.
    Eval(eval::Arguments),
    /// Show the next plan of a running node: what waited, the slots that it could have had, what was chosen, and why.
    Explain(explain::Arguments),
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments).await,
        Command::Fmt(arguments) => fmt::run(arguments),
        Command::List(arguments) => library::list(arguments),
        Command::Show(arguments) => library::show(arguments),
        Command::Eval(arguments) => eval::run(arguments),
        Command::Explain(arguments) => explain::run(arguments).await,
    }
}

/// Reads a file, or standard input for `-`. Names of objectives of the library stand for themselves, unless there is such a file.
pub(crate) fn read(file: &str) -> Result<String, Failure> {
    if anabranch_hose::library::is_named(file) && !Path::new(file).exists() {
        return Ok(file.to_owned());
    }
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
