//! Places to which tariffs apply.

use std::{fmt, net::IpAddr, str::FromStr};

/// Longest name of an interface: `IFNAMSIZ` of linux/if.h, without the terminating null.
const INTERFACE_BYTES_MAX: usize = 15;

/// Place to which a tariff applies: packets that leave there are charged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A network interface: all its addresses together, now and later.
    Interface(String),
    /// A local address, on any port. It takes precedence over its interface.
    Address(IpAddr),
}

/// Error: a text does not name a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "give an interface such as \"wwan0\", or a local address without a port such as \"192.0.2.1\""
)]
pub struct ParsePlaceError;

impl FromStr for Place {
    type Err = ParsePlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let fits = (1..=INTERFACE_BYTES_MAX).contains(&text.len());
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':');
        if !fits || text.contains(is_odd) {
            return Err(ParsePlaceError);
        }
        Ok(Self::Interface(text.to_owned()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_what_is_none_is_refused() {
        for text in ["wwan0", "192.0.2.1", "2001:db8::1", "enp0s20f0u1u4c2"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "192.0.2.1:7",
            "[::1]:7",
            "a b",
            "wwan0/1",
            "sixteen-letters-",
        ] {
            assert_eq!(text.parse::<Place>(), Err(ParsePlaceError), "{text}");
        }
    }
}
