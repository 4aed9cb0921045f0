//! Prompt that asks the user at the terminal whether to accept a transfer.

use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use anabranch::{
    base::text,
    transfer::{Kind, Offered, Receiver, Update},
};
use tokio::sync::mpsc;

use crate::{
    bytes,
    exit::{files_text, note},
};

/// Maximum number of questions that wait; the peers that caused them wait, too.
const WAITING_MAX: usize = 16;
/// Maximum bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 1024;

/// Prints every new offer of a transfer, and asks the user about it if there is a terminal.
pub(crate) struct OfferPrompt {
    /// `None`: offers are not printed, and all are accepted.
    offered: Option<mpsc::Receiver<Offered>>,
    asks: bool,
    directory: PathBuf,
}

impl OfferPrompt {
    /// Creates a prompt for `receiver`, and returns the receiver that uses it; with `quiet`, the receiver does not. The user
    /// is not asked without a terminal, or with `yes`.
    pub(crate) fn before(
        receiver: Receiver,
        directory: &Path,
        quiet: bool,
        yes: bool,
    ) -> (Self, Receiver) {
        let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        let mut prompt = Self {
            offered: None,
            asks: is_terminal && !yes && !quiet,
            directory: directory.to_owned(),
        };
        if quiet {
            return (prompt, receiver);
        }
        let (asking, offered) = mpsc::channel(WAITING_MAX);
        prompt.offered = Some(offered);
        (prompt, receiver.asking(asking))
    }

    /// Answers offers until dropped.
    pub(crate) async fn serve(self) {
        let Some(mut offered) = self.offered else {
            return std::future::pending().await;
        };
        // If the sender leaves while a line is being read, the line answers the next question.
        let mut reading = None;
        while let Some(mut now) = offered.recv().await {
            let words = words(&now, &self.directory);
            if !self.asks {
                note(&words);
                now.answer(true);
                continue;
            }
            let shown = text::printable_lines(&words);
            // If standard error is closed, there is no other place to report it.
            let _ = write!(io::stderr(), "{shown}\nAccept it? [Y/n] ");
            let line = reading.get_or_insert_with(|| tokio::task::spawn_blocking(read_line));
            let answer = tokio::select! {
                answer = line => Some(answer),
                () = now.over() => None,
            };
            match answer {
                None => note("the sender has disconnected"),
                Some(answer) => {
                    reading = None;
                    now.answer(answer.is_ok_and(|line| is_yes(&line)));
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

/// Describes an offer on one line.
fn words(offered: &Offered, directory: &Path) -> String {
    let what = match offered.kind {
        Kind::File => "the file",
        Kind::Directory => "the directory",
        Kind::Stream => "a stream as",
    };
    let size = match offered.bytes {
        Some(number) => bytes::text(number),
        None => "of unknown size".to_owned(),
    };
    let files = match offered.kind {
        Kind::Directory => format!("{}, ", files_text(offered.files)),
        _ => String::new(),
    };
    let hidden = match offered.hidden {
        0 => String::new(),
        hidden => format!(", {hidden} hidden names in it"),
    };
    let offers = match offered.update {
        None => "offers",
        Some(Update { dry_run: true, .. }) => "asks what would change in an update of",
        Some(Update { delete: true, .. }) => {
            "wants to update, and to delete what it does not have in,"
        }
        Some(_) => "wants to update",
    };
    // "." says little to who is asked.
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    format!(
        "node {:?} {offers} {what} '{}' ({files}{size}{hidden}), for {}",
        offered.sender,
        offered.name,
        directory.display()
    )
}

fn is_yes(line: &str) -> bool {
    // A line without a line feed is the end of the input, not an answer.
    line.ends_with('\n') && matches!(line.trim().to_lowercase().as_str(), "" | "y" | "yes")
}

fn read_line() -> String {
    let mut line = String::new();
    // An answer that cannot be read is not consent.
    match io::stdin()
        .lock()
        .take(ANSWER_BYTES_MAX)
        .read_line(&mut line)
    {
        Ok(_) => line,
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_consent_is_consent() {
        for yes in ["\n", "y\n", "Y\n", " yes \n"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "y", "n\n", "no\n", "why?\n"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}
