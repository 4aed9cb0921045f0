//! Lists of names with arguments: `low_latency("voice", 150); avoid_metered`.

use crate::{diagnostic::Diagnostic, span::Span};

/// Words with which texts of objectives begin.
const KEYWORDS: [&str; 4] = ["hose", "objective", "rate", "field"];

/// A name with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call<'t> {
    pub(super) name: &'t str,
    pub(super) name_span: Span,
    /// Name and arguments.
    pub(super) span: Span,
    pub(super) arguments: Vec<Argument<'t>>,
}

/// An argument: a word, a number, or the inside of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Argument<'t> {
    pub(super) value: &'t str,
    pub(super) span: Span,
}

/// True if a text begins with a name and not with an item of the language: the name is followed by `(`, `;`, a line that begins with
/// another name, or by nothing.
pub(super) fn begins(text: &str) -> bool {
    let mut reader = Reader { text, at: 0 };
    reader.skip_blank();
    let name = reader.word(is_name);
    if name.is_empty() || KEYWORDS.contains(&name) || name.starts_with(|c: char| c.is_ascii_digit())
    {
        return false;
    }
    let after = reader.at;
    reader.skip_blank();
    match reader.peek() {
        None | Some('(' | ';') => true,
        Some(next) => is_name(next) && text[after..reader.at].contains('\n'),
    }
}

/// Reads a list.
///
/// # Errors
/// The first place at which something else stands.
pub(super) fn read(text: &str) -> Result<Vec<Call<'_>>, Diagnostic> {
    let mut reader = Reader { text, at: 0 };
    let mut calls = Vec::new();
    loop {
        reader.skip_blank();
        while reader.take(';') {
            reader.skip_blank();
        }
        if reader.peek().is_none() {
            return Ok(calls);
        }
        calls.push(reader.call()?);
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    fn word(&mut self, of: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !of(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) {
        loop {
            self.word(char::is_whitespace);
            if !self.rest().starts_with("//") {
                return;
            }
            self.word(|c| c != '\n');
        }
    }

    fn error<T>(&self, message: &str, help: &str) -> Result<T, Diagnostic> {
        let width = self.peek().map_or(0, char::len_utf8);
        let span = Span::new(self.at, self.at + width);
        Err(Diagnostic::error(span, message).help(help))
    }

    fn call(&mut self) -> Result<Call<'t>, Diagnostic> {
        let start = self.at;
        let name = self.word(is_name);
        if name.is_empty() {
            return self.error(
                "expected the name of an objective of the library",
                "write names such as low_latency(\"voice\", 150), separated by ';' or in lines of their own",
            );
        }
        let name_span = Span::new(start, self.at);
        if KEYWORDS.contains(&name) {
            let help = "write them in a file of their own, or the text that 'anabranch hose show NAME' prints in place of the names";
            return Err(Diagnostic::error(
                name_span,
                "objectives cannot follow names of the library",
            )
            .help(help));
        }
        let mut arguments = Vec::new();
        let mut end = self.at;
        self.skip_blank();
        if self.take('(') {
            loop {
                self.skip_blank();
                if arguments.is_empty() && self.take(')') {
                    break;
                }
                arguments.push(self.argument()?);
                self.skip_blank();
                if self.take(')') {
                    break;
                }
                if !self.take(',') {
                    return self.error(
                        "expected ',' or ')'",
                        "separate arguments by ',' and end them with ')'",
                    );
                }
            }
            end = self.at;
        }
        Ok(Call {
            name,
            name_span,
            span: Span::new(start, end),
            arguments,
        })
    }

    fn argument(&mut self) -> Result<Argument<'t>, Diagnostic> {
        let start = self.at;
        if self.take('"') {
            let value = self.word(|c| c != '"' && c != '\n');
            let span = Span::new(start, self.at + 1);
            if !self.take('"') {
                return self.error(
                    "the string does not end",
                    "end it with '\"' in the same line",
                );
            }
            return Ok(Argument { value, span });
        }
        let value = self.word(|c| is_name(c) || matches!(c, '.' | '-' | '/' | ':' | '+'));
        if value.is_empty() {
            return self.error(
                "expected an argument",
                "write a word, a number, or a string in quotation marks",
            );
        }
        Ok(Argument {
            value,
            span: Span::new(start, self.at),
        })
    }
}
