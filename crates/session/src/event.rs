//! Events for the application, and errors of its calls.

use std::{net::SocketAddr, ops::Range, time::Duration};

use anabranch_base::{NodeId, SessionId, SocketId, StreamId, text};
use anabranch_hose::VocabularyError;
use anabranch_spec::{SpecError, StreamSpec};
use bytes::Bytes;

use crate::wire::VERSION;

mod session;
mod stream;

pub use self::{
    session::SessionEvent,
    stream::{PromiseEvent, StreamEvent},
};
use crate::attempt::Attempts;
use anabranch_admission::Refusal;

/// An application data unit: whole, unless its stream delivers parts ([`StreamSpec::partial`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adu {
    /// Its number in its stream, from 0, as the sender counted.
    pub sequence: u64,
    /// Its bytes; zeros where some are missing.
    pub data: Bytes,
    /// The missing parts.
    pub missing: Missing,
}

/// Missing parts of an ADU that was delivered; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Bytes that are zero because they did not arrive, ascending.
    pub ranges: Vec<Range<u64>>,
    /// Its end is missing, too; the length of that is not known.
    pub is_cut: bool,
}

impl Missing {
    /// True if the ADU is whole.
    pub fn is_nothing(&self) -> bool {
        self.ranges.is_empty() && !self.is_cut
    }
}

/// An event for the application.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A session has its first channel.
    Connected {
        /// The session.
        session: SessionId,
        /// The other node.
        peer: NodeId,
        /// The peer opened it.
        incoming: bool,
    },
    /// A session is over; its id is no longer valid.
    Closed {
        /// The session.
        session: SessionId,
        /// Reason.
        reason: SessionCloseReason,
    },
    /// A node that is not on the allow-list tried to open a channel, and was refused. It has not proved that it has the key.
    Stranger {
        /// The node that it claims to be.
        peer: NodeId,
        /// The local socket.
        socket: SocketId,
        /// Its address.
        remote: SocketAddr,
    },
    /// Less than a tenth of a local socket's quota for this period is left.
    BudgetLow {
        /// The local socket; of several that share a meter, the first.
        socket: SocketId,
        /// Bytes that are left.
        left_bytes: u64,
    },
    /// The quota of a local socket for this period is spent, but for a few packets that are kept for closing its
    /// channels. The socket is used again when the next period begins.
    BudgetSpent {
        /// The local socket; of several that share a meter, the first.
        socket: SocketId,
    },
    /// A local socket whose quota was spent is used again.
    BudgetRenewed {
        /// The local socket; of several that share a meter, the first.
        socket: SocketId,
    },
    /// The peer opened a stream.
    StreamOpened {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: StreamId,
        /// The spec that the peer declared.
        spec: StreamSpec,
    },
    /// A stream that had nothing to read has data.
    Readable {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: StreamId,
    },
    /// A stream whose buffer was full has space again.
    Writable {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: StreamId,
    },
    /// The peer has finished a stream and everything on it has been read.
    Finished {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: StreamId,
    },
    /// ADUs of a stream that waited to be read when the session ended, unless this node ended it, or the peer was refused or broke the
    /// protocol. It comes before [`Event::Closed`].
    Remainder {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: StreamId,
        /// The ADUs that had arrived, in the stream's order, at most as many as its window holds.
        adus: Vec<Adu>,
        /// True if the peer had finished the stream and these are all its ADUs.
        is_end: bool,
    },
    /// Everything sent on a finished stream is at the peer's node.
    Delivered {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: StreamId,
    },
    /// The peer reset a stream; unread data is discarded.
    Reset {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: StreamId,
        /// The peer's reason.
        code: u32,
    },
    /// The peer wants no more of a stream; it has been reset.
    Stopped {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: StreamId,
        /// The peer's reason.
        code: u32,
    },
    /// Something happened to the channels or objectives of a session.
    Session {
        /// The session.
        session: SessionId,
        /// The event.
        event: SessionEvent,
    },
    /// The outcome of ADUs of a stream, or a change of the rate that it may send.
    Stream {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: StreamId,
        /// The event.
        event: StreamEvent,
    },
    /// The promise of a stream changed, or will not be kept.
    Promise {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: StreamId,
        /// The event.
        event: PromiseEvent,
    },
}

/// Reason why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionCloseReason {
    /// This node closed it.
    #[error("closed by this node")]
    Local,
    /// The peer closed it.
    #[error("{}", closed_by_peer(*code, reason))]
    Peer {
        /// The peer's code; 0: it is done, or ends.
        code: u64,
        /// The peer's explanation.
        reason: String,
    },
    /// No channel for the configured time.
    #[error("no path to the peer for {0:?}")]
    TimedOut(Duration),
    /// No channel could be opened: in the configured time, or because every address refuses, or another node answers there.
    #[error("{0}")]
    Unreachable(Attempts),
    /// The peer proved its identity, and does not accept the key of this node.
    #[error(
        "the other node does not accept this one; it has to list the node {0}, with the right to call"
    )]
    NotListed(NodeId),
    /// The peer does not know the session any more; it was restarted.
    #[error("the peer does not know this session any more; it was restarted")]
    Forgotten,
    /// The peer uses another version.
    #[error(
        "the peer uses wire version {0}, which this node does not understand; upgrade the older one"
    )]
    Version(u64),
    /// The peer does not understand the version of this node.
    #[error(
        "the peer does not understand wire version {VERSION} of this node; upgrade the program of the peer"
    )]
    VersionRefused,
    /// The peer violated the protocol.
    #[error("the peer violated the protocol: {}", text::printable(.0, text::REASON_CHARS))]
    Protocol(String),
    /// The node that opened it was not known to the other one, and did not show in time that it has a right to it.
    #[error(
        "no right to the session was shown in time; is the ticket right, and the key on the other node's list?"
    )]
    NotAdmitted,
    /// The node that opened it was not known to this one, and closed it before it had shown that it has a right to it: because it was
    /// stopped, or establishes the session on another path.
    #[error("the node that opened the session closed it before it had shown a right to it")]
    Abandoned,
    /// The node that opened it was removed from the other node's allow-list.
    #[error(
        "the key of the node that opened the session is no longer on the other node's allow-list"
    )]
    NotAllowed,
}

fn closed_by_peer(code: u64, reason: &str) -> String {
    let reason = text::printable(reason, text::REASON_CHARS);
    match code {
        0 if reason.is_empty() => "the peer disconnected".to_owned(),
        0 => format!("the peer disconnected: {reason}"),
        _ => format!("closed by the peer (code {code}): {reason}"),
    }
}

/// A stream command was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// There is no such session, or it is over.
    #[error("{0} does not exist or is over")]
    UnknownSession(SessionId),
    /// There is no such stream, it is over, or this side may not use the command on it.
    #[error("{0} does not exist, is over, or flows in the other direction")]
    UnknownStream(StreamId),
    /// The spec is out of range.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The guarantee that the spec demands cannot be promised.
    #[error("not promised: {0}")]
    Refused(Box<Refusal>),
    /// Too many streams.
    #[error("the session has {0} open streams, which is the maximum; close some first")]
    TooMany(usize),
    /// The stream is reliable and has no lifetime: all that it was given is delivered, and nothing can be discarded.
    #[error(
        "{0} is reliable and has no lifetime, so that what it was given is delivered; reset it, or open it as unreliable or with a \
         lifetime"
    )]
    Reliable(StreamId),
}

/// An ADU was not accepted; nothing of it was sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The stream's buffer is full; wait for `Writable`. The ADU is handed back.
    #[error("the stream's send buffer is full; wait until it is writable")]
    Full(Bytes),
    /// ADUs have at least one byte.
    #[error("an ADU has at least 1 byte, this one is empty")]
    Empty,
    /// ADUs have at most 16 MiB.
    #[error(
        "an ADU has at most 16777216 bytes, this one has {bytes}; split it or use a byte stream"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// No path is fast enough for the stream's lifetime.
    #[error("the ADU would arrive after {arrival:?}, beyond the stream's lifetime of {lifetime:?}")]
    WouldMiss {
        /// Predicted time until arrival.
        arrival: Duration,
        /// The stream's lifetime.
        lifetime: Duration,
    },
    /// It is too improbable that the ADU would arrive within the stream's lifetime.
    #[error(
        "the ADU would arrive within its lifetime with a probability of {probability:.3}, below {least}; send a smaller one, or later"
    )]
    Unlikely {
        /// The probability, from 0 to 1.
        probability: f64,
        /// The least that was asked for.
        least: f64,
    },
    /// The stream was finished or reset.
    #[error("the stream was finished or reset")]
    Closed,
    /// The stream was finished because its promise was warned, as it demands ([`OnWarning::Close`](crate::OnWarning::Close)).
    #[error("the stream was finished because its promise was warned: {0}")]
    Warned(Box<Refusal>),
    /// A header field's name is invalid, or its type is not that of its declaration or first use.
    #[error(transparent)]
    Field(#[from] VocabularyError),
    /// No such session, or no such stream.
    #[error(transparent)]
    Stream(#[from] StreamError),
}
