//! Labels of streams: `process/1/offer/NAME/NUMBER`, `process/1/subscribe/NAME/NUMBER`, `process/1/module/NAME/DIGITS` and `process/1/status`.
//!
//! A node grants the right `use-service` by label, and so by purpose and stream.

use std::{fmt, str::FromStr};

use anabranch_process::ModuleHash;

/// Labels of the streams that a service takes.
pub const ALL_LABELS: &str = "process/1/*";
/// Label of a stream on which the state of a service is asked for.
pub const STATUS_LABEL: &str = "process/1/status";
/// Longest name of an offered stream, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
const BEGINNING: &str = "process/1/";

/// Beginning of the labels of subscriptions to a stream, and `*`.
pub fn subscriptions_to(name: &str) -> String {
    format!("{BEGINNING}subscribe/{name}/*")
}

/// Beginning of the labels of modules for the subscribers of a stream, and `*`.
pub fn modules_for(name: &str) -> String {
    format!("{BEGINNING}module/{name}/*")
}

/// Hexadecimal digits of a module's hash in a label, which has no space for all.
const HASH_DIGITS: usize = 32;

/// Label of a stream on which a subscriber brings a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleLabel {
    /// Name of the offered stream.
    pub name: String,
    /// First 32 digits of the module's hash.
    digits: String,
}

impl ModuleLabel {
    /// Label for the subscribers of a stream, and a module.
    pub fn new(name: &str, hash: &ModuleHash) -> Self {
        let mut digits = hash.to_string();
        digits.truncate(HASH_DIGITS);
        let name = name.to_owned();
        Self { name, digits }
    }

    /// True if it is that of a module.
    pub fn is_of(&self, hash: &ModuleHash) -> bool {
        hash.to_string().starts_with(&self.digits)
    }
}

impl fmt::Display for ModuleLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEGINNING}module/{}/{}", self.name, self.digits)
    }
}

impl FromStr for ModuleLabel {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix(BEGINNING).ok_or(())?;
        let rest = rest.strip_prefix("module/").ok_or(())?;
        let (name, digits) = rest.split_once('/').ok_or(())?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if !is_name(name) || digits.len() != HASH_DIGITS || !digits.bytes().all(is_digit) {
            return Err(());
        }
        let (name, digits) = (name.to_owned(), digits.to_owned());
        Ok(Self { name, digits })
    }
}

/// Purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A source offers a stream.
    Offer,
    /// A subscriber asks for what is derived from one.
    Subscribe,
}

/// Label of a stream about an offered stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Purpose.
    pub purpose: Purpose,
    /// Name of the offered stream.
    pub name: String,
    /// 0 for messages; for ADUs, a number that the opener has [chosen], or that from the answer to the first message.
    pub number: u64,
}

/// Bit of the numbers that openers choose. A service chooses others.
const CHOSEN: u64 = 1 << 63;

/// Number for the stream with ADUs of an opener that does not wait for the answer to its first message: `number`, with the bit that such
/// numbers have.
pub const fn chosen(number: u64) -> u64 {
    number | CHOSEN
}

impl Label {
    /// True if the opener has chosen the number.
    pub const fn is_chosen(&self) -> bool {
        self.number & CHOSEN != 0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purpose = match self.purpose {
            Purpose::Offer => "offer",
            Purpose::Subscribe => "subscribe",
        };
        write!(f, "{BEGINNING}{purpose}/{}/{}", self.name, self.number)
    }
}

impl FromStr for Label {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix(BEGINNING).ok_or(())?;
        let mut parts = rest.split('/');
        let purpose = match parts.next() {
            Some("offer") => Purpose::Offer,
            Some("subscribe") => Purpose::Subscribe,
            _ => return Err(()),
        };
        let name = parts.next().filter(|name| is_name(name)).ok_or(())?;
        let number = parts.next().ok_or(())?;
        // One text for each number.
        let is_written = number.bytes().all(|byte| byte.is_ascii_digit())
            && (number == "0" || !number.starts_with('0'));
        if !is_written || parts.next().is_some() {
            return Err(());
        }
        Ok(Self {
            purpose,
            name: name.to_owned(),
            number: number.parse().map_err(drop)?,
        })
    }
}

/// True for letters, digits, `-`, `_` and `.`, of which there are 1 to 64.
pub fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_they_are_written() {
        for text in [
            "process/1/offer/frames/0",
            "process/1/subscribe/run-7.b_2/18446744073709551615",
        ] {
            let label: Label = text.parse().unwrap();
            assert_eq!(label.to_string(), text);
        }
        let long = format!("process/1/offer/{}/0", "x".repeat(NAME_BYTES_MAX + 1));
        for wrong in [
            "process/1/offer/frames",
            "process/1/offer//0",
            "process/1/offer/frames/",
            "process/1/offer/frames/01",
            "process/1/offer/frames/+1",
            "process/1/offer/frames/0/0",
            "process/1/offer/frames/18446744073709551616",
            "process/2/offer/frames/0",
            "process/1/look/frames/0",
            "process/1/status",
            &long,
        ] {
            assert!(wrong.parse::<Label>().is_err(), "{wrong}");
        }
        let name = "x".repeat(NAME_BYTES_MAX);
        let purpose = Purpose::Subscribe;
        let number = u64::MAX;
        let longest = Label {
            purpose,
            name,
            number,
        };
        assert!(
            longest.to_string().len() <= 128,
            "a stream's label has 128 bytes at most"
        );
    }

    #[test]
    fn labels_of_modules_are_read_as_they_are_written() {
        let hash: ModuleHash = "0123456789abcdef".repeat(4).parse().unwrap();
        let digits = "0123456789abcdef".repeat(2);
        let name = "x".repeat(NAME_BYTES_MAX);
        let label = ModuleLabel::new(&name, &hash);
        let text = label.to_string();
        assert_eq!(text, format!("process/1/module/{name}/{digits}"));
        assert!(text.len() <= 128, "a stream's label has 128 bytes at most");
        assert_eq!(text.parse(), Ok(label.clone()));
        assert!(label.is_of(&hash) && !label.is_of(&ModuleHash::default()));
        for wrong in [
            "process/1/module/frames".to_owned(),
            format!("process/1/module/{digits}"),
            format!("process/1/module/a b/{digits}"),
            format!("process/1/module/frames/{}", digits.to_uppercase()),
            format!("process/1/module/frames/{digits}0"),
            format!("process/1/module/frames/{digits}/0"),
            format!("process/2/module/frames/{digits}"),
        ] {
            assert!(wrong.parse::<ModuleLabel>().is_err(), "{wrong}");
        }
    }
}
