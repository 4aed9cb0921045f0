//! `anabranch smartpointer`: a molecule that moves, shown in a browser at another place.
//!
//! | file | holds |
//! |---|---|
//! | `source` | `smartpointer source`: plays a trajectory, through the running node |
//! | `viewer` | `smartpointer viewer`: serves the page |

mod source;
mod viewer;

use crate::exit::Outcome;

/// Name of a molecule that is given none.
const NAME: &str = "molecule";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Play a trajectory, and send atoms and bonds of each frame to peers of the running node.
    Source(Box<source::Arguments>),
    /// Show a peer's molecule in a browser of this machine.
    Viewer(Box<viewer::Arguments>),
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Source(arguments) => source::run(&arguments).await,
        Command::Viewer(arguments) => viewer::run(&arguments).await,
    }
}
