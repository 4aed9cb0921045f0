//! The ticket of an origin, as a proxy is given it. Arguments of a program can be read by every user of a machine: a file, a variable
//! or standard input cannot.

use std::path::{Path, PathBuf};

use anabranch::Ticket;

use crate::{
    exit::Failure,
    ticket::{self, Source},
};

/// Variables that may hold it.
const VARIABLES: [&str; 2] = ["ANABRANCH_ORIGIN", "ANABRANCH_TICKET"];

/// The ticket as a flag or as an argument: `given`; in a `file`; otherwise in a variable. `-`, as either: standard input.
pub(super) fn ticket(given: Option<&str>, file: Option<&Path>) -> Result<Ticket, Failure> {
    let source = Source {
        given,
        file,
        variables: &VARIABLES,
    };
    source.ticket(ticket::typed)?.ok_or_else(|| {
        Failure::usage(
            "no ticket: put the one that `anabranch video origin` printed into a file for --ticket-file, into \
             ANABRANCH_TICKET, or give `-` and type it",
        )
    })
}

/// Place where the ticket is, for commands that know it as a flag.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Origin {
    /// The ticket that `anabranch video origin` or `video ticket new` printed, or `-` for standard input. Other users of this
    /// machine can read it here: better are --ticket-file and the variable ANABRANCH_TICKET.
    #[arg(long, value_name = "TICKET")]
    origin: Option<String>,
    /// File with the ticket; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "origin")]
    ticket_file: Option<PathBuf>,
}

impl Origin {
    pub(super) fn ticket(&self) -> Result<Ticket, Failure> {
        ticket(self.origin.as_deref(), self.ticket_file.as_deref())
    }
}
