//! Viewer of a case: reads samples, pictures and speech, each in their order, and counts those that it did not read in time.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::broadcast::{self, error::RecvError};

use super::{Item, Live};

/// A viewer, until this is dropped.
#[derive(Debug)]
pub struct Viewer {
    live: Arc<Live>,
    seat: u64,
    /// Samples, pictures and speech.
    rings: [broadcast::Receiver<Item>; 3],
    /// Pictures that were there before it.
    before: VecDeque<Item>,
    dropped: [u64; 3],
}

impl Viewer {
    pub(super) fn new(
        (live, seat): (Arc<Live>, u64),
        rings: [broadcast::Receiver<Item>; 3],
        before: VecDeque<Item>,
    ) -> Self {
        Self {
            live,
            seat,
            rings,
            before,
            dropped: [0; 3],
        }
    }

    /// The next samples, picture or packet of speech; waits for it.
    pub async fn next(&mut self) -> Item {
        self.reads();
        if let Some(item) = self.before.pop_front() {
            return item;
        }
        loop {
            let [samples, pictures, speech] = &mut self.rings;
            let (next, kind) = tokio::select! {
                next = samples.recv() => (next, 0),
                next = pictures.recv() => (next, 1),
                next = speech.recv() => (next, 2),
            };
            match next {
                Ok(item) => return item,
                Err(RecvError::Lagged(items)) => self.dropped[kind] += items,
                // The senders are as old as the view.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Notes that it reads; false: it has not for 30 s, and another viewer has got its seat.
    pub fn reads(&self) -> bool {
        self.live.seats.read(self.seat)
    }

    /// ADUs of samples, pictures, and packets of speech that were not read in time.
    pub fn dropped(&self) -> [u64; 3] {
        self.dropped
    }

    /// The view.
    pub fn live(&self) -> &Live {
        &self.live
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.live.seats.leave(self.seat);
    }
}
