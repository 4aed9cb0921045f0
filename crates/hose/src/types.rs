//! The types of the language [Horde §B.2].

use std::fmt;

/// Type of an expression.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// A number: whole in the published language, with a fraction in the extended one.
    Numeric,
    /// True or false.
    Boolean,
    /// Text; can only be compared for equality.
    String,
    /// A number that is not known yet; `expected` converts it to a known one.
    NumericDistribution,
    /// A truth value that is not known yet; `prob` converts it to a number.
    BooleanDistribution,
}

impl Type {
    /// The type with that name in a declaration.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Numeric, Self::Boolean, Self::String]
            .into_iter()
            .find(|candidate| candidate.name() == name)
    }

    /// Name in declarations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Numeric => "numeric",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::NumericDistribution => "distribution of numbers",
            Self::BooleanDistribution => "distribution of true and false",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
