//! Messages that are sent only if they will probably be in time: `--least-on-time`.

use std::{cell::Cell, fmt};

use anabranch::spec::percent_of;
use serde_json::json;

use super::framing::Framing;
use crate::exit::{note, print_error};

/// Reads a probability: `90 %`, or a number from 0 to 1.
pub(super) fn parse_least(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let probability = number.trim().parse::<f64>().map(|number| number / unit);
    match probability {
        Ok(probability) if (0.0..=1.0).contains(&probability) => Ok(probability),
        _ => Err("give a probability such as '90%' or 0.9, up to 100 %".to_owned()),
    }
}

/// Messages by what became of them at this end.
#[derive(Debug)]
pub(super) struct Tally {
    least: f64,
    sent: Cell<u64>,
    not_sent: Cell<u64>,
}

impl Tally {
    /// A tally of messages that must be in time with this probability at least.
    pub(super) fn new(least: f64) -> Self {
        Self {
            least,
            sent: Cell::new(0),
            not_sent: Cell::new(0),
        }
    }

    /// The probability with which a message must be in time.
    pub(super) fn least(&self) -> f64 {
        self.least
    }

    /// Counts a message.
    pub(super) fn count(&self, is_sent: bool) {
        let counter = if is_sent { &self.sent } else { &self.not_sent };
        counter.set(counter.get() + 1);
    }

    /// Prints the counts to standard error: as an object where messages are objects, in words otherwise.
    pub(super) fn report(&self, form: Framing) {
        match form {
            Framing::Json => print_error(&format!("{}\n", self.json())),
            Framing::Lines | Framing::Frames | Framing::Record(_) => note(&self.to_string()),
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "messages_sent": self.sent.get(),
            "messages_not_sent": self.not_sent.get(),
            "least_on_time": self.least,
        })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sent, not_sent) = (self.sent.get(), self.not_sent.get());
        let least = percent_of(self.least);
        write!(
            f,
            "{not_sent} of {} messages were not sent, less than {least} likely to be in time",
            sent + not_sent
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_percentages_or_fractions() {
        for (text, expected) in [("90%", 0.9), ("90 %", 0.9), ("0.9", 0.9), ("1", 1.0)] {
            assert_eq!(parse_least(text), Ok(expected), "{text}");
        }
        for text in ["90", "-1%", "101 %", "NaN", "", "%", "soon"] {
            let error = parse_least(text).unwrap_err();
            assert!(error.contains("90%"), "{text}: {error}");
        }
    }

    #[test]
    fn messages_are_counted_in_words_and_as_an_object() {
        let tally = Tally::new(0.9);
        for is_sent in [true, false, true] {
            tally.count(is_sent);
        }
        let words = "1 of 3 messages were not sent, less than 90 % likely to be in time";
        assert_eq!(tally.to_string(), words);
        let expected = json!({"messages_sent": 2, "messages_not_sent": 1, "least_on_time": 0.9});
        assert_eq!(tally.json(), expected);
    }
}
