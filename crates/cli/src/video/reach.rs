//! Flags for the ticket of an origin. The arguments of a process are visible to every user of the machine; a file, an environment
//! variable and standard input are not.

use std::path::{Path, PathBuf};

use anabranch::Ticket;

use crate::{
    exit::Failure,
    ticket::{self, Source},
};

/// Environment variables that may contain the ticket.
const VARIABLES: [&str; 2] = ["ANABRANCH_ORIGIN", "ANABRANCH_TICKET"];

/// Reads the ticket: `given` as a flag or argument, or from `file`, or else from a variable. `-` in either place is standard input.
pub(super) fn ticket(given: Option<&str>, file: Option<&Path>) -> Result<Ticket, Failure> {
    let source = Source {
        given,
        file,
        variables: &VARIABLES,
    };
    source.ticket(ticket::typed)?.ok_or_else(|| {
        Failure::usage(
            "no ticket: give the one that `anabranch video origin` printed in a file with --ticket-file, in \
             ANABRANCH_TICKET, or on standard input with `-`",
        )
    })
}

/// Flags of commands to which the ticket is given as a flag.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Origin {
    /// Ticket that `anabranch video origin` or `video ticket new` printed, or `-` for standard input. Other users of this
    /// machine can see it here; prefer --ticket-file or the variable ANABRANCH_TICKET.
    #[arg(long, value_name = "TICKET")]
    origin: Option<String>,
    /// File with the ticket in its first line; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "origin")]
    ticket_file: Option<PathBuf>,
}

impl Origin {
    pub(super) fn ticket(&self) -> Result<Ticket, Failure> {
        ticket(self.origin.as_deref(), self.ticket_file.as_deref())
    }
}
