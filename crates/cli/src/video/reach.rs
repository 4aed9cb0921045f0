//! The ticket of an origin, as a proxy is given it. Arguments of a program can be read by every user of a machine: a file, a variable
//! or standard input cannot.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use anabranch::Ticket;

use crate::exit::Failure;

/// A longer text is no ticket.
const BYTES_MAX: u64 = 8 << 10;
/// Variables that may hold it.
const VARIABLES: [&str; 2] = ["ANABRANCH_ORIGIN", "ANABRANCH_TICKET"];

/// The ticket as a flag or as an argument: `given`; in a `file`; otherwise in a variable. `-`, as either: standard input.
pub(super) fn ticket(given: Option<&str>, file: Option<&Path>) -> Result<Ticket, Failure> {
    let variable = |name| std::env::var(name).ok();
    let text = text(given, file, variable, || io::stdin().lock())?;
    text.trim().parse().map_err(Failure::usage)
}

fn text<R: Read>(
    given: Option<&str>,
    file: Option<&Path>,
    variable: impl Fn(&'static str) -> Option<String>,
    input: impl Fn() -> R,
) -> Result<String, Failure> {
    match (given, file) {
        (Some("-"), _) => read("standard input", input()),
        (Some(text), _) => Ok(text.to_owned()),
        (None, Some(path)) if path.as_os_str() == "-" => read("standard input", input()),
        (None, Some(path)) => {
            let name = path.display().to_string();
            let opened = std::fs::File::open(path);
            read(&name, opened.map_err(|error| unread(&name, &error))?)
        }
        (None, None) => {
            let mut set = VARIABLES.into_iter().filter_map(variable);
            set.find(|text| !text.is_empty()).ok_or_else(|| {
                Failure::usage(
                    "no ticket: put the one that `anabranch video origin` printed into a file for --ticket-file, into \
                     ANABRANCH_TICKET, or give `-` and type it",
                )
            })
        }
    }
}

fn unread(name: &str, error: &io::Error) -> Failure {
    Failure::file(format!("the ticket in {name}: {error}"))
}

fn read(name: &str, input: impl Read) -> Result<String, Failure> {
    let mut text = String::new();
    let mut line = io::BufReader::new(input.take(BYTES_MAX));
    io::BufRead::read_line(&mut line, &mut text).map_err(|error| unread(name, &error))?;
    Ok(text)
}

/// Where the ticket is, for commands that know it as a flag.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        given: Option<&str>,
        file: Option<&Path>,
        variables: &[(&str, &str)],
    ) -> Option<String> {
        let variable = |name: &'static str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| (*text).to_owned())
        };
        text(given, file, variable, || b"typed\nmore".as_slice()).ok()
    }

    #[test]
    fn a_ticket_comes_from_where_nobody_else_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticket");
        std::fs::write(&path, "kept\n").unwrap();
        let variables = [("ANABRANCH_TICKET", "set")];
        let trimmed = |text: Option<String>| text.map(|text| text.trim().to_owned());
        let of = |given, file| trimmed(found(given, file, &variables));
        assert_eq!(of(Some("given"), None).as_deref(), Some("given"));
        assert_eq!(of(Some("-"), None).as_deref(), Some("typed"));
        assert_eq!(of(None, Some(&path)).as_deref(), Some("kept"));
        assert_eq!(of(None, Some(Path::new("-"))).as_deref(), Some("typed"));
        assert_eq!(of(None, None).as_deref(), Some("set"));
        assert_eq!(found(None, None, &[]), None);
        let missing = folder.path().join("none");
        assert_eq!(of(None, Some(&missing)), None);
        std::fs::write(&path, "x".repeat(1 << 20)).unwrap();
        assert_eq!(of(None, Some(&path)).unwrap().len() as u64, BYTES_MAX);
    }
}
