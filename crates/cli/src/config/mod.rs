//! `anabranch config`: the configuration in force, its check, and its schema.

mod check;
mod show;

use std::path::{Path, PathBuf};

use anabranch::config::{Layer, NodeConfig, Places, schema};

use crate::{
    exit::{Failure, Outcome, print_line},
    node,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the configuration in force, with the source of each value: of the running node, or of a file.
    Show(show::Arguments),
    /// Report every mistake of a configuration file with its line and column, as a node would find it.
    Check(check::Arguments),
    /// Print the JSON Schema of a configuration file, for editors.
    Schema,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Show(arguments) => show::run(arguments).await,
        Command::Check(arguments) => check::run(&arguments),
        Command::Schema => print_line(&format!("{:#}", schema())),
    }
}

/// The file that the node of this user has; `None`: there is none.
pub(crate) fn usual_file() -> Option<PathBuf> {
    let named = std::env::var_os("ANABRANCH_CONFIG").filter(|value| !value.is_empty());
    let usual = || Places::usual().map(|places| places.config);
    named
        .map(PathBuf::from)
        .or_else(usual)
        .filter(|file| file.exists())
}

/// Looks up a variable for the defaults of a file: those of a file in the usual place lead to the usual places.
pub(crate) fn variable_for(file: &Path) -> impl Fn(&str) -> Option<String> + use<> {
    let places = Places::usual().filter(|places| places.config == file);
    move |name: &str| {
        let environment = |name: &str| std::env::var(name).ok();
        match &places {
            Some(places) => places.variable(name, environment),
            None => environment(name),
        }
    }
}

/// Reads a file as the node that is started from it does.
pub(crate) fn read(file: &Path) -> Result<NodeConfig, Failure> {
    node::read_file(Some(file), &Layer::default(), variable_for(file))
}
