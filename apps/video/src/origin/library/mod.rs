//! The videos of an origin: a directory, or a part of an object store.
//!
//! Only this module decides what is served: a proxy names a video of the catalogue, never a path.
//!
//! | file | holds |
//! |---|---|
//! | `place` | the interface that a library needs of the place of its videos |
//! | `folder` | a directory |
//! | `names` | names of videos: which files are videos |
//! | `opened` | a video that is open: the bytes of its chunks |
//! | `kept` | indexes of earlier runs, on disk |
//! | `ahead` | reading ahead while an index is made |
//! | `s3` | a part of an object store |

mod ahead;
mod folder;
mod kept;
mod names;
mod opened;
mod place;
#[cfg(feature = "s3")]
pub mod s3;

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use anabranch_media::{Index, IndexError};
use bytes::Bytes;

pub use self::opened::Opened;
use self::{
    ahead::Ahead,
    folder::Folder,
    kept::Kept,
    place::{Catalogue, Film, Found, Place, Stamp},
};
use crate::{
    clock::Clock,
    video::{Division, Video, policy_text},
    wire::Entry,
};

/// Maximum number of indexes that stay in memory.
const OPEN_MAX: usize = 64;
/// Folder in a directory with the indexes of its videos.
const INDEX_FOLDER: &str = ".anabranch-index";

/// Reason for which a video is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The directory cannot be read.
    #[error("cannot read the library {}: {source}", path.display())]
    Folder {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// There is no such video.
    #[error("there is no video '{0}' here")]
    NotFound(String),
    /// The file was changed or removed since it was opened.
    #[error("the video '{0}' has changed since it was opened; open it again")]
    Changed(String),
    /// The file cannot be read.
    #[error("the video '{name}' cannot be read: {source}")]
    Read {
        /// The video.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The file cannot be served.
    #[error("the video '{name}' cannot be served: {source}")]
    Unusable {
        /// The video.
        name: String,
        /// Reason.
        source: IndexError,
    },
    /// The object store fails.
    #[cfg(feature = "s3")]
    #[error(transparent)]
    Store(#[from] s3::StoreError),
}

#[derive(Debug, Default)]
struct State {
    catalogue: Arc<Catalogue>,
    scanned: Option<Instant>,
    /// Indexes in memory, the most recently used last.
    open: Vec<Arc<Opened>>,
    /// Videos whose index is being made.
    making: HashSet<String>,
}

/// Videos of one place. Its calls wait for a disk or a network: do not call them from an asynchronous task.
#[derive(Debug)]
pub struct Library {
    place: Box<dyn Place>,
    kept: Kept,
    division: Division,
    clock: Clock,
    state: Mutex<State>,
    /// Notified when an index was made, or could not be.
    made: Condvar,
}

impl Library {
    /// The videos below the directory `root`, all divided by `division`. Indexes are kept in the folder `indexes`; `None`: in a
    /// hidden folder of the directory.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn open(
        root: &Path,
        indexes: Option<PathBuf>,
        division: Division,
    ) -> Result<Self, LibraryError> {
        let folder = Folder::open(root)?;
        let indexes = indexes.unwrap_or_else(|| folder.path().join(INDEX_FOLDER));
        let clock = Clock::system();
        Ok(Self::new(Box::new(folder), indexes, division, clock))
    }

    /// The videos in a part of an object store. Indexes are kept in the folder `indexes`, which other libraries may use as
    /// well.
    ///
    /// # Errors
    /// The store does not list them.
    #[cfg(feature = "s3")]
    pub fn in_store(
        location: &s3::Location,
        access: &s3::Access,
        indexes: PathBuf,
        division: Division,
    ) -> Result<Self, LibraryError> {
        let clock = Clock::system();
        let bucket = s3::Bucket::open(location, access, clock)?;
        Ok(Self::new(Box::new(bucket), indexes, division, clock))
    }

    fn new(place: Box<dyn Place>, indexes: PathBuf, division: Division, clock: Clock) -> Self {
        Self {
            kept: Kept::new(indexes, place.name()),
            place,
            division,
            clock,
            state: Mutex::default(),
            made: Condvar::new(),
        }
    }

    /// Name of the place, for people and to distinguish it from others.
    pub fn place(&self) -> String {
        self.place.name()
    }

    /// Division of its videos.
    pub fn division(&self) -> Division {
        self.division
    }

    /// The videos, by name. Scans the place now and then.
    pub fn list(&self) -> Vec<Entry> {
        let catalogue = self.catalogue();
        let entry = |(name, found): (&String, &Found)| Entry {
            name: name.clone(),
            version: version(&found.stamp, &self.division),
            bytes: found.stamp.bytes,
        };
        catalogue.iter().map(entry).collect()
    }

    /// Opens a video by its name in the catalogue. Its index is stored where possible, and read from there the next time. A
    /// caller that asks for an index that is being made waits for it.
    ///
    /// # Errors
    /// There is no such video, or it cannot be read or served.
    pub fn video(&self, name: &str) -> Result<Arc<Opened>, LibraryError> {
        let not_found = || LibraryError::NotFound(name.to_owned());
        let catalogue = self.catalogue();
        let found = catalogue.get(name).ok_or_else(not_found)?;
        let film = self.place.open(found).map_err(|error| error.of(name))?;
        let turn = Turn::wait(self, name);
        let kept = self.lock().take(&found.at, film.stamp());
        let opened = match kept {
            Some(opened) => Ok(opened),
            None => self.index(name, &found.at, film).map(Arc::new),
        };
        if let Ok(opened) = &opened {
            self.lock().keep(opened.clone());
        }
        drop(turn);
        opened
    }

    fn index(&self, name: &str, at: &str, film: Box<dyn Film>) -> Result<Opened, LibraryError> {
        let stamp = film.stamp();
        let (index, encoded) = match self.kept.read(name, stamp) {
            Some(known) => known,
            None => {
                let mut ahead = Ahead::new(&*film);
                let mut source = |offset: u64, into: &mut [u8]| ahead.read_at(offset, into);
                let read = Index::read(&mut source, stamp.bytes);
                let index = read.map_err(|source| {
                    let name = name.to_owned();
                    match source {
                        _ if ahead.is_changed => LibraryError::Changed(name),
                        IndexError::Io { cause, .. } => LibraryError::Read {
                            name,
                            source: cause,
                        },
                        source => LibraryError::Unusable { name, source },
                    }
                })?;
                let encoded = Bytes::from(index.encode());
                self.kept.write(name, stamp, &encoded);
                (index, encoded)
            }
        };
        let version = version(stamp, &self.division);
        Ok(Opened {
            video: Arc::new(Video::new(name, &version, index, self.division)),
            index: encoded,
            at: at.to_owned(),
            film,
        })
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        {
            let state = self.lock();
            let rescan = self.place.rescan();
            if state
                .scanned
                .is_some_and(|at| self.clock.since(at) < rescan)
            {
                return state.catalogue.clone();
            }
        }
        let scanned = self.place.scan();
        let mut state = self.lock();
        state.scanned = Some(self.clock.now());
        match scanned {
            Ok(found) => state.catalogue = Arc::new(found),
            // The old catalogue is served for as long as its files can be read.
            Err(error) => {
                tracing::warn!(%error, "the library cannot be read; the catalogue remains as before");
            }
        }
        state.catalogue.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to open a video: only one caller at a time has it, so that no index is made twice.
struct Turn<'a> {
    library: &'a Library,
    name: &'a str,
}

impl<'a> Turn<'a> {
    fn wait(library: &'a Library, name: &'a str) -> Self {
        let mut state = library.lock();
        while !state.making.insert(name.to_owned()) {
            let woken = library.made.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        Self { library, name }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.library.lock().making.remove(self.name);
        self.library.made.notify_all();
    }
}

impl State {
    fn take(&mut self, at: &str, stamp: &Stamp) -> Option<Arc<Opened>> {
        let found = self.open.iter().position(|known| known.at == at)?;
        let known = self.open.remove(found);
        (known.film.stamp() == stamp).then_some(known)
    }

    fn keep(&mut self, opened: Arc<Opened>) {
        self.open.retain(|known| known.at != opened.at);
        if self.open.len() >= OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push(opened);
    }
}

/// The version that proxies see: of the film and of its division.
fn version(stamp: &Stamp, division: &Division) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("anabranch 2026-11 video version");
    hasher.update(&stamp.bytes.to_be_bytes());
    hasher.update(&(stamp.mark.len() as u64).to_be_bytes());
    hasher.update(stamp.mark.as_bytes());
    hasher.update(policy_text(division.policy).as_bytes());
    hasher.update(&division.chunk.as_nanos().to_be_bytes());
    let segment = division.segment.map_or(0, |length| length.as_nanos());
    hasher.update(&segment.to_be_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}
