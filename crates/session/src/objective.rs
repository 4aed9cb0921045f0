//! Objectives as applications inject them into a session.

use anabranch_hose::{Position, Report, Type, VocabularyError, evaluate::InjectError};
use anabranch_spec::GuaranteeError;

pub use anabranch_hose::{Faults, ObjectiveId, Tally, evaluate::TALLY_WINDOW};
/// Arguments of a [`Callback`](crate::Callback).
pub use anabranch_sched::objective::Adu;
pub use anabranch_spec::Slot;

use crate::event::StreamError;

/// The value of a header field that an application gives an ADU. Fields stay with the sender, for objectives to see;
/// each has one type, that of its declaration or first use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// Text, to be compared for equality.
    Text(&'a str),
}

impl FieldValue<'_> {
    pub(crate) fn kind(&self) -> Type {
        match self {
            Self::Number(_) => Type::Numeric,
            Self::Boolean(_) => Type::Boolean,
            Self::Text(_) => Type::String,
        }
    }
}

/// Result of an injection.
#[derive(Clone, Debug, PartialEq)]
pub struct Injected {
    /// Objectives, then `rate` items, each in order of place.
    pub ids: Vec<ObjectiveId>,
    /// Warnings about the text.
    pub warnings: Report,
}

/// Kind of an objective: what it rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Streams alone: it changes no schedule.
    Streams,
    /// One ADU at a time.
    Single,
    /// Several ADUs at a time.
    Combinatorial,
    /// A rate to be promised.
    Rate,
}

impl Kind {
    /// The kind in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Single => "single",
            Self::Combinatorial => "combinatorial",
            Self::Rate => "rate",
        }
    }
}

/// An objective in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its id, never used again in its session.
    pub id: ObjectiveId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its kind.
    pub kind: Kind,
    /// Its source text; a description for a rate.
    pub text: String,
}

/// Objectives or fields were not accepted; nothing has changed.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectiveError {
    /// The text has errors, each with its place.
    #[error("{0}")]
    Text(Box<Report>),
    /// Too many are in force.
    #[error("{0}")]
    Full(InjectError),
    /// A `rate` item demands a guarantee that can never be given.
    #[error("{position}: {error}")]
    Rate {
        /// Its position in the text.
        position: Position,
        /// Reason.
        error: GuaranteeError,
    },
    /// A header field's name or type is invalid.
    #[error(transparent)]
    Field(#[from] VocabularyError),
    /// No such session or stream.
    #[error(transparent)]
    Stream(#[from] StreamError),
}
