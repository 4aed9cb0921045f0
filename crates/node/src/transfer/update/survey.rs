//! Survey of what an update finds at the receiver. It changes nothing, and follows no symbolic link.

use std::{collections::HashSet, fs::File, io};

use super::{Extra, Update};
use crate::transfer::{
    error::TransferError,
    folder::{FileKind, Folder, Stat, is_absent},
    manifest::{ENTRIES_MAX, Manifest, PATHS_BYTES_MAX},
    message::Entry,
    names::is_reserved,
    selection::LeftOut,
    sink::{Have, hash_prefix},
    source::Stamp,
};

/// Limit on the depth that is searched: beyond that of a transfer.
const DEPTH_MAX: usize = 80;

/// Entries and links whose names are taken, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Present {
    /// Entries in the place of something that is replaced if it differs: any file, and directories where there is none.
    pub(crate) entries: Vec<u32>,
    /// Links that are there already.
    pub(crate) links_same: Vec<u32>,
    /// Links in the place of something else.
    pub(crate) links_other: Vec<u32>,
}

impl Present {
    /// Number of entries and links in it.
    pub(crate) fn count(&self) -> usize {
        self.entries.len() + self.links_same.len() + self.links_other.len()
    }
}

/// Findings of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) present: Present,
    /// Everything that the offer lacks, directories before what is in them; none unless deletion was asked for.
    pub(crate) extras: Vec<Extra>,
    /// Paths that the offer lacks and that cannot be deleted.
    pub(crate) left_out: LeftOut,
    /// Bytes of the paths in `extras`.
    paths_bytes: usize,
}

impl Survey {
    /// Looks up everything that is offered, and if `update` deletes, lists what is not.
    ///
    /// # Errors
    /// A directory is in the way of a file, and nothing may be deleted; a directory cannot be read; there is too much that the offer lacks.
    pub(crate) fn of(
        directory: &Folder,
        manifest: &Manifest,
        update: Update,
    ) -> Result<Self, TransferError> {
        let mut survey = Self::default();
        let mut offered = Offered::default();
        for (entry, index) in manifest.entries.iter().zip(0..) {
            offered.paths.insert(&entry.path);
            let Some(stat) = look(directory, &entry.path)? else {
                continue;
            };
            offered.inodes.extend(stat.identity);
            let is_directory = stat.kind == FileKind::Directory;
            if is_directory && !entry.is_directory {
                check_deletion(directory, &entry.path, update)?;
            }
            if !(is_directory && entry.is_directory) {
                survey.present.entries.push(index);
            }
        }
        for (link, index) in manifest.links.iter().zip(0..) {
            offered.paths.insert(&link.path);
            let Some(stat) = look(directory, &link.path)? else {
                continue;
            };
            offered.inodes.extend(stat.identity);
            if stat.kind == FileKind::Directory {
                check_deletion(directory, &link.path, update)?;
            }
            let same = stat.kind == FileKind::Link
                && has_target(directory, &link.path, &link.target)
                    .map_err(TransferError::read(directory.path_of(&link.path)))?;
            match same {
                true => survey.present.links_same.push(index),
                false => survey.present.links_other.push(index),
            }
        }
        if update.delete {
            let name = manifest.name.as_str();
            let root = look(directory, name)?;
            if root.is_some_and(|root| root.kind == FileKind::Directory) {
                let root = directory.child(name);
                let root = root.map_err(TransferError::read(directory.path_of(name)))?;
                survey.search(&root, name, &offered, DEPTH_MAX)?;
            }
        }
        Ok(survey)
    }

    /// Lists what is in a directory and not offered.
    fn search(
        &mut self,
        folder: &Folder,
        at: &str,
        offered: &Offered<'_>,
        depth: usize,
    ) -> Result<(), TransferError> {
        let failed = || TransferError::read(folder.path());
        for name in folder.names().map_err(failed())? {
            let Ok(name) = name.into_string() else {
                self.left_out
                    .add(at, "it has an entry whose name is not UTF-8");
                continue;
            };
            // Transfers under way.
            if is_reserved(&name) {
                continue;
            }
            let path = format!("{at}/{name}");
            let Some(stat) = folder.stat(&name).map_err(failed())? else {
                continue;
            };
            let is_directory = stat.kind == FileKind::Directory;
            if !offered.has(&path, &stat) {
                self.paths_bytes += path.len();
                let is_full = self.extras.len() as u64 >= ENTRIES_MAX;
                if is_full || self.paths_bytes > PATHS_BYTES_MAX {
                    return Err(TransferError::TooManyExtras { most: ENTRIES_MAX });
                }
                self.extras.push(Extra {
                    path: path.clone(),
                    is_directory,
                });
            }
            if is_directory {
                let Some(depth) = depth.checked_sub(1) else {
                    self.left_out.add(path, "it is too deep");
                    continue;
                };
                let child = folder.child(&name).map_err(failed())?;
                self.search(&child, &path, offered, depth)?;
            }
        }
        Ok(())
    }
}

/// Paths that are offered, and what was found there.
#[derive(Default)]
struct Offered<'a> {
    paths: HashSet<&'a str>,
    inodes: HashSet<(u64, u64)>,
}

impl Offered<'_> {
    /// True if this is an entry of the offer, if only by another spelling of its name in a file system that treats both as equal.
    fn has(&self, path: &str, stat: &Stat) -> bool {
        let is_alone = stat.links == 1 || stat.kind == FileKind::Directory;
        self.paths.contains(path)
            || (is_alone
                && stat
                    .identity
                    .is_some_and(|inode| self.inodes.contains(&inode)))
    }
}

/// Kind and identity of what is at a path; `None`: nothing, or a part of the path is no directory.
fn look(directory: &Folder, path: &str) -> Result<Option<Stat>, TransferError> {
    let found = match directory.walk(path) {
        Ok((parent, name)) => parent.stat(name),
        Err(error) => match is_absent(&error) {
            true => Ok(None),
            false => Err(error),
        },
    };
    found.map_err(TransferError::read(directory.path_of(path)))
}

fn check_deletion(directory: &Folder, path: &str, update: Update) -> Result<(), TransferError> {
    match update.delete {
        true => Ok(()),
        false => Err(TransferError::InTheWay {
            path: directory.path_of(path),
        }),
    }
}

/// True if the link at a path has this target.
pub(super) fn has_target(directory: &Folder, path: &str, target: &str) -> io::Result<bool> {
    let (parent, name) = directory.walk(path)?;
    Ok(parent.target(name)? == target.as_bytes())
}

/// The file at the place of an entry, if it has the size that is offered: its hash, and its state, by which a change after that is
/// noticed.
///
/// # Errors
/// It cannot be read to its end.
pub(crate) fn have_here(
    directory: &Folder,
    entry: &Entry,
) -> Result<Option<(Have, Stamp)>, TransferError> {
    // What cannot be opened is not there; it is replaced.
    let Some((mut file, stamp)) = open_here(directory, &entry.path) else {
        return Ok(None);
    };
    let size = entry.size_bytes.unwrap_or(0);
    if stamp.size_bytes() != size || entry.size_bytes.is_none() {
        return Ok(None);
    }
    let path = directory.path_of(&entry.path);
    let mut hasher = blake3::Hasher::new();
    let bytes = hash_prefix(&mut file, size, &mut hasher).map_err(TransferError::read(path))?;
    let have = Have {
        bytes,
        hash: hasher.finalize(),
        hasher: None,
    };
    Ok((bytes == size).then_some((have, stamp)))
}

/// The file at a path, if nobody has changed it since; its descriptor, to give it attributes.
pub(crate) fn is_unchanged(directory: &Folder, path: &str, stamp: Stamp) -> Option<File> {
    let (file, now) = open_here(directory, path)?;
    (now == stamp).then_some(file)
}

fn open_here(directory: &Folder, path: &str) -> Option<(File, Stamp)> {
    let (parent, name) = directory.walk(path).ok()?;
    let file = parent.read_as_is(name).ok()?;
    let stamp = Stamp::of(&file.metadata().ok()?);
    Some((file, stamp))
}
