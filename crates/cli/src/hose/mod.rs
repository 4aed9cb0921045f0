//! `anabranch hose`: objectives checked, formatted, evaluated.

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
    /// Say what is wrong with files of objectives, and what each objective is about.
    Check(check::Arguments),
    /// Bring files of objectives into the usual layout.
    Fmt(fmt::Arguments),
    /// Say what a schedule is worth under objectives, and why.
    Eval(eval::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments),
        Command::Fmt(arguments) => fmt::run(arguments),
        Command::Eval(arguments) => eval::run(arguments),
    }
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn read(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == "-" {
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    read.map_err(|error| Failure::file(format!("cannot read {file}: {error}")))
}

/// What a file is called in messages.
pub(crate) fn name(file: &str) -> &str {
    if file == "-" { "standard input" } else { file }
}
