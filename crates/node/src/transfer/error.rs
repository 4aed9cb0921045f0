//! What can go wrong in a transfer, in the user's words.

use std::{io, path::PathBuf};

use anabranch_net::{Closed, ConnectError, StreamFailure};

/// A transfer did not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A local file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A local file or directory cannot be written.
    #[error("cannot write {}: {source}{}", path.display(), advice(source))]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The destination exists.
    #[error("{} exists already; move it away or receive into another directory", path.display())]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// Something that is neither file nor directory was to be sent.
    #[error("{} is neither a file nor a directory", path.display())]
    NotAFile {
        /// Which.
        path: PathBuf,
    },
    /// A name that cannot be sent.
    #[error("the name of {} is not UTF-8; rename it", path.display())]
    Name {
        /// Which.
        path: PathBuf,
    },
    /// The source changed while it was being sent.
    #[error("{} changed while it was being sent; send it again", path.display())]
    Changed {
        /// Which.
        path: PathBuf,
    },
    /// The sender offers a path that leads out of the directory.
    #[error("the sender offers the path '{path}', which is not allowed: {reason}")]
    Path {
        /// The path.
        path: String,
        /// Why not.
        reason: &'static str,
    },
    /// The sender offers more than this node takes.
    #[error("the sender offers {entries} files and directories; at most {most} are taken at once")]
    TooMany {
        /// How many.
        entries: u64,
        /// How many are accepted.
        most: u64,
    },
    /// What arrived is not what was sent.
    #[error("{} did not arrive as it was sent (BLAKE3 hashes differ); what arrived was removed, send it again", path.display())]
    Hash {
        /// Which.
        path: PathBuf,
    },
    /// The other side refused.
    #[error("the receiver refused: {0}")]
    Refused(String),
    /// The other side failed.
    #[error("the receiver could not complete: {0}")]
    Failed(String),
    /// The other side does not answer.
    #[error("cannot reach the receiver: {0}")]
    Unreachable(#[from] ConnectError),
    /// The ticket is not good.
    #[error("{0}")]
    Ticket(&'static str),
    /// The session ended before the transfer did.
    #[error("the transfer was interrupted: {0}; send it again to resume")]
    Interrupted(StreamFailure),
    /// The other side does not keep to the protocol.
    #[error("the peer does not speak the transfer protocol: {0}")]
    Protocol(&'static str),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and send again, what has arrived is kept"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose a directory that this user may write to"
        }
        io::ErrorKind::NotFound => "; make the directory first, or choose another",
        _ => "",
    }
}

impl From<StreamFailure> for TransferError {
    fn from(failure: StreamFailure) -> Self {
        Self::Interrupted(failure)
    }
}

impl From<Closed> for TransferError {
    fn from(closed: Closed) -> Self {
        Self::Interrupted(closed.into())
    }
}

impl TransferError {
    /// Whether the same transfer can be tried again and will continue where it stopped.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Interrupted(_))
    }

    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Read { path, source }
    }

    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Write { path, source }
    }
}
