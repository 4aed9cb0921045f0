//! Schedules in JSON, for evaluating objectives outside of a session. The format is in `docs/hose.md`.
//!
//! | module | holds |
//! |---|---|
//! | `document` | the text's structure, and the ranges of its numbers |
//! | `schedule` | a schedule that was read, as objectives see it |
//! | `alternatives` | the utility of a schedule with one ADU in other slots |

mod alternatives;
mod document;
mod schedule;
#[cfg(test)]
mod tests;

pub use alternatives::{Alternative, Alternatives};
pub use document::{
    AduEntry, ChannelEntry, CorrelationEntry, Document, Outcome, SlotEntry, StreamEntry, Value,
};
pub use schedule::JsonSchedule;

use crate::types::Type;
use document::ENTRIES_MAX;

/// Error of reading a schedule.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// It is not JSON, or has another structure.
    #[error("not a schedule: {0}")]
    Shape(#[from] serde_json::Error),
    /// A list is too long.
    #[error("a schedule has at most {ENTRIES_MAX} {0}")]
    TooMany(&'static str),
    /// A number is out of its range.
    #[error("{place}: '{name}' is {value}; it must be {range}")]
    Range {
        /// Place of the entry.
        place: String,
        /// Key within the entry.
        name: &'static str,
        /// The value.
        value: f64,
        /// Permitted range.
        range: &'static str,
    },
    /// A slot that does not exist, or already carries another ADU.
    #[error("{place}: {words}")]
    Slot {
        /// Place of the entry.
        place: String,
        /// Description of the error.
        words: String,
    },
    /// A field whose type differs from that known to the objectives.
    #[error("{place}: the field '{name}' must be {wanted}")]
    Type {
        /// Place of the entry.
        place: String,
        /// The field.
        name: String,
        /// The expected type.
        wanted: Type,
    },
}
