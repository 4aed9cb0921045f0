//! Labels of streams: `records/1/PURPOSE`, `records/1/PURPOSE/SET` and `records/1/PURPOSE/SET/COMPONENT`.
//!
//! A node grants the right `use-service` by label, and so by purpose and set.

use std::{fmt, str::FromStr};

use anabranch::base::text::printable;

/// Labels of the streams that a server takes.
pub const ALL_LABELS: &str = "records/1/*";
/// Longest name of a set that is served: label and component fit 128 bytes.
pub const SET_NAME_BYTES_MAX: usize = 64;
const BEGINNING: &str = "records/1/";
/// Characters of a component in a label, which is for people.
const COMPONENT_CHARS: usize = 10;

/// Purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Names of the sets.
    List,
    /// A set's manifest, data and hashes.
    Get,
    /// A set that the client sends.
    Put,
    /// A set that the server sends to a third node.
    Copy,
}

/// Label of a stream: purpose, set and component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Purpose.
    pub purpose: Purpose,
    /// Set; empty for a list.
    pub set: String,
    /// Component whose data it carries; empty for other streams.
    pub component: String,
}

impl Label {
    /// Label of a stream about a set.
    pub fn new(purpose: Purpose, set: &str) -> Self {
        Self {
            purpose,
            set: set.to_owned(),
            component: String::new(),
        }
    }

    /// The same for the data of a component.
    #[must_use]
    pub fn with(mut self, component: &str) -> Self {
        self.component = printable(component, COMPONENT_CHARS);
        self
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purpose = match self.purpose {
            Purpose::List => "list",
            Purpose::Get => "get",
            Purpose::Put => "put",
            Purpose::Copy => "copy",
        };
        write!(f, "{BEGINNING}{purpose}")?;
        for part in [&self.set, &self.component] {
            if !part.is_empty() {
                write!(f, "/{part}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Label {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix(BEGINNING).ok_or(())?;
        let mut parts = rest.splitn(3, '/');
        let purpose = match parts.next() {
            Some("list") => Purpose::List,
            Some("get") => Purpose::Get,
            Some("put") => Purpose::Put,
            Some("copy") => Purpose::Copy,
            _ => return Err(()),
        };
        let mut next = || parts.next().unwrap_or_default().to_owned();
        let (set, component) = (next(), next());
        if (purpose == Purpose::List) != set.is_empty() {
            return Err(());
        }
        Ok(Self {
            purpose,
            set,
            component,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_they_are_written() {
        for (text, purpose, set, component) in [
            ("records/1/list", Purpose::List, "", ""),
            ("records/1/get/climate", Purpose::Get, "climate", ""),
            ("records/1/put/c/image", Purpose::Put, "c", "image"),
            ("records/1/copy/c", Purpose::Copy, "c", ""),
        ] {
            let label: Label = text.parse().unwrap();
            assert_eq!(
                (label.purpose, &*label.set, &*label.component),
                (purpose, set, component)
            );
            assert_eq!(label.to_string(), text);
        }
        for text in [
            "records/1/get",
            "records/1/list/x",
            "records/2/get/x",
            "get/x",
            "",
        ] {
            assert!(text.parse::<Label>().is_err(), "{text}");
        }
        let longest = "é".repeat(SET_NAME_BYTES_MAX / 2);
        let label = Label::new(Purpose::Copy, &longest).with(&"é".repeat(200));
        assert!(label.to_string().len() <= anabranch_label_bytes());
    }

    /// Longest label that a stream may have.
    fn anabranch_label_bytes() -> usize {
        128
    }
}
