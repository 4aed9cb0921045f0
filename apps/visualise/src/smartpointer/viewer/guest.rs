//! Records that wait for a page: whole ones, of which the oldest give way. A page that does not read loses whole frames, and holds up
//! nobody.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;

use super::{Shared, Viewer};
use crate::queue::Queue;

/// Pages at a time.
const GUESTS_MAX: usize = 8;
/// Records that wait for a page: those of a third of a second.
const RECORDS_MAX: usize = 32;
/// Bytes of them, or one record.
const QUEUE_BYTES: usize = 16 << 20;

/// A page that reads.
#[derive(Debug)]
pub struct Guest {
    queue: Queue<Bytes>,
    dropped: AtomicU64,
}

impl Guest {
    fn new() -> Self {
        Self {
            queue: Queue::with_limits(QUEUE_BYTES, RECORDS_MAX),
            dropped: AtomicU64::new(0),
        }
    }

    fn give(&self, record: &Bytes) {
        let dropped = self.queue.renew(record.len(), record.clone());
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    /// The next record; waits for it.
    pub async fn next(&self) -> Bytes {
        // It is not closed.
        self.queue.take().await.unwrap_or_default()
    }

    /// Records that the page did not read in time.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// A page that reads until this is dropped.
#[derive(Debug)]
pub struct Visit {
    shared: Arc<Shared>,
    guest: Arc<Guest>,
}

impl std::ops::Deref for Visit {
    type Target = Guest;

    fn deref(&self) -> &Guest {
        &self.guest
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut guests = self.shared.guests();
        guests.retain(|guest| !Arc::ptr_eq(guest, &self.guest));
    }
}

impl Viewer {
    /// One more page, which gets frames from now on; `None`: there are too many.
    pub fn visit(&self) -> Option<Visit> {
        let guest = Arc::new(Guest::new());
        {
            let mut guests = self.shared.guests();
            if guests.len() >= GUESTS_MAX {
                return None;
            }
            guests.push(guest.clone());
        }
        let shared = self.shared.clone();
        Some(Visit { shared, guest })
    }
}

impl Shared {
    /// Gives a record to all pages.
    pub(super) fn give(&self, record: &Bytes) {
        self.guests().iter().for_each(|guest| guest.give(record));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::smartpointer::viewer::Settings;

    #[tokio::test]
    async fn a_page_that_does_not_read_loses_the_oldest_records() {
        let settings = Settings {
            name: "adk".to_owned(),
            arrived: None,
        };
        let viewer = Viewer::new(settings, mpsc::channel(1).0);
        let [slow, quick] = [viewer.visit().unwrap(), viewer.visit().unwrap()];
        for number in 0..100_u8 {
            viewer.shared.give(&vec![number; 10].into());
            assert_eq!(quick.next().await[0], number);
        }
        assert_eq!((slow.dropped(), quick.dropped()), (68, 0));
        assert_eq!(slow.next().await[0], 68);
        let others: Vec<_> = (2..GUESTS_MAX).map(|_| viewer.visit()).collect();
        assert!(others.iter().all(Option::is_some) && viewer.visit().is_none());
        drop(slow);
        assert!(viewer.visit().is_some());
    }
}
