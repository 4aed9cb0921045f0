//! The command `anabranch`: arguments, printing, exit codes. What it does is in the library.
//!
//! One subcommand a file; each is a function from its arguments to a [`Failure`] or nothing.
//!
//! To add a subcommand: a file with its arguments and `run`, a variant of [`Command`], a line in
//! [`run`].

mod admit;
mod control;
mod costs;
mod demo;
mod emulate;
mod exit;
mod explain;
mod guarantee;
mod hose;
mod keygen;
mod lab;
mod log;
mod man;
mod meter;
mod node;
mod objective;
mod overlay;
mod panics;
mod prompt;
mod recv;
mod send;
mod ticket;
mod video;

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::{Failure, Outcome};

/// Carries streams of data over several unreliable network paths at once.
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, about, after_long_help = exit::HELP)]
struct Arguments {
    /// Say more; repeat for still more. RUST_LOG is honoured.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make this node's key and print its id.
    Keygen(keygen::Arguments),
    /// Receive one transfer; prints a ticket for the sender.
    Recv(recv::Arguments),
    /// Send a file, a directory or standard input to the holder of a ticket.
    Send(Box<send::Arguments>),
    /// Run a node by a configuration file.
    Node(node::Arguments),
    /// What a running node is doing.
    Status(control::Asking),
    /// The paths of a running node.
    Paths(control::Asking),
    /// The streams of a running node.
    Streams(control::Asking),
    /// Which node has which rights at a running node.
    Rights(control::Asking),
    /// Have a running node read its configuration again; its peers and rights count at once.
    Reload(control::Asking),
    /// Whether a running node would promise a stream what it asks for, and what instead.
    Admit(admit::Arguments),
    /// Explain the promise of a running node's stream, and show how its windows were kept.
    Explain(explain::Arguments),
    /// The objectives of a running node: add, list, remove.
    Objective(objective::Arguments),
    /// The overlay of a running node: members, links, ways, circuits.
    Overlay(overlay::Arguments),
    /// Emulate links, between UDP ports or between network namespaces.
    Emulate(emulate::Arguments),
    /// Show everything at work on this machine, over three emulated paths.
    Demo(demo::paths::Arguments),
    /// Show an overlay at work on this machine: four nodes, a transfer over two ways, a relay that is killed.
    DemoOverlay(demo::overlay::Arguments),
    /// Stored video in two flows: origin, proxy, plain HTTP for players.
    Video(Box<video::Arguments>),
    /// Show video at work on this machine: an origin, a pipe that loses packets, a proxy, a player.
    DemoVideo(demo::video::Arguments),
    /// Objectives: check, format and evaluate them.
    Hose(hose::Arguments),
    /// Run the experiments of the lab.
    Lab(lab::Arguments),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man(man::Arguments),
}

fn main() -> std::process::ExitCode {
    panics::end_the_program();
    let arguments = Arguments::parse();
    log::to_stderr(arguments.verbose);
    let outcome = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(arguments.command));
            // A thread that waits for standard input must not hold up the end.
            runtime.shutdown_timeout(std::time::Duration::from_millis(100));
            outcome
        }
        Err(error) => Err(Failure::other(format!("cannot start: {error}"))),
    };
    exit::report(outcome)
}

async fn run(command: Command) -> Outcome {
    match command {
        Command::Keygen(arguments) => keygen::run(&arguments),
        Command::Recv(arguments) => recv::run(arguments).await,
        Command::Send(arguments) => send::run(*arguments).await,
        Command::Node(arguments) => node::run(arguments).await,
        Command::Status(arguments) => control::run("status", &arguments).await,
        Command::Paths(arguments) => control::run("paths", &arguments).await,
        Command::Streams(arguments) => control::run("streams", &arguments).await,
        Command::Rights(arguments) => control::run("rights", &arguments).await,
        Command::Reload(arguments) => control::run("reload", &arguments).await,
        Command::Admit(arguments) => admit::run(arguments).await,
        Command::Explain(arguments) => explain::run(arguments).await,
        Command::Objective(arguments) => objective::run(arguments).await,
        Command::Overlay(arguments) => overlay::run(&arguments).await,
        Command::DemoOverlay(arguments) => demo::overlay::run(arguments).await,
        Command::Emulate(arguments) => emulate::run(arguments).await,
        Command::Demo(arguments) => demo::paths::run(arguments).await,
        Command::Video(arguments) => video::run(*arguments).await,
        Command::DemoVideo(arguments) => demo::video::run(arguments).await,
        Command::Hose(arguments) => hose::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments).await,
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "anabranch", &mut text);
            exit::print_bytes(&text)
        }
        Command::Man(arguments) => man::run(&arguments, &Arguments::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }
}
