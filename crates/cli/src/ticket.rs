//! Sources of a command's ticket. A ticket is a secret, and the arguments of a process are visible to every user of the machine.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use anabranch::{Ticket, codes::Code};

use crate::exit::Failure;

/// Environment variable that may contain a ticket.
const VARIABLE: &str = "ANABRANCH_TICKET";
/// Beginning of every ticket.
pub(crate) const TICKET_PREFIX: &str = "anabranch1:";
/// Longest line with a ticket.
const LINE_BYTES_MAX: u64 = 8192;

/// Source of a ticket: the ticket as an argument, or a file with it; `-` in either place is standard input. If neither is given,
/// the first of `variables` that is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'s> {
    pub(crate) given: Option<&'s str>,
    pub(crate) file: Option<&'s Path>,
    pub(crate) variables: &'s [&'s str],
}

impl Source<'_> {
    /// The ticket; `None` if no source is given. `input` reads a line of standard input.
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

/// Reads a line of standard input.
pub(crate) fn typed() -> Result<String, Failure> {
    let wrong = |error| Failure::file(format!("cannot read standard input: {error}"));
    first_line(io::stdin()).map_err(wrong)
}

fn first_line(reader: impl Read) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(reader.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Source of the ticket of a command that sends to the holder of one.
#[derive(Clone, Debug)]
pub(crate) struct TicketArguments {
    /// The ticket, `-` for a line of standard input, or the name or id of a peer of the running node.
    pub(crate) ticket: Option<String>,
    /// File with the ticket in its first line; `-` for standard input.
    pub(crate) ticket_file: Option<PathBuf>,
}

/// Receiver of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The issuer of a ticket.
    Ticket(Ticket),
    /// The node that shows this code.
    Code(Code),
    /// The node at which a code is entered that this command shows.
    NewCode,
    /// A peer of the running node, by name or id.
    Peer(String),
}

impl TicketArguments {
    /// The ticket, the code, or the peer that was named in its place; without any, a new code. Standard input is not read for it if it
    /// `is_taken` by the data, or is a terminal and nothing asks for it.
    pub(crate) fn target(&self, is_taken: bool) -> Result<Target, Failure> {
        let source = Source {
            given: self.ticket.as_deref(),
            file: self.ticket_file.as_deref(),
            variables: &[VARIABLE],
        };
        let text = source.text(|name| std::env::var(name).ok(), || asked(is_taken))?;
        match text {
            Some(text) => read(
                &text,
                self.ticket.as_deref().is_some_and(|word| word != "-"),
            ),
            None if is_taken || io::stdin().is_terminal() => Ok(Target::NewCode),
            None => match typed()? {
                line if line.is_empty() => Ok(Target::NewCode),
                line => read(&line, false),
            },
        }
    }
}

/// Reads a ticket or a code; anything else `may_be_name` of a peer.
fn read(text: &str, may_be_name: bool) -> Result<Target, Failure> {
    if let Ok(code) = text.parse() {
        return Ok(Target::Code(code));
    }
    if Code::is_meant_by(text) {
        let read: Result<Code, _> = text.parse();
        return read.map(Target::Code).map_err(Failure::usage);
    }
    match text.parse() {
        Ok(ticket) => Ok(Target::Ticket(ticket)),
        Err(_) if may_be_name && !text.starts_with(TICKET_PREFIX) => {
            Ok(Target::Peer(text.to_owned()))
        }
        Err(error) => Err(Failure::usage(error)),
    }
}

fn asked(is_taken: bool) -> Result<String, Failure> {
    if is_taken {
        return Err(Failure::usage(format!(
            "standard input is the data to send; give the ticket or the code as an argument, with --ticket-file or in {VARIABLE}"
        )));
    }
    if io::stdin().is_terminal() {
        // If standard error is closed, there is no other place to report it.
        let _ = write!(io::stderr(), "Ticket or code: ");
    }
    let line = typed()?;
    if line.is_empty() {
        return Err(Failure::usage(format!(
            "no ticket: give the line or the code that `anabranch recv` printed as an argument, with --ticket-file, in {VARIABLE}, \
             or on standard input"
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
    fn sources_of_a_ticket_are_tried_in_order() {
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

    #[test]
    fn tickets_codes_and_names_are_told_apart() {
        let code = "River lamp-orbit";
        assert!(
            matches!(read(code, true), Ok(Target::Code(read)) if read.to_string() == "river-lamp-orbit")
        );
        assert!(matches!(read(code, false), Ok(Target::Code(_))));
        let misspelt = read("river-lamp-orbitt", true).unwrap_err();
        assert!(misspelt.message().contains("'orbit'"), "{misspelt:?}");
        for name in ["studio", "my-old-laptop"] {
            assert!(matches!(read(name, true), Ok(Target::Peer(peer)) if peer == name));
            assert!(read(name, false).is_err());
        }
        let damaged = read("anabranch1:abc", true).unwrap_err();
        assert!(damaged.message().contains("4 parts"), "{damaged:?}");
        let ticket = format!("anabranch1:{}::127.0.0.1:9", "a".repeat(52));
        assert!(matches!(read(&ticket, true), Ok(Target::Ticket(_))));
    }
}
