//! Finding of a check: a state in a word, the reason, and the commands that mend it.

use serde_json::{Value, json};

/// State of what was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// It could not be seen here.
    Unknown,
    Ok,
    /// It costs something, or will in some cases.
    Warning,
    /// Something does not work.
    Problem,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// Finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Name of the check.
    pub(super) check: &'static str,
    pub(super) state: State,
    /// Reason.
    pub(super) words: String,
    /// Commands that mend it, in order.
    pub(super) mend: Vec<String>,
}

impl Finding {
    fn new(check: &'static str, state: State, words: impl Into<String>) -> Self {
        Self {
            check,
            state,
            words: words.into(),
            mend: Vec::new(),
        }
    }

    pub(super) fn ok(check: &'static str, words: impl Into<String>) -> Self {
        Self::new(check, State::Ok, words)
    }

    pub(super) fn unknown(check: &'static str, words: impl Into<String>) -> Self {
        Self::new(check, State::Unknown, words)
    }

    pub(super) fn warning(check: &'static str, words: impl Into<String>) -> Self {
        Self::new(check, State::Warning, words)
    }

    pub(super) fn problem(check: &'static str, words: impl Into<String>) -> Self {
        Self::new(check, State::Problem, words)
    }

    /// With a command that mends it.
    #[must_use]
    pub(super) fn mended_by(mut self, command: impl Into<String>) -> Self {
        self.mend.push(command.into());
        self
    }

    /// Lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let first = format!("{:<8} {:<10} {}", self.state.name(), self.check, self.words);
        let commands = self.mend.iter();
        let more = commands.map(|command| format!("{:<19} → {command}", ""));
        std::iter::once(first).chain(more).collect()
    }

    pub(super) fn row(&self) -> Value {
        json!({
            "kind": "finding",
            "check": self.check,
            "state": self.state.name(),
            "words": self.words,
            "mend": self.mend,
        })
    }
}
