//! Queue of frames for one receiver, bounded by bytes and frames.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// Most frames in a queue, for those that have few bytes.
const FRAMES_MAX: usize = 1_024;

/// Queue between one task that adds and one that takes. Its memory is at most that of `bytes_max`, or of one item that is larger.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    bytes_max: usize,
    items_max: usize,
    inner: Mutex<Inner<T>>,
    changed: Notify,
    taken: Notify,
}

#[derive(Debug)]
struct Inner<T> {
    items: VecDeque<(usize, T)>,
    bytes: usize,
    is_closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self::with_limits(bytes_max, FRAMES_MAX)
    }

    /// A queue with at most so many items, too.
    pub(crate) fn with_limits(bytes_max: usize, items_max: usize) -> Self {
        let inner = Inner {
            items: VecDeque::new(),
            bytes: 0,
            is_closed: false,
        };
        Self {
            bytes_max,
            items_max,
            inner: Mutex::new(inner),
            changed: Notify::new(),
            taken: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all items.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Adds an item if there is space; returns it otherwise. Nothing is added to a closed queue, where the item is dropped.
    pub(crate) fn offer(&self, bytes: usize, item: T) -> Result<(), T> {
        let mut inner = self.lock();
        if inner.is_closed {
            return Ok(());
        }
        let has_space = inner.items.len() < self.items_max
            && inner.bytes.saturating_add(bytes) <= self.bytes_max;
        if !has_space && !inner.items.is_empty() {
            return Err(item);
        }
        inner.items.push_back((bytes, item));
        inner.bytes += bytes;
        drop(inner);
        self.changed.notify_one();
        Ok(())
    }

    /// Adds an item in place of the oldest ones, as far as there is no space for it; returns the number of those. Nothing is added to
    /// a closed queue.
    pub(crate) fn renew(&self, bytes: usize, item: T) -> u64 {
        let mut inner = self.lock();
        if inner.is_closed {
            return 0;
        }
        let mut dropped = 0;
        while !inner.items.is_empty()
            && (inner.items.len() >= self.items_max
                || inner.bytes.saturating_add(bytes) > self.bytes_max)
        {
            if let Some((bytes, _)) = inner.items.pop_front() {
                inner.bytes -= bytes;
                dropped += 1;
            }
        }
        inner.items.push_back((bytes, item));
        inner.bytes += bytes;
        drop(inner);
        self.changed.notify_one();
        dropped
    }

    /// Adds an item as soon as there is space.
    pub(crate) async fn put(&self, bytes: usize, mut item: T) {
        while let Err(again) = self.offer(bytes, item) {
            item = again;
            // A permit is kept, so nothing that was taken since is missed.
            self.taken.notified().await;
        }
    }

    /// Takes the oldest item; `None` once the queue is closed and empty.
    pub(crate) async fn take(&self) -> Option<T> {
        loop {
            {
                let mut inner = self.lock();
                if let Some((bytes, item)) = inner.items.pop_front() {
                    inner.bytes -= bytes;
                    drop(inner);
                    self.taken.notify_one();
                    return Some(item);
                }
                if inner.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Nothing is added any more; what is there can be taken.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
        self.taken.notify_one();
    }

    /// As [`Queue::close`]; what is there is dropped.
    pub(crate) fn abandon(&self) {
        {
            let mut inner = self.lock();
            inner.items.clear();
            inner.bytes = 0;
        }
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn what_does_not_fit_is_returned_and_one_item_always_fits() {
        let queue = Queue::new(10);
        assert_eq!(queue.offer(100, 1), Ok(()));
        assert_eq!(queue.offer(1, 2), Err(2));
        assert_eq!(queue.take().await, Some(1));
        assert_eq!(queue.offer(6, 3), Ok(()));
        assert_eq!(queue.offer(4, 4), Ok(()));
        assert_eq!(queue.offer(0, 5), Ok(()));
        assert_eq!(queue.offer(1, 6), Err(6));
        queue.close();
        assert_eq!(queue.offer(1, 7), Ok(()), "dropped");
        for item in [3, 4, 5] {
            assert_eq!(queue.take().await, Some(item));
        }
        assert_eq!(queue.take().await, None);
    }

    #[tokio::test]
    async fn frames_without_bytes_are_bounded_too() {
        let queue = Queue::new(10);
        for item in 0..FRAMES_MAX {
            assert_eq!(queue.offer(0, item), Ok(()));
        }
        assert!(queue.offer(0, 0).is_err());
        queue.abandon();
        assert_eq!(queue.take().await, None);
    }

    #[tokio::test]
    async fn the_newest_take_the_place_of_the_oldest() {
        let queue = Queue::with_limits(10, 3);
        for item in 0..3 {
            assert_eq!(queue.renew(1, item), 0);
        }
        assert_eq!(queue.renew(1, 3), 1);
        assert_eq!(queue.renew(9, 4), 2);
        assert_eq!(queue.take().await, Some(3));
        assert_eq!(queue.renew(1_000, 5), 1);
        assert_eq!(queue.bytes(), 1_000);
        queue.close();
        assert_eq!(queue.renew(1, 6), 0);
        assert_eq!(queue.take().await, Some(5));
        assert_eq!(queue.take().await, None);
    }

    #[tokio::test]
    async fn a_full_queue_holds_back_who_waits_for_it() {
        let queue = Arc::new(Queue::new(1));
        let adding = queue.clone();
        let adding = tokio::spawn(async move {
            for item in 0..100 {
                adding.put(1, item).await;
            }
            adding.close();
        });
        let mut all = Vec::new();
        while let Some(item) = queue.take().await {
            all.push(item);
        }
        adding.await.unwrap();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        let queue = Arc::new(Queue::new(1));
        queue.put(1, 0).await;
        let adding = queue.clone();
        let adding = tokio::spawn(async move { adding.put(1, 1).await });
        queue.abandon();
        adding.await.unwrap();
    }
}
