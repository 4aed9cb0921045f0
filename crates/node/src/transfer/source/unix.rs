//! Attributes of files that are read.

use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

use crate::transfer::message::Attributes;

/// Attributes that change when a file is written or replaced. The time of change (`ctime`) cannot be set by programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transfer) struct Stamp {
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(in crate::transfer) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Stamp {
    pub(in crate::transfer) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

/// Opens a file that may have been replaced: a link is not followed, and a pipe does not block. `None`: there is a link.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits() as i32);
    match options.open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// True if the owner may execute the file.
pub(super) fn is_executable(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o100 != 0
}

/// True if this user may read it.
pub(super) fn is_readable(path: &Path) -> bool {
    let checked = rustix::fs::accessat(
        rustix::fs::CWD,
        path,
        rustix::fs::Access::READ_OK,
        rustix::fs::AtFlags::EACCESS,
    );
    // Any other failure is reported when the file is opened.
    checked != Err(Errno::ACCESS)
}

/// Mode and time of a file or directory.
pub(super) fn attributes(metadata: &Metadata) -> Attributes {
    const BITS: u32 = 0o7777;
    let seconds = metadata.mtime().checked_mul(1_000_000_000);
    Attributes {
        mode: Some(metadata.mode() & BITS),
        modified_ns: seconds.and_then(|ns| ns.checked_add(metadata.mtime_nsec())),
    }
}
