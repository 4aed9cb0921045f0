//! Errors of those who ask, and of those who write what arrives.

use anabranch::{
    Failure,
    base::text::{REASON_CHARS, printable},
    rights::CODE_NO_RIGHT,
};
use anabranch_recordset::ManifestError;

use crate::{server, shelf::ShelfError, sink::SinkError, wire::WireError};

/// A request about record sets failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// The session or a stream is over.
    #[error("{0}")]
    Over(String),
    /// The peer serves no sets, or not to this node.
    #[error(
        "the peer serves no record sets to this node: there, run `anabranch records serve DIR`, and grant the right \
         {{ right = \"use-service\", services = [\"records/1/*\"] }} to this node"
    )]
    NotServed,
    /// The peer serves as many streams as it can.
    #[error("the peer serves as many requests as it can at this time; try again later")]
    Busy,
    /// The peer refuses the request.
    #[error("{why}")]
    Refused {
        /// The reason.
        why: String,
        /// Rate that could be promised instead.
        offer_bps: Option<u64>,
        /// True if the set has another manifest now.
        is_changed: bool,
    },
    /// The peer does not keep to the protocol.
    #[error("the peer does not keep to the protocol: {0}")]
    Protocol(String),
    /// The manifest has errors.
    #[error("the manifest of the set has errors: {0}")]
    Manifest(#[from] ManifestError),
    /// The set cannot be written here.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The set cannot be read here.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// The selection is not in the set.
    #[error("{0}")]
    Selection(String),
    /// Something of this program has ended early.
    #[error("a task of this program ended early")]
    Internal,
}

impl RecordsError {
    pub(crate) fn of(error: &impl Failure) -> Self {
        match error.reset_code().or(error.stop_code()) {
            Some(CODE_NO_RIGHT) => Self::NotServed,
            Some(server::CODE_BUSY) => Self::Busy,
            Some(server::CODE_MALFORMED) => Self::Protocol(
                "it does not understand the request; is it of an older release?".to_owned(),
            ),
            _ => Self::Over(printable(&error.to_string(), REASON_CHARS)),
        }
    }

    /// True if the same request can succeed later: the session or the peer's program is over.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Over(_) | Self::Busy)
    }
}

impl From<WireError> for RecordsError {
    fn from(error: WireError) -> Self {
        Self::Protocol(printable(&error.0, REASON_CHARS))
    }
}
