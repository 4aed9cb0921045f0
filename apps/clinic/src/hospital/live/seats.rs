//! Seats of viewers. When all are taken, one that has not read for [`UNREAD_MAX`] loses its seat to the next who comes.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::VIEWERS_MAX;

/// Time without reading after which a seat can be given to another viewer.
const UNREAD_MAX: Duration = Duration::from_secs(30);

/// Seats, each with the time at which its viewer has read last.
#[derive(Debug, Default)]
pub(super) struct Seats {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    taken: BTreeMap<u64, Instant>,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seats that are taken.
    pub(super) fn taken(&self) -> usize {
        self.lock().taken.len()
    }

    /// Takes a seat; `None`: all viewers read.
    pub(super) fn take(&self) -> Option<u64> {
        let now = Instant::now();
        let mut inner = self.lock();
        if inner.taken.len() >= VIEWERS_MAX {
            let (seat, read) = inner.taken.iter().min_by_key(|(_, read)| **read)?;
            let seat = (now - *read >= UNREAD_MAX).then_some(*seat)?;
            inner.taken.remove(&seat);
        }
        let seat = inner.next;
        inner.next += 1;
        inner.taken.insert(seat, now);
        Some(seat)
    }

    /// The viewer of a seat reads; false: another one has got it.
    pub(super) fn read(&self, seat: u64) -> bool {
        match self.lock().taken.get_mut(&seat) {
            Some(read) => {
                *read = Instant::now();
                true
            }
            None => false,
        }
    }

    /// Gives a seat back.
    pub(super) fn leave(&self, seat: u64) {
        self.lock().taken.remove(&seat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_who_does_not_read_loses_a_seat() {
        let seats = Seats::default();
        let first: Vec<u64> = (0..VIEWERS_MAX).map(|_| seats.take().unwrap()).collect();
        tokio::time::advance(UNREAD_MAX).await;
        let [silent, others @ ..] = &first[..] else {
            unreachable!()
        };
        assert!(others.iter().all(|seat| seats.read(*seat)));
        let next = seats.take().unwrap();
        assert_eq!(seats.taken(), VIEWERS_MAX);
        assert!(!seats.read(*silent) && seats.read(next));
        // All read.
        assert_eq!(seats.take(), None);
        // It goes, and takes nobody's seat with it.
        seats.leave(*silent);
        assert_eq!(seats.taken(), VIEWERS_MAX);
        seats.leave(next);
        assert!(seats.take().is_some());
    }
}
