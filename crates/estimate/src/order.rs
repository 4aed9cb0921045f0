//! Order of packets: outcomes that come back in any order, put into the order of sending.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::Instant;

/// Most packets that are kept; beyond, the oldest is forgotten, and its outcome never known.
pub(crate) const PACKETS_MAX: usize = 32_768;
/// Seconds after which an open packet no longer holds up those behind it.
const OPEN_MAX_S: u64 = 60;

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    Acked(Duration),
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    at: Instant,
    state: State,
}

/// A packet whose outcome is known, in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Number of packets that were sent before it: numbers without their holes.
    pub index: u64,
    /// Time at which it was sent.
    pub at: Instant,
    /// Its round trip; `None`: it was lost.
    pub rtt: Option<Duration>,
}

impl Settled {
    /// True if the packet was lost.
    pub fn is_lost(&self) -> bool {
        self.rtt.is_none()
    }

    /// Its round trip in milliseconds.
    pub fn rtt_ms(&self) -> Option<f64> {
        self.rtt.map(in_ms)
    }
}

/// The outcome of one packet, as it becomes known.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// Number of packets that were sent before it.
    pub index: u64,
    /// Time at which the outcome became known.
    pub at: Instant,
    /// Its round trip; `None`: it was lost.
    pub rtt: Option<Duration>,
    /// The packets whose outcome is in order now, this one among them unless an earlier one is open.
    pub settled: &'a [Settled],
}

/// Packets of one channel from the first whose outcome is open, or not in order yet. O(log packets) for an outcome;
/// allocates nothing once as many packets were in flight as ever will be.
#[derive(Clone, Debug, Default)]
pub struct PacketOrder {
    entries: VecDeque<Entry>,
    /// The index of the first entry.
    first: u64,
    settled: Vec<Settled>,
}

impl PacketOrder {
    /// Creates an order without packets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a packet that was sent at `at`; returns its index. Numbers ascend and may have holes: `None` for one that does not
    /// exceed the last.
    pub fn sent(&mut self, number: u64, at: Instant) -> Option<u64> {
        if self
            .entries
            .back()
            .is_some_and(|last| last.number >= number)
        {
            return None;
        }
        if self.entries.len() == PACKETS_MAX {
            self.entries.pop_front();
            self.first += 1;
        }
        let state = State::Open;
        self.entries.push_back(Entry { number, at, state });
        Some(self.first + self.entries.len() as u64 - 1)
    }

    /// Adds the acknowledgement of a packet at `at`, `rtt` after it was sent. `None` if its outcome is known already, or it is
    /// not.
    pub fn acked(&mut self, number: u64, at: Instant, rtt: Duration) -> Option<Outcome<'_>> {
        self.settle(number, at, Some(rtt))
    }

    /// Adds the loss of a packet, declared at `at`. `None` if its outcome is known already, or it is not.
    pub fn lost(&mut self, number: u64, at: Instant) -> Option<Outcome<'_>> {
        self.settle(number, at, None)
    }

    fn settle(&mut self, number: u64, at: Instant, rtt: Option<Duration>) -> Option<Outcome<'_>> {
        let found = self
            .entries
            .binary_search_by_key(&number, |entry| entry.number)
            .ok()?;
        let entry = &mut self.entries[found];
        if !matches!(entry.state, State::Open) {
            return None;
        }
        entry.state = rtt.map_or(State::Lost, State::Acked);
        let index = self.first + found as u64;
        self.settled.clear();
        while let Some(settled) = self.next_settled() {
            self.settled.push(settled);
        }
        Some(Outcome {
            index,
            at,
            rtt,
            settled: &self.settled,
        })
    }

    /// The next packet in the order of sending whose outcome is known.
    fn next_settled(&mut self) -> Option<Settled> {
        loop {
            let newest = self.entries.back()?.at;
            let front = self.entries.front()?;
            let rtt = match front.state {
                State::Open if newest.since(front.at).as_secs() < OPEN_MAX_S => return None,
                State::Open => {
                    self.entries.pop_front();
                    self.first += 1;
                    continue;
                }
                State::Acked(rtt) => Some(rtt),
                State::Lost => None,
            };
            let settled = Settled {
                index: self.first,
                at: front.at,
                rtt,
            };
            self.entries.pop_front();
            self.first += 1;
            return Some(settled);
        }
    }
}

/// A duration in milliseconds.
pub(crate) fn in_ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTT: Duration = Duration::from_millis(5);

    #[test]
    fn outcomes_come_out_in_the_order_of_sending() {
        let mut order = PacketOrder::new();
        let known = Instant::from_millis(40);
        let sent = [(3, 0), (4, 10), (9, 20), (9, 30), (7, 30)];
        let indices = sent.map(|(number, ms)| order.sent(number, Instant::from_millis(ms)));
        let once = [Some(0), Some(1), Some(2), None, None];
        assert_eq!(indices, once, "twice the same, and an older one");
        let outcome = order.acked(9, known, RTT).unwrap();
        assert_eq!(
            (outcome.index, outcome.settled),
            (2, &[][..]),
            "3 and 4 are open"
        );
        assert!(order.lost(5, known).is_none(), "never sent");
        let lost = order.lost(3, known).unwrap();
        assert_eq!((lost.settled.len(), lost.settled[0].rtt), (1, None));
        assert!(order.acked(3, known, RTT).is_none(), "its outcome is known");
        // The outcome of 4 never becomes known.
        assert_eq!(order.sent(10, Instant::from_secs(61)), Some(3));
        let acked = order.acked(10, known, RTT).unwrap();
        let indices: Vec<u64> = acked.settled.iter().map(|settled| settled.index).collect();
        assert_eq!(indices, [2, 3]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut order = PacketOrder::new();
        for number in 0..2 * PACKETS_MAX as u64 {
            order.sent(number, Instant::EPOCH);
        }
        assert_eq!(order.entries.len(), PACKETS_MAX);
        assert!(order.lost(0, Instant::EPOCH).is_none());
    }

    proptest! {
        #[test]
        fn any_order_becomes_the_order_of_sending(
            lost in prop::collection::vec(any::<bool>(), 1..200),
            swaps in prop::collection::vec(any::<prop::sample::Index>(), 0..50),
        ) {
            let mut numbers: Vec<usize> = (0..lost.len()).collect();
            for swap in swaps {
                let index = swap.index(lost.len());
                if index + 1 < lost.len() {
                    numbers.swap(index, index + 1);
                }
            }
            let mut order = PacketOrder::new();
            for number in 0..lost.len() as u64 {
                order.sent(number, Instant::EPOCH);
            }
            let mut seen = Vec::new();
            for number in numbers {
                let rtt = (!lost[number]).then_some(RTT);
                let outcome = order.settle(number as u64, Instant::EPOCH, rtt).unwrap();
                seen.extend(outcome.settled.iter().map(Settled::is_lost));
            }
            prop_assert_eq!(seen, lost);
        }
    }
}
