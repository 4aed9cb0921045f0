//! Tenants: whose streams are on this side, and the share of what can be promised that each may have.

use std::{collections::BTreeMap, fmt, num::NonZeroU64, str::FromStr};

/// Tenant of a node: a user of its local interface, or a rule of its gateway, whose streams are limited together. Peers do not learn it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(NonZeroU64);

impl Tenant {
    /// The tenant with this number; numbers are from 0 to 2⁶⁴ − 2.
    pub const fn new(number: u64) -> Self {
        match NonZeroU64::new(number.saturating_add(1)) {
            Some(stored) => Self(stored),
            None => Self(NonZeroU64::MAX),
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant-{}", self.0.get() - 1)
    }
}

/// Share of what can be promised: above 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// All of it.
    pub const ALL: Self = Self(1.0);

    /// A share; `None`: it is out of range.
    pub fn new(share: f64) -> Option<Self> {
        (share > 0.0 && share <= 1.0).then_some(Self(share))
    }

    /// As a number.
    pub fn get(self) -> f64 {
        self.0
    }
}

// It is a number.
impl Eq for Share {}

/// The text is no share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give a share such as \"40 %\", above 0 % and up to 100 %")]
pub struct ParseShareError;

impl FromStr for Share {
    type Err = ParseShareError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().strip_suffix('%');
        let number = number.and_then(|number| number.trim().parse::<f64>().ok());
        number
            .and_then(|percent| Self::new(percent / 100.0))
            .ok_or(ParseShareError)
    }
}

/// As a percentage, such as `40 %`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", (self.0 * 1e8).round() / 1e6)
    }
}

/// The largest shares of tenants; one that is not in it has no limit. As many as the host names.
pub type Shares = BTreeMap<Tenant, Share>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_above_nothing_and_at_most_all() {
        for wrong in [0.0, -0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            assert_eq!(Share::new(wrong), None, "{wrong}");
        }
        assert_eq!(Share::new(1.0).unwrap().to_string(), "100 %");
        assert_eq!(Share::new(0.405).unwrap().to_string(), "40.5 %");
        assert_eq!(" 40.5% ".parse(), Ok(Share::new(0.405).unwrap()));
        for wrong in [
            "", "40", "0.4", "0 %", "101 %", "-1 %", "NaN %", "4O %", "5 Mbit/s",
        ] {
            assert_eq!(wrong.parse::<Share>(), Err(ParseShareError), "{wrong}");
        }
    }

    #[test]
    fn tenants_have_numbers_and_no_size_of_their_own() {
        assert_eq!(Tenant::new(0).to_string(), "tenant-0");
        assert!(Tenant::new(7) < Tenant::new(8));
        assert_eq!(size_of::<Option<Tenant>>(), 8);
    }
}
