//! Latest entries of a record, with numbers.

use std::collections::VecDeque;

use super::Entry;

/// Entries kept for those who watch; one who asks less often misses some.
const KEPT: usize = 1_024;

/// The latest entries. Numbers begin at 0 with the node.
#[derive(Debug, Default)]
pub(super) struct Recent {
    entries: VecDeque<Entry>,
    /// Number of the next entry.
    next: u64,
}

/// Entries from a number on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
    /// Entries asked for that are not kept any more.
    pub missed: u64,
    /// Number to ask for next.
    pub next: u64,
}

impl Recent {
    pub(super) fn extend(&mut self, entries: &[Entry]) {
        self.next += entries.len() as u64;
        self.entries.extend(entries.iter().cloned());
        let surplus = self.entries.len().saturating_sub(KEPT);
        self.entries.drain(..surplus);
    }

    /// Entries with numbers from `number` on. A number beyond the next one is of an earlier run of the node: all are returned.
    pub(super) fn since(&self, number: Option<u64>) -> Since {
        let next = self.next;
        let wanted = match number {
            None => 0,
            Some(number) if number > next => next,
            Some(number) => next - number,
        };
        let kept = wanted.min(self.entries.len() as u64);
        let skipped = self.entries.len() - kept as usize;
        Since {
            entries: self.entries.iter().skip(skipped).cloned().collect(),
            missed: wanted - kept,
            next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::entry::sample, *};

    fn times(since: &Since) -> Vec<u64> {
        since.entries.iter().map(|entry| entry.unix_ms).collect()
    }

    #[test]
    fn entries_are_returned_once_and_missed_ones_are_counted() {
        let mut recent = Recent::default();
        assert_eq!(recent.since(None), Since::default());
        recent.extend(&[sample(1), sample(2), sample(3)]);
        let first = recent.since(None);
        assert_eq!((times(&first), first.next), (vec![], 3));
        assert_eq!(times(&recent.since(Some(1))), [2, 3]);
        recent.extend(&[sample(4)]);
        assert_eq!(times(&recent.since(Some(3))), [4]);
        assert!(recent.since(Some(4)).entries.is_empty());
        // Another run of the node had more.
        assert_eq!(times(&recent.since(Some(900))), [1, 2, 3, 4]);

        let more: Vec<Entry> = (5..2_000).map(sample).collect();
        recent.extend(&more);
        let late = recent.since(Some(4));
        assert_eq!(late.entries.len(), KEPT);
        assert_eq!(
            (late.missed, late.next),
            (more.len() as u64 - KEPT as u64, 1_999)
        );
        assert_eq!(late.entries.last(), Some(&sample(1_999)));
    }
}
