//! Where a command gets its ticket from. A ticket is a secret, and every user of the machine sees arguments.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal, Write},
    path::{Path, PathBuf},
};

use anabranch::Ticket;

use crate::exit::Failure;

/// The variable that can hold a ticket.
const VARIABLE: &str = "ANABRANCH_TICKET";
/// Bytes of a line with a ticket at most.
const LINE_BYTES_MAX: u64 = 8192;

/// Arguments of a command that needs a ticket.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TicketArguments {
    /// The ticket that `anabranch recv` printed, or `-` for a line of standard input. Other users of this machine can read
    /// arguments: without this one, the ticket is taken from --ticket-file, from ANABRANCH_TICKET, or asked for.
    #[arg(conflicts_with = "ticket_file")]
    ticket: Option<String>,
    /// A file with the ticket in its first line; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    ticket_file: Option<PathBuf>,
}

impl TicketArguments {
    /// The ticket. Standard input cannot be asked when it `is_taken` for something else.
    pub(crate) fn resolve(&self, is_taken: bool) -> Result<Ticket, Failure> {
        let text = match (&self.ticket, &self.ticket_file) {
            (Some(text), _) if text != "-" => text.clone(),
            (None, Some(path)) if path.as_os_str() != "-" => from_file(path)?,
            (None, None) => match std::env::var(VARIABLE) {
                Ok(text) if !text.is_empty() => text,
                _ => asked(is_taken)?,
            },
            _ => asked(is_taken)?,
        };
        text.trim().parse().map_err(Failure::usage)
    }
}

fn from_file(path: &Path) -> Result<String, Failure> {
    let read = || first_line(BufReader::new(File::open(path)?));
    read().map_err(|error| Failure::file(format!("cannot read {}: {error}", path.display())))
}

fn asked(is_taken: bool) -> Result<String, Failure> {
    if is_taken {
        return Err(Failure::usage(format!(
            "standard input is what is sent; give the ticket with --ticket-file or in {VARIABLE}"
        )));
    }
    if io::stdin().is_terminal() {
        // Nowhere is left to say that standard error is gone.
        let _ = write!(io::stderr(), "Ticket: ");
    }
    let line = first_line(io::stdin().lock())
        .map_err(|error| Failure::file(format!("cannot read standard input: {error}")))?;
    if line.is_empty() {
        return Err(Failure::usage(format!(
            "a ticket is needed, the line that `anabranch recv` printed: as an argument, with --ticket-file, in \
             {VARIABLE}, or on standard input"
        )));
    }
    Ok(line)
}

fn first_line(reader: impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.take(LINE_BYTES_MAX).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}
