//! Diagnostics of a text: the error, its place, and a suggested correction.

mod render;
mod suggest;

use std::fmt;

pub(crate) use suggest::nearest;

use crate::span::{Position, Span};

/// Largest number of findings that are kept for one text; further ones are rarely useful.
pub const DIAGNOSTICS_MAX: usize = 50;

/// Severity of a finding: whether the text can still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The text is rejected.
    Error,
    /// The text is valid, though it may not mean what was intended.
    Warning,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity; an error causes the text to be rejected.
    pub severity: Severity,
    /// Place in the text.
    pub span: Span,
    /// The error, in one sentence without a full stop.
    pub message: String,
    /// Suggested correction.
    pub help: Option<String>,
}

/// Findings about one text, in order of place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    text: String,
    found: Vec<Diagnostic>,
    errors: usize,
    /// Number of findings beyond [`DIAGNOSTICS_MAX`].
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

    /// Findings, in order of place; at most [`DIAGNOSTICS_MAX`] from each reading of the text.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.found
    }

    /// This report with the findings of another one about the same text, in order of place.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        debug_assert_eq!(self.text, other.text);
        self.found.extend(other.found);
        self.found.sort_by_key(|diagnostic| diagnostic.span);
        self.errors += other.errors;
        self.dropped += other.dropped;
        self
    }

    /// True if the text is rejected.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Number of errors, including those beyond [`DIAGNOSTICS_MAX`].
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Number of warnings, including those beyond [`DIAGNOSTICS_MAX`] if there are no errors.
    pub fn warnings(&self) -> usize {
        let is_warning = |found: &&Diagnostic| found.severity == Severity::Warning;
        let dropped = if self.has_errors() { 0 } else { self.dropped };
        self.found.iter().filter(is_warning).count() + dropped
    }

    /// Line and column of a finding.
    pub fn position(&self, diagnostic: &Diagnostic) -> Position {
        diagnostic.span.position(&self.text)
    }

    /// All findings as text, each with its line and a mark under the place; `name` is the user's name for the text,
    /// usually a file name.
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

/// Collector of findings while a text is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Diagnostic>,
    errors: usize,
    dropped: usize,
}

impl Findings {
    /// Adds the error that `make` returns, unless there are enough already; `make` is called only if the error is kept.
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

    /// Number of errors so far, including those not kept.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }
}
