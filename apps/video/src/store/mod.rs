//! The disk store of a proxy: indexes, prefixes and chunks of videos, in a folder of a limited size.
//!
//! | file | holds |
//! |---|---|
//! | `catalogue` | parts in the store, their popularity, and the order of eviction; does not touch the disk |
//! | `file` | file format: header and checksum; writing |
//! | `scan` | scan for the data of an earlier run |
//!
//! It is a cache: everything in it can be fetched again. So data is checked when it is read and never wrong, and damaged or
//! torn files are dropped without notice to viewers. Indexes and prefixes are durable when [`Store::put`] returns (`fsync` of
//! the file and of its folder); chunks of the body are written without waiting for the disk, and a power cut may cost the last
//! of them.

mod catalogue;
mod file;
mod lock;
mod scan;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch::base::NodeId;
use bytes::Bytes;

use self::catalogue::Catalogue;

/// Identifies a version of a video of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VideoKey(pub [u8; 16]);

impl VideoKey {
    /// The key of `version` of the video `name` at `origin`.
    pub fn of(origin: NodeId, name: &str, version: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("anabranch 2026-11 video store");
        hasher.update(origin.public_key());
        hasher.update(&(name.len() as u64).to_be_bytes());
        hasher.update(name.as_bytes());
        hasher.update(version.as_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(key)
    }

    fn folder(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn of_folder(name: &str) -> Option<Self> {
        if name.len() != 32 || !name.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let mut key = [0; 16];
        for (byte, digits) in key.iter_mut().zip(name.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(key))
    }
}

/// A part of a video that is stored by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The index, which a player or the proxy needs before anything else.
    Index,
    /// The essential data of a chunk.
    Essential(u32),
    /// The enhanced data of a chunk that has arrived.
    Enhanced(u32),
}

/// Class of a part, by the cost of replacing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Fetched again when a viewer needs it.
    Body,
    /// Playback starts with it; evicted only when nothing else is left.
    Prefix,
}

/// Reason for which nothing was stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The folder cannot be used.
    #[error("cannot use the cache folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another proxy uses the folder.
    #[error(
        "the cache folder {} is in use by another proxy; choose another --cache for this one",
        path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// No space is left on the device, or of a quota.
    #[error(
        "the disk of the cache folder {} is full before its limit is reached; videos are played without being cached; \
         free some space, or choose a smaller --cache-size",
        path.display()
    )]
    Full {
        /// The folder.
        path: PathBuf,
    },
    /// A file cannot be written or read.
    #[error("cannot use {} in the cache: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Statistics of the store: its content, and events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Videos with at least one part.
    pub videos: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Of them, bytes of indexes and prefixes.
    pub prefix_bytes: u64,
    /// The limit.
    pub limit_bytes: u64,
    /// Requested parts that were in the store.
    pub hits: u64,
    /// Requested parts that were not.
    pub misses: u64,
    /// Parts evicted for others.
    pub evicted: u64,
    /// Parts that were damaged, and dropped.
    pub damaged: u64,
}

/// The disk store. Its calls read and write files: do not call them from an asynchronous task.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    catalogue: Mutex<Catalogue>,
    hits: AtomicU64,
    misses: AtomicU64,
    evicted: AtomicU64,
    damaged: AtomicU64,
    /// Number for the name of the next file to be written.
    next: AtomicU64,
    /// Held for as long as this store owns the folder.
    lock: Mutex<Option<fs::File>>,
}

impl Store {
    /// Opens the store in `folder`, which is created if missing, for at most `limit_bytes` in files. The data of an earlier run
    /// is available again; half-written files are removed. Lists the folder once.
    ///
    /// # Errors
    /// The folder cannot be created, read or written, or is in use.
    pub fn open(folder: &Path, limit_bytes: u64) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Folder {
            path: folder.to_owned(),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = lock::take(folder).map_err(failed)?;
        let lock = lock.ok_or_else(|| StoreError::InUse {
            path: folder.to_owned(),
        })?;
        let probe = folder.join(format!("{}probe", file::TEMPORARY));
        fs::write(&probe, b"x").map_err(failed)?;
        fs::remove_file(&probe).map_err(failed)?;
        let catalogue = scan::scan(folder, limit_bytes).map_err(failed)?;
        let store = Self {
            folder: folder.to_owned(),
            catalogue: Mutex::new(catalogue),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            next: AtomicU64::new(0),
            lock: Mutex::new(Some(lock)),
        };
        // The limit may be lower than before.
        let excess = store.lock().evict(0, None);
        store.remove(excess.unwrap_or_default());
        Ok(store)
    }

    /// Stores `data`, in place of earlier data of this part. False when it is worth less than everything that would have to be
    /// evicted for it; then nothing changes.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn put(
        &self,
        key: VideoKey,
        part: Part,
        class: Class,
        data: &[u8],
    ) -> Result<bool, StoreError> {
        let bytes = file::HEADER_BYTES + data.len() as u64;
        let Some(excess) = self.lock().reserve(key, part, class, bytes) else {
            return Ok(false);
        };
        self.evicted
            .fetch_add(excess.len() as u64, Ordering::Relaxed);
        self.remove(excess);
        let written = self.write(key, part, class, data);
        self.lock().settle(key, part, written.is_ok());
        if written.is_err() {
            // The earlier data of this part no longer counts.
            let _ = fs::remove_file(self.path(key, part, class));
        }
        written?;
        // Under its other class it would reappear after a restart.
        let other = match class {
            Class::Body => Class::Prefix,
            Class::Prefix => Class::Body,
        };
        let _ = fs::remove_file(self.path(key, part, other));
        Ok(true)
    }

    /// Reads a part.
    ///
    /// # Errors
    /// The disk fails. Damaged data is dropped, and the result is `None`.
    pub fn get(&self, key: VideoKey, part: Part) -> Result<Option<Bytes>, StoreError> {
        let class = self.lock().class_of(key, part);
        let found = match class {
            Some(class) => {
                let path = self.path(key, part, class);
                match file::read(&path, key, part) {
                    Ok(found) => Some(found),
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        self.damaged.fetch_add(1, Ordering::Relaxed);
                        tracing::warn!(path = %path.display(), "damaged in the cache; dropped");
                        self.lock().forget(key, part);
                        let _ = fs::remove_file(&path);
                        None
                    }
                    // Evicted in the meantime, or removed by another process.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        self.lock().forget(key, part);
                        None
                    }
                    Err(source) => return Err(StoreError::File { path, source }),
                }
            }
            None => None,
        };
        let counter = if found.is_some() {
            &self.hits
        } else {
            &self.misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(found)
    }

    /// True if the part is stored; does not access the disk.
    pub fn holds(&self, key: VideoKey, part: Part) -> bool {
        self.lock().class_of(key, part).is_some()
    }

    /// Counts a play of this video.
    pub fn touch(&self, key: VideoKey) {
        self.lock().touch(key);
    }

    /// Drops everything of a video, because it has changed.
    pub fn forget(&self, key: VideoKey) {
        let parts = self.lock().forget_video(key);
        self.remove(parts);
    }

    /// Saves the popularity of videos for the next run. Its loss only makes eviction less accurate.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn save(&self) -> Result<(), StoreError> {
        let text = self.lock().popularity();
        let path = self.folder.join(scan::POPULARITY);
        file::replace(&path, &self.temporary(), text.as_bytes(), true)
            .map_err(|source| self.failed(path, source))
    }

    /// Releases the folder for another store, although this one may still be referenced; to be called when nothing more is to
    /// be stored.
    pub fn release(&self) {
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Current statistics.
    pub fn stats(&self) -> StoreStats {
        let mut stats = self.lock().stats();
        stats.hits = self.hits.load(Ordering::Relaxed);
        stats.misses = self.misses.load(Ordering::Relaxed);
        stats.evicted = self.evicted.load(Ordering::Relaxed);
        stats.damaged = self.damaged.load(Ordering::Relaxed);
        stats
    }

    fn write(
        &self,
        key: VideoKey,
        part: Part,
        class: Class,
        data: &[u8],
    ) -> Result<(), StoreError> {
        let path = self.path(key, part, class);
        let folder = self.folder.join(key.folder());
        let header = file::header(key, part, data);
        let is_durable = class == Class::Prefix;
        fs::create_dir_all(&folder)
            .and_then(|()| {
                file::replace_with(&path, &self.temporary(), &[&header, data], is_durable)
            })
            .map_err(|source| self.failed(path, source))
    }

    fn failed(&self, path: PathBuf, source: io::Error) -> StoreError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full {
                path: self.folder.clone(),
            },
            _ => StoreError::File { path, source },
        }
    }

    fn temporary(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!("{}{number}", file::TEMPORARY))
    }

    fn path(&self, key: VideoKey, part: Part, class: Class) -> PathBuf {
        self.folder
            .join(key.folder())
            .join(scan::file_name(part, class))
    }

    fn remove(&self, parts: Vec<(VideoKey, Part, Class)>) {
        for (key, part, class) in parts {
            // It may not exist.
            let _ = fs::remove_file(self.path(key, part, class));
            // Fails while the folder contains anything.
            let _ = fs::remove_dir(self.folder.join(key.folder()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Catalogue> {
        self.catalogue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_file(bytes: &[u8], key: VideoKey, part: Part) {
    let parse = |bytes: &[u8]| file::parse(bytes, bytes.len() as u64, key, part);
    if let Ok(data) = parse(bytes) {
        assert_eq!([&file::header(key, part, &data)[..], &data].concat(), bytes);
    }
    let whole = [&file::header(key, part, bytes)[..], bytes].concat();
    assert_eq!(
        parse(&whole).expect("it is the data that was written"),
        bytes
    );
    // One changed bit, at a position derived from the input.
    let mut damaged = whole;
    let at = bytes.iter().map(|&byte| usize::from(byte)).sum::<usize>() % damaged.len();
    damaged[at] ^= 1;
    assert!(parse(&damaged).is_err());
}

#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_folder(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut catalogue = Catalogue::new(200);
    let mut key = VideoKey([0; 16]);
    for line in text.lines() {
        if let Some(found) = VideoKey::of_folder(line) {
            assert_eq!(found.folder(), line);
            key = found;
        }
        if let Some((part, class)) = scan::part_of(line) {
            assert_eq!(scan::file_name(part, class), line);
            catalogue.restore(key, part, class, line.len() as u64);
        }
    }
    catalogue.restore_popularity(&text);
    catalogue.touch(key);
    let before = catalogue.stats().bytes;
    catalogue.evict(0, None);
    let stats = catalogue.stats();
    assert!(stats.bytes <= before && stats.bytes <= 200);
    assert!(stats.prefix_bytes <= stats.bytes);
}
