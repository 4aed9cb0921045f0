//! Parser of pipelines: steps between the word `then`.
//!
//! Outside of strings in double quotes, which have no escapes, words are separated by white space or commas. The parameter of
//! `where` is an expression of HOSE, which `operators::filter` reads.

mod reader;
mod steps;

use anabranch_base::text::{nearest, printable};
use reader::{Reader, segments};

use crate::step::{ModuleHash, Step};

/// Largest length of the text of a pipeline, in bytes.
pub const TEXT_BYTES_MAX: usize = 8_192;

/// Largest number of steps of a pipeline.
pub const STEPS_MAX: usize = 16;

/// Characters that are shown of an error, which quotes the text.
const MESSAGE_CHARS: usize = 400;

/// Error in the text of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct ParseError {
    /// Place in the text, in characters from 1.
    pub column: usize,
    /// The error and its correction, in one sentence without a full stop.
    pub message: String,
}

/// Error at a byte of the text.
#[derive(Debug)]
struct At {
    byte: usize,
    message: String,
}

impl At {
    fn new(byte: usize, message: impl Into<String>) -> Self {
        Self {
            byte,
            message: message.into(),
        }
    }

    fn in_text(self, text: &str) -> ParseError {
        let starts = text.char_indices().map(|(at, _)| at);
        ParseError {
            column: starts.take_while(|&at| at < self.byte).count() + 1,
            message: printable(&self.message, MESSAGE_CHARS),
        }
    }
}

/// Names that stand for modules.
pub(crate) type Names<'a> = &'a dyn Fn(&str) -> Option<ModuleHash>;

/// Suggestion to follow an error about a word: `; did you mean "every"?`, or all the words there are.
fn suggestion(word: &str, words: &[&str]) -> String {
    match nearest(word, words.iter().copied()) {
        Some(meant) => format!("; did you mean \"{meant}\"?"),
        None => format!("; use one of {}", words.join(", ")),
    }
}

/// Reads the steps of a text. O(length), and the time of HOSE for the predicates.
pub(crate) fn parse(text: &str, names: Names<'_>) -> Result<Vec<Step>, ParseError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!(
            "a pipeline has at most {TEXT_BYTES_MAX} bytes; this one has {}",
            text.len()
        );
        return Err(ParseError { column: 1, message });
    }
    read(text, names).map_err(|error| error.in_text(text))
}

fn read(text: &str, names: Names<'_>) -> Result<Vec<Step>, At> {
    let mut parsed = Vec::new();
    for segment in segments(text)? {
        if parsed.len() == STEPS_MAX {
            let message = format!("a pipeline has at most {STEPS_MAX} steps; divide it in two");
            return Err(At::new(segment.start, message));
        }
        parsed.push(steps::step(Reader::new(text, segment), names)?);
    }
    Ok(parsed)
}
