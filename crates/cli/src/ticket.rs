//! Sources of a command's ticket. A ticket is a secret, and every user of the machine sees arguments.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use anabranch::Ticket;

use crate::exit::Failure;

/// The variable that can hold a ticket.
const VARIABLE: &str = "ANABRANCH_TICKET";
/// Bytes of a line with a ticket at most.
const LINE_BYTES_MAX: u64 = 8192;

/// Arguments that name a ticket: the ticket, or a file with it; `-`, as either, is standard input. With neither, the first of some
/// variables that is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'s> {
    pub(crate) given: Option<&'s str>,
    pub(crate) file: Option<&'s Path>,
    pub(crate) variables: &'s [&'s str],
}

impl Source<'_> {
    /// The ticket; `None` if nothing says where it is. `input` reads a line of standard input.
    pub(crate) fn ticket(
        &self,
        input: impl FnOnce() -> Result<String, Failure>,
    ) -> Result<Option<Ticket>, Failure> {
        let text = self.text(|name| std::env::var(name).ok(), input)?;
        text.map(|text| text.parse().map_err(Failure::usage))
            .transpose()
    }

    fn text(
        &self,
        variable: impl Fn(&str) -> Option<String>,
        input: impl FnOnce() -> Result<String, Failure>,
    ) -> Result<Option<String>, Failure> {
        let is_typed = self.given == Some("-") || self.file.is_some_and(|file| file == "-");
        match (self.given, self.file) {
            _ if is_typed => input().map(Some),
            (Some(text), _) => Ok(Some(text.trim().to_owned())),
            (None, Some(path)) => {
                let line = File::open(path).and_then(first_line);
                let name = path.display();
                let wrong = |error| Failure::file(format!("the ticket in {name}: {error}"));
                line.map(Some).map_err(wrong)
            }
            (None, None) => {
                let mut set = self.variables.iter().filter_map(|name| variable(name));
                let found = set.find(|text| !text.is_empty());
                Ok(found.map(|text| text.trim().to_owned()))
            }
        }
    }
}

/// A line of standard input.
pub(crate) fn typed() -> Result<String, Failure> {
    let wrong = |error| Failure::file(format!("cannot read standard input: {error}"));
    first_line(io::stdin()).map_err(wrong)
}

fn first_line(reader: impl Read) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(reader.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Arguments of a command that needs a ticket of `anabranch recv`.
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
        let source = Source {
            given: self.ticket.as_deref(),
            file: self.ticket_file.as_deref(),
            variables: &[VARIABLE],
        };
        match source.ticket(|| asked(is_taken))? {
            Some(ticket) => Ok(ticket),
            None => asked(is_taken)?.parse().map_err(Failure::usage),
        }
    }
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
    let line = typed()?;
    if line.is_empty() {
        return Err(Failure::usage(format!(
            "a ticket is needed, the line that `anabranch recv` printed: as an argument, with --ticket-file, in \
             {VARIABLE}, or on standard input"
        )));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        given: Option<&str>,
        file: Option<&Path>,
        variables: &[(&str, &str)],
    ) -> Option<String> {
        let source = Source {
            given,
            file,
            variables: &["ANABRANCH_OTHER", VARIABLE],
        };
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| (*text).to_owned())
        };
        let input = || Ok(first_line(b"typed\nmore".as_slice()).expect("text"));
        let text = source.text(variable, input);
        text.ok().flatten()
    }

    #[test]
    fn a_ticket_comes_from_where_nobody_else_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticket");
        std::fs::write(&path, "kept\nmore").unwrap();
        let variables = [("ANABRANCH_OTHER", ""), (VARIABLE, "set")];
        let of = |given, file| found(given, file, &variables);
        assert_eq!(of(Some("given"), None).as_deref(), Some("given"));
        assert_eq!(of(Some("-"), None).as_deref(), Some("typed"));
        assert_eq!(of(None, Some(&path)).as_deref(), Some("kept"));
        assert_eq!(of(None, Some(Path::new("-"))).as_deref(), Some("typed"));
        assert_eq!(of(None, None).as_deref(), Some("set"));
        assert_eq!(found(None, None, &[]), None);
        let missing = folder.path().join("none");
        assert_eq!(of(None, Some(&missing)), None);
        std::fs::write(&path, "x".repeat(1 << 20)).unwrap();
        assert_eq!(of(None, Some(&path)).unwrap().len() as u64, LINE_BYTES_MAX);
    }
}
