//! Arguments of `send`: its sources, and the ticket or peer after them.

use std::path::PathBuf;

use anabranch::transfer::MORE_MAX;

use super::Arguments;
use crate::{
    exit::Failure,
    ticket::{TICKET_PREFIX, TicketArguments},
};

/// The arguments, told apart.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) sources: Vec<PathBuf>,
    pub(super) ticket: TicketArguments,
}

/// Tells sources and ticket apart: of several words the last one is the ticket or a peer, unless the ticket is in a file.
///
/// # Errors
/// There are two tickets, several names for standard input, or too many sources.
pub(super) fn split(arguments: &Arguments) -> Result<Words, Failure> {
    let mut sources = arguments.words.clone();
    let mut ticket = None;
    let is_ticket = |word: &PathBuf| word.to_str().is_some_and(|w| w.starts_with(TICKET_PREFIX));
    if arguments.ticket_file.is_some() {
        if sources.iter().any(is_ticket) {
            return Err(Failure::usage(
                "a ticket as an argument cannot be used with --ticket-file; give one of them",
            ));
        }
    } else if sources.len() > 1 || arguments.text.is_some() {
        let last = sources.pop();
        let text = last.map(|last| last.into_os_string().into_string());
        ticket = text.transpose().map_err(|_| {
            Failure::usage("the last argument is neither a ticket nor the name of a peer")
        })?;
    }
    if arguments.text.is_some() && !sources.is_empty() {
        return Err(Failure::usage(
            "--text is sent alone; send the files with another command",
        ));
    }
    if sources.len() > 1 && arguments.choice.name.is_some() {
        return Err(Failure::usage(
            "--name is for one source; there are several",
        ));
    }
    if sources.len() > 1 && sources.iter().any(|source| source.as_os_str() == "-") {
        return Err(Failure::usage(
            "standard input is sent alone; send the files with another command",
        ));
    }
    if sources.len() > MORE_MAX as usize + 1 {
        return Err(Failure::usage(format!(
            "at most {} sources can be sent at once; send their directory",
            MORE_MAX + 1
        )));
    }
    Ok(Words {
        sources,
        ticket: TicketArguments {
            ticket,
            ticket_file: arguments.ticket_file.clone(),
        },
    })
}
