//! Codes: three words that two people read to each other.

use std::{fmt, str::FromStr};

use super::words;
use crate::keys::KeyError;

/// Words of a code.
const WORDS: usize = 3;

/// Meeting place of a code, its first word: public, and independent of the rest. Below 2,048.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u16);

impl Place {
    /// The place with this number; `None` if there is no such place.
    pub fn new(number: u16) -> Option<Self> {
        (number < words::COUNT).then_some(Self(number))
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// A code, as text `river-lamp-orbit`: the first word is its [`Place`], the two others are a password of 22 bits. `Debug` hides the
/// password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code {
    words: [u16; WORDS],
}

impl Code {
    /// A random code.
    ///
    /// # Errors
    /// The operating system provides no random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = [0; 2 * WORDS];
        getrandom::fill(&mut bytes).map_err(|error| KeyError::Entropy(error.to_string()))?;
        // The number of words divides 2^16, so that all are equally likely.
        let word =
            |at: usize| u16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]) % words::COUNT;
        Ok(Self {
            words: std::array::from_fn(word),
        })
    }

    /// Meeting place of the two sides.
    pub const fn place(&self) -> Place {
        Place(self.words[0])
    }

    /// True if the text was probably meant as a code: three words, of which one may be misspelt.
    pub fn is_meant_by(text: &str) -> bool {
        let words = split(text);
        let wrong: Vec<&String> = words
            .iter()
            .filter(|word| words::number(word).is_none())
            .collect();
        // Words of codes have three letters or more, and nothing else; './river' is a path.
        let is_misspelt = |word: &&String| {
            let is_word = word.len() >= 3 && word.chars().all(char::is_alphabetic);
            is_word && words::nearest(word).is_some()
        };
        words.len() == WORDS && wrong.len() <= 1 && wrong.iter().all(is_misspelt)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.map(words::word).join("-"))
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({}-hidden)", words::word(self.words[0]))
    }
}

/// Error in the text of a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseCodeError {
    /// It has more or fewer than three words.
    #[error("a code has {WORDS} words, such as river-lamp-orbit; this one has {0}")]
    Count(usize),
    /// A word is not one of those that codes are made of.
    #[error("'{word}' is not a word of a code{}", suggestion(nearest))]
    Word {
        /// The word.
        word: String,
        /// The one that was probably meant.
        nearest: Option<&'static str>,
    },
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(word) => format!("; did the other side say '{word}'?"),
        None => "; ask the other side to spell it".to_owned(),
    }
}

fn split(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c == '-' || c.is_whitespace());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

impl FromStr for Code {
    type Err = ParseCodeError;

    /// Reads a code in any case, with hyphens or blanks between the words.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = split(text);
        if parts.len() != WORDS {
            return Err(ParseCodeError::Count(parts.len()));
        }
        let mut words = [0; WORDS];
        for (number, part) in words.iter_mut().zip(&parts) {
            *number = words::number(part).ok_or_else(|| ParseCodeError::Word {
                word: anabranch_base::text::printable(part, 40),
                nearest: words::nearest(part),
            })?;
        }
        Ok(Self { words })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_code_is_read_as_it_is_spoken() {
        let code: Code = "river-lamp-orbit".parse().unwrap();
        for text in [
            "River Lamp ORBIT",
            "  river-lamp - orbit\n",
            "river  lamp-orbit",
        ] {
            assert_eq!(text.parse(), Ok(code));
        }
        assert_eq!(
            code.place(),
            "river-zoo-zoo".parse::<Code>().unwrap().place()
        );
        assert_eq!(format!("{code:?}"), "Code(river-hidden)");
    }

    #[test]
    fn errors_name_the_word_and_the_one_that_was_meant() {
        let error = |text: &str| text.parse::<Code>().unwrap_err().to_string();
        assert!(error("river-lamp-orbitt").contains("did the other side say 'orbit'?"));
        assert!(error("river-lamp").contains("this one has 2"));
        assert!(error("river-lamp-\u{1b}[2J").contains("\\u001b"));
    }

    #[test]
    fn what_was_meant_as_a_code_is_told_from_names() {
        assert!(Code::is_meant_by("river lamp orbitt"));
        for other in [
            "studio",
            "river-lamp",
            "./river-lamp-orbit",
            "my-old-laptop",
            "anabranch1:x:y:z",
            "river-lamp-orbit-zoo",
        ] {
            assert!(!Code::is_meant_by(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn codes_round_trip(words in prop::array::uniform3(0..words::COUNT)) {
            let code = Code { words };
            prop_assert_eq!(code.to_string().parse(), Ok(code));
            prop_assert_eq!(Place::new(words[0]), Some(code.place()));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = text.parse::<Code>();
            let _ = Code::is_meant_by(&text);
        }
    }
}
