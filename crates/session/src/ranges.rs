//! Sets of bytes or of numbers, as sorted disjoint ranges.

use std::ops::Range;

/// A set of `u64` as ranges. Adding at the end of the last range is O(1), anywhere else O(log n) to
/// find and O(n) to insert, where n is the number of gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Adds `range`; returns how many of its members are new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        if let Some(last) = self.0.last_mut()
            && last.end == range.start
        {
            last.end = range.end;
            return range.end - range.start;
        }
        // Ranges from `first` to `beyond` touch or overlap the new one.
        let first = self.0.partition_point(|r| r.end < range.start);
        let beyond = first + self.0[first..].partition_point(|r| r.start <= range.end);
        if first == beyond {
            if self.0.capacity() == 0 {
                // Most sets are one range all their life.
                self.0.reserve_exact(1);
            }
            self.0.insert(first, range.clone());
            return range.end - range.start;
        }
        let touched = &self.0[first..beyond];
        let covered: u64 = touched
            .iter()
            .map(|r| {
                r.end
                    .min(range.end)
                    .saturating_sub(r.start.max(range.start))
            })
            .sum();
        let start = range.start.min(touched[0].start);
        let end = range.end.max(touched[touched.len() - 1].end);
        self.0[first] = start..end;
        self.0.drain(first + 1..beyond);
        (range.end - range.start) - covered
    }

    /// Whether every member of `range` is in the set.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        let index = self.0.partition_point(|r| r.end < range.end);
        range.is_empty() || self.0.get(index).is_some_and(|r| r.start <= range.start)
    }

    /// Whether `value` is in the set.
    pub fn contains(&self, value: u64) -> bool {
        self.covers(&(value..value + 1))
    }

    /// The parts of `range` that are not in the set, in order.
    pub fn gaps(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.0.partition_point(|r| r.end <= range.start);
        let mut position = range.start;
        let mut rest = self.0[first..].iter();
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

    /// All of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().cloned()
    }

    /// The first range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.0.first().cloned()
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes everything below `limit`.
    pub fn remove_below(&mut self, limit: u64) {
        let keep = self.0.partition_point(|r| r.end <= limit);
        self.0.drain(..keep);
        if let Some(first) = self.0.first_mut() {
            first.start = first.start.max(limit);
        }
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
            let members: BTreeSet<u64> = ranges.0.iter().cloned().flatten().collect();
            prop_assert_eq!(members, set);
            prop_assert!(ranges.0.windows(2).all(|w| w[0].end < w[1].start));
        }
    }
}
