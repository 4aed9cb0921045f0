//! The time from which records are due. Streams by which a peer watches components of one set have the same, so that the parts of a record
//! are due together, although the streams begin one after another.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use anabranch::base::NodeId;
use tokio::time::Instant;

use super::lock;

/// Streams that are due together: peer, hash of the manifest, interval between records.
type Key = (NodeId, [u8; 32], Duration);

/// All clocks that streams hold.
#[derive(Debug, Default)]
pub(super) struct Clocks(Mutex<BTreeMap<Key, Weak<Instant>>>);

/// A stream's hold on a clock.
#[derive(Debug)]
pub(super) struct Clock {
    /// Time at which the first record of the first stream was due.
    begin: Arc<Instant>,
    every: Duration,
}

impl Clocks {
    /// The clock of streams of this key, which begins `now` unless another stream holds it. O(clocks).
    pub(super) fn hold(&self, key: Key, now: Instant) -> Clock {
        let mut clocks = lock(&self.0);
        clocks.retain(|_, begin| begin.strong_count() > 0);
        let held = clocks.get(&key).and_then(Weak::upgrade);
        let begin = held.unwrap_or_else(|| {
            let begin = Arc::new(now);
            clocks.insert(key, Arc::downgrade(&begin));
            begin
        });
        Clock {
            begin,
            every: key.2,
        }
    }
}

impl Clock {
    /// The last time until `now` at which records are due.
    pub(super) fn last(&self, now: Instant) -> Instant {
        let since = now.saturating_duration_since(*self.begin);
        let over = since.as_nanos() % self.every.as_nanos().max(1);
        // Less than the interval, which is a million seconds at most.
        now.checked_sub(Duration::from_nanos(over as u64))
            .unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(40);

    fn peer(number: u8) -> NodeId {
        NodeId::from_public_key([number; 32])
    }

    #[test]
    fn streams_of_a_set_are_due_together() {
        let clocks = Clocks::default();
        let begin = Instant::now();
        let key = (peer(1), [1; 32], EVERY);
        let first = clocks.hold(key, begin);
        assert_eq!(first.last(begin), begin);
        // A stream that begins 95 ms later has missed two records' times, and is 15 ms late for the third.
        let later = begin + Duration::from_millis(95);
        let second = clocks.hold(key, later);
        assert_eq!(second.last(later), begin + 2 * EVERY);
        for other in [
            (peer(2), [1; 32], EVERY),
            (peer(1), [2; 32], EVERY),
            (peer(1), [1; 32], 2 * EVERY),
        ] {
            assert_eq!(clocks.hold(other, later).last(later), later);
        }
        // Without a stream, there is no clock.
        drop((first, second));
        assert_eq!(clocks.hold(key, later).last(later), later);
        assert_eq!(lock(&clocks.0).len(), 1);
    }
}
