//! `anabranch man`: the manual pages.

use std::path::PathBuf;

use crate::exit::{Failure, Outcome, print_bytes};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Subcommand to describe, such as `send` or `video origin` [default: the whole command].
    #[arg(value_name = "SUBCOMMAND")]
    subcommand: Vec<String>,
    /// Write the pages of the command and of all subcommands into a folder, in place of printing one.
    #[arg(long, value_name = "DIR", conflicts_with = "subcommand")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, command: &clap::Command) -> Outcome {
    let mut command = command.clone().disable_help_subcommand(true);
    if let Some(folder) = &arguments.out {
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(command, folder));
        return written.map_err(|error| {
            Failure::file(format!("cannot write into {}: {error}", folder.display()))
        });
    }
    // Gives the subcommands their full names.
    command.build();
    let mut described = &command;
    for word in &arguments.subcommand {
        let name = described.get_name();
        let found = described.find_subcommand(word);
        described =
            found.ok_or_else(|| Failure::usage(format!("{name} has no subcommand '{word}'")))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(described.clone())
        .render(&mut page)
        .map_err(Failure::other)?;
    print_bytes(&page)
}
