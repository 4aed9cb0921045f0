//! Memory of data that was read for proxies and has not left yet: bounded for each ticket, so that a proxy that reads nothing,
//! or asks for everything at once, takes a limited amount, at no expense of other tickets.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum video data in memory for the proxies of one ticket, in KiB: data that waits for its turn, or to be acknowledged.
/// Some 200 plays of 1.5 Mbit/s take half of it.
const KIB_MAX: u32 = 512 << 10;

/// The memory shares of all tickets.
#[derive(Debug, Default)]
pub(super) struct Memory {
    memory_shares: Mutex<HashMap<String, MemoryShare>>,
}

/// The memory share of one ticket.
#[derive(Clone, Debug)]
pub(super) struct MemoryShare(Arc<Semaphore>);

/// Bytes that take memory of a share until they are dropped.
struct Held {
    data: Bytes,
    _permit: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Memory {
    /// The memory share of the ticket `name`; all of its sessions use the same one.
    pub(super) fn memory_share(&self, name: &str) -> MemoryShare {
        let mut memory_shares = self
            .memory_shares
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Drops shares that are not in use.
        memory_shares.retain(|_, memory_share| Arc::strong_count(&memory_share.0) > 1);
        memory_shares
            .entry(name.to_owned())
            .or_insert_with(MemoryShare::new)
            .clone()
    }
}

impl MemoryShare {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(KIB_MAX as usize)))
    }

    /// Waits until so many bytes are free; a request larger than the share takes all of it.
    pub(super) async fn take(&self, bytes: u64) -> Taken {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        // Never closed.
        let permit = self.0.clone().acquire_many_owned(kib.min(KIB_MAX)).await;
        Taken(permit.ok())
    }

    #[cfg(test)]
    fn free_kib(&self) -> usize {
        self.0.available_permits()
    }
}

/// Memory taken from a share.
pub(super) struct Taken(Option<OwnedSemaphorePermit>);

impl Taken {
    /// Holds the memory for these bytes, and for whatever is cut from them.
    pub(super) fn hold(self, data: Bytes) -> Bytes {
        Bytes::from_owner(Held {
            data,
            _permit: self.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_held_counts_until_the_last_part_is_dropped() {
        let memory = Memory::default();
        let memory_share = memory.memory_share("one");
        let all = KIB_MAX as usize;
        let data = memory_share
            .take(10_000)
            .await
            .hold(Bytes::from(vec![7; 10_000]));
        assert_eq!(memory_share.free_kib(), all - 10);
        let part = data.slice(5_000..5_010);
        drop(data);
        assert_eq!(memory.memory_share("one").free_kib(), all - 10);
        assert_eq!(memory.memory_share("two").free_kib(), all);
        assert_eq!(&part[..], [7; 10]);
        drop(part);
        assert_eq!(memory_share.free_kib(), all);
        let huge = memory_share.take(u64::MAX).await;
        let more = memory_share.take(1);
        let waiting = tokio::time::timeout(std::time::Duration::ZERO, more).await;
        assert!(waiting.is_err(), "there is no space");
        drop(huge);
        assert_eq!(memory_share.free_kib(), all);
    }
}
