//! The disk store of a proxy: indexes, prefixes and chunks of videos, in a folder of a limited size.
//!
//! | file | holds |
//! |---|---|
//! | `catalogue` | what is there, how popular it is, what goes first; nothing touches the disk |
//! | `file` | one file: header, checksum, how it is written |
//! | `scan` | what an earlier run left |
//!
//! It is a cache: everything in it can be fetched again. So what is read is checked and never wrong, and what is
//! damaged or torn is dropped without a word to viewers. Indexes and prefixes are on the disk for good when
//! [`Store::put`] returns (`fsync` of the file and of its folder); chunks of the body are written without waiting for
//! the disk, and a power cut may cost the last of them.

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

/// Which version of which video of which origin.
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

/// A part of a video that is kept by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// What a player or the proxy must know before anything else.
    Index,
    /// The essential data of a chunk.
    Essential(u32),
    /// What has arrived of the enhanced data of a chunk.
    Enhanced(u32),
}

/// How hard a part is to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Fetched again when somebody watches.
    Body,
    /// Play starts with it; given up only when nothing else is left.
    Prefix,
}

/// Reason why nothing was stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The folder cannot be used.
    #[error("cannot use the cache folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another proxy uses the folder.
    #[error(
        "the cache folder {} is used by another proxy that runs; choose another --cache for this one",
        path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// No space is left on the device, or of a quota.
    #[error(
        "the disk of the cache folder {} is full, short of its own limit; videos play on without being cached; make \
         room, or choose a smaller --cache-size",
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
        /// What the system said.
        source: io::Error,
    },
}

/// What the store holds, and what it did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Videos of which anything is there.
    pub videos: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Of them, bytes of indexes and prefixes.
    pub prefix_bytes: u64,
    /// The limit.
    pub limit_bytes: u64,
    /// Parts found when they were asked for.
    pub hits: u64,
    /// Parts not found.
    pub misses: u64,
    /// Parts given up for others.
    pub evicted: u64,
    /// Parts that were damaged, and dropped.
    pub damaged: u64,
}

/// The disk store. Its calls read and write files: not for an asynchronous task.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    catalogue: Mutex<Catalogue>,
    hits: AtomicU64,
    misses: AtomicU64,
    evicted: AtomicU64,
    damaged: AtomicU64,
    /// Names of files that are being written.
    next: AtomicU64,
    /// Held for as long as the folder is ours.
    lock: Mutex<Option<fs::File>>,
}

impl Store {
    /// Opens the store in `folder`, which is made if missing, for at most `limit_bytes` in files. What an earlier run
    /// left is there again; what it left half-written is removed. Costs one listing of the folder.
    ///
    /// # Errors
    /// The folder cannot be made, read or written, or is in use.
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
        // The limit may be smaller than it was.
        let excess = store.lock().make_room(0, None);
        store.remove(excess.unwrap_or_default());
        Ok(store)
    }

    /// Keeps `data`, in place of what was kept of this part. False when it is worth less than everything that would
    /// have to go for it; then nothing changes.
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
            // What was there of this part is not counted any more.
            let _ = fs::remove_file(self.path(key, part, class));
        }
        written?;
        // Under its other class it would be found again after a restart.
        let other = match class {
            Class::Body => Class::Prefix,
            Class::Prefix => Class::Body,
        };
        let _ = fs::remove_file(self.path(key, part, other));
        Ok(true)
    }

    /// What is kept of this part.
    ///
    /// # Errors
    /// The disk fails. What is damaged is dropped, and `None`.
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
                    // Given up in between, or removed by somebody else.
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

    /// True if something is kept of this part; the disk is not asked.
    pub fn holds(&self, key: VideoKey, part: Part) -> bool {
        self.lock().class_of(key, part).is_some()
    }

    /// Somebody plays this video.
    pub fn touch(&self, key: VideoKey) {
        self.lock().touch(key);
    }

    /// Gives up everything of a video, because it has changed.
    pub fn forget(&self, key: VideoKey) {
        let parts = self.lock().forget_video(key);
        self.remove(parts);
    }

    /// Writes down how popular the videos are, for the next run. Losing it costs nothing but good choices.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn save(&self) -> Result<(), StoreError> {
        let text = self.lock().popularity();
        let path = self.folder.join(scan::POPULARITY);
        file::replace(&path, &self.temporary(), text.as_bytes(), true)
            .map_err(|source| self.failed(path, source))
    }

    /// Lets another store have the folder, although somebody may still hold this one; for when nothing more is to be kept.
    pub fn release(&self) {
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What is there now.
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
            // It may be gone already.
            let _ = fs::remove_file(self.path(key, part, class));
            // Fails while anything is in it.
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
    assert_eq!(parse(&whole).expect("it is what was put"), bytes);
    // One changed bit, somewhere.
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
    catalogue.make_room(0, None);
    let stats = catalogue.stats();
    assert!(stats.bytes <= before && stats.bytes <= 200);
    assert!(stats.prefix_bytes <= stats.bytes);
}
