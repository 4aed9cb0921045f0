//! Holes of a region: a bitmap of the bytes that have arrived.

use std::ops::Range;

/// Bytes from `from` on, of which some are missing. It takes an eighth of the region's size, however it is fragmented;
/// O(bytes / 64) for a fragment.
#[derive(Debug)]
pub(super) struct Holes {
    from: usize,
    to: usize,
    /// Bytes in it that have not arrived.
    missing: usize,
    /// One bit for each byte: true if it has arrived.
    words: Vec<u64>,
}

impl Holes {
    /// An empty region that begins at `from`; everything before has arrived.
    pub(super) fn new(from: usize) -> Self {
        Self {
            from,
            to: from,
            missing: 0,
            words: Vec::new(),
        }
    }

    pub(super) fn missing(&self) -> usize {
        self.missing
    }

    /// Extends the region to `to`, which is not before its end; the added bytes are missing.
    pub(super) fn extend(&mut self, to: usize) {
        self.missing += to - self.to;
        self.to = to;
        let words = (to - self.from).div_ceil(64);
        if words > self.words.capacity() {
            self.words
                .reserve_exact((words - self.words.len()).max(self.words.len() / 4));
        }
        self.words.resize(words, 0);
    }

    /// Marks bytes, which end within the region, as arrived; returns how many of them are new.
    pub(super) fn fill(&mut self, range: Range<usize>) -> usize {
        let (at, end) = (range.start.max(self.from), range.end.max(self.from));
        if at >= end {
            return 0;
        }
        let (at, last) = (at - self.from, end - self.from - 1);
        let head = u64::MAX << (at % 64);
        let tail = u64::MAX >> (63 - last % 64);
        let words = &mut self.words[at / 64..=last / 64];
        let new = match words {
            [only] => mark(only, head & tail),
            [first, between @ .., last] => {
                let between = between.iter_mut().map(|word| match *word {
                    // The most frequent case; counting bits would cost more.
                    0 => {
                        *word = u64::MAX;
                        64
                    }
                    _ => mark(word, u64::MAX),
                });
                between.sum::<usize>() + mark(first, head) + mark(last, tail)
            }
            [] => 0,
        };
        self.missing -= new;
        new
    }

    /// The missing ranges, ascending; they do not touch. O(region / 64 + ranges).
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (index, &word) in self.words.iter().enumerate() {
            let base = self.from + index * 64;
            let length = (self.to - base).min(64);
            let mut missing = !word & (u64::MAX >> (64 - length));
            while missing != 0 {
                let start = missing.trailing_zeros();
                let count = (missing >> start).trailing_ones();
                let range =
                    (base as u64 + u64::from(start))..(base as u64 + u64::from(start + count));
                match ranges.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => ranges.push(range),
                }
                missing &= !((u64::MAX >> (64 - count)) << start);
            }
        }
        ranges
    }
}

/// Sets the bits of a mask; returns how many of them are new.
fn mark(word: &mut u64, mask: u64) -> usize {
    let new_bits = mask & !*word;
    *word |= mask;
    new_bits.count_ones() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::Ranges;
    use proptest::prelude::*;

    proptest! {
        /// Agrees with a set of ranges.
        #[test]
        fn is_a_set(
            from in 0usize..300,
            steps in prop::collection::vec((0usize..400, 0usize..200, 0usize..30), 1..40),
        ) {
            let mut holes = Holes::new(from);
            let mut set = Ranges::default();
            set.insert(0..from as u64);
            let mut to = from;
            for (start, length, more) in steps {
                to += more;
                holes.extend(to);
                let range = start.min(to)..(start + length).min(to);
                let new = set.insert(range.start as u64..range.end as u64);
                prop_assert_eq!(holes.fill(range) as u64, new);
                let gaps: Vec<_> = set.gaps(0..to as u64).collect();
                prop_assert_eq!(holes.missing() as u64, gaps.iter().map(|g| g.end - g.start).sum::<u64>());
                prop_assert_eq!(holes.ranges(), gaps);
            }
        }
    }
}
