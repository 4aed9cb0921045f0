//! Guesses about packets whose outcome is not in order yet.

use std::collections::VecDeque;

use anabranch_base::Instant;

use crate::order::PACKETS_MAX;

/// A packet of which something was guessed.
#[derive(Clone, Copy, Debug)]
struct Entry<G> {
    at: Instant,
    guess: G,
}

/// Guesses (`G`) about packets when they were sent, by index. O(1), no allocation once as many packets were in flight as
/// ever will be.
#[derive(Clone, Debug)]
pub(super) struct Guesses<G> {
    entries: VecDeque<Entry<G>>,
    /// The index of the first entry.
    first: u64,
}

impl<G: Copy> Guesses<G> {
    pub(super) fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
        }
    }

    /// The index of the packet that is sent next.
    pub(super) fn next_index(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Adds the guess about packet `index`, sent at `at`: the one after the last, or any when the model has seen none.
    pub(super) fn sent(&mut self, index: u64, at: Instant, guess: G) {
        if index != self.next_index() {
            self.entries.clear();
            self.first = index;
        }
        if self.entries.len() == PACKETS_MAX {
            self.entries.pop_front();
            self.first += 1;
        }
        self.entries.push_back(Entry { at, guess });
    }

    /// The guess about a packet; `None` for one that was sent before the model existed.
    pub(super) fn of(&self, index: u64) -> Option<G> {
        let place = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.entries.get(place).map(|entry| entry.guess)
    }

    /// Forgets the packets up to `index`, which are settled.
    pub(super) fn settle(&mut self, index: u64) {
        while self.first <= index && self.entries.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Time at which the oldest packet was sent that is not settled.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.entries.front().map(|entry| entry.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_found_until_they_are_settled() {
        let mut guesses = Guesses::new();
        for index in 7..10 {
            guesses.sent(index, Instant::from_millis(index), index * 10);
        }
        assert_eq!(
            (guesses.of(6), guesses.of(8), guesses.of(10)),
            (None, Some(80), None)
        );
        guesses.settle(3);
        guesses.settle(8);
        assert_eq!((guesses.of(8), guesses.of(9)), (None, Some(90)));
        assert_eq!(guesses.oldest(), Some(Instant::from_millis(9)));
        guesses.settle(9);
        assert_eq!((guesses.oldest(), guesses.next_index()), (None, 10));
    }
}
