//! One ADU being put together.

use bytes::Bytes;

use super::Violation;
use crate::{event::Missing, ranges::Ranges};

/// Key: stream, sequence. Holds the ADU's bytes in one buffer that grows with what arrives.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    data: Vec<u8>,
    got: Ranges,
    got_bytes: u64,
    length: Option<usize>,
}

impl Assembly {
    /// An empty one with room for `bytes`, so that it need not grow step by step.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self {
            data: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// Bytes of memory it takes.
    pub(super) fn held_bytes(&self) -> usize {
        self.data.len()
    }

    /// Bytes that have arrived, each counted once.
    pub(super) fn got_bytes(&self) -> u64 {
        self.got_bytes
    }

    /// Adds a fragment; true when the ADU is complete.
    pub(super) fn add(
        &mut self,
        offset: usize,
        payload: &[u8],
        is_final: bool,
    ) -> Result<bool, Violation> {
        let end = offset + payload.len();
        if is_final {
            if self.length.is_some_and(|length| length != end) || self.data.len() > end {
                return Err(Violation::Length);
            }
            self.length = Some(end);
        } else if self.length.is_some_and(|length| end > length) {
            return Err(Violation::Length);
        }
        if offset == self.data.len() {
            self.data.extend_from_slice(payload);
        } else {
            if self.data.len() < end {
                self.data.resize(end, 0);
            }
            self.data[offset..end].copy_from_slice(payload);
        }
        self.got_bytes += self.got.insert(offset as u64..end as u64);
        Ok(self
            .length
            .is_some_and(|length| self.got_bytes == length as u64))
    }

    /// What has arrived, and what is missing of it.
    pub(super) fn give_up(self) -> (Bytes, Missing) {
        let missing = Missing {
            ranges: self.got.gaps(0..self.data.len() as u64).collect(),
            is_cut: self.length.is_none(),
        };
        (Bytes::from(self.data), missing)
    }

    /// The complete ADU.
    pub(super) fn finish(self) -> Bytes {
        Bytes::from(self.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any cut, any order, any repetition gives the same ADU.
        #[test]
        fn reassembles(
            data in prop::collection::vec(any::<u8>(), 1..500),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            order in prop::collection::vec(any::<prop::sample::Index>(), 40),
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(data.len())).collect();
            at.extend([0, data.len()]);
            at.sort_unstable();
            at.dedup();
            let parts: Vec<_> = at.windows(2).map(|w| w[0]..w[1]).collect();
            let mut assembly = Assembly::default();
            let mut complete = false;
            let shuffled = order.iter().map(|i| i.index(parts.len()));
            for index in shuffled.chain(0..parts.len()) {
                let part = parts[index].clone();
                let is_final = part.end == data.len();
                complete |= assembly.add(part.start, &data[part], is_final).expect("consistent");
            }
            prop_assert!(complete);
            prop_assert_eq!(assembly.finish(), data);
        }
    }

    #[test]
    fn contradicting_lengths_are_refused() {
        let mut assembly = Assembly::default();
        assembly.add(0, &[1; 10], true).expect("first word counts");
        assert_eq!(assembly.add(5, &[1; 10], false), Err(Violation::Length));
        assert_eq!(assembly.add(5, &[1; 3], true), Err(Violation::Length));
    }
}
