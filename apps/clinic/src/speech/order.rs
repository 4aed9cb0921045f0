//! Packets that overtook each other, in their order.

use std::collections::BTreeMap;

use super::{LIFETIME, PACKET_TIME};

/// Packets that wait for an earlier one: those of its lifetime.
const WAITING_MAX: usize = (LIFETIME.as_millis() / PACKET_TIME.as_millis()) as usize;

/// Packets by number, given in order. A packet waits for those before it, for as many as are made in its lifetime.
#[derive(Clone, Debug)]
pub struct Ordered<T> {
    /// The first number that was not given, and is not given up; `None`: none came.
    next: Option<u64>,
    waiting: BTreeMap<u64, T>,
    late: u64,
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self {
            next: None,
            waiting: BTreeMap::new(),
            late: 0,
        }
    }
}

impl<T> Ordered<T> {
    /// Takes a packet, and returns those that need not wait any more, in order.
    pub fn push(&mut self, number: u64, packet: T) -> Vec<(u64, T)> {
        let next = *self.next.get_or_insert(number);
        if number < next {
            self.late += 1;
            return Vec::new();
        }
        self.waiting.insert(number, packet);
        self.given(WAITING_MAX)
    }

    /// True if one waits for an earlier one.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// All that wait, for which no earlier one is waited for any more.
    pub fn finish(&mut self) -> Vec<(u64, T)> {
        self.given(0)
    }

    /// Packets that were left out, because they came after others that were given.
    pub const fn late(&self) -> u64 {
        self.late
    }

    fn given(&mut self, waiting_max: usize) -> Vec<(u64, T)> {
        let mut given = Vec::new();
        while let Some((&first, _)) = self.waiting.first_key_value() {
            let last = self
                .waiting
                .last_key_value()
                .map_or(first, |(last, _)| *last);
            let follows = self.next == Some(first);
            let is_old = (last - first) as usize >= waiting_max || self.waiting.len() > waiting_max;
            if !follows && !is_old {
                break;
            }
            if let Some((number, packet)) = self.waiting.pop_first() {
                self.next = Some(number.saturating_add(1));
                given.push((number, packet));
            }
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn numbers(given: Vec<(u64, ())>) -> Vec<u64> {
        given.into_iter().map(|(number, ())| number).collect()
    }

    #[test]
    fn a_gap_is_waited_for_as_long_as_a_packet_lives() {
        let mut ordered = Ordered::default();
        assert_eq!(numbers(ordered.push(0, ())), [0]);
        assert_eq!(numbers(ordered.push(2, ())), [0; 0]);
        assert_eq!(numbers(ordered.push(1, ())), [1, 2]);
        for number in 4..24 {
            assert_eq!(numbers(ordered.push(number, ())), [0; 0]);
        }
        assert_eq!(numbers(ordered.push(24, ())).len(), 21);
        assert_eq!(numbers(ordered.push(3, ())), [0; 0]);
        assert_eq!(ordered.late(), 1);
        ordered.push(u64::MAX, ());
        assert_eq!(numbers(ordered.finish()), [u64::MAX]);
    }

    proptest! {
        #[test]
        fn packets_are_given_once_and_in_order(arrivals in vec(0_u64..200, 1..300)) {
            let mut ordered = Ordered::default();
            let mut given = Vec::new();
            for number in &arrivals {
                given.extend(numbers(ordered.push(*number, ())));
                prop_assert!(ordered.waiting.len() <= WAITING_MAX);
            }
            given.extend(numbers(ordered.finish()));
            prop_assert!(given.is_sorted_by(|one, other| one < other));
            prop_assert!(given.iter().all(|number| arrivals.contains(number)));
        }
    }
}
