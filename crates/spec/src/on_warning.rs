//! Reactions to the warning of a promise.

use std::{fmt, str::FromStr};

/// Reaction of a session when the promise of a stream is warned: it will not be kept, or not be renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnWarning {
    /// The promise stays as it is until it can be kept again or lapses; the application decides.
    #[default]
    Stay,
    /// The rate that could be promised instead takes the place of the promised one; where there is none, the probability.
    TakeOffer,
    /// The stream is finished.
    Close,
}

impl OnWarning {
    /// All of them.
    const ALL: [Self; 3] = [Self::Stay, Self::TakeOffer, Self::Close];

    /// Name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stay => "stay",
            Self::TakeOffer => "take offer",
            Self::Close => "close",
        }
    }
}

impl fmt::Display for OnWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OnWarning {
    type Err = String;

    /// # Errors
    /// The text is no name; the error lists the names.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|reaction| reaction.name() == text)
            .ok_or_else(|| "give \"stay\", \"take offer\" or \"close\"".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for reaction in OnWarning::ALL {
            assert_eq!(reaction.to_string().parse(), Ok(reaction));
        }
        for text in ["", "Stay", "take_offer", "close "] {
            let error = text.parse::<OnWarning>().unwrap_err();
            assert!(error.contains("\"take offer\""), "{text}: {error}");
        }
    }
}
