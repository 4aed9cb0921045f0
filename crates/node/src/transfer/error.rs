//! Errors of a transfer, in the user's words.

use std::{io, path::PathBuf};

use anabranch_base::text;
use anabranch_net::{Closed, ConnectError, StreamFailure};

use crate::keys::KeyError;

/// A transfer did not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A local file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A local file or directory cannot be written.
    #[error("cannot write {}: {source}{}", path.display(), advice(source))]
    Write {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The destination exists.
    #[error("{} exists already; move it away or receive into another directory", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// Something that is neither file nor directory was to be sent.
    #[error("{} is neither a file nor a directory", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A name that cannot be sent.
    #[error("the name of {} is not UTF-8; rename it", path.display())]
    Name {
        /// The path.
        path: PathBuf,
    },
    /// A name or path that no receiver takes.
    #[error("{} cannot be sent: {reason}; rename it", path.display())]
    Unsendable {
        /// The path.
        path: PathBuf,
        /// Reason why not.
        reason: &'static str,
    },
    /// The source changed while it was being sent.
    #[error("{} changed while it was being sent, so nothing is verified; send it again", path.display())]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// The sender offers a path that leads out of the directory.
    #[error("the sender offers the path '{path}', which is not allowed: {reason}")]
    Path {
        /// The path.
        path: String,
        /// Reason why not.
        reason: &'static str,
    },
    /// The sender offers more than this node takes.
    #[error("the sender offers {entries} files and directories; at most {most} are taken at once")]
    TooMany {
        /// How many.
        entries: u64,
        /// Number that are accepted.
        most: u64,
    },
    /// The sender offers something whose name programs may read unasked.
    #[error(
        "the sender offers '{}', a hidden name, which is not taken; receive with --allow-hidden if it is expected",
        text::printable(name, text::REASON_CHARS)
    )]
    Hidden {
        /// The name.
        name: String,
    },
    /// The sender offers, or sends, more bytes than this node takes.
    #[error("the sender offers {bytes} bytes; at most {most} are taken at once (--max-size)")]
    TooLarge {
        /// How many.
        bytes: u64,
        /// Number that are accepted.
        most: u64,
    },
    /// This node was asked, and said no.
    #[error("the transfer was declined")]
    Declined,
    /// What arrived is not what was sent.
    #[error("{} did not arrive as it was sent (BLAKE3 hashes differ); what arrived was removed, send it again", path.display())]
    Hash {
        /// The path.
        path: PathBuf,
    },
    /// The other side refused.
    #[error("the receiver refused: {}", text::printable(.0, text::REASON_CHARS))]
    Refused(String),
    /// The other side failed.
    #[error("the receiver could not complete: {}", text::printable(.0, text::REASON_CHARS))]
    Failed(String),
    /// The other side does not answer.
    #[error("cannot reach the receiver: {0}")]
    Unreachable(#[from] ConnectError),
    /// The ticket is not good.
    #[error("{0}")]
    Ticket(&'static str),
    /// There is no such ticket.
    #[error(
        "the receiver does not know this ticket; it was issued by an earlier run, ask for a new one"
    )]
    Unknown,
    /// Too many tickets are out.
    #[error(
        "{most} tickets are out that nobody has used; start the receiver again to take them all back"
    )]
    Tickets {
        /// Their greatest number.
        most: usize,
    },
    /// No ticket can be made.
    #[error(transparent)]
    Key(#[from] KeyError),
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
    /// True if the same transfer can be tried again and will continue where it stopped.
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
