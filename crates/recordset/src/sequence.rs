//! Consecutive parts as one line of bytes.

use std::ops::Range;

/// Lengths of consecutive parts, such as the components of a record, and the places of their bytes in one line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Sequence {
    /// End of each part.
    ends: Vec<u64>,
}

/// Bytes of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the part.
    pub index: usize,
    /// Bytes of it, counted from its own beginning.
    pub range: Range<u64>,
}

impl Sequence {
    /// Parts of these lengths, in this order; `None` if their sum exceeds `u64`.
    pub fn new(lengths: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut end = 0_u64;
        let ends = lengths.into_iter().map(|length| {
            end = end.checked_add(length)?;
            Some(end)
        });
        Some(Self {
            ends: ends.collect::<Option<_>>()?,
        })
    }

    /// Number of parts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no parts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Place of a part in the line; empty for one that does not exist.
    pub fn place(&self, index: usize) -> Range<u64> {
        let Some(&end) = self.ends.get(index) else {
            return self.bytes()..self.bytes();
        };
        let start = match index {
            0 => 0,
            index => self.ends[index - 1],
        };
        start..end
    }

    /// The parts that bytes of the line belong to, in order, without empty ones; bytes beyond the end are left out.
    /// O(log parts + parts found).
    pub fn parts(&self, bytes: Range<u64>) -> impl Iterator<Item = Part> + '_ {
        let first = self.ends.partition_point(|end| *end <= bytes.start);
        (first..self.ends.len())
            .map(move |index| {
                let place = self.place(index);
                let from = bytes.start.max(place.start);
                let to = bytes.end.min(place.end);
                (place.start, from, to, index)
            })
            .take_while(move |(start, ..)| *start < bytes.end)
            .filter(|(_, from, to, _)| from < to)
            .map(|(start, from, to, index)| Part {
                index,
                range: from - start..to - start,
            })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_belong_to_parts() {
        let sequence = Sequence::new([3, 0, 5]).unwrap();
        assert_eq!((sequence.len(), sequence.bytes()), (3, 8));
        let parts: Vec<Part> = sequence.parts(2..6).collect();
        let expected = [(0, 2..3), (2, 0..3)].map(|(index, range)| Part { index, range });
        assert_eq!(parts, expected);
        assert_eq!(sequence.place(2), 3..8);
        assert_eq!(sequence.place(3), 8..8);
        assert_eq!(sequence.parts(8..20).count(), 0);
        assert_eq!(sequence.parts(7..20).count(), 1);
        assert_eq!(Sequence::new([u64::MAX, 1]), None);
        assert!(Sequence::default().is_empty());
    }

    proptest! {
        /// The parts of a range are the range.
        #[test]
        fn parts_are_the_range(
            lengths in proptest::collection::vec(0_u64..20, 0..12),
            from in 0_u64..250,
            length in 0_u64..250,
        ) {
            let sequence = Sequence::new(lengths).unwrap();
            let bytes = from..from + length;
            let mut at = bytes.start;
            for part in sequence.parts(bytes.clone()) {
                let start = sequence.place(part.index).start;
                prop_assert_eq!(start + part.range.start, at);
                prop_assert!(part.range.start < part.range.end);
                at = start + part.range.end;
            }
            let end = bytes.end.min(sequence.bytes());
            prop_assert_eq!(at, end.max(bytes.start));
        }
    }
}
