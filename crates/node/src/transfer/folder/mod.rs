//! Directories in which names are looked up one by one, so that no symbolic link is followed.
//!
//! Any program that can write to the receiver's directory could put a link where a file is expected. Below the directory that
//! the user named, a path is therefore never passed to the system as a whole.

use std::io;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::Folder;
#[cfg(windows)]
pub(super) use windows::Folder;

/// Kind of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    File,
    Directory,
    Link,
    Other,
}

/// Kind, identity and number of names of a file or directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub(super) kind: FileKind,
    /// Device and inode; `None` where they are not known.
    pub(super) identity: Option<(u64, u64)>,
    pub(super) links: u64,
}

/// True for the error of a path with a part that is missing, or no directory, such as a link.
pub(super) fn is_absent(error: &io::Error) -> bool {
    #[cfg(unix)]
    if rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP) {
        return true;
    }
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The directory that was walked to last: the next file is often in the same one.
#[derive(Debug, Default)]
pub(super) struct Parents(Option<(String, Folder)>);

impl Parents {
    /// As [`Folder::walk`], from `base`, which is the same in every call.
    pub(super) fn walk<'a>(
        &mut self,
        base: &Folder,
        path: &'a str,
    ) -> io::Result<(&Folder, &'a str)> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let known = self.0.take().filter(|(known, _)| known == parent);
        let last = match known {
            Some(known) => known,
            None => (parent.to_owned(), base.walk(path)?.0),
        };
        Ok((&self.0.insert(last).1, name))
    }
}
