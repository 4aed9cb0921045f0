//! The videos of an origin: a directory.
//!
//! What is served is decided here alone: a proxy names a video of the catalogue, never a path. The catalogue holds
//! regular files below the directory; links that lead elsewhere and hidden files are not in it.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, UNIX_EPOCH},
};

use anabranch_media::{Index, IndexError, Part, index};
use bytes::{Bytes, BytesMut};

use crate::{
    video::{Division, Video, policy_text},
    wire::{Entry, NAME_BYTES_MAX},
};

/// Files with these extensions are videos.
const EXTENSIONS: [&str; 5] = ["mp4", "m4v", "mov", "m4s", "cmfv"];
/// Videos in a library.
const VIDEOS_MAX: usize = 100_000;
/// Folders within folders.
const DEPTH_MAX: usize = 16;
/// The directory is not read more often than this.
const RESCAN: Duration = Duration::from_secs(2);
/// Videos whose index stays in memory.
const OPEN_MAX: usize = 64;
/// Folder in the library with the indexes of its videos.
const INDEX_FOLDER: &str = ".anabranch-index";

/// Why a video is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The directory cannot be read.
    #[error("cannot read the library {}: {source}", path.display())]
    Folder {
        /// The directory.
        path: PathBuf,
        /// What the system said.
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
        /// What the system said.
        source: io::Error,
    },
    /// The file is not one that can be served.
    #[error("the video '{name}' cannot be served: {source}")]
    Unusable {
        /// The video.
        name: String,
        /// Why.
        source: IndexError,
    },
}

/// A video that is open for reading.
#[derive(Debug)]
pub struct Opened {
    /// What is known of it.
    pub video: Video,
    /// Its index as it is sent.
    pub index: Bytes,
    path: PathBuf,
    file: File,
    stamp: Stamp,
}

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified_ns: u128,
    /// Number of the file in its file system, where there is such a thing.
    number: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok();
        let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let number = 0;
        Self {
            bytes: metadata.len(),
            modified_ns: modified.map_or(0, |time| time.as_nanos()),
            number,
        }
    }

    /// The version that proxies see: of the file, and of how it is divided.
    fn version(&self, division: &Division) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("anabranch 2026-11 video version");
        hasher.update(&self.bytes.to_be_bytes());
        hasher.update(&self.modified_ns.to_be_bytes());
        hasher.update(&self.number.to_be_bytes());
        hasher.update(policy_text(division.policy).as_bytes());
        hasher.update(&division.chunk.as_nanos().to_be_bytes());
        let segment = division.segment.map_or(0, |length| length.as_nanos());
        hasher.update(&segment.to_be_bytes());
        hasher.finalize().to_hex()[..16].to_owned()
    }
}

#[derive(Clone, Debug)]
struct Found {
    path: PathBuf,
    stamp: Stamp,
}

#[derive(Debug, Default)]
struct State {
    catalogue: Arc<BTreeMap<String, Found>>,
    scanned: Option<Instant>,
    /// Indexes in memory, the last used last.
    open: Vec<Arc<Opened>>,
}

/// A directory with videos. Its calls read files: not for an asynchronous task.
#[derive(Debug)]
pub struct Library {
    root: PathBuf,
    division: Division,
    state: Mutex<State>,
}

impl Library {
    /// The videos below `root`, all divided by `division`.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn open(root: &Path, division: Division) -> Result<Self, LibraryError> {
        let failed = |source| LibraryError::Folder {
            path: root.to_owned(),
            source,
        };
        let root = root.canonicalize().map_err(failed)?;
        fs::read_dir(&root).map_err(failed)?;
        Ok(Self {
            root,
            division,
            state: Mutex::default(),
        })
    }

    /// How its videos are divided.
    pub fn division(&self) -> Division {
        self.division
    }

    /// The videos, by name. Costs a walk through the directory, every two seconds at most.
    pub fn list(&self) -> Vec<Entry> {
        let catalogue = self.catalogue();
        let entry = |(name, found): (&String, &Found)| Entry {
            name: name.clone(),
            version: found.stamp.version(&self.division),
            bytes: found.stamp.bytes,
        };
        catalogue.iter().map(entry).collect()
    }

    /// Opens a video by its name in the catalogue. Its index is kept in a hidden folder of the library where that can be
    /// written, and read from there the next time.
    ///
    /// # Errors
    /// There is no such video, or it cannot be read or served.
    pub fn video(&self, name: &str) -> Result<Arc<Opened>, LibraryError> {
        let not_found = || LibraryError::NotFound(name.to_owned());
        let catalogue = self.catalogue();
        let found = catalogue.get(name).ok_or_else(not_found)?;
        let read = |source| LibraryError::Read {
            name: name.to_owned(),
            source,
        };
        let file = File::open(&found.path).map_err(read)?;
        // What is open counts, not what the walk saw.
        let stamp = Stamp::of(&file.metadata().map_err(read)?);
        let kept = self.lock().take(&found.path, stamp);
        let opened = match kept {
            Some(opened) => opened,
            None => Arc::new(self.index(name, &found.path, file, stamp)?),
        };
        self.lock().keep(opened.clone());
        Ok(opened)
    }

    fn index(
        &self,
        name: &str,
        path: &Path,
        file: File,
        stamp: Stamp,
    ) -> Result<Opened, LibraryError> {
        let version = stamp.version(&self.division);
        let stored = self.root.join(INDEX_FOLDER).join(stored_name(name));
        let (index, encoded) = match read_stored(&stored, stamp) {
            Some(known) => known,
            None => {
                let mut source = |offset: u64, into: &mut [u8]| read_at(&file, offset, into);
                let index = Index::read(&mut source, stamp.bytes).map_err(|source| {
                    LibraryError::Unusable {
                        name: name.to_owned(),
                        source,
                    }
                })?;
                let encoded = Bytes::from(index.encode());
                if let Err(error) = write_stored(&stored, stamp, &encoded) {
                    tracing::debug!(%error, path = %stored.display(), "the index is not kept");
                }
                (index, encoded)
            }
        };
        Ok(Opened {
            video: Video::new(name, &version, index, self.division),
            index: encoded,
            path: path.to_owned(),
            file,
            stamp,
        })
    }

    fn catalogue(&self) -> Arc<BTreeMap<String, Found>> {
        {
            let state = self.lock();
            if state.scanned.is_some_and(|at| at.elapsed() < RESCAN) {
                return state.catalogue.clone();
            }
        }
        let mut found = BTreeMap::new();
        if let Err(error) = walk(&self.root, &self.root, 0, &mut found) {
            tracing::warn!(%error, library = %self.root.display(), "cannot be read");
        }
        let found = Arc::new(found);
        let mut state = self.lock();
        state.catalogue = found.clone();
        state.scanned = Some(Instant::now());
        found
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, path: &Path, stamp: Stamp) -> Option<Arc<Opened>> {
        let at = self.open.iter().position(|known| known.path == path)?;
        let known = self.open.remove(at);
        (known.stamp == stamp).then_some(known)
    }

    fn keep(&mut self, opened: Arc<Opened>) {
        self.open.retain(|known| known.path != opened.path);
        if self.open.len() >= OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push(opened);
    }
}

impl Opened {
    /// All bytes of one part of a chunk, in the order of [`Video::frames`].
    ///
    /// # Errors
    /// The file has changed, or cannot be read.
    ///
    /// # Panics
    /// There is no such chunk.
    pub fn read(&self, chunk: u32, part: Part) -> Result<Bytes, LibraryError> {
        let name = || self.video.name.clone();
        let read = |source| LibraryError::Read {
            name: name(),
            source,
        };
        // A new file under the old name, and an old file with new content.
        let now = fs::metadata(&self.path).map_err(|_| LibraryError::Changed(name()))?;
        let own = self.file.metadata().map_err(read)?;
        if Stamp::of(&now) != self.stamp || Stamp::of(&own) != self.stamp {
            return Err(LibraryError::Changed(name()));
        }
        let bytes = usize::try_from(self.video.bytes(chunk, part)).unwrap_or(usize::MAX);
        let mut data = BytesMut::zeroed(bytes);
        let mut at = 0;
        // Frames that lie side by side in the file are read together.
        let mut run: Option<(u64, usize)> = None;
        for frame in self.video.frames(chunk, part) {
            let sample: &index::Sample =
                &self.video.index.tracks[frame.track].samples[frame.sample];
            let size = sample.size as usize;
            run = match run {
                Some((offset, length)) if offset + length as u64 == sample.offset => {
                    Some((offset, length + size))
                }
                Some((offset, length)) => {
                    read_at(&self.file, offset, &mut data[at..at + length]).map_err(read)?;
                    at += length;
                    Some((sample.offset, size))
                }
                None => Some((sample.offset, size)),
            };
        }
        if let Some((offset, length)) = run {
            read_at(&self.file, offset, &mut data[at..at + length]).map_err(read)?;
        }
        Ok(data.freeze())
    }
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, offset)
}

#[cfg(not(unix))]
fn read_at(file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(into)
}

/// Whether a name can be part of a video's: no separators, no way up, nothing hidden, nothing that would have to be
/// escaped in a terminal.
fn is_plain(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('.')
        && !part.contains(['/', '\\'])
        && !part.chars().any(char::is_control)
}

fn walk(
    root: &Path,
    folder: &Path,
    depth: usize,
    found: &mut BTreeMap<String, Found>,
) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_plain(name)) else {
            continue;
        };
        if found.len() >= VIDEOS_MAX {
            tracing::warn!("the library has more than {VIDEOS_MAX} videos; the rest is left out");
            return Ok(());
        }
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            if depth < DEPTH_MAX
                && let Err(error) = walk(root, &path, depth + 1, found)
            {
                tracing::warn!(%error, folder = %path.display(), "cannot be read");
            }
            continue;
        }
        // A link counts when it stays in the library.
        let is_inside = !kind.is_symlink()
            || path
                .canonicalize()
                .is_ok_and(|target| target.starts_with(root));
        let Some(title) = title(root, &path, name).filter(|_| is_inside) else {
            continue;
        };
        if let Ok(metadata) = fs::metadata(&path)
            && metadata.is_file()
        {
            let stamp = Stamp::of(&metadata);
            // Two files that differ in their extension only: the second goes by its full name.
            let title = if found.contains_key(&title) {
                format!("{title}.{}", extension(name).unwrap_or_default())
            } else {
                title
            };
            found.insert(title, Found { path, stamp });
        }
    }
    Ok(())
}

fn extension(name: &str) -> Option<&str> {
    let (_, extension) = name.rsplit_once('.')?;
    EXTENSIONS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(extension))
        .then_some(extension)
}

/// The name in the catalogue; `None` when it is no video, or the name is too long.
fn title(root: &Path, path: &Path, name: &str) -> Option<String> {
    let extension = extension(name)?;
    let inside = path.strip_prefix(root).ok()?;
    let parts: Option<Vec<_>> = inside.iter().map(|part| part.to_str()).collect();
    let full = parts?.join("/");
    let title = &full[..full.len() - extension.len() - 1];
    let is_good = title.len() + 8 <= NAME_BYTES_MAX && !title.ends_with('/');
    is_good.then(|| title.to_owned())
}

fn stored_name(name: &str) -> String {
    let hash = blake3::hash(name.as_bytes()).to_hex();
    format!("{}.index", &hash[..24])
}

/// Bytes before a stored index: size, time and number of the file.
const STORED_HEADER_BYTES: usize = 32;

fn stored_header(stamp: Stamp) -> [u8; STORED_HEADER_BYTES] {
    let mut header = [0; STORED_HEADER_BYTES];
    header[..8].copy_from_slice(&stamp.bytes.to_be_bytes());
    header[8..24].copy_from_slice(&stamp.modified_ns.to_be_bytes());
    header[24..].copy_from_slice(&stamp.number.to_be_bytes());
    header
}

/// The index of an earlier run, if the file is still the same and nothing is damaged.
fn read_stored(path: &Path, stamp: Stamp) -> Option<(Index, Bytes)> {
    let bytes = Bytes::from(fs::read(path).ok()?);
    if bytes.get(..STORED_HEADER_BYTES)? != stored_header(stamp) {
        return None;
    }
    let encoded = bytes.slice(STORED_HEADER_BYTES..);
    Some((Index::decode(&encoded).ok()?, encoded))
}

fn write_stored(path: &Path, stamp: Stamp, encoded: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    let mut bytes = stored_header(stamp).to_vec();
    bytes.extend_from_slice(encoded);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
