//! `anabranch man`: the manual page.

use crate::exit::{Failure, Outcome, print_bytes};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Subcommand to describe [default: the whole command].
    subcommand: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, command: &clap::Command) -> Outcome {
    let mut page = Vec::new();
    let described = match &arguments.subcommand {
        None => command.clone(),
        Some(name) => {
            let found = command.find_subcommand(name);
            let found =
                found.ok_or_else(|| Failure::usage(format!("there is no subcommand '{name}'")))?;
            found.clone().display_name(format!("anabranch-{name}"))
        }
    };
    clap_mangen::Man::new(described)
        .render(&mut page)
        .map_err(Failure::other)?;
    print_bytes(&page)
}
