//! The policies that experiments compare.

use anabranch_session::Policy;

/// The names of the policies of [IQ-Paths §VI] and of the field, those that promise first. A name that no
/// policy has is passed over.
const NAMES: [&str; 10] = [
    "opt",
    "pgos",
    "priority_mean",
    "msfq",
    "wfq",
    "default",
    "min_rtt",
    "ecf",
    "blest",
    "round_robin",
];

/// A way to schedule streams on paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// Its policy.
    pub policy: Policy,
}

impl Algorithm {
    /// All that are compared, in the order of tables.
    pub fn all() -> Vec<Self> {
        NAMES.into_iter().filter_map(Self::find).collect()
    }

    /// Those of `names` that there are.
    pub fn among(names: &[&str]) -> Vec<Self> {
        names.iter().copied().filter_map(Self::find).collect()
    }

    /// The algorithm of this name.
    pub fn find(name: &str) -> Option<Self> {
        let policy = name.parse().ok()?;
        Some(Self { policy })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.policy.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_once() {
        let all = Algorithm::all();
        assert!(all.contains(&Algorithm::find("default").unwrap()));
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one));
        }
        assert_eq!(Algorithm::find("unheard-of"), None);
    }
}
