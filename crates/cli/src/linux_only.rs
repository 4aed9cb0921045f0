//! Commands that need Linux, on other systems: they can be named, and report that.

use std::ffi::OsString;

use anabranch::config::NodeConfig;

use crate::exit::{Failure, Outcome};

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

const REASON: &str = "a tunnel needs the TUN devices, routes and rules of Linux; on this system, carry single programs with \
                      `anabranch forward` or `anabranch socks`";

/// Refuses a command.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    tracing::debug!(?arguments, "not on this system");
    Err(Failure::other(REASON))
}

/// Refuses a configuration with a tunnel.
///
/// # Errors
/// It has one.
pub(crate) fn refuse_tunnel(config: &NodeConfig) -> Outcome {
    if config.tunnel.server.is_some() || config.tunnel.client.is_some() {
        return Err(Failure::usage(format!("[tunnel]: {REASON}")));
    }
    Ok(())
}
