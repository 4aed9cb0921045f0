//! Progress of a transfer, for display.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use super::{barrier::Count, message::Entry};

/// Progress counters, shared between a transfer and its display; every field only grows during one attempt.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    bytes_total: AtomicU64,
    bytes_done: AtomicU64,
    bytes_resumed: AtomicU64,
    bytes_durable: AtomicU64,
    files_total: AtomicU64,
    files_done: AtomicU64,
    /// One more than [`Snapshot::more`]; 0: not known yet.
    announced: AtomicU64,
    begun_at: OnceLock<Instant>,
    name: Mutex<String>,
    file: Mutex<Option<FileProgress>>,
    when_verified: Hook,
}

/// A call to make once.
#[derive(Default)]
struct Hook(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl Hook {
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn FnOnce() + Send>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Progress of the file that is being moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileProgress {
    /// Its path, beginning with the name of the transfer.
    pub path: String,
    /// Its size in bytes; `None`: not known beforehand.
    pub bytes_total: Option<u64>,
    /// Bytes of it that were moved, including those present already.
    pub bytes_done: u64,
}

/// Snapshot of a [`Progress`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Name of the transfer; empty before it is known.
    pub name: String,
    /// Bytes to be moved in all, including those present already; 0 while unknown.
    pub bytes_total: u64,
    /// Bytes moved, including those present already.
    pub bytes_done: u64,
    /// Bytes that were present already from an earlier attempt.
    pub bytes_resumed: u64,
    /// Bytes that the receiver has written to its disk: those of the files in [`files_done`](Self::files_done), and of a large file
    /// that is being moved, those synced so far, about once a second.
    pub bytes_durable: u64,
    /// Files in all.
    pub files_total: u64,
    /// Files that the receiver has verified and written to its disk. A sender learns of them in intervals of a fraction of a second,
    /// from an old receiver only at the end.
    pub files_done: u64,
    /// At the receiver, transfers that the sender has announced after this one; `None`: not known yet, or a sender's.
    pub more: Option<u32>,
    /// The file that is being moved, or was last; `None`: none yet.
    pub file: Option<FileProgress>,
}

impl Progress {
    /// The state now.
    pub fn snapshot(&self) -> Snapshot {
        let inner = &self.0;
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Snapshot {
            name: inner
                .name
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            bytes_total: read(&inner.bytes_total),
            bytes_done: read(&inner.bytes_done),
            bytes_resumed: read(&inner.bytes_resumed),
            bytes_durable: read(&inner.bytes_durable),
            files_total: read(&inner.files_total),
            files_done: read(&inner.files_done),
            more: read(&inner.announced)
                .checked_sub(1)
                .and_then(|more| more.try_into().ok()),
            file: self.file().clone(),
        }
    }

    /// Calls `call` once when the receiver has verified everything, while the session is still open: the receiver may close it right
    /// after. Replaces an earlier call that was not made.
    pub fn when_verified(&self, call: impl FnOnce() + Send + 'static) {
        *self.0.when_verified.lock() = Some(Box::new(call));
    }

    /// Notes the transfers that the sender has announced after this one.
    pub(super) fn announced(&self, more: u32) {
        self.0
            .announced
            .store(u64::from(more) + 1, Ordering::Relaxed);
    }

    /// Notes that the receiver has verified everything.
    pub(crate) fn verified(&self) {
        let call = self.0.when_verified.lock().take();
        if let Some(call) = call {
            call();
        }
    }

    fn file(&self) -> MutexGuard<'_, Option<FileProgress>> {
        self.0.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how much of a file was moved.
    pub(crate) fn in_file(&self, entry: &Entry, bytes_done: u64) {
        let mut file = self.file();
        match &mut *file {
            Some(file) if file.path == entry.path => file.bytes_done = bytes_done,
            _ => {
                *file = Some(FileProgress {
                    path: entry.path.clone(),
                    bytes_total: entry.size_bytes,
                    bytes_done,
                });
            }
        }
    }

    /// Time at which the transfer was offered; `None`: not yet.
    pub fn begun_at(&self) -> Option<Instant> {
        self.0.begun_at.get().copied()
    }

    pub(crate) fn begin(&self, name: &str, bytes: u64, files: u64) {
        name.clone_into(&mut self.0.name.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.bytes_total.store(bytes, Ordering::Relaxed);
        self.0.files_total.store(files, Ordering::Relaxed);
        self.0.bytes_done.store(0, Ordering::Relaxed);
        self.0.bytes_resumed.store(0, Ordering::Relaxed);
        self.0.bytes_durable.store(0, Ordering::Relaxed);
        self.0.files_done.store(0, Ordering::Relaxed);
        *self.file() = None;
        self.0.begun_at.get_or_init(Instant::now);
    }

    pub(crate) fn resumed(&self, bytes: u64) {
        self.0.bytes_resumed.fetch_add(bytes, Ordering::Relaxed);
        self.moved(bytes);
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.0.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts files that have become durable.
    pub(super) fn durable(&self, more: Count) {
        self.0
            .bytes_durable
            .fetch_add(more.bytes, Ordering::Relaxed);
        self.0.files_done.fetch_add(more.files, Ordering::Relaxed);
    }

    pub(super) fn durable_count(&self) -> Count {
        Count {
            files: self.0.files_done.load(Ordering::Relaxed),
            bytes: self.0.bytes_durable.load(Ordering::Relaxed),
        }
    }

    /// Sets the number of durable files, as the receiver states it.
    pub(super) fn durable_in_all(&self, all: Count) {
        let files = all.files.min(self.0.files_total.load(Ordering::Relaxed));
        self.0.bytes_durable.store(all.bytes, Ordering::Relaxed);
        self.0.files_done.store(files, Ordering::Relaxed);
    }
}
