//! Names and files that depend on the record: `{n}` is its number, `{n:05}` its number with zeros before it, `{name}` its name.

use std::fmt::Write;

/// Most digits of a number with zeros before it.
const DIGITS_MAX: usize = 20;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Number { digits: usize },
    Name,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The reason, in words.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((inner, after)) = after.split_once('}') else {
                return Err("a '{' has no '}'".to_owned());
            };
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(match inner {
                "n" => Piece::Number { digits: 1 },
                "name" => Piece::Name,
                inner => {
                    let digits = inner
                        .strip_prefix("n:0")
                        .and_then(|digits| digits.parse().ok())
                        .filter(|digits| (1..=DIGITS_MAX).contains(digits));
                    let Some(digits) = digits else {
                        return Err(format!(
                            "{{{inner}}} is unknown; there are {{n}}, {{n:05}} (up to {DIGITS_MAX} digits) and {{name}}"
                        ));
                    };
                    Piece::Number { digits }
                }
            });
            rest = after;
        }
        if rest.contains('}') {
            return Err("a '}' has no '{'".to_owned());
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// True if it depends on the record.
    pub(super) fn varies(&self) -> bool {
        self.0.iter().any(|piece| !matches!(piece, Piece::Text(_)))
    }

    /// True if it contains the record's name.
    pub(super) fn has_name(&self) -> bool {
        self.0.contains(&Piece::Name)
    }

    /// Text for a record.
    pub(super) fn of(&self, number: u64, name: &str) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(own) => text.push_str(own),
                Piece::Name => text.push_str(name),
                // Writing to a text does not fail.
                Piece::Number { digits } => _ = write!(text, "{number:0digits$}"),
            }
        }
        text
    }

    /// Number of the record for which the pattern gives this text.
    pub(super) fn number(&self, text: &str) -> Option<u64> {
        if !self.varies() {
            // The only record of a set has this name.
            return (self.of(0, "") == text).then_some(0);
        }
        let first = self.0.first()?;
        let rest = match first {
            Piece::Text(before) => text.strip_prefix(before.as_str())?,
            _ => text,
        };
        // Digits that follow may belong to a text that begins with digits, or to another number: every length is tried.
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        (1..=digits.min(DIGITS_MAX))
            .filter_map(|length| rest[..length].parse().ok())
            .find(|number| self.of(*number, "") == text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_give_names() {
        let of = |text: &str| Pattern::read(text).unwrap().of(7, "ada");
        assert_eq!(of("x/{n:03}-{name}.png"), "x/007-ada.png");
        assert_eq!(of("{n}{n}"), "77");
        assert!(!Pattern::read("plain").unwrap().varies());
        for (text, words) in [
            ("{n", "no '}'"),
            ("n}", "no '{'"),
            ("{x}", "{n:05}"),
            ("{n:5}", "unknown"),
            ("{n:099}", "20 digits"),
            ("{n:0}", "unknown"),
        ] {
            let reason = Pattern::read(text).unwrap_err();
            assert!(reason.contains(words), "{reason}");
        }
    }

    proptest! {
        /// A name leads back to its record.
        #[test]
        fn names_are_found(
            before in "[a-z0-9]{0,3}", after in "[a-z0-9]{0,3}", digits in 1_usize..6, number in 0_u64..1_000_000,
        ) {
            for text in [format!("{before}{{n}}{after}"), format!("{before}{{n:0{digits}}}{after}")] {
                let pattern = Pattern::read(&text).unwrap();
                let name = pattern.of(number, "");
                let found = pattern.number(&name);
                prop_assert_eq!(found.map(|number| pattern.of(number, "")), Some(name));
            }
        }

        #[test]
        fn nothing_panics(pattern in ".{0,20}", text in ".{0,20}") {
            if let Ok(pattern) = Pattern::read(&pattern) {
                let _ = pattern.number(&text);
                pattern.of(3, &text);
            }
        }
    }
}
