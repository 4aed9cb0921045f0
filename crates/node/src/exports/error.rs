//! Failures of the side that reads.

use anabranch_base::text::printable;

use super::message::Fault;

/// Characters of a path that are shown.
const PATH_CHARS: usize = 300;

/// A file or directory of a peer cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The peer answers that it cannot be read.
    #[error("'{}': {fault}", printable(.path, PATH_CHARS))]
    Fault {
        /// The path.
        path: String,
        /// The reason.
        fault: Fault,
    },
    /// The peer exports nothing to this node.
    #[error(
        "the peer exports nothing to this node; there, name a directory in [[export]], and give this node the right \"read-export\" to it"
    )]
    NotExported,
    /// The peer serves as many readers as it may.
    #[error("the peer's node serves too many readers; try again later")]
    Busy,
    /// The session or the connection to the node is over.
    #[error("the connection to the peer is over: {0}")]
    Over(String),
    /// The session is there, and the stream failed.
    #[error("{0}")]
    Stream(String),
    /// The peer answers something else.
    #[error(
        "the peer's answer is not one to the request ({0}); use the same release on both sides"
    )]
    Protocol(&'static str),
}

impl ExportError {
    /// Fault that the peer stated, if it did.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Fault { fault, .. } => Some(*fault),
            _ => None,
        }
    }

    /// True if another session may bring what this one did not.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Over(_))
    }

    pub(super) fn at(path: &str) -> impl FnOnce(Fault) -> Self + '_ {
        move |fault| Self::Fault {
            path: path.to_owned(),
            fault,
        }
    }
}
