//! Folder of a transfer that is not yet complete.
//!
//! ```text
//! DIRECTORY/.anabranch-TAG/note           what is being received, from whom, under which ticket; signed
//! DIRECTORY/.anabranch-TAG/data/NAME…     the files, complete or partial
//! DIRECTORY/NAME                          appears in one step when all is complete
//! ```
//! The tag is a keyed hash of the sender and the name: a second attempt finds the folder of the first, and no other node can
//! predict it. Received names never begin with `.anabranch-`, so nothing that arrives can reach such a folder. Only the note in
//! it is trusted: the data of a file on the disk is read and hashed again in every attempt.

use std::{
    borrow::Cow,
    collections::HashMap,
    fs::File,
    io::{self, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Instant,
};

use self::merge::Merge;
use super::{
    barrier::{Barrier, Count},
    dress::{dress_directories, dress_file, dress_root, make_links},
    error::TransferError,
    folder::{Folder, Parents},
    keyed::StateKey,
    manifest::Manifest,
    message::{Entry, Kind},
    naming::Naming,
    note::Note,
    progress::Progress,
    rules::Clash,
    selection::LeftOut,
    sink::{Have, Sink, hash_prefix},
    update::Changes,
    write_behind::WriteBehind,
};

mod merge;
mod opening;

pub(crate) use opening::Opening;

pub(super) const DATA: &str = "data";
/// Belongs to one attempt at one transfer.
#[derive(Debug)]
pub(crate) struct Area {
    directory: Folder,
    root: Folder,
    folder_name: String,
    key: StateKey,
    note: Note,
    manifest: Manifest,
    place: Place,
    confirmed: Confirmed,
    /// The entry whose file has this device and inode.
    inodes: HashMap<Identity, u32>,
    barrier: Barrier,
    progress: Progress,
    /// True if no earlier attempt left anything.
    is_fresh: bool,
    parents: Parents,
    clash: Clash,
    /// Name that it has, or gets unless that is taken.
    final_name: String,
    /// Of an update.
    merge: Option<Merge>,
}

/// Location of the files.
#[derive(Debug)]
enum Place {
    /// In the transfer's folder.
    Waiting(Folder),
    /// Under their final name: an earlier attempt ended between the rename and the confirmation.
    Named,
}

/// Files whose size and hash the sender stated in this attempt, and which agree.
#[derive(Debug, Default)]
struct Confirmed {
    files: u64,
    bytes: u64,
    is_so: Vec<bool>,
    /// Hash of the first entry.
    first: Option<blake3::Hash>,
}

/// A transfer that has its final name. Its note stays until the sender has the confirmation.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Hash of a single file.
    pub(crate) hash: Option<blake3::Hash>,
    directory: Folder,
    folder_name: String,
    /// Of an update.
    pub(crate) changes: Option<Changes>,
    /// Paths that could not be deleted.
    pub(crate) left_out: LeftOut,
}

impl Area {
    /// True if no part of any file is present.
    pub(super) fn has_nothing(&self) -> bool {
        self.is_fresh && self.merge.is_none()
    }

    /// True if an earlier attempt gave the transfer its name: nothing is written any more.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.place, Place::Named)
    }

    pub(crate) fn entry(&self, index: u32) -> Option<&Entry> {
        self.manifest.entries.get(index as usize)
    }

    /// A file whose size and hash the sender has not stated yet.
    fn file(&self, index: u32) -> Result<&Entry, TransferError> {
        let entry = self.entry(index).filter(|entry| !entry.is_directory);
        let entry = entry.ok_or(TransferError::Protocol("an unknown file"))?;
        if self.confirmed.is_so[index as usize] {
            return Err(TransferError::Protocol("a file that is complete already"));
        }
        Ok(entry)
    }

    /// The folder in which the files are now.
    fn base(&self) -> &Folder {
        match &self.place {
            Place::Waiting(data) => data,
            Place::Named => &self.directory,
        }
    }

    /// Path of an entry in [`Self::base`].
    fn at<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match &self.place {
            Place::Named if self.final_name != self.manifest.name => {
                format!("{}{}", self.final_name, &path[self.manifest.name.len()..]).into()
            }
            _ => path.into(),
        }
    }

    /// The part of a file that is present. Reads all of it, to compute its hash.
    pub(crate) fn have(&mut self, index: u32) -> Result<Have, TransferError> {
        let Some(entry) = self.entry(index).filter(|entry| !entry.is_directory) else {
            return Ok(Have::default());
        };
        let at = self.at(&entry.path);
        let path = self.base().path_of(&at);
        let most = entry.size_bytes.unwrap_or(0);
        let opened = self
            .base()
            .walk(&at)
            .and_then(|(parent, name)| parent.read(name));
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.have_here(index),
            Err(error) => return Err(TransferError::read(path)(error)),
        };
        self.claim(index, &file, &path)?;
        let mut hasher = Box::new(blake3::Hasher::new());
        let bytes =
            hash_prefix(&mut file, most, &mut hasher).map_err(TransferError::read(&path))?;
        Ok(Have {
            bytes,
            hash: hasher.finalize(),
            hasher: (bytes == 0 || bytes < most).then_some(hasher),
        })
    }

    /// Opens a file for writing after the bytes that `have` describes, which were hashed in this attempt.
    pub(crate) fn open_file(&mut self, index: u32, have: Have) -> Result<Sink, TransferError> {
        let hasher = have.hasher;
        let hasher = hasher.ok_or(TransferError::Protocol("a file longer than offered"))?;
        let (path, mut file) = self.open_for_writing(index)?;
        if !self.is_fresh {
            file.set_len(have.bytes)
                .and_then(|()| file.seek(SeekFrom::Start(have.bytes)))
                .map_err(TransferError::write(&path))?;
        }
        Ok(Sink {
            path,
            file,
            hasher,
            position: have.bytes,
            behind: WriteBehind::new(self.progress.clone(), Instant::now()),
        })
    }

    fn open_for_writing(&mut self, index: u32) -> Result<(PathBuf, File), TransferError> {
        let entry = self.file(index)?;
        let (at, is_executable) = (entry.path.clone(), entry.is_executable);
        let Place::Waiting(data) = &self.place else {
            // It has its final name, and the sender offers different content.
            return Err(TransferError::Exists {
                path: self.directory.path_of(&self.final_name),
            });
        };
        let path = data.path_of(&at);
        let mode = if is_executable { 0o777 } else { 0o666 };
        let opened = self
            .parents
            .walk(data, &at)
            .and_then(|(parent, name)| parent.write(name, mode));
        let file = opened.map_err(TransferError::write(&path))?;
        self.claim(index, &file, &path)?;
        Ok((path, file))
    }

    /// Checks that no two entries share a file: some file systems fold case, and some treat other names as equal, too.
    fn claim(&mut self, index: u32, file: &File, path: &Path) -> Result<(), TransferError> {
        let identity = identity_of(file).map_err(TransferError::read(path))?;
        claim(&mut self.inodes, index, identity, path)
    }

    /// Compares a file with the size and hash that the sender states, and removes it if they differ. It is durable with the batch
    /// of files that it is in.
    pub(crate) fn close_file(
        &mut self,
        index: u32,
        sink: Sink,
        size: u64,
        hash: [u8; 32],
    ) -> Result<(), TransferError> {
        let actual = sink.hasher.finalize();
        if sink.position != size || actual != blake3::Hash::from_bytes(hash) {
            return Err(self.discard(index, sink.path));
        }
        let counted = sink.behind.finish();
        let counted = counted.map_err(TransferError::write(&sink.path))?;
        self.confirm(index, size, actual)?;
        dress_file(&self.manifest, index, &sink.file).map_err(TransferError::write(&sink.path))?;
        let added = self.barrier.add(sink.file, size.saturating_sub(counted));
        added.map_err(TransferError::write(&sink.path))
    }

    /// Discards a file of which nothing can be trusted. A failure to remove it shows in the next attempt, by its hash.
    fn discard(&self, index: u32, path: PathBuf) -> TransferError {
        if let (Place::Waiting(data), Some(entry)) = (&self.place, self.entry(index)) {
            let _ = data
                .walk(&entry.path)
                .and_then(|(parent, name)| parent.remove_file(name));
        }
        TransferError::Hash { path }
    }

    /// Compares a file that was not sent in this attempt with the size and hash that the sender states.
    pub(crate) fn close_untouched(
        &mut self,
        index: u32,
        have: &Have,
        size: u64,
        hash: [u8; 32],
    ) -> Result<(), TransferError> {
        let is_so = have.bytes == size && have.hash == blake3::Hash::from_bytes(hash);
        if let Some(stamp) = self.here(index) {
            return self.keep(index, stamp, have, is_so);
        }
        match self.place {
            Place::Waiting(_) => {
                let (path, file) = self.open_for_writing(index)?;
                if !is_so {
                    return Err(self.discard(index, path));
                }
                file.set_len(size).map_err(TransferError::write(&path))?;
                self.confirm(index, size, have.hash)?;
                dress_file(&self.manifest, index, &file).map_err(TransferError::write(&path))?;
                let added = self.barrier.add(file, size);
                added.map_err(TransferError::write(&path))
            }
            Place::Named if !is_so => Err(TransferError::Exists {
                path: self.directory.path_of(&self.final_name),
            }),
            Place::Named => self.confirm(index, size, have.hash),
        }
    }

    fn confirm(&mut self, index: u32, size: u64, hash: blake3::Hash) -> Result<(), TransferError> {
        let offered = self.file(index)?.size_bytes;
        if offered.is_some_and(|offered| offered != size) {
            return Err(TransferError::Protocol("a file shorter than offered"));
        }
        self.confirmed.is_so[index as usize] = true;
        self.confirmed.files += 1;
        self.confirmed.bytes = self.confirmed.bytes.saturating_add(size);
        if index == 0 {
            self.confirmed.first = Some(hash);
        }
        Ok(())
    }

    /// Gives the complete transfer its name.
    pub(crate) fn finish(mut self) -> Result<Named, TransferError> {
        if self.confirmed.files != self.manifest.files() {
            return Err(TransferError::Protocol("the end came before all files"));
        }
        if let Some(merge) = self.merge.take() {
            return self.finish_update(&merge);
        }
        let needs_directories = self.barrier.needs_files();
        let name = self.manifest.name.clone();
        if let Place::Waiting(data) = &self.place {
            make_links(&self.manifest, data)?;
            dress_directories(&self.manifest, data, needs_directories)?;
            let durable = self.barrier.finish();
            durable.map_err(TransferError::write(self.root.path()))?;
            let naming = Naming {
                data,
                directory: &self.directory,
                root: &self.root,
                name: &name,
                kind: self.manifest.kind,
            };
            self.note.is_complete = true;
            self.final_name = naming.name_it(self.clash, |given| {
                // The note first, then the name: after a crash between the two, the note is correct.
                self.note.named = Some(given.to_owned());
                self.note.write(&self.root, &self.key, &self.folder_name)
            })?;
        }
        let to = self.directory.path_of(&self.final_name);
        if self.manifest.kind == Kind::Directory {
            dress_root(&self.manifest, &self.directory, &self.final_name)
                .map_err(TransferError::write(&to))?;
        }
        // The name is on the disk once the directory is.
        self.directory
            .sync()
            .map_err(TransferError::write(self.directory.path()))?;
        if let Place::Named = self.place {
            self.progress.durable(Count {
                files: self.confirmed.files,
                bytes: self.confirmed.bytes,
            });
        }
        let is_single = self.manifest.kind != Kind::Directory;
        Ok(Named {
            path: to,
            bytes: self.confirmed.bytes,
            hash: self.confirmed.first.filter(|_| is_single),
            directory: self.directory,
            folder_name: self.folder_name,
            changes: None,
            left_out: LeftOut::default(),
        })
    }
}

/// Device and inode.
type Identity = (u64, u64);

/// Identity of an open file; `None` where it is not known.
fn identity_of(file: &File) -> io::Result<Option<Identity>> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let metadata = file.metadata()?;
        Ok(Some((metadata.dev(), metadata.ino())))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        Ok(None)
    }
}

/// Checks that no two entries are the same file or directory.
fn claim(
    inodes: &mut HashMap<Identity, u32>,
    index: u32,
    identity: Option<Identity>,
    path: &Path,
) -> Result<(), TransferError> {
    let Some(identity) = identity else {
        return Ok(());
    };
    if *inodes.entry(identity).or_insert(index) == index {
        return Ok(());
    }
    Err(TransferError::Path {
        path: path.display().to_string(),
        reason: "the receiver's file system does not distinguish it from another name of the same transfer",
    })
}

impl Named {
    /// Name of its folder.
    pub(super) fn folder_name(&self) -> &str {
        &self.folder_name
    }

    /// Removes the folder of a transfer whose sender has the confirmation, and those of `earlier` ones under the same ticket.
    pub(crate) fn forget(self, earlier: &[String]) {
        for name in earlier.iter().chain([&self.folder_name]) {
            // Anything left is found and removed when a receiver starts.
            let _ = self.directory.remove_all(name);
        }
    }
}

#[cfg(test)]
mod tests;
