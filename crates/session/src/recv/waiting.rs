//! ADUs of an unreliable ordered stream that are complete and wait for earlier ones.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use anabranch_base::Instant;
use anabranch_spec::StreamSpec;
use bytes::Bytes;

use crate::ranges::Ranges;

/// Longest wait on a stream without a lifetime. Its sender states what it has lost, which takes a few round trips.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Longest time for which an ADU waits for earlier ones. Of a lifetime, a quarter is left for the way: the age of an ADU at its
/// arrival is not known.
pub(super) fn patience(spec: &StreamSpec) -> Duration {
    spec.lifetime.map_or(WAIT_MAX, |lifetime| lifetime / 4 * 3)
}

/// Complete ADUs that wait, and the numbers that are not waited for.
///
/// Key: session, stream (unreliable ordered ones). Invariant: `since` does not descend from one number to the next.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    complete: BTreeMap<u64, Complete>,
    /// Complete, given up, or skipped by the sender.
    passed: Ranges,
}

#[derive(Debug)]
struct Complete {
    data: Bytes,
    /// Time at which this ADU, or a later one that waits for it, was complete.
    since: Instant,
}

impl Waiting {
    /// Adds an ADU that is complete. O(log n).
    pub(super) fn add(&mut self, now: Instant, sequence: u64, data: Bytes) {
        let later = self.complete.range(sequence + 1..).next();
        let since = later.map_or(now, |(_, later)| later.since.min(now));
        self.complete.insert(sequence, Complete { data, since });
        self.passed.insert(sequence..sequence + 1);
    }

    /// Notes that these ADUs are not waited for. Beyond `ranges_max` ranges of such numbers, the oldest gaps are not either.
    pub(super) fn pass(&mut self, range: Range<u64>, ranges_max: usize) {
        self.passed.insert(range);
        self.passed.fill_oldest(ranges_max);
    }

    /// Takes the next ADU in order if all from `next` to it are complete or passed; advances `next`.
    pub(super) fn take(&mut self, next: &mut u64) -> Option<(u64, Bytes)> {
        let first = self.complete.first_entry()?;
        let sequence = *first.key();
        if !self.passed.covers(&(*next..sequence)) {
            return None;
        }
        let data = first.remove().data;
        *next = sequence + 1;
        self.passed.remove_below(*next);
        Some((sequence, data))
    }

    /// Takes the first ADU whatever it waits for; advances `next`.
    pub(super) fn take_first(&mut self, next: &mut u64) -> Option<(u64, Bytes)> {
        let (&first, _) = self.complete.first_key_value()?;
        self.passed.insert(*next..first);
        self.take(next)
    }

    /// Time at which the first ADU has waited for `patience`.
    pub(super) fn due(&self, patience: Duration) -> Option<Instant> {
        let (_, first) = self.complete.first_key_value()?;
        Some(first.since + patience)
    }

    /// Gives up what is missing before the ADUs that have waited for `patience`. O(those).
    pub(super) fn release(&mut self, now: Instant, patience: Duration) {
        let waited = |entry: &(&u64, &Complete)| entry.1.since + patience <= now;
        if let Some((&last, _)) = self.complete.iter().take_while(waited).last() {
            self.passed.insert(0..last);
        }
    }

    /// True if it holds nothing: no ADU waits, and no number above the next is passed.
    pub(super) fn is_empty(&self) -> bool {
        self.complete.is_empty() && self.passed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(at: u64) -> Instant {
        Instant::from_millis(at)
    }

    fn add(waiting: &mut Waiting, at: u64, sequence: u64) {
        waiting.add(ms(at), sequence, Bytes::from_static(b"x"));
    }

    fn take_all(waiting: &mut Waiting, next: &mut u64) -> Vec<u64> {
        std::iter::from_fn(|| waiting.take(next).map(|(sequence, _)| sequence)).collect()
    }

    const PATIENCE: Duration = Duration::from_millis(600);

    #[test]
    fn an_adu_waits_until_those_before_it_are_complete_or_passed() {
        let (mut waiting, mut next) = (Waiting::default(), 0);
        add(&mut waiting, 0, 3);
        add(&mut waiting, 10, 0);
        assert_eq!((take_all(&mut waiting, &mut next), next), (vec![0], 1));
        waiting.pass(1..2, 8);
        assert_eq!((take_all(&mut waiting, &mut next), next), (vec![], 1));
        add(&mut waiting, 20, 2);
        assert_eq!((take_all(&mut waiting, &mut next), next), (vec![2, 3], 4));
        assert!(waiting.is_empty());
    }

    #[test]
    fn nothing_waits_longer_than_its_own_patience() {
        let (mut waiting, mut next) = (Waiting::default(), 0);
        add(&mut waiting, 0, 5);
        add(&mut waiting, 500, 3);
        add(&mut waiting, 550, 7);
        assert_eq!(waiting.due(PATIENCE), Some(ms(600)), "5 waits for 3, too");
        waiting.release(ms(599), PATIENCE);
        assert!(take_all(&mut waiting, &mut next).is_empty());
        waiting.release(ms(600), PATIENCE);
        assert_eq!((take_all(&mut waiting, &mut next), next), (vec![3, 5], 6));
        assert_eq!(waiting.due(PATIENCE), Some(ms(1150)));
    }

    #[test]
    fn what_is_passed_takes_bounded_memory() {
        let (mut waiting, mut next) = (Waiting::default(), 0);
        for number in 1..1000 {
            waiting.pass(2 * number..2 * number + 1, 8);
            assert!(waiting.passed.len() <= 8);
        }
        // All but the newest gaps are given up.
        add(&mut waiting, 0, 1900);
        assert_eq!(
            (take_all(&mut waiting, &mut next), next),
            (vec![1900], 1901)
        );
        // A number far ahead costs no more than a near one.
        waiting.pass(0..1 << 61, 8);
        add(&mut waiting, 0, 1 << 61);
        assert_eq!(take_all(&mut waiting, &mut next), [1 << 61]);
        assert!(waiting.is_empty());
    }
}
