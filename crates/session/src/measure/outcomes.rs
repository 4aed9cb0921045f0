//! Order of losses: outcomes that come in any order are put into the order of sending.

use std::collections::VecDeque;

/// Containers whose outcome may be unknown; beyond, the oldest is skipped.
const OPEN_MAX: usize = 1 << 16;

/// Puts outcomes into the order of their containers' numbers. O(1) each, amortised.
#[derive(Debug, Default)]
pub(super) struct OutcomeOrder {
    /// The container that is next in order; `None` before the first.
    next: Option<u64>,
    /// From `next` on: lost, arrived, or not known yet.
    known: VecDeque<Option<bool>>,
}

impl OutcomeOrder {
    /// Adds the outcome of container `number`; passes every outcome that is in order now to `observe`.
    pub(super) fn push(&mut self, number: u64, lost: bool, mut observe: impl FnMut(bool)) {
        let next = *self.next.get_or_insert(number);
        let Some(index) = number.checked_sub(next).map(|index| index as usize) else {
            return;
        };
        if index >= OPEN_MAX {
            // Numbers jumped: a new channel on the path.
            *self = Self {
                next: Some(number + 1),
                known: VecDeque::new(),
            };
            observe(lost);
            return;
        }
        if index >= self.known.len() {
            self.known.resize(index + 1, None);
        }
        self.known[index] = Some(lost);
        while let Some(&Some(lost)) = self.known.front() {
            self.known.pop_front();
            self.next = self.next.map(|next| next + 1);
            observe(lost);
        }
    }

    /// Starts again: another channel counts from 0.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_order_becomes_the_order_of_sending(
            lost in prop::collection::vec(any::<bool>(), 1..200),
            swaps in prop::collection::vec(any::<prop::sample::Index>(), 0..50),
        ) {
            let mut order: Vec<usize> = (0..lost.len()).collect();
            for swap in swaps {
                // The first container's outcome stays first: it determines where numbers begin.
                let index = swap.index(lost.len()).max(1);
                if index + 1 < lost.len() {
                    order.swap(index, index + 1);
                }
            }
            let mut outcomes = OutcomeOrder::default();
            let mut seen = Vec::new();
            for number in order {
                outcomes.push(number as u64, lost[number], |lost| seen.push(lost));
            }
            prop_assert_eq!(seen, lost);
        }
    }
}
