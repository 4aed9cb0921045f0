//! Errors of the client.

use std::{io, path::PathBuf};

use anabranch_session::{Refusal, SendError};

use crate::{api::Failure, config::NO_LOCAL, local::message::ErrorBody};

/// An operation through a running node failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No node listens at the socket, or this user may not connect to it.
    #[error("no node answers at its local interface {}: {source}; start one with `anabranch up`, or name its socket with --local or ANABRANCH_LOCAL", path.display())]
    Attach {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: std::sync::Arc<io::Error>,
    },
    /// The address of the node is not valid.
    #[error("{place}: {why}")]
    Address {
        /// The address.
        place: String,
        /// The form that is expected.
        why: &'static str,
    },
    /// The token for a node's TCP socket cannot be read.
    #[error("cannot read the token of the node, {}: {source}; name its file in ANABRANCH_LOCAL_TOKEN", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: std::sync::Arc<io::Error>,
    },
    /// There is no default socket for this user.
    #[error("{NO_LOCAL}")]
    NoSocket,
    /// The node does not let this application attach.
    #[error("the node does not let this application attach: {0}")]
    TurnedAway(String),
    /// The connection to the node is over.
    #[error("the connection to the node is over: {0}")]
    Detached(String),
    /// The node does not keep to the protocol.
    #[error("the node does not keep to the protocol of the local interface: {0}")]
    Protocol(String),
    /// The node is of a release that does not have this yet.
    #[error("the node is of an older release, which does not report {0}; update it")]
    OlderNode(&'static str),
    /// The session is over.
    #[error("{0}")]
    SessionOver(String),
    /// The peer reset the stream, which it was sending.
    #[error("the peer reset the stream (code {0})")]
    Reset(u32),
    /// The peer stopped the stream, which it was receiving.
    #[error("the peer stopped the stream (code {0})")]
    Stopped(u32),
    /// The ADU was not accepted.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The node did not accept the ADU.
    #[error("the ADU was refused: {0}")]
    NotAccepted(String),
    /// The guarantee is refused.
    #[error("not promised: {0}")]
    Refused(Box<Refusal>),
    /// A limit of this user at the node would be exceeded.
    #[error("{message}")]
    Limited {
        /// Key of the limit in the node's configuration: `priority_max`, `promised_rate_max`, `streams_max` or `objectives`.
        key: String,
        /// The limit.
        allowed: String,
        /// The rest of it, if it is shared.
        left: Option<String>,
        /// Cause and remedy.
        message: String,
    },
    /// The node refused the request.
    #[error("{message}")]
    Node {
        /// `request`, `limit`, `handle`, `peer`, `unreachable`, `spec`, `stream`, `objectives` or `field`.
        kind: String,
        /// Cause and remedy.
        message: String,
    },
}

impl From<ErrorBody> for ClientError {
    fn from(error: ErrorBody) -> Self {
        if let Some(limit) = error.limit {
            return Self::Limited {
                key: limit.key,
                allowed: limit.allowed,
                left: limit.left,
                message: error.message,
            };
        }
        match (error.kind.as_str(), &error.refusal) {
            ("refused", Some(refusal)) => Self::Refused(Box::new(refusal.resolve())),
            ("session_over", _) => Self::SessionOver(error.message),
            _ => Self::Node {
                kind: error.kind,
                message: error.message,
            },
        }
    }
}

impl Failure for ClientError {
    fn reset_code(&self) -> Option<u32> {
        match self {
            Self::Reset(code) => Some(*code),
            _ => None,
        }
    }

    fn stop_code(&self) -> Option<u32> {
        match self {
            Self::Stopped(code) => Some(*code),
            _ => None,
        }
    }

    fn is_session_over(&self) -> bool {
        matches!(self, Self::SessionOver(_) | Self::Detached(_))
    }

    fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) | Self::Send(SendError::Warned(refusal)) => Some(refusal),
            _ => None,
        }
    }

    fn send_error(&self) -> Option<&SendError> {
        match self {
            Self::Send(error) => Some(error),
            _ => None,
        }
    }
}
