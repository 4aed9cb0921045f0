//! Directories held open by a descriptor.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self as sys, AtFlags, FileType, Mode, OFlags},
    io::Errno,
};

use super::{FileKind, Stat};

/// Limit on the depth of what is removed, greater than that of a transfer.
const DEPTH_MAX: usize = 80;
/// Accessible to its owner only.
const PRIVATE: Mode = Mode::RWXU;

/// An open directory.
#[derive(Debug)]
pub(in crate::transfer) struct Folder {
    fd: OwnedFd,
    /// Path for messages, and to remove trees.
    path: PathBuf,
}

impl Folder {
    /// Opens the directory that the user named; links in its path are the user's own.
    pub(in crate::transfer) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            fd: sys::open(path, flags, Mode::empty())?,
            path: path.to_owned(),
        })
    }

    pub(in crate::transfer) fn path(&self) -> &Path {
        &self.path
    }

    /// Path of an entry in it, for messages.
    pub(in crate::transfer) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A directory in it.
    pub(in crate::transfer) fn child(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self {
            fd: sys::openat(&self.fd, name, flags, Mode::empty())?,
            path: self.path_of(name),
        })
    }

    /// The directory in which the last part of `path` lies, and that part. Parts are joined by `/`.
    pub(in crate::transfer) fn walk<'a>(&self, path: &'a str) -> io::Result<(Self, &'a str)> {
        let mut at = Self {
            fd: self.fd.try_clone()?,
            path: self.path.clone(),
        };
        let mut rest = path;
        while let Some((part, next)) = rest.split_once('/') {
            at = at.child(part)?;
            rest = next;
        }
        Ok((at, rest))
    }

    /// Creates a directory in it, or opens the existing one and makes it accessible to this user.
    pub(in crate::transfer) fn make(&self, name: &str) -> io::Result<Self> {
        match sys::mkdirat(&self.fd, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => self.child(name),
            Err(Errno::EXIST) => {
                self.grant(name, FileType::Directory, Mode::RWXU)?;
                self.child(name)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Adds bits to the mode of an entry of this kind in it.
    fn grant(&self, name: &str, kind: FileType, bits: Mode) -> io::Result<()> {
        let stat = sys::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        if FileType::from_raw_mode(stat.st_mode) == kind && !mode.contains(bits) {
            sys::chmodat(&self.fd, name, mode | bits, AtFlags::empty())?;
        }
        Ok(())
    }

    /// Creates a symbolic link in it. One with the same target may exist.
    pub(in crate::transfer) fn link(&self, name: &str, target: &str) -> io::Result<()> {
        match sys::symlinkat(target, &self.fd, name) {
            Err(Errno::EXIST) => match sys::readlinkat(&self.fd, name, Vec::new()) {
                Ok(found) if found.as_bytes() == target.as_bytes() => Ok(()),
                _ => Err(io::ErrorKind::AlreadyExists.into()),
            },
            result => Ok(result?),
        }
    }

    /// Device and inode; `None` where they are not known.
    pub(in crate::transfer) fn identity(&self) -> io::Result<Option<(u64, u64)>> {
        let stat = sys::fstat(&self.fd)?;
        Ok(Some((number(stat.st_dev), number(stat.st_ino))))
    }

    /// Creates a directory in it that only this user may enter; fails if the name exists.
    pub(in crate::transfer) fn make_private(&self, name: &str) -> io::Result<Self> {
        sys::mkdirat(&self.fd, name, PRIVATE)?;
        self.child(name)
    }

    /// A directory in it that this user created, and that no other user may enter.
    pub(in crate::transfer) fn private(&self, name: &str) -> io::Result<Self> {
        let child = self.child(name)?;
        let stat = sys::fstat(&child.fd)?;
        let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
        if !is_own || Mode::from_raw_mode(stat.st_mode).intersects(Mode::RWXG | Mode::RWXO) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(child)
    }

    /// Opens a regular file in it; anything else is an error.
    pub(in crate::transfer) fn read(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::RDONLY, Mode::empty())
    }

    /// Opens a regular file in it, if this user may read it.
    pub(in crate::transfer) fn read_as_is(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        regular(sys::openat(&self.fd, name, flags, Mode::empty())?)
    }

    /// Opens a regular file in it for writing, and creates it with these permission bits if it does not exist.
    pub(in crate::transfer) fn write(&self, name: &str, mode: sys::RawMode) -> io::Result<File> {
        let mode = Mode::from_raw_mode(mode);
        self.open_file(name, OFlags::WRONLY | OFlags::CREATE, mode)
    }

    fn open_file(&self, name: &str, flags: OFlags, mode: Mode) -> io::Result<File> {
        // The open does not block on a pipe that was put there.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = || sys::openat(&self.fd, name, flags, mode);
        let fd = match open() {
            // An earlier attempt gave it its final mode.
            Err(Errno::ACCESS) => {
                let granted = self.grant(name, FileType::RegularFile, Mode::RUSR | Mode::WUSR);
                granted.map_err(|_| Errno::ACCESS)?;
                open()?
            }
            opened => opened?,
        };
        regular(fd)
    }

    /// Metadata of the item with this name, of a link itself and not its target; `None`: there is none.
    pub(in crate::transfer) fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        match sys::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Stat {
                kind: match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => FileKind::File,
                    FileType::Directory => FileKind::Directory,
                    FileType::Symlink => FileKind::Link,
                    _ => FileKind::Other,
                },
                identity: Some((number(stat.st_dev), number(stat.st_ino))),
                links: number(stat.st_nlink),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Names in it, in order.
    pub(in crate::transfer) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in sys::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Target of a symbolic link in it.
    pub(in crate::transfer) fn target(&self, name: &str) -> io::Result<Vec<u8>> {
        Ok(sys::readlinkat(&self.fd, name, Vec::new())?.into_bytes())
    }

    /// True if the name exists, even as a broken link.
    pub(in crate::transfer) fn holds(&self, name: &str) -> io::Result<bool> {
        match sys::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a file in it; a missing file is not an error.
    pub(in crate::transfer) fn remove_file(&self, name: &str) -> io::Result<()> {
        match sys::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an empty directory in it; false if it is not empty. A missing one is not an error.
    pub(in crate::transfer) fn remove_directory(&self, name: &str) -> io::Result<bool> {
        match sys::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets this user change what is in it.
    pub(in crate::transfer) fn grant_to_owner(&self) -> io::Result<()> {
        let mode = Mode::from_raw_mode(sys::fstat(&self.fd)?.st_mode);
        Ok(sys::fchmod(&self.fd, mode | Mode::RWXU)?)
    }

    /// Removes the entry with this name, and everything in it; links are removed, not followed. A missing entry is not an
    /// error.
    pub(in crate::transfer) fn remove_all(&self, name: &str) -> io::Result<()> {
        match self.remove_file(name) {
            // Error codes for a directory: Linux, POSIX.
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::ISDIR | Errno::PERM | Errno::ACCESS)
                ) => {}
            result => return result,
        }
        let path = self.path_of(name);
        let remove = || match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        match remove() {
            // A directory in it has a mode that forbids changes.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.grant(name, FileType::Directory, Mode::RWXU)?;
                self.child(name)?.open_up(DEPTH_MAX)?;
                remove()
            }
            result => result,
        }
    }

    /// Makes all directories in it accessible to this user.
    fn open_up(&self, depth: usize) -> io::Result<()> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(());
        };
        for entry in sys::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if matches!(name, "." | "..") {
                continue;
            }
            self.grant(name, FileType::Directory, Mode::RWXU)?;
            match self.child(name) {
                Ok(child) => child.open_up(depth)?,
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Renames within it, and replaces an existing entry.
    pub(in crate::transfer) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(sys::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Moves an entry into another directory, in the place of what has its name there, in one step.
    pub(in crate::transfer) fn rename_into(&self, name: &str, to: &Self) -> io::Result<()> {
        Ok(sys::renameat(&self.fd, name, &to.fd, name)?)
    }

    /// Moves an entry into another directory, under a name that it never takes from an existing one there.
    pub(in crate::transfer) fn move_new(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        match sys::renameat_with(&self.fd, name, &to.fd, new, sys::RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            // The file system does not support the flag; look before renaming.
            Err(Errno::INVAL | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        if to.holds(new)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(sys::renameat(&self.fd, name, &to.fd, new)?)
    }

    /// Exchanges an entry with the one of the same name in another directory, in one step; false if the system cannot.
    pub(in crate::transfer) fn exchange(&self, name: &str, with: &Self) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        match sys::renameat_with(&self.fd, name, &with.fd, name, sys::RenameFlags::EXCHANGE) {
            Ok(()) => return Ok(true),
            Err(Errno::INVAL | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (name, with);
        Ok(false)
    }

    /// Syncs the names in it to the disk.
    pub(in crate::transfer) fn sync(&self) -> io::Result<()> {
        judge(sys::fsync(&self.fd))
    }
}

/// The open file, if it is a regular one.
fn regular(fd: OwnedFd) -> io::Result<File> {
    match FileType::from_raw_mode(sys::fstat(&fd)?.st_mode) {
        FileType::RegularFile => Ok(File::from(fd)),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

/// A number whose type depends on the system.
fn number(of_system: impl TryInto<u64>) -> u64 {
    of_system.try_into().unwrap_or(u64::MAX)
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Not every file system can sync a directory, and those that cannot return a specific error. Any other failure is an error of
/// the disk.
fn judge(synced: Result<(), Errno>) -> io::Result<()> {
    match synced {
        Ok(()) | Err(Errno::INVAL | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::symlink};

    use super::{super::Parents, *};

    #[test]
    fn links_are_not_followed() {
        let disk = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("x"), "theirs").unwrap();
        let folder = Folder::open(disk.path()).unwrap();
        symlink(elsewhere.path(), disk.path().join("d")).unwrap();
        symlink(elsewhere.path().join("x"), disk.path().join("f")).unwrap();
        symlink("nowhere", disk.path().join("broken")).unwrap();
        assert!(folder.child("d").is_err());
        assert!(folder.make("d").is_err());
        assert!(folder.walk("d/x").is_err());
        assert!(folder.read("f").is_err());
        assert!(folder.write("f", 0o600).is_err());
        assert!(folder.write("broken", 0o600).is_err());
        assert!(folder.holds("broken").unwrap());
        folder.remove_all("d").unwrap();
        folder.remove_all("f").unwrap();
        assert_eq!(fs::read(elsewhere.path().join("x")).unwrap(), b"theirs");
    }

    #[test]
    fn the_parent_of_a_file_is_found_whatever_came_before() {
        let disk = tempfile::tempdir().unwrap();
        let folder = Folder::open(disk.path()).unwrap();
        folder.make("a").unwrap().make("b").unwrap();
        let mut parents = Parents::default();
        for path in ["x", "a/x", "a/y", "a/b/x", "y", "a/b/y"] {
            let (parent, name) = parents.walk(&folder, path).unwrap();
            parent.write(name, 0o600).unwrap();
            assert!(disk.path().join(path).exists(), "{path}");
        }
        assert!(parents.walk(&folder, "c/x").is_err());
        assert!(parents.walk(&folder, "a/x").is_ok());
    }

    #[test]
    fn a_private_folder_belongs_to_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let disk = tempfile::tempdir().unwrap();
        let folder = Folder::open(disk.path()).unwrap();
        folder.make_private("p").unwrap();
        let mode = fs::metadata(disk.path().join("p")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        assert!(folder.private("p").is_ok());
        assert!(folder.make_private("p").is_err());
        fs::set_permissions(disk.path().join("p"), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(folder.private("p").is_err());
    }

    #[test]
    fn a_pipe_is_neither_read_nor_waited_for() {
        let disk = tempfile::tempdir().unwrap();
        let folder = Folder::open(disk.path()).unwrap();
        sys::mkfifoat(&folder.fd, "pipe", Mode::RWXU).unwrap();
        assert!(folder.read("pipe").is_err());
        assert!(folder.write("pipe", 0o600).is_err());
    }

    #[test]
    fn an_existing_entry_is_not_replaced() {
        let disk = tempfile::tempdir().unwrap();
        let folder = Folder::open(disk.path()).unwrap();
        let from = folder.make("from").unwrap();
        from.write("x", 0o600).unwrap().write_all(b"new").unwrap();
        fs::write(disk.path().join("x"), "old").unwrap();
        assert!(from.move_new("x", &folder, "x").is_err());
        assert_eq!(fs::read(disk.path().join("x")).unwrap(), b"old");
        folder.remove_all("x").unwrap();
        from.move_new("x", &folder, "x").unwrap();
        assert_eq!(fs::read(disk.path().join("x")).unwrap(), b"new");
        folder.remove_all("x").unwrap();
        folder.remove_all("x").unwrap();
        folder.remove_all("from").unwrap();
    }

    /// Modes that an earlier attempt gave; root may write in spite of them.
    #[test]
    fn modes_of_an_earlier_attempt_are_no_obstacle() {
        use std::os::unix::fs::PermissionsExt;
        let disk = tempfile::tempdir().unwrap();
        let folder = Folder::open(disk.path()).unwrap();
        let inner = folder.make("a").unwrap().make("b").unwrap();
        inner.write("x", 0o600).unwrap();
        inner.link("l", "x").unwrap();
        inner.link("l", "x").unwrap();
        assert!(inner.link("l", "y").is_err());
        assert!(inner.link("x", "y").is_err());
        for (path, mode) in [("a/b/x", 0o400), ("a/b", 0o500), ("a", 0o500)] {
            fs::set_permissions(disk.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        folder.make("a").unwrap();
        let mode = fs::metadata(disk.path().join("a")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        inner.write("x", 0o600).unwrap();
        inner.read("x").unwrap();
        folder.child("a").unwrap().open_up(DEPTH_MAX).unwrap();
        let mode = fs::metadata(disk.path().join("a/b")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        folder.remove_all("a").unwrap();
        assert!(!folder.holds("a").unwrap());
    }

    #[test]
    fn a_disk_that_fails_is_not_overlooked() {
        assert!(judge(Err(Errno::IO)).is_err());
        assert!(judge(Err(Errno::NOSPC)).is_err());
        assert!(judge(Err(Errno::ROFS)).is_err());
        assert!(judge(Err(Errno::INVAL)).is_ok());
        assert!(judge(Ok(())).is_ok());
    }
}
