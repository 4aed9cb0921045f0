//! Memory of all applications together: a bound, the part of it that each application always has, and the one that pays when it runs
//! short (`spec/local.md` §7).
//!
//! Every connection has a [`Share`], which counts the bytes that wait in the node for it. Before it takes in more, from its socket or
//! from a session, it asks [`Share::capacity`]. The decisions are in [`holders`], without a clock.

mod holders;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use self::holders::Holders;
pub(super) use self::holders::Part;

/// Time for which an application may leave unread what waits for it, or a frame unfinished, while others wait for memory.
const STALL: Duration = Duration::from_secs(10);
/// Time between two looks at those that others wait for.
const LOOK: Duration = Duration::from_secs(1);

/// Memory of the applications of a node.
#[derive(Debug)]
pub(super) struct Memory {
    holders: Mutex<Holders>,
    /// Memory was freed.
    freed: Notify,
}

impl Memory {
    /// Creates the account of a memory of so many bytes.
    pub(super) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            holders: Mutex::new(Holders::new(bytes_max)),
            freed: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that all applications hold.
    pub(super) fn held_bytes(&self) -> u64 {
        self.lock().total()
    }

    /// The share of a connection of this user.
    pub(super) fn share(self: &Arc<Self>, user: u32) -> Share {
        let evicted = Arc::new(Notify::new());
        Share {
            holder: self.lock().add(user, evicted.clone()),
            memory: self.clone(),
            evicted,
        }
    }
}

/// Memory held by one connection; returned when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    memory: Arc<Memory>,
    holder: u64,
    evicted: Arc<Notify>,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.lock().remove(self.holder);
        self.memory.freed.notify_waiters();
    }
}

impl Share {
    /// Counts bytes that are held from now on.
    pub(super) fn add(&self, part: Part, bytes: usize) {
        let now = Instant::now();
        self.memory
            .lock()
            .add_bytes(self.holder, part, bytes as u64, now);
    }

    /// Counts bytes that are held no more.
    pub(super) fn remove(&self, part: Part, bytes: usize) {
        let now = Instant::now();
        self.memory
            .lock()
            .remove_bytes(self.holder, part, bytes as u64, now);
        self.memory.freed.notify_waiters();
    }

    /// Sets the bytes that are held.
    pub(super) fn set(&self, part: Part, bytes: usize) {
        let now = Instant::now();
        let is_less = self
            .memory
            .lock()
            .set_bytes(self.holder, part, bytes as u64, now);
        if is_less {
            self.memory.freed.notify_waiters();
        }
    }

    /// True if the connection may take in more.
    pub(super) fn has_capacity(&self) -> bool {
        self.memory.lock().has_capacity(self.holder)
    }

    /// Waits until the connection may take in more. Those that are at fault are let go for it.
    pub(super) async fn capacity(&self) {
        loop {
            let freed = self.memory.freed.notified();
            {
                let mut holders = self.memory.lock();
                if holders.has_capacity(self.holder) {
                    return;
                }
                holders.wait(self.holder, Instant::now());
                if holders.has_capacity(self.holder) {
                    return;
                }
            }
            // The turn may have passed to another one.
            if tokio::time::timeout(LOOK, freed).await.is_err() {
                self.memory.freed.notify_waiters();
            }
        }
    }

    /// As [`Share::capacity`], before bytes are read from the socket: the application cannot finish its frame in this time.
    pub(super) async fn capacity_to_read(&self) {
        if self.has_capacity() {
            return;
        }
        self.memory.lock().excuse(self.holder, Part::Frame, None);
        self.capacity().await;
        let now = Some(Instant::now());
        self.memory.lock().excuse(self.holder, Part::Frame, now);
    }

    /// Waits until the connection has to go, because it holds memory that others need. Returns the bytes that it holds.
    pub(super) async fn evicted(&self) -> u64 {
        loop {
            let notified = self.evicted.notified();
            if let Some(bytes) = self.memory.lock().evicted(self.holder) {
                return bytes;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn capacity_returns_when_memory_is_freed_and_the_one_that_goes_is_notified() {
        let memory = Memory::new(1024);
        let (one, other) = (memory.share(1), memory.share(1));
        one.add(Part::Pending, 900);
        other.add(Part::Pending, 100);
        assert!(!other.has_capacity());
        let freeing = async {
            tokio::task::yield_now().await;
            one.remove(Part::Pending, 800);
        };
        tokio::join!(other.capacity(), freeing);
        one.add(Part::Output, 2_000);
        assert_eq!(one.evicted().await, 2_100);
        assert_eq!(memory.held_bytes(), 2_200);
        drop(one);
        assert_eq!(memory.held_bytes(), 100);
    }
}
