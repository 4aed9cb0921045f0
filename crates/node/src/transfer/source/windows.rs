//! Attributes of files that are read.

use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    os::windows::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    time::UNIX_EPOCH,
};

use crate::transfer::message::Attributes;

/// Opens a link or junction itself, not what it leads to.
const OPEN_REPARSE_POINT: u32 = 0x0020_0000;

/// Attributes that change when a file is written or replaced. Programs can set the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transfer) struct Stamp {
    size_bytes: u64,
    modified: u64,
    created: u64,
}

impl Stamp {
    pub(in crate::transfer) fn of(metadata: &Metadata) -> Self {
        Self {
            size_bytes: metadata.len(),
            modified: metadata.last_write_time(),
            created: metadata.creation_time(),
        }
    }

    pub(in crate::transfer) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

/// Opens a file that may have been replaced: a link is not followed. `None`: there is no file.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(OPEN_REPARSE_POINT)
        .open(path)?;
    let is_file = file.metadata()?.is_file();
    Ok(is_file.then_some(file))
}

/// False: no file has such a bit here.
pub(super) fn is_executable(_: &Metadata) -> bool {
    false
}

/// True: a file that may not be read is reported when it is opened.
pub(super) fn is_readable(_: &Path) -> bool {
    true
}

/// Time of a file or directory; there is no mode.
pub(super) fn attributes(metadata: &Metadata) -> Attributes {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Attributes {
        mode: None,
        modified_ns: since.and_then(|since| since.as_nanos().try_into().ok()),
    }
}
