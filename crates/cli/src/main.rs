//! The command `anabranch`: arguments, output and exit codes. The functionality is in the library.
//!
//! Each subcommand has a file with its arguments and a function `run`, which returns nothing or a [`Failure`].
//!
//! To add a subcommand, add such a file, a variant of [`Command`] and a line in [`run`].

mod admit;
mod attach;
mod bytes;
#[cfg(feature = "clinic")]
mod clinic;
mod code;
mod config;
#[cfg(feature = "console")]
mod console;
mod control;
mod costs;
#[cfg(feature = "demo")]
mod demo;
mod direct;
mod doctor;
#[cfg(feature = "demo")]
mod emulate;
mod events;
mod exit;
mod explain;
mod export;
mod flows;
mod gateway;
mod guarantee;
mod hose;
#[cfg(feature = "visualise")]
mod imd;
mod keygen;
mod lab;
#[cfg(not(target_os = "linux"))]
mod linux_only;
mod locals;
mod log;
mod man;
mod meter;
mod node;
mod notify;
mod objective;
mod overlay;
#[cfg(any(feature = "clinic", feature = "console", feature = "visualise"))]
mod page;
mod pair;
mod panics;
mod path;
mod ping;
mod planning;
#[cfg(feature = "process")]
mod process;
mod prompt;
mod record;
#[cfg(feature = "records")]
mod records;
mod recv;
mod send;
mod show;
mod signals;
#[cfg(feature = "visualise")]
mod smartpointer;
mod stream;
mod table;
mod ticket;
#[cfg(feature = "top")]
mod top;
#[cfg(target_os = "linux")]
mod tun;
mod up;
mod version;
#[cfg(feature = "video")]
mod video;
mod watch;

use anabranch::control::Request;
use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    exit::{Failure, Outcome},
    show::Subject,
};

/// In place of musl's, which asks the kernel for each buffer of a packet, under one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Send data over several networks at once.
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, long_version = version::long(), after_long_help = exit::HELP)]
struct Arguments {
    /// More verbose; may be repeated. RUST_LOG takes precedence.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Format of the log on standard error: lines of text, or one JSON object a line. ANABRANCH_LOG_FORMAT sets the default.
    #[arg(long, global = true, value_name = "FORMAT")]
    log_format: Option<log::Format>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate this node's key and print its node ID.
    Keygen(keygen::Arguments),
    /// Receive a transfer: from the sender who shows a code, or with the ticket or code that this prints.
    Recv(recv::Arguments),
    /// Send a file, a directory or standard input by a code, or to the issuer of a ticket.
    Send(Box<send::Arguments>),
    /// List what a peer exports: directories that it lets this node read.
    Ls(Box<export::ls::Arguments>),
    /// Copy a file that a peer exports to this machine; an interrupted copy goes on where it stopped.
    Get(Box<export::get::Arguments>),
    /// Link the node of this machine with that of another one, for good, by a code.
    Pair(Box<pair::Arguments>),
    /// Forward ports between this machine and a peer's network, as `ssh -L` and `-R` do.
    Forward(Box<gateway::forward::Arguments>),
    /// Serve SOCKS5 on this machine; a peer resolves the names and makes the connections.
    Socks(Box<gateway::socks::Arguments>),
    /// Put the whole traffic of this machine, or networks, on all paths to a server: an IP tunnel (Linux, root).
    #[cfg(target_os = "linux")]
    Tun(Box<tun::Arguments>),
    /// Put the traffic of this machine on all paths to a server (Linux only).
    #[cfg(not(target_os = "linux"))]
    Tun(linux_only::Arguments),
    /// Make this machine a node, if it is none yet, and run it.
    Up(up::Arguments),
    /// Run a node from a configuration file.
    Node(node::Arguments),
    /// Show node status.
    Status(show::Arguments),
    /// List the paths of a running node.
    Paths(show::Arguments),
    /// Take a path of a running node out of use, or in again.
    Path(path::Arguments),
    /// List the streams of a running node.
    Streams(show::Arguments),
    /// Measure the round trip of every path to a peer.
    Ping(Box<ping::Arguments>),
    /// List the rights that a running node grants to each peer.
    Rights(control::Asking),
    /// List the open flows of a running node, or its rules for flows with their counters.
    Flows(flows::Arguments),
    /// Reload the configuration of a running node, all of it or nothing; sessions go on, and keys that wait for the next start are listed.
    Reload(control::Asking),
    /// Show, check or describe the configuration of a node.
    Config(Box<config::Arguments>),
    /// Find what would go wrong on this machine, and print the commands that mend it.
    Doctor(Box<doctor::Arguments>),
    /// Show a running node in a browser, and as metrics.
    #[cfg(feature = "console")]
    Console(console::Arguments),
    /// Show a running node in the terminal: paths, streams and promises, as they change.
    #[cfg(feature = "top")]
    Top(top::Arguments),
    /// Ask a running node if it can promise a stream its demand, and if not, what it can promise instead.
    Admit(admit::Arguments),
    /// Explain a stream's promise, and count the intervals that met the guarantee.
    Explain(explain::Arguments),
    /// Show promises, warnings and withdrawals of a running node as they happen.
    Watch(watch::Arguments),
    /// Add, list or remove the objectives of a running node.
    Objective(objective::Arguments),
    /// Show the overlay of a running node: members, links, paths and circuits.
    Overlay(overlay::Arguments),
    /// Record what the sessions of a running node do, so that `anabranch lab replay` can repeat their decisions.
    Record(record::Arguments),
    /// Serve sets of records whose parts matter differently, fetch, watch and verify them.
    #[cfg(feature = "records")]
    Records(Box<records::Arguments>),
    /// Watch a molecular dynamics simulation over several paths, with unmodified IMDv3 clients.
    #[cfg(feature = "visualise")]
    Imd(Box<imd::Arguments>),
    /// Show a molecule that moves in a browser at another place, over several paths: atoms and the bonds in view first.
    #[cfg(feature = "visualise")]
    Smartpointer(Box<smartpointer::Arguments>),
    /// Process streams on the way: a pipeline at a node between source and subscriber decides what each gets.
    #[cfg(feature = "process")]
    Process(Box<process::Arguments>),
    /// Send a record of signals, video and pictures from an ambulance to a hospital, over several paths.
    #[cfg(feature = "clinic")]
    Clinic(Box<clinic::Arguments>),
    /// Use standard input and output as streams of a running node, or change an open stream.
    Stream(stream::Arguments),
    /// Emulate links between UDP ports or between network namespaces.
    #[cfg(feature = "demo")]
    Emulate(emulate::Arguments),
    /// Demonstrate multipath transport on this machine, over three emulated paths.
    #[cfg(feature = "demo")]
    Demo(demo::paths::Arguments),
    /// Demonstrate forwards on this machine: a download and database queries over three emulated paths, one of which is cut.
    #[cfg(feature = "demo")]
    DemoGateway(demo::gateway::Arguments),
    /// Demonstrate an overlay on this machine: four nodes, a transfer over two paths, and a relay that is killed.
    #[cfg(feature = "demo")]
    DemoOverlay(demo::overlay::Arguments),
    /// Demonstrate processing on the way on this machine: a node reduces the frames of a simulation to what a slow path carries.
    #[cfg(all(feature = "demo", feature = "process"))]
    DemoProcess(demo::process::Arguments),
    /// Demonstrate record sets on this machine: three components are watched over three emulated paths, one of which is cut.
    #[cfg(all(feature = "demo", feature = "records"))]
    DemoRecords(demo::records::Arguments),
    /// Demonstrate the tunnel on this machine: unchanged traffic on three emulated paths, one of which is cut (Linux, root).
    #[cfg(all(feature = "demo", target_os = "linux"))]
    DemoTunnel(demo::tunnel::Arguments),
    /// Demonstrate the tunnel on this machine (Linux only).
    #[cfg(all(feature = "demo", not(target_os = "linux")))]
    DemoTunnel(linux_only::Arguments),
    /// Serve stored video: an origin, and a proxy with plain HTTP for players.
    #[cfg(feature = "video")]
    Video(Box<video::Arguments>),
    /// Demonstrate video on this machine: an origin, a link that loses packets, a proxy and a player.
    #[cfg(all(feature = "demo", feature = "video"))]
    DemoVideo(demo::video::Arguments),
    /// Demonstrate SmartPointer on this machine: a molecule that moves, shown over three emulated paths.
    #[cfg(all(feature = "demo", feature = "visualise"))]
    DemoVisualise(Box<demo::visualise::Arguments>),
    /// Demonstrate telemedicine on this machine: an ambulance and a hospital over six emulated cellular paths, one of which is cut.
    #[cfg(all(feature = "demo", feature = "clinic"))]
    DemoClinic(Box<demo::clinic::Arguments>),
    /// Check, format and evaluate files of objectives.
    Hose(hose::Arguments),
    /// Run the experiments of the lab (anabranch-lab).
    Lab(lab::Arguments),
    /// Print a completion script for a shell.
    Completions {
        /// Shell for which the script is.
        shell: clap_complete::Shell,
    },
    /// Print the manual page of the command or of a subcommand.
    Man(man::Arguments),
}

fn main() -> std::process::ExitCode {
    panics::end_the_program();
    let arguments = Arguments::parse();
    match log::Format::chosen(arguments.log_format) {
        Ok(format) => log::to_stderr(arguments.verbose, format),
        Err(failure) => return exit::report(Err(failure)),
    }
    let outcome = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(arguments.command));
            // A thread that waits for standard input must not delay the exit.
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
        Command::Ls(arguments) => export::ls::run(*arguments).await,
        Command::Get(arguments) => export::get::run(*arguments).await,
        Command::Pair(arguments) => pair::run(*arguments).await,
        Command::Forward(arguments) => gateway::forward::run(*arguments).await,
        Command::Socks(arguments) => gateway::socks::run(*arguments).await,
        #[cfg(target_os = "linux")]
        Command::Tun(arguments) => tun::run(*arguments).await,
        #[cfg(not(target_os = "linux"))]
        Command::Tun(arguments) => linux_only::run(&arguments),
        Command::Up(arguments) => up::run(arguments).await,
        Command::Node(arguments) => node::run(arguments).await,
        Command::Status(arguments) => show::run(Subject::Status, &arguments).await,
        #[cfg(feature = "console")]
        Command::Console(arguments) => console::run(arguments).await,
        #[cfg(feature = "top")]
        Command::Top(arguments) => top::run(arguments).await,
        Command::Paths(arguments) => show::run(Subject::Paths, &arguments).await,
        Command::Path(arguments) => path::run(arguments).await,
        Command::Streams(arguments) => show::run(Subject::Streams, &arguments).await,
        Command::Ping(arguments) => ping::run(*arguments).await,
        Command::Rights(arguments) => {
            control::run(&Request::Rights {}, &arguments, control::rights::list).await
        }
        Command::Flows(arguments) => flows::run(&arguments).await,
        Command::Reload(arguments) => {
            control::run(&Request::Reload {}, &arguments, control::rights::reloaded).await
        }
        Command::Doctor(arguments) => doctor::run(*arguments).await,
        Command::Config(arguments) => config::run(*arguments).await,
        Command::Admit(arguments) => admit::run(arguments).await,
        Command::Explain(arguments) => explain::run(arguments).await,
        Command::Watch(arguments) => watch::run(arguments).await,
        Command::Objective(arguments) => objective::run(arguments).await,
        Command::Overlay(arguments) => overlay::run(&arguments).await,
        #[cfg(feature = "demo")]
        Command::DemoOverlay(arguments) => demo::overlay::run(arguments).await,
        #[cfg(all(feature = "demo", feature = "records"))]
        Command::DemoRecords(arguments) => demo::records::run(arguments).await,
        Command::Record(arguments) => record::run(&arguments).await,
        #[cfg(feature = "records")]
        Command::Records(arguments) => records::run(*arguments).await,
        #[cfg(feature = "visualise")]
        Command::Imd(arguments) => imd::run(*arguments).await,
        #[cfg(feature = "visualise")]
        Command::Smartpointer(arguments) => smartpointer::run(*arguments).await,
        #[cfg(feature = "process")]
        Command::Process(arguments) => process::run(*arguments).await,
        #[cfg(feature = "clinic")]
        Command::Clinic(arguments) => clinic::run(*arguments).await,
        Command::Stream(arguments) => stream::run(arguments).await,
        #[cfg(feature = "demo")]
        Command::Emulate(arguments) => emulate::run(arguments).await,
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => demo::paths::run(arguments).await,
        #[cfg(feature = "video")]
        Command::Video(arguments) => video::run(*arguments).await,
        #[cfg(feature = "demo")]
        Command::DemoGateway(arguments) => demo::gateway::run(arguments).await,
        #[cfg(all(feature = "demo", target_os = "linux"))]
        Command::DemoTunnel(arguments) => demo::tunnel::run(arguments).await,
        #[cfg(all(feature = "demo", not(target_os = "linux")))]
        Command::DemoTunnel(arguments) => linux_only::run(&arguments),
        #[cfg(all(feature = "demo", feature = "process"))]
        Command::DemoProcess(arguments) => demo::process::run(arguments).await,
        #[cfg(all(feature = "demo", feature = "video"))]
        Command::DemoVideo(arguments) => demo::video::run(arguments).await,
        #[cfg(all(feature = "demo", feature = "visualise"))]
        Command::DemoVisualise(arguments) => demo::visualise::run(*arguments).await,
        #[cfg(all(feature = "demo", feature = "clinic"))]
        Command::DemoClinic(arguments) => demo::clinic::run(*arguments).await,
        Command::Hose(arguments) => hose::run(&arguments).await,
        Command::Lab(arguments) => lab::run(&arguments),
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
