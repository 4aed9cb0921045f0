//! `anabranch video ticket`: creates, lists and revokes the tickets of an origin.

use std::path::PathBuf;

use anabranch::{Ticket, keys};
use anabranch_video::{
    origin::{self, Library, Origin, TicketsError, tickets},
    video::Division,
};
use serde_json::{Value, json};

use super::library;
use crate::{
    exit::{Failure, Outcome, print_line},
    keygen::key_path,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Give the same flags as to the origin: they identify it. A running origin applies changes within seconds, and closes the \
sessions of a revoked ticket.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create a ticket for a further proxy, and print it. It cannot be shown again.
    New {
        /// Name of the ticket: letters, digits, '.', '-' and '_'.
        name: String,
        #[command(flatten)]
        whose: Whose,
    },
    /// List the names of the tickets.
    Ls {
        #[command(flatten)]
        whose: Whose,
    },
    /// Revoke a ticket, and close the sessions that use it.
    Revoke {
        /// Name of the ticket.
        name: String,
        #[command(flatten)]
        whose: Whose,
    },
}

#[derive(Debug, clap::Args)]
struct Whose {
    #[command(flatten)]
    library: library::Place,
    #[command(flatten)]
    state: State,
    /// Key file [default: ~/.config/anabranch/key].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Print JSON: a line for each ticket.
    #[arg(long)]
    json: bool,
}

/// Flags for the location of an origin's tickets.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct State {
    /// Directory with the origin's tickets [default: one for each library, beside the key].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl State {
    pub(super) fn folder(
        &self,
        key_file: Option<&PathBuf>,
        key: &anabranch::SecretKey,
        library: &Library,
    ) -> PathBuf {
        let beside = key_path(key_file);
        let beside = beside.parent().unwrap_or(&beside);
        let default = || Origin::state(beside, key, library);
        self.state.clone().unwrap_or_else(default)
    }
}

impl Whose {
    fn print(&self, event: &Value, words: impl FnOnce() -> String) -> Outcome {
        match self.json {
            true => print_line(&event.to_string()),
            false => print_line(&words()),
        }
    }

    async fn folder(&self) -> Result<PathBuf, Failure> {
        if let Some(folder) = &self.state.state {
            return Ok(folder.clone());
        }
        let key = keys::load(&key_path(self.key.as_ref()))?;
        let library = self.library.open(Division::default()).await?;
        Ok(self.state.folder(self.key.as_ref(), &key, &library))
    }
}

impl From<TicketsError> for Failure {
    fn from(error: TicketsError) -> Self {
        match error {
            TicketsError::File { .. } | TicketsError::Damaged { .. } => Self::file(error),
            error => Self::usage(error),
        }
    }
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::New { name, whose } => {
            let folder = whose.folder().await?;
            let reach = origin::reach(&folder).map_err(|error| {
                Failure::file(format!(
                    "the origin has not run with the state directory {} yet ({error}); start it once",
                    folder.display()
                ))
            })?;
            let secret = tickets::fresh().map_err(Failure::other)?;
            tickets::issue(&origin::tickets_file(&folder), name, &secret)?;
            let ticket = Ticket {
                hosts: Vec::new(),
                via: None,
                secret: Some(secret),
                ..reach
            };
            whose.print(
                &json!({"kind": "ticket", "name": name, "ticket": ticket.to_string()}),
                || ticket.to_string(),
            )
        }
        Command::Ls { whose } => {
            let folder = whose.folder().await?;
            for name in tickets::names(&origin::tickets_file(&folder))? {
                whose.print(&json!({"kind": "ticket", "name": name}), || name.clone())?;
            }
            Ok(())
        }
        Command::Revoke { name, whose } => {
            let folder = whose.folder().await?;
            tickets::revoke(&origin::tickets_file(&folder), name)?;
            match whose.json {
                true => print_line(&json!({"kind": "revoked", "name": name}).to_string()),
                false => Ok(()),
            }
        }
    }
}
