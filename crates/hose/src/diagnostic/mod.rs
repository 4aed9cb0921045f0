//! Diagnostics of a text: the fault, its place, and what would be right.

mod render;
mod suggest;

use std::fmt;

pub(crate) use suggest::nearest;

use crate::span::{Position, Span};

/// Most findings that are kept of one text; what follows is rarely news.
pub const DIAGNOSTICS_MAX: usize = 50;

/// Whether a text can be used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The text is refused.
    Error,
    /// The text means something, though perhaps not what was intended.
    Warning,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the text is refused for it.
    pub severity: Severity,
    /// Place.
    pub span: Span,
    /// The error, in one sentence without a full stop.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

/// The findings about one text, in order of place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    text: String,
    found: Vec<Diagnostic>,
    errors: usize,
    /// Findings beyond [`DIAGNOSTICS_MAX`].
    dropped: usize,
}

impl Diagnostic {
    pub(crate) fn error(span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            span,
            message: message.into(),
            help: None,
        }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }

    pub(crate) fn maybe_help(self, help: Option<String>) -> Self {
        Self { help, ..self }
    }
}

impl Report {
    pub(crate) fn new(text: &str, findings: Findings) -> Self {
        let Findings {
            mut found,
            errors,
            dropped,
        } = findings;
        found.sort_by_key(|diagnostic| diagnostic.span);
        Self {
            text: text.to_owned(),
            found,
            errors,
            dropped,
        }
    }

    /// The findings, in order of place; at most [`DIAGNOSTICS_MAX`].
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.found
    }

    /// True if the text is refused.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Number of errors, those beyond [`DIAGNOSTICS_MAX`] included.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Line and column of a finding.
    pub fn position(&self, diagnostic: &Diagnostic) -> Position {
        diagnostic.span.position(&self.text)
    }

    /// All findings in words, each with its line and a mark under the place; `name` is what the user calls
    /// the text, a file's name as a rule.
    pub fn render(&self, name: &str) -> String {
        render::report(self, name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render("objectives"))
    }
}

impl std::error::Error for Report {}

/// Collects findings while a text is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Diagnostic>,
    errors: usize,
    dropped: usize,
}

impl Findings {
    /// Adds the error that `make` returns, unless there are enough already: what is not kept is not made.
    pub(crate) fn error(&mut self, make: impl FnOnce() -> Diagnostic) {
        self.errors += 1;
        self.push(make);
    }

    /// Adds a warning.
    pub(crate) fn warn(&mut self, span: Span, message: &str, help: &str) {
        self.push(|| Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(span, message).help(help)
        });
    }

    fn push(&mut self, make: impl FnOnce() -> Diagnostic) {
        if self.found.len() < DIAGNOSTICS_MAX {
            self.found.push(make());
        } else {
            self.dropped += 1;
        }
    }

    /// Errors so far, those not kept included.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }
}
