//! Lock of a store's folder: two stores would each apply the limit by themselves, and remove files that the other is writing.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

/// The locked file; its content has no meaning.
const NAME: &str = "lock";

/// Locks the folder until the file is closed, as it is when the process ends in any manner. `None`: it is locked. Where the
/// file system or the system has no locks, every process gets it.
///
/// # Errors
/// The file cannot be created.
pub(super) fn take(folder: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(NAME))?;
    #[cfg(unix)]
    {
        use rustix::fs::{FlockOperation, flock};
        if let Err(rustix::io::Errno::WOULDBLOCK) =
            flock(&file, FlockOperation::NonBlockingLockExclusive)
        {
            return Ok(None);
        }
    }
    Ok(Some(file))
}
