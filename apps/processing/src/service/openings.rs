//! Streams for ADUs that peers open: those that are expected, and those that come before their request does.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use anabranch::base::NodeId;
use tokio::{sync::oneshot, time::Instant};

use crate::wire::Label;

/// Time for which a stream waits for its request.
pub(super) const EARLY_TIME: Duration = Duration::from_secs(5);

/// The opener of a stream, and its label.
pub(super) type Key = (NodeId, Label);

/// Streams of type `T` by their labels.
#[derive(Debug)]
pub(super) struct Openings<T> {
    expected: BTreeMap<Key, oneshot::Sender<T>>,
    /// Those that wait for their requests, and since when.
    early: BTreeMap<Key, (T, Instant)>,
}

impl<T> Default for Openings<T> {
    fn default() -> Self {
        Self {
            expected: BTreeMap::new(),
            early: BTreeMap::new(),
        }
    }
}

impl<T> Openings<T> {
    /// Expects a stream, which may be there already; `None` if one with this label is expected by another request.
    pub(super) fn expect(&mut self, key: Key) -> Option<oneshot::Receiver<T>> {
        let (waiting, stream) = oneshot::channel();
        match self.early.remove(&key) {
            // The receiver is here.
            Some((early, _)) => drop(waiting.send(early)),
            None => match self.expected.entry(key) {
                Entry::Occupied(_) => return None,
                Entry::Vacant(entry) => drop(entry.insert(waiting)),
            },
        }
        Some(stream)
    }

    /// Takes a stream that was opened. One that nobody expects is kept for [`EARLY_TIME`] if its opener has chosen the number, and is returned
    /// otherwise.
    pub(super) fn opened(&mut self, key: Key, stream: T, now: Instant) -> Result<(), T> {
        if let Some(waiting) = self.expected.remove(&key) {
            return waiting.send(stream);
        }
        if !key.1.is_chosen() || self.early.contains_key(&key) {
            return Err(stream);
        }
        self.early.insert(key, (stream, now));
        Ok(())
    }

    /// No stream with this label is expected any more.
    pub(super) fn forget(&mut self, key: &Key) {
        self.expected.remove(key);
    }

    /// Streams that have waited for too long.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<T> {
        let is_due = |since: Instant| now.duration_since(since) >= EARLY_TIME;
        let (due, early) = std::mem::take(&mut self.early)
            .into_iter()
            .partition(|(_, (_, since))| is_due(*since));
        self.early = early;
        let due: BTreeMap<_, _> = due;
        due.into_values().map(|(stream, _)| stream).collect()
    }
}

#[cfg(test)]
mod tests {
    use anabranch::SecretKey;

    use super::*;
    use crate::wire::{Purpose, label::chosen};

    fn key(peer: u8, number: u64) -> Key {
        let label = Label {
            purpose: Purpose::Subscribe,
            name: "frames".to_owned(),
            number,
        };
        (SecretKey::from_seed([peer; 32]).node_id(), label)
    }

    #[test]
    fn a_stream_comes_after_its_request_or_before() {
        let mut openings = Openings::default();
        let now = Instant::now();
        let mut stream = openings.expect(key(1, 7)).unwrap();
        assert!(
            openings.expect(key(1, 7)).is_none(),
            "it is expected already"
        );
        assert!(openings.expect(key(2, 7)).is_some(), "of another peer");
        assert_eq!(openings.opened(key(1, 7), "after", now), Ok(()));
        assert_eq!(stream.try_recv(), Ok("after"));
        let number = chosen(7);
        assert_eq!(openings.opened(key(1, number), "before", now), Ok(()));
        assert_eq!(openings.opened(key(1, number), "twice", now), Err("twice"));
        assert_eq!(
            openings.expect(key(1, number)).unwrap().try_recv(),
            Ok("before")
        );
    }

    #[test]
    fn a_stream_without_a_request_is_given_back() {
        let mut openings = Openings::default();
        let now = Instant::now();
        // The service would have chosen this number.
        assert_eq!(openings.opened(key(1, 7), "none", now), Err("none"));
        drop(openings.expect(key(1, 8)));
        assert_eq!(openings.opened(key(1, 8), "late", now), Err("late"));
        drop(openings.expect(key(1, chosen(9))));
        openings.forget(&key(1, chosen(9)));
        assert_eq!(openings.opened(key(1, chosen(9)), "early", now), Ok(()));
        let later = now + EARLY_TIME / 2;
        assert_eq!(openings.opened(key(1, chosen(10)), "too", later), Ok(()));
        assert!(openings.take_overdue(later).is_empty());
        assert_eq!(openings.take_overdue(now + EARLY_TIME), ["early"]);
        assert_eq!(openings.take_overdue(later + EARLY_TIME), ["too"]);
        assert!(
            openings
                .expect(key(1, chosen(9)))
                .unwrap()
                .try_recv()
                .is_err()
        );
    }
}
