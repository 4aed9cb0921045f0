//! Errors of the host, in terms that the caller knows.

use std::{io, net::SocketAddr};

use anabranch_base::NodeId;
use anabranch_session::{
    Attempt, CloseReason, Refusal, SendError, SessionCloseReason, StreamError,
};

use crate::{place::Place, remotes::LookupError, socket::BindError};

/// The host cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A socket cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// No local address was given or found.
    #[error(
        "this machine has no usable network address now; bring an interface up or name addresses to bind"
    )]
    NoAddress,
    /// A socket of this host is in the way of one that is to be opened.
    #[error(
        "cannot open a UDP socket on {wanted} while this node has one on {held}{}; choose another port, or restart the node",
        if *is_retired { ", which is still in use by sessions that began there" } else { "" }
    )]
    Overlap {
        /// Address to open.
        wanted: SocketAddr,
        /// Address of the socket in the way.
        held: SocketAddr,
        /// That address is not in force any more.
        is_retired: bool,
    },
    /// There is a tariff for a place without a local address.
    #[error(
        "there is a tariff for {0}, but the node listens on no address there, so that nothing would be counted; listen on \
         an address of {0} (0.0.0.0 and [::] belong to no interface), or remove the tariff"
    )]
    Place(Place),
    /// The operating system has no randomness for keys.
    #[error("the operating system gives no random numbers: {0}")]
    Entropy(String),
    /// The timer or the list of interfaces is not available.
    #[error("cannot set up the host: {0}")]
    Io(#[from] io::Error),
}

/// A session cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No local socket can reach any of the addresses.
    #[error(
        "none of the addresses of {peer:?} ({}) can be reached from the local sockets; check that both sides use IPv4 or both IPv6",
        list(remotes)
    )]
    NoLink {
        /// The node to reach.
        peer: NodeId,
        /// Its addresses.
        remotes: Vec<SocketAddr>,
    },
    /// The peer's name cannot be resolved, and there is no other address.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The engine refused at once.
    #[error("cannot open a session: {0}")]
    Refused(#[from] anabranch_session::ConnectError),
    /// No channel came up, or the peer refused.
    #[error("{0}")]
    Closed(SessionCloseReason),
    /// The host is shutting down.
    #[error("this node is shutting down")]
    ShuttingDown,
}

impl ConnectError {
    /// True if the peer may be reached later at the same addresses: nothing answers there now, or a name is not resolved.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Closed(SessionCloseReason::Unreachable(attempts)) => {
                let is_other = |attempt: &Attempt| {
                    matches!(
                        attempt.failure,
                        Some(CloseReason::OtherNode(_) | CloseReason::Unauthorized)
                    )
                };
                !attempts.links.iter().all(is_other)
            }
            Self::Lookup(_) => true,
            _ => false,
        }
    }

    /// False if this address was to be tried, and was not.
    pub(crate) fn has_tried(&self, address: &SocketAddr) -> bool {
        match self {
            Self::Closed(SessionCloseReason::Unreachable(attempts)) => {
                let mut remotes = attempts.links.iter().map(|link| link.remote);
                remotes.any(|remote| remote == *address)
            }
            _ => true,
        }
    }

    /// True if the peer answered, and does not want the session.
    pub fn is_refusal(&self) -> bool {
        use SessionCloseReason as Reason;
        let Self::Closed(reason) = self else {
            return false;
        };
        matches!(
            reason,
            Reason::NotListed(_) | Reason::NotAllowed | Reason::NotAdmitted | Reason::Peer { .. }
        )
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// A session is over.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the session is over: {0}")]
pub struct Closed(pub SessionCloseReason);

/// A stream's operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamFailure {
    /// The session is over.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The peer reset the stream, which it was sending.
    #[error("the peer reset the stream (code {0})")]
    Reset(u32),
    /// The peer stopped the stream, which it was receiving.
    #[error("the peer stopped the stream (code {0})")]
    Stopped(u32),
    /// The engine refused the ADU.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The engine refused the operation.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl StreamFailure {
    /// Refusal of the guarantee, or the warning for which the stream was finished, with its reason and what could be promised
    /// instead; `None` if the error is another one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Stream(StreamError::Refused(refusal))
            | Self::Send(SendError::Warned(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

impl From<StreamFailure> for io::Error {
    fn from(failure: StreamFailure) -> Self {
        let kind = match &failure {
            StreamFailure::Closed(_) => io::ErrorKind::NotConnected,
            StreamFailure::Reset(_) => io::ErrorKind::ConnectionReset,
            StreamFailure::Stopped(_) => io::ErrorKind::BrokenPipe,
            StreamFailure::Send(_) | StreamFailure::Stream(_) => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, failure)
    }
}
