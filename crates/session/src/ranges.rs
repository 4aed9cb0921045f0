//! Sets of bytes or of numbers, as sorted disjoint ranges.

use std::{collections::BTreeMap, ops::Range};

/// A set of `u64` as ranges. Adding at the end of the last range is O(1) and allocates nothing; anything else costs O(log n)
/// for each range that it adds or swallows, where n is the number of ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// The highest one; empty exactly when the set is.
    last: Range<u64>,
    /// All others, end by start: disjoint, and none touches another or the last.
    earlier: BTreeMap<u64, u64>,
    /// Number of entries that were examined, moved or removed.
    #[cfg(test)]
    work: std::cell::Cell<u64>,
}

impl Ranges {
    /// Adds `range`; returns how many of its members are new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let length = range.end - range.start;
        if self.last.end == range.start {
            self.last.end = range.end;
            return length;
        }
        if self.last.is_empty() || range.start > self.last.end {
            let before = std::mem::replace(&mut self.last, range);
            if !before.is_empty() {
                self.earlier.insert(before.start, before.end);
                self.note_work(1);
            }
            return length;
        }
        if range.end < self.last.start {
            let (merged, covered) = self.swallow(range);
            self.earlier.insert(merged.start, merged.end);
            self.note_work(1);
            return length - covered;
        }
        let mut new = range.end.saturating_sub(self.last.end);
        self.last.end = self.last.end.max(range.end);
        if range.start < self.last.start {
            new += self.last.start - range.start;
            let (merged, covered) = self.swallow(range.start..self.last.start);
            new -= covered;
            self.last.start = merged.start;
        }
        new
    }

    /// Removes the earlier ranges that `range` touches; returns the union with them, and how much of `range` they covered.
    fn swallow(&mut self, range: Range<u64>) -> (Range<u64>, u64) {
        let (mut merged, mut covered) = (range.clone(), 0);
        loop {
            self.note_work(1);
            let Some((&start, &end)) = self.earlier.range(..=range.end).next_back() else {
                break;
            };
            if end < range.start {
                break;
            }
            self.earlier.remove(&start);
            covered += end.min(range.end).saturating_sub(start.max(range.start));
            merged = merged.start.min(start)..merged.end.max(end);
        }
        (merged, covered)
    }

    /// True if every member of `range` is in the set.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        if range.start >= self.last.start {
            return range.end <= self.last.end;
        }
        let before = self.earlier.range(..=range.start).next_back();
        before.is_some_and(|(_, &end)| range.end <= end)
    }

    /// True if `value` is in the set.
    pub fn contains(&self, value: u64) -> bool {
        self.covers(&(value..value.saturating_add(1)))
    }

    /// The parts of `range` that are not in the set, in order.
    pub fn gaps(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let at_start = self.earlier.range(..=range.start).next_back();
        let from = at_start.map_or(range.start, |(&start, _)| start);
        let mut position = range.start;
        let mut rest = self.iter_from(from);
        std::iter::from_fn(move || {
            while position < range.end {
                match rest.next() {
                    Some(next) if next.start < range.end => {
                        let gap = position..next.start.max(position);
                        position = next.end.max(position);
                        if !gap.is_empty() {
                            return Some(gap);
                        }
                    }
                    _ => {
                        let gap = position..range.end;
                        position = range.end;
                        return Some(gap);
                    }
                }
            }
            None
        })
    }

    fn iter_from(&self, start: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let earlier = self.earlier.range(start..);
        let last = Some(self.last.clone()).filter(|last| !last.is_empty());
        earlier.map(|(&start, &end)| start..end).chain(last)
    }

    /// All of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.iter_from(0)
    }

    /// The first range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.iter().next()
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.earlier.len() + usize::from(!self.last.is_empty())
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Removes everything below `limit`.
    pub fn remove_below(&mut self, limit: u64) {
        while let Some(entry) = self.earlier.first_entry()
            && *entry.key() < limit
        {
            let end = entry.remove();
            if end > limit {
                self.earlier.insert(limit, end);
            }
        }
        self.last.start = self.last.start.max(limit);
        if self.last.is_empty() {
            self.last = 0..0;
        }
    }

    /// Counts the work that would make a long run of insertions quadratic, for the test that it is not.
    fn note_work(&self, entries: u64) {
        #[cfg(test)]
        self.work.set(self.work.get() + entries);
        #[cfg(not(test))]
        let _ = entries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Agrees with a plain set.
        #[test]
        fn behaves_like_a_set(
            inserts in prop::collection::vec((0u64..60, 0u64..12), 0..40),
            probe in (0u64..70, 0u64..12),
            limit in 0u64..70,
        ) {
            let mut ranges = Ranges::default();
            let mut set = BTreeSet::new();
            for (start, length) in inserts {
                let before = set.len();
                set.extend(start..start + length);
                let new = ranges.insert(start..start + length);
                prop_assert_eq!(new as usize, set.len() - before);
            }
            let probe = probe.0..probe.0 + probe.1;
            prop_assert_eq!(ranges.covers(&probe), probe.clone().all(|v| set.contains(&v)));
            let gaps: Vec<u64> = ranges.gaps(probe.clone()).flatten().collect();
            let missing: Vec<u64> = probe.filter(|v| !set.contains(v)).collect();
            prop_assert_eq!(gaps, missing);
            ranges.remove_below(limit);
            set.retain(|&v| v >= limit);
            let members: BTreeSet<u64> = ranges.iter().flatten().collect();
            prop_assert_eq!(&members, &set);
            let all: Vec<Range<u64>> = ranges.iter().collect();
            prop_assert!(all.windows(2).all(|w| w[0].end < w[1].start));
            prop_assert_eq!(all.len(), ranges.len());
            prop_assert_eq!(ranges.is_empty(), set.is_empty());
            prop_assert_eq!(ranges.first().map(|r| r.start), set.first().copied());
        }
    }

    /// 100,000 insertions that never take the fast path examine a few entries each: in descending order, every second one
    /// first, and from both ends to the middle.
    #[test]
    fn no_order_of_insertion_is_quadratic() {
        const COUNT: u64 = 100_000;
        let descending = (0..COUNT).rev().collect::<Vec<_>>();
        let sparse = (0..COUNT)
            .rev()
            .step_by(2)
            .chain((0..COUNT).step_by(2))
            .collect();
        let inwards = (0..COUNT / 2).flat_map(|n| [n, COUNT - 1 - n]).collect();
        for order in [descending, sparse, inwards] {
            let mut ranges = Ranges::default();
            for at in order {
                ranges.insert(at..at + 1);
            }
            assert!(ranges.covers(&(1..COUNT - 1)));
            let work = ranges.work.get();
            assert!(work <= 4 * COUNT, "{work} entries");
        }
    }

    #[test]
    fn one_range_allocates_nothing() {
        let mut ranges = Ranges::default();
        for at in 0..1000 {
            ranges.insert(at * 3..at * 3 + 3);
        }
        assert_eq!((ranges.len(), ranges.earlier.len()), (1, 0));
        assert!(size_of::<Ranges>() <= 48);
    }
}
