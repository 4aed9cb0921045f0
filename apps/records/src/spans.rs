//! Sets of numbers as intervals: records that are complete, bytes of a part that are there.

use std::{collections::BTreeMap, ops::Range};

/// Set of numbers, kept as intervals that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// End of each interval by its beginning.
    ends: BTreeMap<u64, u64>,
}

impl Spans {
    /// Adds an interval; returns the numbers in it that are new. O(log intervals + intervals that it joins).
    pub fn insert(&mut self, span: Range<u64>) -> u64 {
        let Range { mut start, mut end } = span;
        if start >= end {
            return 0;
        }
        let mut new = end - start;
        while let Some((&first, &last)) = self.ends.range(..=end).next_back() {
            if last < start {
                break;
            }
            let shared_start = first.max(start);
            // What was joined before lies beyond the interval that is left.
            new -= last.min(end).saturating_sub(shared_start);
            self.ends.remove(&first);
            start = start.min(first);
            end = end.max(last);
        }
        self.ends.insert(start, end);
        new
    }

    /// True if all of an interval is in the set; an empty one always is.
    pub fn has(&self, span: &Range<u64>) -> bool {
        span.start >= span.end
            || (self.ends.range(..=span.start).next_back()).is_some_and(|(_, end)| *end >= span.end)
    }

    /// Intervals of a range that are not in the set, ascending. O(log intervals + intervals in the range).
    pub fn missing(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.ends.range(..=within.start).next_back();
        let mut at = before.map_or(within.start, |(_, end)| (*end).max(within.start));
        let mut after = self.ends.range(within.start..within.end);
        std::iter::from_fn(move || {
            while at < within.end {
                match after.next() {
                    Some((start, end)) => {
                        let gap = at..*start;
                        at = at.max(*end);
                        if gap.start < gap.end {
                            return Some(gap);
                        }
                    }
                    None => {
                        let gap = at..within.end;
                        at = within.end;
                        return Some(gap);
                    }
                }
            }
            None
        })
    }

    /// Numbers in the set.
    pub fn count(&self) -> u64 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }

    /// The intervals, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The set is that of the numbers, one by one.
        #[test]
        fn intervals_are_their_numbers(
            spans in proptest::collection::vec((0_u64..60, 0_u64..20), 0..20),
            from in 0_u64..70,
            length in 0_u64..30,
        ) {
            let (mut set, mut model) = (Spans::default(), BTreeSet::new());
            for (start, length) in spans {
                let before = model.len();
                model.extend(start..start + length);
                let new = set.insert(start..start + length);
                prop_assert_eq!(new, (model.len() - before) as u64);
            }
            let intervals: Vec<_> = set.iter().collect();
            for pair in intervals.windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
            prop_assert_eq!(set.count(), model.len() as u64);
            let range = from..from + length;
            let missing: Vec<u64> = set.missing(range.clone()).flatten().collect();
            let expected: Vec<u64> = range.clone().filter(|number| !model.contains(number)).collect();
            prop_assert_eq!(&missing, &expected);
            prop_assert_eq!(set.has(&range), expected.is_empty());
        }
    }
}
