//! Errors of sources and subscribers.

use anabranch::{
    Failure,
    base::text::{REASON_CHARS, printable},
    rights::CODE_NO_RIGHT,
};

use crate::wire::{CODE_BUSY, CODE_MALFORMED, WireError};

/// A stream cannot be offered or subscribed to, or not any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessingError {
    /// The session or a stream is over.
    #[error("{0}")]
    Over(String),
    /// The node does not respond any more, or its source does not; others are to be tried.
    #[error("{0}")]
    Lost(String),
    /// The node does not process streams, or not for this node.
    #[error(
        "the node processes nothing for this one: there, run `anabranch process serve`, and grant the right \
         {{ right = \"use-service\", services = [\"{label}\"] }} to this node"
    )]
    NoRight {
        /// Labels of the streams.
        label: String,
    },
    /// The node serves as many streams as it can.
    #[error("the node processes as many streams as it can at this time; try again later")]
    Busy,
    /// The node refuses.
    #[error("the processing node refuses: {0}")]
    Refused(String),
    /// The stream is not served where its source is any more, because a processing node has taken it.
    #[error("a processing node has taken the stream")]
    Moved,
    /// The node refuses for now.
    #[error("{0}")]
    NotYet(String),
    /// The node does not keep to the protocol.
    #[error("the processing node does not keep to the protocol: {0}")]
    Protocol(String),
}

impl ProcessingError {
    /// Error of a stream with this label.
    pub(crate) fn of(error: &impl Failure, label: String) -> Self {
        match error.reset_code().or(error.stop_code()) {
            Some(CODE_NO_RIGHT) => Self::NoRight { label },
            Some(CODE_BUSY) => Self::Busy,
            Some(CODE_MALFORMED) => Self::Protocol(
                "it does not understand the request; is it of another release?".to_owned(),
            ),
            _ => Self::Over(printable(&error.to_string(), REASON_CHARS)),
        }
    }

    pub(crate) fn refused(why: &str, may_retry: bool) -> Self {
        let why = printable(why, REASON_CHARS);
        if may_retry {
            Self::NotYet(why)
        } else {
            Self::Refused(why)
        }
    }
}

impl From<WireError> for ProcessingError {
    fn from(error: WireError) -> Self {
        Self::Protocol(printable(&error.0, REASON_CHARS))
    }
}
