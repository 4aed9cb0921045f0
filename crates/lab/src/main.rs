//! The program `anabranch-lab`: experiments that anyone can run again.

mod command;
mod failure;

use clap::Parser;

use crate::failure::Failure;

/// Runs the experiments of the lab, in virtual time or on this machine.
#[derive(Debug, Parser)]
#[command(name = "anabranch-lab", version, after_long_help = failure::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: command::Command,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let outcome = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime.block_on(command::run(&arguments.command)),
        Err(error) => Err(Failure::other(format!("cannot start: {error}"))),
    };
    failure::report(outcome)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }
}
