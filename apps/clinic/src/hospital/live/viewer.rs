//! Viewer of a case: reads samples and pictures in their order, and counts those that it did not read in time.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use tokio::sync::broadcast::{self, error::RecvError};

use super::{Item, Live};

/// A viewer, until this is dropped.
#[derive(Debug)]
pub struct Viewer {
    live: Arc<Live>,
    samples: broadcast::Receiver<Item>,
    pictures: broadcast::Receiver<Item>,
    /// Pictures that were there before it.
    before: VecDeque<Item>,
    dropped: [u64; 2],
}

impl Viewer {
    pub(super) fn new(
        live: Arc<Live>,
        samples: broadcast::Receiver<Item>,
        pictures: broadcast::Receiver<Item>,
        before: VecDeque<Item>,
    ) -> Self {
        Self {
            live,
            samples,
            pictures,
            before,
            dropped: [0, 0],
        }
    }

    /// The next samples or picture; waits for it.
    pub async fn next(&mut self) -> Item {
        if let Some(item) = self.before.pop_front() {
            return item;
        }
        loop {
            let (next, kind) = tokio::select! {
                next = self.samples.recv() => (next, 0),
                next = self.pictures.recv() => (next, 1),
            };
            match next {
                Ok(item) => return item,
                Err(RecvError::Lagged(items)) => self.dropped[kind] += items,
                // The senders are as old as the view.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// ADUs of samples, and pictures, that were not read in time.
    pub fn dropped(&self) -> [u64; 2] {
        self.dropped
    }

    /// The view.
    pub fn live(&self) -> &Live {
        &self.live
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.live.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}
