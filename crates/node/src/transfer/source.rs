//! Source of a transfer, read from the sender's disk.
//!
//! A file is sent in its state at the time of the offer. Every file carries a [`Stamp`] from then on; it is compared when the
//! file is opened and again when it was read to its end, so that a source that changes in between is reported by its name and
//! never called verified.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use rustix::fs::OFlags;

use super::{
    error::TransferError,
    manifest::Manifest,
    message::{Entry, Kind},
    names::{is_reserved, path_fault},
};

/// Location of an entry on this disk.
#[derive(Debug)]
pub(super) struct Origin {
    path: PathBuf,
    stamp: Stamp,
}

/// Attributes that change when a file is written or replaced. The time of change (`ctime`) cannot be set by programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Origin {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file that was offered.
    ///
    /// # Errors
    /// It cannot be read, or has been replaced by another one.
    pub(super) fn open(&self) -> Result<File, TransferError> {
        let mut options = OpenOptions::new();
        // The entry may have been replaced: a link is not followed, and a pipe does not block.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.read(true).custom_flags(flags.bits() as i32);
        let file =
            options.open(&self.path).map_err(|error| {
                match rustix::io::Errno::from_io_error(&error) {
                    Some(rustix::io::Errno::LOOP) => self.changed(),
                    _ => TransferError::read(&self.path)(error),
                }
            })?;
        self.check(&file)?;
        Ok(file)
    }

    /// Checks that the open file is still what was offered.
    ///
    /// # Errors
    /// It was written to, or its attributes cannot be read.
    pub(super) fn check(&self, file: &File) -> Result<(), TransferError> {
        let metadata = file.metadata().map_err(TransferError::read(&self.path))?;
        if Stamp::of(&metadata) != self.stamp {
            return Err(self.changed());
        }
        Ok(())
    }

    pub(super) fn changed(&self) -> TransferError {
        TransferError::Changed {
            path: self.path.clone(),
        }
    }
}

impl Manifest {
    /// Reads a file or directory; returns the locations of its entries as well.
    ///
    /// # Errors
    /// Something cannot be read or sent, or there is too much of it.
    pub(super) fn read(source: &Path) -> Result<(Self, Vec<Origin>), TransferError> {
        let source = source.canonicalize().map_err(TransferError::read(source))?;
        let metadata = fs::metadata(&source).map_err(TransferError::read(&source))?;
        let name = name_of(&source)?;
        let mut walk = Walk::default();
        let kind = if metadata.is_dir() {
            walk.directory(&source, &name)?;
            Kind::Directory
        } else if metadata.is_file() {
            walk.add(&source, name.clone(), &metadata)?;
            Kind::File
        } else {
            return Err(TransferError::NotAFile { path: source });
        };
        let manifest = Self {
            kind,
            name,
            entries: walk.entries,
        };
        manifest.check_number()?;
        Ok((manifest, walk.origins))
    }
}

#[derive(Default)]
struct Walk {
    entries: Vec<Entry>,
    origins: Vec<Origin>,
}

impl Walk {
    /// Lists directories before their entries, names in order. Symbolic links, devices, and unfinished transfers are left out.
    fn directory(&mut self, directory: &Path, at: &str) -> Result<(), TransferError> {
        let metadata = fs::metadata(directory).map_err(TransferError::read(directory))?;
        self.add(directory, at.to_owned(), &metadata)?;
        let listing = fs::read_dir(directory).map_err(TransferError::read(directory))?;
        let mut children = Vec::new();
        for child in listing {
            children.push(child.map_err(TransferError::read(directory))?.path());
        }
        children.sort();
        for child in children {
            let metadata = fs::symlink_metadata(&child).map_err(TransferError::read(&child))?;
            let name = name_of(&child)?;
            if is_reserved(&name) {
                tracing::warn!(path = %child.display(), "skipped (unfinished transfer)");
                continue;
            }
            let child_at = format!("{at}/{name}");
            if metadata.is_dir() {
                self.directory(&child, &child_at)?;
            } else if metadata.is_file() {
                self.add(&child, child_at, &metadata)?;
            } else if metadata.is_symlink() {
                tracing::warn!(path = %child.display(), "skipped (symlink)");
            } else {
                tracing::warn!(path = %child.display(), "skipped (neither file nor directory)");
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, at: String, metadata: &Metadata) -> Result<(), TransferError> {
        let entries = self.entries.len() as u64 + 1;
        let most = super::manifest::ENTRIES_MAX;
        if entries > most {
            return Err(TransferError::TooMany { entries, most });
        }
        if let Some(reason) = path_fault(&at) {
            return Err(TransferError::Unsendable {
                path: path.to_owned(),
                reason,
            });
        }
        self.entries.push(entry(at, metadata));
        self.origins.push(Origin {
            path: path.to_owned(),
            stamp: Stamp::of(metadata),
        });
        Ok(())
    }
}

fn name_of(path: &Path) -> Result<String, TransferError> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| TransferError::Name {
        path: path.to_owned(),
    })
}

fn entry(path: String, metadata: &Metadata) -> Entry {
    let modified = metadata
        .modified()
        .ok()
        .filter(|_| metadata.is_file())
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Entry {
        path,
        is_directory: metadata.is_dir(),
        size_bytes: metadata.is_file().then_some(metadata.len()),
        modified_ns: modified.map_or(0, |since| since.as_nanos() as u64),
        is_executable: metadata.is_file() && metadata.permissions().mode() & 0o100 != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_is_read_passes_the_check() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("b/c")).unwrap();
        fs::write(root.join("b/c/x"), "123").unwrap();
        fs::write(root.join("a"), "").unwrap();
        let (manifest, origins) = Manifest::read(&root).unwrap();
        manifest.check().unwrap();
        assert_eq!((manifest.files(), manifest.bytes()), (2, 3));
        assert_eq!(origins.len(), manifest.entries.len());
        let (again, _) = Manifest::read(&root).unwrap();
        assert_eq!(again.digest(), manifest.digest());
        fs::write(root.join("a"), "more").unwrap();
        let (changed, _) = Manifest::read(&root).unwrap();
        assert_ne!(changed.digest(), manifest.digest());
    }

    #[test]
    fn a_missing_source_is_named() {
        let error = Manifest::read(Path::new("/no/such/file")).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"));
    }

    #[test]
    fn leftovers_of_other_transfers_are_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join(".anabranch-xyz/data")).unwrap();
        fs::write(root.join(".anabranch-xyz/note"), "").unwrap();
        fs::write(root.join("a"), "").unwrap();
        let (manifest, _) = Manifest::read(&root).unwrap();
        let paths: Vec<_> = manifest.entries.iter().map(|entry| &entry.path).collect();
        assert_eq!(paths, ["root", "root/a"]);
    }

    #[test]
    fn a_tree_that_is_too_deep_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder
            .path()
            .join(vec!["d"; crate::transfer::names::DEPTH_MAX + 1].join("/"));
        fs::create_dir_all(&deep).unwrap();
        let error = Manifest::read(&folder.path().join("d")).unwrap_err();
        assert!(matches!(error, TransferError::Unsendable { .. }), "{error}");
    }

    /// Written to, or replaced by another of the same size and time.
    #[test]
    fn a_source_that_changed_since_the_offer_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "one").unwrap();
        let (_, origins) = Manifest::read(&path).unwrap();
        let open = origins[0].open().unwrap();
        origins[0].check(&open).unwrap();

        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let twin = folder.path().join("twin");
        fs::write(&twin, "two").unwrap();
        let twin_file = OpenOptions::new().write(true).open(&twin).unwrap();
        twin_file.set_modified(modified).unwrap();
        fs::rename(&twin, &path).unwrap();
        let error = origins[0].open().unwrap_err();
        assert!(matches!(&error, TransferError::Changed { path } if path.ends_with("log")));

        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        let error = origins[0].open().unwrap_err();
        assert!(matches!(error, TransferError::Changed { .. }), "{error}");
    }
}
