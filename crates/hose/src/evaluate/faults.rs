//! Faults of an evaluation. Each has a defined result, so that none stops the scheduler.

use std::fmt;

/// A set of faults of one objective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults(u8);

impl Faults {
    /// No fault.
    pub const NONE: Self = Self(0);
    /// Division by zero. The context adds nothing; in a filter, the ADU does not pass.
    pub const DIVISION_BY_ZERO: Self = Self(1);
    /// A number exceeded ±2^53 and was limited to that.
    pub const OVERFLOW: Self = Self(2);
    /// The goal or the utility uses a value that is unknown for the ADU or stream. The context adds nothing. (An ADU
    /// without a field that its filter uses does not pass; that is no fault.)
    pub const UNKNOWN: Self = Self(4);
    /// There were more contexts than [`Limits`](super::Limits) allow; the rest were left out.
    pub const TOO_MANY_CONTEXTS: Self = Self(8);

    const WORDS: [(Self, &'static str); 4] = [
        (
            Self::DIVISION_BY_ZERO,
            "divides by zero; contexts in which it does so add nothing",
        ),
        (
            Self::OVERFLOW,
            "has numbers beyond 2^53; they are limited to 2^53",
        ),
        (
            Self::UNKNOWN,
            "uses a value that is unknown for some ADU or stream; such contexts add nothing",
        ),
        (
            Self::TOO_MANY_CONTEXTS,
            "has more contexts than can be evaluated; narrow its filters",
        ),
    ];

    /// True if there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if this set contains all of `other`.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Union of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Faults that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// One phrase per fault, to follow the name of the objective.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Self::WORDS
            .into_iter()
            .filter(move |(fault, _)| self.contains(*fault))
            .map(|(_, words)| words)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, words) in self.words().enumerate() {
            let comma = if index > 0 { "; " } else { "" };
            write!(f, "{comma}{words}")?;
        }
        Ok(())
    }
}
