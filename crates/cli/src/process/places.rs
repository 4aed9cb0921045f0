//! Choice between processing nodes: the one to try next, after one has failed.

use std::time::Duration;

use tokio::time::Instant;

/// Time for which a node that did not respond is left out while there are others.
const SHUNNED: Duration = Duration::from_secs(10);

/// Nodes in the order of preference.
#[derive(Debug)]
pub(super) struct Places {
    /// Time until which each is left out.
    shunned: Vec<Option<Instant>>,
    current: usize,
}

impl Places {
    /// That many nodes, at least one; the first is tried first.
    pub(super) fn new(count: usize) -> Self {
        Self {
            shunned: vec![None; count],
            current: 0,
        }
    }

    /// Number of nodes.
    pub(super) fn count(&self) -> usize {
        self.shunned.len()
    }

    /// Another node is in use.
    pub(super) fn set(&mut self, current: usize) {
        self.current = current;
    }

    /// Number of the node to try.
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// The node has refused for now, or does not respond: another one is next, in turn, that is not left out. Without one, it is the same again.
    pub(super) fn failed(&mut self, does_respond: bool, now: Instant) {
        if !does_respond {
            self.shunned[self.current] = Some(now + SHUNNED);
        }
        let count = self.shunned.len();
        let others = (1..=count).map(|step| (self.current + step) % count);
        let is_open = |place: &usize| self.shunned[*place].is_none_or(|until| now >= until);
        // All are left out: the one that has been for longest.
        let longest = || (0..count).min_by_key(|&place| self.shunned[place]);
        self.current = others.clone().find(is_open).or_else(longest).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_does_not_respond_is_left_out_for_a_while() {
        let now = Instant::now();
        let mut places = Places::new(3);
        assert_eq!(places.current(), 0);
        places.failed(false, now);
        assert_eq!(places.current(), 1);
        // Refusals pass from one to the next of those that respond.
        for expected in [2, 1, 2] {
            places.failed(true, now);
            assert_eq!(places.current(), expected);
        }
        let later = now + SHUNNED;
        places.failed(true, later);
        assert_eq!(places.current(), 0);
    }

    #[test]
    fn without_another_it_is_the_same_again() {
        let now = Instant::now();
        let mut alone = Places::new(1);
        alone.failed(false, now);
        alone.failed(true, now);
        assert_eq!(alone.current(), 0);
        let mut two = Places::new(2);
        two.failed(false, now);
        two.failed(true, now);
        assert_eq!(two.current(), 1);
        // None responds: the one that has been left out for longest.
        two.failed(false, now + Duration::from_secs(1));
        assert_eq!(two.current(), 0);
    }
}
