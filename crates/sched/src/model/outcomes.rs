//! Outcomes of packets, in the order of sending.

use std::collections::VecDeque;

use anabranch_base::Instant;

/// Most packets that are kept; the oldest goes first, and what becomes of it is not known.
const PACKETS_MAX: usize = 32_768;
/// Seconds after which an open packet no longer holds up those behind it.
const OPEN_MAX_S: u64 = 60;

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Open,
    Acked(f64),
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Entry<G> {
    number: u64,
    at: Instant,
    guess: G,
    outcome: Outcome,
}

/// A packet whose fate is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settled {
    /// Number of packets that were sent before it: numbers without their holes.
    pub index: u64,
    /// Time at which it was sent.
    pub at: Instant,
    /// Its round trip in milliseconds; `None`: lost.
    pub rtt_ms: Option<f64>,
}

/// The packets of one channel, and what was guessed of each (`G`). O(log packets) for a fate, no allocation
/// once as many packets were in flight as ever will be.
#[derive(Clone, Debug)]
pub(super) struct Outcomes<G> {
    entries: VecDeque<Entry<G>>,
    /// The index of the first entry.
    first: u64,
}

impl<G: Copy> Outcomes<G> {
    pub(super) fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
        }
    }

    /// The index that the next packet will have.
    pub(super) fn next_index(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// A packet was sent. One whose number does not exceed the last one's is passed over.
    pub(super) fn sent(&mut self, number: u64, at: Instant, guess: G) {
        if self
            .entries
            .back()
            .is_some_and(|last| last.number >= number)
        {
            return;
        }
        if self.entries.len() == PACKETS_MAX {
            self.entries.pop_front();
            self.first += 1;
        }
        self.entries.push_back(Entry {
            number,
            at,
            guess,
            outcome: Outcome::Open,
        });
    }

    /// A packet arrived (with its round trip) or was lost (`None`): its index, when it was sent, and what was
    /// guessed of it; `None` if its fate is known already, or it is not.
    pub(super) fn settle(&mut self, number: u64, rtt_ms: Option<f64>) -> Option<(u64, Instant, G)> {
        let at = self
            .entries
            .binary_search_by_key(&number, |entry| entry.number)
            .ok()?;
        let entry = &mut self.entries[at];
        if !matches!(entry.outcome, Outcome::Open) {
            return None;
        }
        entry.outcome = rtt_ms.map_or(Outcome::Lost, Outcome::Acked);
        Some((self.first + at as u64, entry.at, entry.guess))
    }

    /// Time at which the oldest packet was sent whose fate is open, or is known while that of one before it is not.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.entries.front().map(|entry| entry.at)
    }

    /// The next packet in the order of sending whose fate is known.
    pub(super) fn next_settled(&mut self) -> Option<Settled> {
        loop {
            let newest = self.entries.back()?.at;
            let front = self.entries.front()?;
            let rtt_ms = match front.outcome {
                Outcome::Open if newest.since(front.at).as_secs() < OPEN_MAX_S => return None,
                Outcome::Open => {
                    self.entries.pop_front();
                    self.first += 1;
                    continue;
                }
                Outcome::Acked(rtt_ms) => Some(rtt_ms),
                Outcome::Lost => None,
            };
            let settled = Settled {
                index: self.first,
                at: front.at,
                rtt_ms,
            };
            self.entries.pop_front();
            self.first += 1;
            return Some(settled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_come_out_in_the_order_of_sending() {
        let mut outcomes = Outcomes::new();
        for (number, ms) in [(3, 0), (4, 10), (9, 20), (9, 30), (7, 30)] {
            outcomes.sent(number, Instant::from_millis(ms), number);
        }
        assert_eq!(outcomes.next_index(), 3, "twice the same, and an older one");
        assert_eq!(
            outcomes.settle(9, Some(5.0)),
            Some((2, Instant::from_millis(20), 9))
        );
        assert_eq!(outcomes.next_settled(), None, "3 and 4 are open");
        assert_eq!(outcomes.settle(5, None), None, "never sent");
        assert!(outcomes.settle(3, None).is_some());
        assert_eq!(outcomes.settle(3, Some(1.0)), None, "its fate is known");
        let lost = outcomes.next_settled().unwrap();
        assert_eq!((lost.index, lost.rtt_ms), (0, None));
        assert_eq!(outcomes.next_settled(), None);
        // Nobody ever tells what became of 4.
        outcomes.sent(10, Instant::from_secs(61), 10);
        let acked = outcomes.next_settled().unwrap();
        assert_eq!((acked.index, acked.rtt_ms), (2, Some(5.0)));
        assert_eq!(outcomes.next_index(), 4);
    }

    #[test]
    fn memory_is_bounded() {
        let mut outcomes = Outcomes::new();
        for number in 0..2 * PACKETS_MAX as u64 {
            outcomes.sent(number, Instant::EPOCH, ());
        }
        assert_eq!(outcomes.entries.len(), PACKETS_MAX);
        assert_eq!(outcomes.settle(0, None), None);
    }
}
