//! Errors of a transfer, as reported to the user.

use std::{io, path::PathBuf, time::Duration};

use anabranch_base::{duration, text};
use anabranch_net::{Closed, ConnectError, StreamFailure};

use crate::{ClientError, api::EngineFailure, keys::KeyError};

/// A transfer did not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A local file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A local file or directory cannot be written.
    #[error("cannot write {}: {source}{}", path.display(), advice(source))]
    Write {
        /// The path.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The destination exists.
    #[error("{} exists already; move it away or receive into another directory", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// A directory is in the place of a file or link that an update brings.
    #[error(
        "{} is a directory here and none at the sender; update with --delete on both sides if nothing in it is needed, or move it away",
        path.display()
    )]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
    /// A file that was compared for an update changed before its end.
    #[error("{} was changed at the receiver during the update; send it again", path.display())]
    ChangedHere {
        /// The path.
        path: PathBuf,
    },
    /// The receiver's directory has too much that the source does not have.
    #[error(
        "more than {most} files and directories here, or 32 MiB of paths, are not at the sender; check that it is the right directory, or update it in parts"
    )]
    TooManyExtras {
        /// Limit of this node.
        most: u64,
    },
    /// It is not certain what may be deleted.
    #[error(
        "{count} paths cannot be sent, too many to tell what may be deleted at the receiver; make them readable, exclude them, or update without --delete"
    )]
    UncertainDeletion {
        /// Paths left out.
        count: u64,
    },
    /// An update of what cannot be compared.
    #[error("standard input cannot be compared with what the receiver has; leave --update out")]
    Incomparable,
    /// The receiver's version does not know updates.
    #[error(
        "the receiver's version of anabranch knows no updates; install a newer one there, or leave --update out"
    )]
    NoUpdates,
    /// The receiver's user did not permit an update, or that it deletes.
    #[error("{0}")]
    Unpermitted(&'static str),
    /// The sender only asked what would change.
    #[error("the sender asked what an update would change; nothing was changed")]
    DryRun,
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
    /// A name or path that no receiver accepts.
    #[error("{} cannot be sent: {reason}; rename it", path.display())]
    Unsendable {
        /// The path.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// The spec for the data loses or reorders it.
    #[error(
        "files need a stream that is reliable, ordered and without lifetime; choose the profile bulk, background, interactive or redundant"
    )]
    Lossy,
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
        /// The reason.
        reason: &'static str,
    },
    /// The sender offers more entries than this node accepts.
    #[error(
        "the sender offers {entries} files and directories; at most {most} are accepted at once"
    )]
    TooMany {
        /// Number offered.
        entries: u64,
        /// Limit of this node.
        most: u64,
    },
    /// The sender offers a name that programs may read unasked.
    #[error(
        "the sender offers '{}', a hidden name, which is not accepted; receive with --allow-hidden if it is expected",
        text::printable(name, text::REASON_CHARS)
    )]
    Hidden {
        /// The name.
        name: String,
    },
    /// The sender offers, or sends, more bytes than this node accepts.
    #[error("the sender offers {bytes} bytes; at most {most} are accepted at once (--max-size)")]
    TooLarge {
        /// Number offered or sent.
        bytes: u64,
        /// Limit of this node.
        most: u64,
    },
    /// The user of this node was asked, and declined.
    #[error("the transfer was declined")]
    Declined,
    /// The data that arrived differs from what was sent.
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
    #[error("{} {}", unreachable(.0), .0)]
    Unreachable(#[from] ConnectError),
    /// The other side takes no files from this node.
    #[error(
        "the other node takes no files from this one: it needs a folder to receive into (`receive`), and this node the right \
         send-files, or a ticket of `anabranch recv`"
    )]
    NotTaken,
    /// The other side neither takes nor refuses the stream of a transfer.
    #[error(
        "the other node is connected, but took no notice of the transfer for {}: it runs no receiver; start `anabranch recv` there, or a \
         node with a folder to receive into (`receive`)",
        duration::format_seconds(*.0)
    )]
    Unanswered(Duration),
    /// The ticket is not valid.
    #[error("{0}")]
    Ticket(&'static str),
    /// There is no such ticket.
    #[error(
        "the receiver does not know this ticket; it was issued by an earlier run, ask for a new one"
    )]
    Unknown,
    /// Too many unused tickets have been issued.
    #[error("{most} unused tickets have been issued; restart the receiver to revoke them all")]
    Tickets {
        /// Limit on their number.
        most: usize,
    },
    /// No ticket can be created.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The session ended before the transfer did.
    #[error("the transfer was interrupted: {0}; send it again to resume")]
    Interrupted(StreamFailure),
    /// No path carried data for as long as it was to be tried.
    #[error("the transfer was interrupted: no reply from the receiver for {}; send it again to resume", duration::format_seconds(*.0))]
    Silent(Duration),
    /// The running node over which it was sent reports a failure.
    #[error("through the running node: {0}")]
    Attached(ClientError),
    /// The other side violates the protocol.
    #[error("the peer does not speak the transfer protocol: {0}")]
    Protocol(&'static str),
}

/// Beginning of the message: the receiver refused, or nothing reached it.
fn unreachable(error: &ConnectError) -> &'static str {
    match error.is_refusal() {
        true => "the receiver refused:",
        false => "cannot reach the receiver:",
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and send again, what has arrived is kept"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose a directory that this user may write to"
        }
        io::ErrorKind::NotFound => "; create the directory first, or choose another",
        _ => "",
    }
}

impl From<StreamFailure> for TransferError {
    fn from(failure: StreamFailure) -> Self {
        Self::Interrupted(failure)
    }
}

impl From<EngineFailure> for TransferError {
    fn from(failure: EngineFailure) -> Self {
        match failure {
            EngineFailure::Stream(failure) => Self::Interrupted(failure),
            // A transfer changes no objectives and has no header fields.
            EngineFailure::Objective(error) => Self::Failed(error.to_string()),
        }
    }
}

impl From<ClientError> for TransferError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Reset(code) => Self::Interrupted(StreamFailure::Reset(code)),
            ClientError::Stopped(code) => Self::Interrupted(StreamFailure::Stopped(code)),
            other => Self::Attached(other),
        }
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
        let is_over = |error: &ClientError| {
            matches!(
                error,
                ClientError::SessionOver(_) | ClientError::Detached(_)
            )
        };
        match self {
            Self::Interrupted(_) | Self::Silent(_) => true,
            Self::Attached(error) => is_over(error),
            _ => false,
        }
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
