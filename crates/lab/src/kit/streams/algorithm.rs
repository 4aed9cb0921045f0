//! Algorithms that experiments compare.

use anabranch_session::Policy;

/// Algorithms of [IQ-Paths §VI] and of the literature. `default` is not among them: it is `pgos` for streams with a promise.
const NAMES: [&str; 9] = [
    OPT,
    PGOS,
    "priority_mean",
    "msfq",
    "wfq",
    "min_rtt",
    "ecf",
    "blest",
    "round_robin",
];

/// An algorithm that schedules streams on paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A policy of the session.
    Policy(Policy),
    /// PGOS as it was published.
    PublishedPgos,
    /// The optimum that knows the future of every path.
    Opt,
}

/// Name of [`Policy::Default`] here.
const PGOS: &str = "pgos";
/// Name of [`Algorithm::PublishedPgos`].
const PUBLISHED_PGOS: &str = "published_pgos";
/// Name of [`Algorithm::Opt`].
pub const OPT: &str = "opt";

impl Algorithm {
    /// All algorithms compared, in the order of tables.
    pub fn all() -> Vec<Self> {
        Self::among(&NAMES)
    }

    /// Algorithms of `names` that exist.
    pub fn among(names: &[&str]) -> Vec<Self> {
        names.iter().copied().filter_map(Self::find).collect()
    }

    /// The algorithm of this name.
    pub fn find(name: &str) -> Option<Self> {
        match name {
            OPT => return Some(Self::Opt),
            PUBLISHED_PGOS => return Some(Self::PublishedPgos),
            _ => {}
        }
        name.parse().ok().map(Self::Policy)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            // What `default` does for promised streams, under the name of its source.
            Self::Policy(Policy::Default) => PGOS,
            Self::Policy(policy) => policy.name(),
            Self::PublishedPgos => PUBLISHED_PGOS,
            Self::Opt => OPT,
        }
    }

    /// Policy of the session; it is replaced before the first frame if the algorithm is not a policy.
    pub fn policy(self) -> Policy {
        match self {
            Self::Policy(policy) => policy,
            Self::PublishedPgos | Self::Opt => Policy::Default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_once() {
        let all = Algorithm::all();
        assert_eq!(all.len(), NAMES.len());
        let names: Vec<&str> = all.iter().map(|one| one.name()).collect();
        assert_eq!(names, NAMES, "rows have the names that select them");
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one));
        }
        assert_eq!(Algorithm::find("unheard-of"), None);
    }
}
