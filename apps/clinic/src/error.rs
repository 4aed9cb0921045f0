//! Errors of ambulances and hospitals.

use anabranch::{
    Failure,
    base::text::{REASON_CHARS, printable},
};

use crate::{
    annexb::AnnexBError,
    speech::SpeechError,
    wfdb::WfdbError,
    wire::{CODE_MALFORMED, WireError},
};

/// A case cannot be sent or received, or not any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClinicError {
    /// The session or a stream is over.
    #[error("{0}")]
    Over(String),
    /// The hospital does not take the ambulance.
    #[error("the hospital refuses: {0}")]
    Refused(String),
    /// The peer does not keep to the protocol.
    #[error("the peer does not keep to the protocol: {0}")]
    Protocol(String),
    /// The record cannot be read or written.
    #[error(transparent)]
    Record(#[from] WfdbError),
    /// The video cannot be sent.
    #[error(transparent)]
    Video(#[from] AnnexBError),
    /// An encoder of the video failed.
    #[error("the encoder: {0}")]
    Encoder(String),
    /// The speech cannot be sent.
    #[error(transparent)]
    Speech(#[from] SpeechError),
    /// A file cannot be read or written.
    #[error("{file}: {why}")]
    File {
        /// The file.
        file: String,
        /// Error of the system.
        why: std::io::Error,
    },
}

impl ClinicError {
    /// Error of a stream.
    pub(crate) fn of(error: &impl Failure) -> Self {
        if error.reset_code().or(error.stop_code()) == Some(CODE_MALFORMED) {
            let words = "it does not take the stream any more; what it reports has the reason";
            return Self::Refused(words.to_owned());
        }
        Self::Over(printable(&error.to_string(), REASON_CHARS))
    }

    pub(crate) fn file(path: &std::path::Path, why: std::io::Error) -> Self {
        Self::File {
            file: path.display().to_string(),
            why,
        }
    }

    /// True if the same can succeed in another session.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Over(_))
    }
}

impl From<WireError> for ClinicError {
    fn from(error: WireError) -> Self {
        Self::Protocol(printable(&error.0, REASON_CHARS))
    }
}
