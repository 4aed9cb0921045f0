//! One store a folder: two would each keep to the limit by themselves, and remove what the other is writing.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

/// The file that is locked; what is in it says nothing.
const NAME: &str = "lock";

/// Takes the folder until the file is closed, as it is when the process ends, however it does. `None`: another has it. Where the
/// file system or the system knows no locks, everybody gets it.
///
/// # Errors
/// The file cannot be made.
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
