//! Table of flows: bounded, with one look at a few places for each packet. Where a new flow finds no free place, the one among them that was
//! unused for longest leaves.

use anabranch::base::Instant;

use crate::packet::FlowKey;

/// Places of which a flow may have any.
const PLACES: usize = 8;

#[derive(Debug)]
struct Entry<T> {
    key: FlowKey,
    used_at: Instant,
    value: T,
}

/// The table. It takes no memory before the first flow. Invariant: a flow is in it once at most, in one of the places of its hash;
/// `hashes` are those of the flows at the same places.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// In one cache line for all places of a flow.
    hashes: Vec<u64>,
    entries: Vec<Option<Entry<T>>>,
    sets: usize,
    count: usize,
}

impl<T> Table<T> {
    /// Creates a table for about this number of flows.
    pub(crate) fn new(flows_max: usize) -> Self {
        Self {
            hashes: Vec::new(),
            entries: Vec::new(),
            sets: flows_max.div_ceil(PLACES).max(1),
            count: 0,
        }
    }

    /// Number of flows.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Index of the first place that a flow may have.
    fn first(&self, hash: u64) -> usize {
        // The low bits of the hash are those of the bucket.
        (hash >> 32) as usize % self.sets * PLACES
    }

    fn find(&self, key: &FlowKey, hash: u64) -> Option<usize> {
        let first = self.first(hash);
        let hashes = self.hashes.get(first..first + PLACES)?;
        let is_it = |at: &usize| {
            hashes[*at] == hash && {
                let entry = self.entries[first + at].as_ref();
                entry.is_some_and(|entry| entry.key == *key)
            }
        };
        (0..PLACES).find(is_it).map(|at| first + at)
    }

    fn used(&mut self, now: Instant, at: usize) -> Option<&mut T> {
        let entry = self.entries[at].as_mut()?;
        entry.used_at = entry.used_at.max(now);
        Some(&mut entry.value)
    }

    /// The value of a flow, which is used now.
    pub(crate) fn get(&mut self, now: Instant, key: &FlowKey, hash: u64) -> Option<&mut T> {
        let at = self.find(key, hash)?;
        self.used(now, at)
    }

    /// The value of a flow, which is used now; it is added if it is not there.
    pub(crate) fn get_or_insert(
        &mut self,
        now: Instant,
        (key, hash): (FlowKey, u64),
        begin: impl FnOnce() -> T,
    ) -> &mut T {
        let at = self.find(&key, hash);
        let at = at.unwrap_or_else(|| self.insert(now, (key, hash), begin()));
        self.used(now, at).expect("it is there, or was added")
    }

    /// Adds a flow that is not there; returns its place.
    fn insert(&mut self, now: Instant, (key, hash): (FlowKey, u64), value: T) -> usize {
        if self.entries.is_empty() {
            self.entries.resize_with(self.sets * PLACES, || None);
            self.hashes = vec![0; self.sets * PLACES];
        }
        let first = self.first(hash);
        let places = first..first + PLACES;
        let used_at = |at: &usize| self.entries[*at].as_ref().map(|entry| entry.used_at);
        let at = places.min_by_key(used_at).expect("there are places");
        self.hashes[at] = hash;
        let before = self.entries[at].replace(Entry {
            key,
            used_at: now,
            value,
        });
        self.count += usize::from(before.is_none());
        at
    }

    /// Keeps the flows for which `is_kept`, by their key and the time of their last packet.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&FlowKey, Instant, &mut T) -> bool) {
        for place in &mut self.entries {
            if let Some(entry) = place
                && !is_kept(&entry.key, entry.used_at, &mut entry.value)
            {
                *place = None;
                self.count -= 1;
            }
        }
    }

    /// The flows that were used last, the last one first, `count` at most.
    pub(crate) fn latest(&self, count: usize) -> Vec<(&FlowKey, &T)> {
        let mut entries: Vec<&Entry<T>> = self.entries.iter().flatten().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.used_at));
        entries.truncate(count);
        entries
            .iter()
            .map(|entry| (&entry.key, &entry.value))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(number: u16) -> FlowKey {
        FlowKey {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            protocol: 17,
            ports: Some((number, 53)),
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn use_flow(table: &mut Table<u16>, now: u64, number: u16) -> bool {
        let (key, hash) = (key(number), key(number).hash(1));
        let is_there = table.get(at(now), &key, hash).is_some();
        let value = *table.get_or_insert(at(now), (key, hash), || number);
        assert_eq!(value, number);
        is_there
    }

    #[test]
    fn the_flow_that_was_unused_for_longest_leaves() {
        // One set: every flow may have every place.
        let mut table = Table::new(PLACES);
        for number in 0..8 {
            assert!(!use_flow(&mut table, u64::from(number), number));
        }
        assert!(use_flow(&mut table, 100, 0));
        assert!(!use_flow(&mut table, 101, 8));
        assert!(use_flow(&mut table, 102, 0));
        assert!(!use_flow(&mut table, 103, 1), "it has left for 8");
        assert_eq!(table.len(), 8);
        let latest: Vec<u16> = table.latest(3).iter().map(|(_, value)| **value).collect();
        assert_eq!(latest, [1, 0, 8]);
        table.retain(|_, used_at, _| used_at >= at(100));
        assert_eq!(table.len(), 3);
    }

    proptest! {
        #[test]
        fn the_table_is_bounded_and_has_each_flow_once(
            uses in prop::collection::vec(0_u16..500, 1..600),
        ) {
            let mut table = Table::new(64);
            for (now, number) in (1..).zip(&uses) {
                use_flow(&mut table, now, *number);
                prop_assert!(use_flow(&mut table, now, *number), "the latest is there");
            }
            let all = table.latest(usize::MAX);
            prop_assert!(all.len() <= 64 && all.len() == table.len());
            let mut ports: Vec<_> = all.iter().map(|(key, _)| key.ports).collect();
            ports.sort_unstable();
            ports.dedup();
            prop_assert_eq!(ports.len(), table.len());
        }
    }
}
