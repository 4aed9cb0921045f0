//! Placing of what has arrived: each file into its place by one rename, then what is deleted.

use std::{collections::HashSet, io, path::PathBuf};

use super::{Change, Changes, Extra, Present, parent_of, survey::has_target};
use crate::transfer::source::Stamp;
use crate::transfer::{
    barrier,
    dress::{dress_file, dress_folder},
    error::TransferError,
    folder::{FileKind, Folder, is_absent},
    manifest::Manifest,
    selection::LeftOut,
    update::is_unchanged,
};

/// A verified update, and where it goes.
pub(crate) struct Placing<'a> {
    pub(crate) manifest: &'a Manifest,
    /// Folder in which the new files wait.
    pub(crate) data: &'a Folder,
    /// Folder that has the old ones.
    pub(crate) directory: &'a Folder,
    /// Files that are the same already, by index, with their state when they were read.
    pub(crate) same: &'a std::collections::HashMap<u32, Stamp>,
    /// Entries and links whose names were taken.
    pub(crate) present: &'a Present,
    /// Paths that are deleted, directories before what is in them.
    pub(crate) delete: &'a [Extra],
}

/// Progress of a placing.
#[derive(Default)]
struct Placed<'a> {
    changes: Changes,
    left_out: LeftOut,
    /// Directories that were moved with everything in them.
    moved: HashSet<&'a str>,
    /// Positions of what was deleted, in the list.
    deleted: HashSet<usize>,
}

impl Placing<'_> {
    /// Places everything, deletes, and gives directories their attributes; returns what changed, and what could not be deleted. If it is
    /// interrupted, the next attempt at the same update continues.
    ///
    /// # Errors
    /// A file that is the same changed in the meantime; a directory in the way is not empty; the disk fails.
    pub(crate) fn all(&self) -> Result<(Changes, LeftOut), TransferError> {
        let mut placed = Placed::default();
        let taken: HashSet<u32> = self.present.entries.iter().copied().collect();
        for (entry, index) in self.manifest.entries.iter().zip(0..) {
            let path = entry.path.as_str();
            let is_moved = parent_of(path).is_some_and(|parent| placed.moved.contains(parent));
            let same = self.same.get(&index);
            match (is_moved, entry.is_directory, same) {
                (true, true, _) => {
                    placed.moved.insert(path);
                }
                (true, false, None) => {}
                (_, false, Some(stamp)) => self.keep(index, path, *stamp)?,
                (false, true, _) => self.directory(path, &mut placed)?,
                (false, false, None) => self.file(path, &mut placed)?,
            }
            if !entry.is_directory && same.is_none() {
                let change = Change {
                    path: path.to_owned(),
                    bytes: entry.size_bytes.unwrap_or(0),
                };
                match taken.contains(&index) {
                    true => placed.changes.replaced.push(change),
                    false => placed.changes.added.push(change),
                }
            }
        }
        self.links(&mut placed)?;
        self.delete_below("", &mut placed)?;
        self.finish_directories()?;
        for (index, extra) in self.delete.iter().enumerate() {
            if placed.deleted.contains(&index) {
                placed.changes.deleted.push(extra.path.clone());
            }
        }
        Ok((placed.changes, placed.left_out))
    }

    fn here(&self, path: &str) -> PathBuf {
        self.directory.path_of(path)
    }

    /// Gives a file that is the same its attributes.
    fn keep(&self, index: u32, path: &str, stamp: Stamp) -> Result<(), TransferError> {
        let Some(file) = is_unchanged(self.directory, path, stamp) else {
            let path = self.here(path);
            return Err(TransferError::ChangedHere { path });
        };
        dress_file(self.manifest, index, &file).map_err(TransferError::write(self.here(path)))
    }

    /// Makes a directory, or moves the waiting one there if something else has its name, or the whole transfer is new.
    fn directory<'a>(
        &'a self,
        path: &'a str,
        placed: &mut Placed<'a>,
    ) -> Result<(), TransferError> {
        let place = || -> io::Result<bool> {
            let (to, name) = self.directory.walk(path)?;
            match to.stat(name)?.map(|stat| stat.kind) {
                Some(FileKind::Directory) => to.make(name).map(|_| false),
                None if parent_of(path).is_some() => to.make(name).map(|_| false),
                None => self.data.move_new(name, &to, name).map(|()| true),
                Some(_) => {
                    let (from, _) = self.data.walk(path)?;
                    match from.exchange(name, &to)? {
                        true => from.remove_file(name)?,
                        false => {
                            to.remove_file(name)?;
                            from.move_new(name, &to, name)?;
                        }
                    }
                    Ok(true)
                }
            }
        };
        if place().map_err(TransferError::write(self.here(path)))? {
            placed.moved.insert(path);
        }
        Ok(())
    }

    /// Moves a waiting file or link into its place.
    fn file(&self, path: &str, placed: &mut Placed<'_>) -> Result<(), TransferError> {
        self.clear(path, placed)?;
        let place = || {
            let (from, name) = self.data.walk(path)?;
            let (to, _) = self.directory.walk(path)?;
            from.rename_into(name, &to)
        };
        place().map_err(TransferError::write(self.here(path)))
    }

    fn links(&self, placed: &mut Placed<'_>) -> Result<(), TransferError> {
        let same: HashSet<u32> = self.present.links_same.iter().copied().collect();
        let other: HashSet<u32> = self.present.links_other.iter().copied().collect();
        for (link, index) in self.manifest.links.iter().zip(0..) {
            let path = link.path.as_str();
            let is_moved = parent_of(path).is_some_and(|parent| placed.moved.contains(parent));
            let is_same = same.contains(&index)
                && has_target(self.directory, path, &link.target).unwrap_or(false);
            if !is_moved && !is_same {
                self.file(path, placed)?;
            }
            let change = Change {
                path: path.to_owned(),
                bytes: 0,
            };
            match (other.contains(&index), is_same) {
                (true, _) => placed.changes.replaced.push(change),
                (false, false) => placed.changes.added.push(change),
                (false, true) => {}
            }
        }
        Ok(())
    }

    /// Removes a directory that is in the way of a file, with what is deleted in it.
    fn clear(&self, path: &str, placed: &mut Placed<'_>) -> Result<(), TransferError> {
        let failed = || TransferError::write(self.here(path));
        let (to, name) = self.directory.walk(path).map_err(failed())?;
        let stat = to.stat(name).map_err(failed())?;
        if stat.is_none_or(|stat| stat.kind != FileKind::Directory) {
            return Ok(());
        }
        self.delete_below(&format!("{path}/"), placed)?;
        match to.remove_directory(name) {
            Ok(true) => Ok(()),
            Ok(false) => Err(TransferError::InTheWay {
                path: self.here(path),
            }),
            Err(error) => Err(failed()(error)),
        }
    }

    /// Deletes what is to be deleted and has a path that begins so, the deepest first.
    fn delete_below(&self, prefix: &str, placed: &mut Placed<'_>) -> Result<(), TransferError> {
        for (index, extra) in self.delete.iter().enumerate().rev() {
            if !extra.path.starts_with(prefix) || placed.deleted.contains(&index) {
                continue;
            }
            let is_gone = self.delete_one(extra);
            if is_gone.map_err(TransferError::write(self.here(&extra.path)))? {
                placed.deleted.insert(index);
            } else {
                let path = extra.path.clone();
                placed.left_out.add(path, "it is not empty, and stays");
            }
        }
        Ok(())
    }

    /// Deletes a file, a link or an empty directory; false: a directory is not empty.
    fn delete_one(&self, extra: &Extra) -> io::Result<bool> {
        let (parent, name) = match self.directory.walk(&extra.path) {
            Ok(found) => found,
            // It went with what it was in.
            Err(error) => {
                return match is_absent(&error) {
                    true => Ok(true),
                    false => Err(error),
                };
            }
        };
        let remove = || match extra.is_directory {
            true => parent.remove_directory(name),
            false => parent.remove_file(name).map(|()| true),
        };
        match remove() {
            // Its directory has a mode that forbids changes.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                parent.grant_to_owner()?;
                remove()
            }
            result => result,
        }
    }

    /// Gives every directory its attributes, the deepest first, and makes all names durable.
    fn finish_directories(&self) -> Result<(), TransferError> {
        let mut folders = Vec::new();
        let entries = self.manifest.entries.iter().enumerate().rev();
        for (index, entry) in entries.filter(|(_, entry)| entry.is_directory) {
            let finish = || {
                let (parent, name) = self.directory.walk(&entry.path)?;
                let folder = parent.child(name)?;
                dress_folder(&folder, self.manifest.attributes(index as u32))?;
                barrier::sync_later(folder, &mut folders)
            };
            let mut finish = finish;
            finish().map_err(TransferError::write(self.here(&entry.path)))?;
        }
        let synced = barrier::sync_names(self.directory, folders);
        synced.map_err(TransferError::write(self.directory.path()))
    }
}
