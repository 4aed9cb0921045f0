//! The question whether a transfer is taken, put to the person at the terminal.

use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use anabranch::{
    base::text,
    transfer::{Kind, Offered, Receiver},
};
use tokio::sync::mpsc;

use crate::exit::note;

/// Questions that wait; the peers whose they are wait, too.
const WAITING_MAX: usize = 16;
/// Bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 1024;

/// Shows every transfer that is offered anew, and asks about it where somebody can answer.
pub(crate) struct OfferPrompt {
    /// `None`: nothing is shown, and all is taken.
    offered: Option<mpsc::Receiver<Offered>>,
    asks: bool,
    directory: PathBuf,
}

impl OfferPrompt {
    /// A desk before `receiver`, which asks there from now on unless it is `quiet`. Nobody is asked who is
    /// not at a terminal, or has said `yes` to everything.
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

    /// Answers until dropped.
    pub(crate) async fn serve(self) {
        let Some(mut offered) = self.offered else {
            return std::future::pending().await;
        };
        // A line that was begun for a sender who has gone is the answer to the next question.
        let mut reading = None;
        while let Some(mut now) = offered.recv().await {
            let words = words(&now, &self.directory);
            if !self.asks {
                note(&words);
                now.answer(true);
                continue;
            }
            let shown = text::printable_lines(&words);
            // Nowhere is left to say that standard error is gone.
            let _ = write!(io::stderr(), "{shown}\nTake it? [Y/n] ");
            let line = reading.get_or_insert_with(|| tokio::task::spawn_blocking(read_line));
            let answer = tokio::select! {
                answer = line => Some(answer),
                () = now.over() => None,
            };
            match answer {
                None => note("the sender has gone"),
                Some(answer) => {
                    reading = None;
                    now.answer(answer.is_ok_and(|line| is_yes(&line)));
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

/// What is offered, on one line.
fn words(offered: &Offered, directory: &Path) -> String {
    let what = match offered.kind {
        Kind::File => "the file",
        Kind::Directory => "the directory",
        Kind::Stream => "a stream as",
    };
    let bytes = match offered.bytes {
        Some(bytes) => format!("{bytes} bytes"),
        None => "of unknown size".to_owned(),
    };
    let files = match offered.kind {
        Kind::Directory => format!("{} files, ", offered.files),
        _ => String::new(),
    };
    let hidden = match offered.hidden {
        0 => String::new(),
        hidden => format!(", {hidden} hidden names in it"),
    };
    format!(
        "node {:?} offers {what} '{}' ({files}{bytes}{hidden}), for {}",
        offered.sender,
        offered.name,
        directory.display()
    )
}

fn is_yes(line: &str) -> bool {
    // At the end of the input nothing was answered.
    line.ends_with('\n') && matches!(line.trim().to_lowercase().as_str(), "" | "y" | "yes")
}

fn read_line() -> String {
    let mut line = String::new();
    // What cannot be read is no consent.
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
