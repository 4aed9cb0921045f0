//! Directories by their paths. Each part of a path is checked before the next is looked up, so that no link or junction that stands there is
//! followed; one that another program puts there between the check and the use would be.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::windows::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use super::{FileKind, Stat};

/// Opens a link or junction itself, not what it leads to.
const OPEN_REPARSE_POINT: u32 = 0x0020_0000;
const ERROR_DIR_NOT_EMPTY: i32 = 145;

/// A directory.
#[derive(Debug)]
pub(in crate::transfer) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens the directory that the user named; links in its path are the user's own.
    pub(in crate::transfer) fn open(path: &Path) -> io::Result<Self> {
        match fs::metadata(path)?.is_dir() {
            true => Ok(Self {
                path: path.to_owned(),
            }),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(in crate::transfer) fn path(&self) -> &Path {
        &self.path
    }

    /// Path of an entry in it.
    pub(in crate::transfer) fn path_of(&self, name: &str) -> PathBuf {
        let mut path = self.path.clone();
        path.extend(name.split('/'));
        path
    }

    /// A directory in it.
    pub(in crate::transfer) fn child(&self, name: &str) -> io::Result<Self> {
        let path = self.path_of(name);
        match fs::symlink_metadata(&path)?.is_dir() {
            true => Ok(Self { path }),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// The directory in which the last part of `path` lies, and that part. Parts are joined by `/`.
    pub(in crate::transfer) fn walk<'a>(&self, path: &'a str) -> io::Result<(Self, &'a str)> {
        let mut at = Self {
            path: self.path.clone(),
        };
        let mut rest = path;
        while let Some((part, next)) = rest.split_once('/') {
            at = at.child(part)?;
            rest = next;
        }
        Ok((at, rest))
    }

    /// Creates a directory in it, or opens the existing one.
    pub(in crate::transfer) fn make(&self, name: &str) -> io::Result<Self> {
        match fs::create_dir(self.path_of(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.child(name),
        }
    }

    /// Symbolic links are left out of transfers to Windows, where a user needs a right for them.
    pub(in crate::transfer) fn link(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Unknown on this system.
    pub(in crate::transfer) fn identity(&self) -> io::Result<Option<(u64, u64)>> {
        Ok(None)
    }

    /// Creates a directory in it with its access rights; fails if the name exists.
    pub(in crate::transfer) fn make_private(&self, name: &str) -> io::Result<Self> {
        fs::create_dir(self.path_of(name))?;
        self.child(name)
    }

    /// A directory in it.
    pub(in crate::transfer) fn private(&self, name: &str) -> io::Result<Self> {
        self.child(name)
    }

    /// Opens a regular file in it; anything else is an error.
    pub(in crate::transfer) fn read(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OpenOptions::new().read(true))
    }

    /// The same as [`Folder::read`].
    pub(in crate::transfer) fn read_as_is(&self, name: &str) -> io::Result<File> {
        self.read(name)
    }

    /// Opens a regular file in it for writing, and creates it if it does not exist.
    pub(in crate::transfer) fn write(&self, name: &str, _: u32) -> io::Result<File> {
        self.open_file(name, OpenOptions::new().write(true).create(true))
    }

    fn open_file(&self, name: &str, options: &mut OpenOptions) -> io::Result<File> {
        let file = options
            .custom_flags(OPEN_REPARSE_POINT)
            .open(self.path_of(name))?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a regular file")),
        }
    }

    fn metadata(&self, name: &str) -> io::Result<Option<Metadata>> {
        match fs::symlink_metadata(self.path_of(name)) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Metadata of the item with this name, of a link itself and not its target; `None`: there is none.
    pub(in crate::transfer) fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        let metadata = self.metadata(name)?;
        Ok(metadata.map(|metadata| Stat {
            kind: match () {
                () if metadata.is_symlink() => FileKind::Link,
                () if metadata.is_dir() => FileKind::Directory,
                () if metadata.is_file() => FileKind::File,
                () => FileKind::Other,
            },
            identity: None,
            links: 1,
        }))
    }

    /// Names in it, in order.
    pub(in crate::transfer) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.push(entry?.file_name());
        }
        names.sort();
        Ok(names)
    }

    /// Target of a symbolic link in it.
    pub(in crate::transfer) fn target(&self, name: &str) -> io::Result<Vec<u8>> {
        let target = fs::read_link(self.path_of(name))?;
        Ok(target.into_os_string().into_encoded_bytes())
    }

    /// True if the name exists, even as a broken link.
    pub(in crate::transfer) fn holds(&self, name: &str) -> io::Result<bool> {
        Ok(self.metadata(name)?.is_some())
    }

    /// Removes a file or link in it; a missing one is not an error.
    pub(in crate::transfer) fn remove_file(&self, name: &str) -> io::Result<()> {
        let path = self.path_of(name);
        let Some(metadata) = self.metadata(name)? else {
            return Ok(());
        };
        // A link to a directory is removed as a directory.
        let removed = match metadata.is_symlink() {
            true => fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)),
            false => fs::remove_file(&path),
        };
        is_gone(removed)
    }

    /// Removes an empty directory in it; false if it is not empty. A missing one is not an error.
    pub(in crate::transfer) fn remove_directory(&self, name: &str) -> io::Result<bool> {
        match fs::remove_dir(self.path_of(name)) {
            Err(error) if error.raw_os_error() == Some(ERROR_DIR_NOT_EMPTY) => Ok(false),
            removed => is_gone(removed).map(|()| true),
        }
    }

    /// Nothing: access rights are inherited.
    pub(in crate::transfer) fn grant_to_owner(&self) -> io::Result<()> {
        Ok(())
    }

    /// Removes the entry with this name, and everything in it; links are removed, not followed. A missing entry is not an
    /// error.
    pub(in crate::transfer) fn remove_all(&self, name: &str) -> io::Result<()> {
        match self.metadata(name)? {
            Some(metadata) if metadata.is_dir() => is_gone(fs::remove_dir_all(self.path_of(name))),
            _ => self.remove_file(name),
        }
    }

    /// Renames within it, and replaces an existing file.
    pub(in crate::transfer) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path_of(from), self.path_of(to))
    }

    /// Moves an entry into another directory, in the place of a file that has its name there, in one step.
    pub(in crate::transfer) fn rename_into(&self, name: &str, to: &Self) -> io::Result<()> {
        fs::rename(self.path_of(name), to.path_of(name))
    }

    /// Moves an entry into another directory, under a name that nothing has there.
    pub(in crate::transfer) fn move_new(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        match to.holds(new)? {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => fs::rename(self.path_of(name), to.path_of(new)),
        }
    }

    /// False: the system cannot exchange two entries.
    pub(in crate::transfer) fn exchange(&self, _: &str, _: &Self) -> io::Result<bool> {
        Ok(false)
    }

    /// Nothing: the system makes names durable itself.
    pub(in crate::transfer) fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn is_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
