//! Errors of manifests.

use anabranch_base::text::printable;

/// Characters of a value that an error shows.
const SHOWN_CHARS: usize = 100;

/// The manifest is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The text is not TOML or JSON, has an unknown key or a value of the wrong type.
    #[error("{0}")]
    Syntax(String),
    /// A value is refused.
    #[error("{place}: {key} = \"{value}\": {reason}")]
    Value {
        /// The component or record concerned, or `the set`.
        place: String,
        /// Key of the value.
        key: &'static str,
        /// The value.
        value: String,
        /// The error, and what would be accepted.
        reason: String,
    },
    /// Something is missing, or does not go together.
    #[error("{place}: {reason}")]
    Incomplete {
        /// As in [`ManifestError::Value`].
        place: String,
        /// The error, and what would mend it.
        reason: String,
    },
}

/// Component, record or set that an error is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Set,
    Component(&'a str),
    Record(&'a str),
    Part(&'a str, &'a str),
}

impl Place<'_> {
    fn words(self) -> String {
        let shown = |name: &str| printable(name, SHOWN_CHARS);
        match self {
            Self::Set => "the set".to_owned(),
            Self::Component(name) => format!("component '{}'", shown(name)),
            Self::Record(name) => format!("record '{}'", shown(name)),
            Self::Part(record, component) => {
                format!("record '{}', '{}'", shown(record), shown(component))
            }
        }
    }

    pub(super) fn refuses(
        self,
        key: &'static str,
        value: &str,
        reason: impl Into<String>,
    ) -> ManifestError {
        ManifestError::Value {
            place: self.words(),
            key,
            value: printable(value, SHOWN_CHARS),
            reason: reason.into(),
        }
    }

    pub(super) fn lacks(self, reason: impl Into<String>) -> ManifestError {
        ManifestError::Incomplete {
            place: self.words(),
            reason: reason.into(),
        }
    }
}
