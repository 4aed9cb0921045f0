//! Parts of records, read from the files of a set.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Source`]: a set; `Reader`: its open files |
//! | `reading` | [`Reading`]: what a client wants, as packs of pieces |

mod reading;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch_recordset::{
    Manifest,
    manifest::{Extent, Extents, PART_BYTES_MAX},
};

pub use reading::{Next, Reading};

use crate::{
    at,
    shelf::{Text, manifest_version},
    wire::Fault,
};

/// A set whose files are here.
#[derive(Debug)]
pub struct Source {
    name: String,
    folder: PathBuf,
    manifest: Arc<Manifest>,
    text: Text,
    /// Version of the file of the manifest when it was read.
    version: Option<u64>,
}

impl Source {
    /// A set in a directory.
    pub fn new(name: String, folder: &Path, manifest: Arc<Manifest>, text: Text) -> Self {
        Self {
            name,
            folder: folder.to_owned(),
            manifest,
            text,
            version: None,
        }
    }

    /// The same, whose manifest was read from a file of this version.
    #[must_use]
    pub(crate) fn of_version(mut self, version: Option<u64>) -> Self {
        self.version = version;
        self
    }

    /// True if the file of the manifest is the one that was read.
    pub(crate) fn is_current(&self) -> bool {
        self.version.is_some() && self.version == manifest_version(&self.folder)
    }

    /// Name of the set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The manifest as it was written.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// True if it is the set of this directory.
    pub(crate) fn is_of(&self, folder: &Path) -> bool {
        self.folder == folder
    }

    /// Bytes of all parts, if every one has those that its component states; O(components).
    pub fn stated_bytes(&self) -> Option<u64> {
        let records = self.manifest.len();
        let of = |component| self.manifest.stated_bytes(component);
        let each = (0..self.manifest.components.len()).map(of);
        let sum = each.sum::<Option<u64>>()?;
        sum.checked_mul(records)
    }
}

/// A part that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    file: Arc<File>,
    extents: Extents<'static>,
    /// Its length.
    pub(crate) bytes: u64,
    /// Version of the file when it was opened.
    pub(crate) version: u64,
}

/// Open files of a set. Every call blocks.
#[derive(Debug)]
pub(crate) struct Reader {
    source: Arc<Source>,
    /// The file that each component used last.
    last: Vec<Option<(String, Arc<File>)>>,
}

impl Reader {
    pub(crate) fn new(source: Arc<Source>) -> Self {
        let last = vec![None; source.manifest.components.len()];
        Self { source, last }
    }

    /// Opens a part; `None`: the record is without it.
    pub(crate) fn open(&mut self, record: u64, component: u16) -> Result<Option<Opened>, Fault> {
        let source = self.source.clone();
        let index = usize::from(component);
        let Some(part) = source.manifest.part(record, index) else {
            let described = source.manifest.components.get(index);
            return match described {
                Some(described) if described.is_optional && record < source.manifest.len() => {
                    Ok(None)
                }
                _ => Err(Fault::Missing),
            };
        };
        let file = match &self.last[index] {
            Some((path, file)) if *path == part.file => file.clone(),
            _ => match open(&source.folder.join(&*part.file)) {
                Ok(file) => {
                    let file = Arc::new(file);
                    self.last[index] = Some((part.file.clone().into_owned(), file.clone()));
                    file
                }
                Err(Fault::Missing) if source.manifest.components[index].is_optional => {
                    return Ok(None);
                }
                Err(fault) => return Err(fault),
            },
        };
        let metadata = file.metadata().map_err(|_| Fault::Unreadable)?;
        let bytes = match &part.extents {
            Extents::Whole => metadata.len(),
            extents if extents.end() > metadata.len() => return Err(Fault::Short),
            extents => extents.bytes().unwrap_or(0),
        };
        if bytes > PART_BYTES_MAX {
            return Err(Fault::Unreadable);
        }
        let extents = match part.extents {
            Extents::Whole => Extents::Whole,
            Extents::Some(extents) => Extents::Some(Cow::Owned(extents.into_owned())),
        };
        Ok(Some(Opened {
            file,
            extents,
            bytes,
            version: version(&metadata),
        }))
    }
}

impl Opened {
    /// Fills `bytes` from a place in the part.
    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), Fault> {
        let fault = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Fault::Short,
            _ => Fault::Unreadable,
        };
        let Extents::Some(extents) = &self.extents else {
            return at::read(&self.file, bytes, offset).map_err(fault);
        };
        for (place, from, to) in places(extents, offset, bytes.len()) {
            at::read(&self.file, &mut bytes[from..to], place).map_err(fault)?;
        }
        Ok(())
    }

    /// True if the file was not changed since it was opened.
    pub(crate) fn is_same(&self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|now| version(&now) == self.version)
    }

    /// True if the part is all of its file.
    pub(crate) fn is_whole_file(&self) -> bool {
        self.extents == Extents::Whole
    }
}

/// Places in a file of `length` bytes of a part from `offset` on: first byte in the file, and the interval of those bytes.
pub(crate) fn places(
    extents: &[Extent],
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (u64, usize, usize)> + '_ {
    let (mut skip, mut done) = (offset, 0);
    extents.iter().filter_map(move |extent| {
        if done == length || skip >= extent.bytes {
            skip = skip.saturating_sub(extent.bytes);
            return None;
        }
        let here = (extent.bytes - skip).min((length - done) as u64) as usize;
        let place = (extent.offset + skip, done, done + here);
        (skip, done) = (0, done + here);
        Some(place)
    })
}

/// Opens a file, and nothing else: opening a device or a pipe has effects.
fn open(path: &Path) -> Result<File, Fault> {
    let fault = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Fault::Missing,
        _ => Fault::Unreadable,
    };
    if !fs::metadata(path).map_err(fault)?.is_file() {
        return Err(Fault::Unreadable);
    }
    File::open(path).map_err(fault)
}

/// Number that another content of the file changes.
pub(crate) fn version(metadata: &Metadata) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&metadata.len().to_le_bytes());
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        for number in [metadata.ino(), metadata.dev()] {
            hasher.update(&number.to_le_bytes());
        }
        for number in [metadata.mtime(), metadata.mtime_nsec()] {
            hasher.update(&number.to_le_bytes());
        }
    }
    #[cfg(not(unix))]
    if let Ok(modified) = metadata.modified()
        && let Ok(since) = modified.duration_since(std::time::UNIX_EPOCH)
    {
        hasher.update(&since.as_nanos().to_le_bytes());
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}
