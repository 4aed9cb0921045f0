//! Targets whose connections pass as packets for a while, because the server does not make them.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use anabranch::base::Instant;

/// Time for which connections to a target pass as packets.
const TIME: Duration = Duration::from_secs(60);
/// Targets that are remembered. Beyond, all are forgotten, and the server is asked again.
const TARGETS_MAX: usize = 4096;

/// The targets.
#[derive(Debug)]
pub(super) struct Bypass {
    until: HashMap<SocketAddr, Instant>,
    all_until: Option<Instant>,
}

impl Bypass {
    pub(super) fn new() -> Self {
        Self {
            until: HashMap::new(),
            all_until: None,
        }
    }

    /// True if connections to a target pass as packets now.
    pub(super) fn contains(&mut self, now: Instant, target: SocketAddr) -> bool {
        if self.all_until.is_some_and(|until| now < until) {
            return true;
        }
        match self.until.get(&target) {
            Some(&until) if now < until => true,
            Some(_) => {
                self.until.remove(&target);
                false
            }
            None => false,
        }
    }

    /// Adds a target.
    pub(super) fn add(&mut self, now: Instant, target: SocketAddr) {
        if self.until.len() >= TARGETS_MAX {
            self.until.clear();
        }
        self.until.insert(target, now + TIME);
    }

    /// Adds all targets; true if that is the first time for a while.
    pub(super) fn add_all(&mut self, now: Instant) -> bool {
        let before = self.all_until.replace(now + TIME);
        before.is_none_or(|until| now >= until + TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(number: u16) -> SocketAddr {
        ([192, 0, 2, 1], number).into()
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    #[test]
    fn targets_are_remembered_for_a_while_and_not_without_limit() {
        let mut bypass = Bypass::new();
        bypass.add(at(0), target(1));
        assert!(bypass.contains(at(59), target(1)));
        assert!(!bypass.contains(at(59), target(2)));
        assert!(!bypass.contains(at(60), target(1)));
        for number in 0..10_000 {
            bypass.add(at(60), target(number));
        }
        assert!(bypass.contains(at(60), target(9999)));
        assert!(bypass.until.len() <= TARGETS_MAX);
    }

    #[test]
    fn a_warning_is_not_repeated_while_nothing_changes() {
        let mut bypass = Bypass::new();
        assert!(bypass.add_all(at(0)));
        assert!(bypass.contains(at(59), target(1)));
        assert!(!bypass.contains(at(60), target(1)));
        assert!(!bypass.add_all(at(61)), "it was tried again");
        assert!(bypass.add_all(at(300)));
    }
}
