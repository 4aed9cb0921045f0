//! Errors of sources and viewers.

use anabranch::{
    Failure,
    base::text::{REASON_CHARS, printable},
    rights::CODE_NO_RIGHT,
};

use crate::{
    imd::ImdError,
    source::{CODE_BUSY, CODE_MALFORMED},
    wire::WireError,
};

/// A simulation cannot be watched, or not any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VisualiseError {
    /// The simulation cannot be reached.
    #[error("the simulation at {address} cannot be reached: {why}")]
    Unreachable {
        /// Its address.
        address: String,
        /// Error of the system.
        why: std::io::Error,
    },
    /// The simulation does not speak IMDv3, or not what it announced.
    #[error("the simulation at {address}: {why}")]
    Simulation {
        /// Its address.
        address: String,
        /// Deviation from the protocol.
        why: ImdError,
    },
    /// The session or a stream is over.
    #[error("{0}")]
    Over(String),
    /// The peer has no such simulation, or not for this node.
    #[error(
        "the peer shows no simulation '{name}' to this node: there, run `anabranch imd source --name {name} HOST:PORT`, and grant \
         the right {{ right = \"use-service\", services = [\"imd/1/{purpose}/{name}\"] }} to this node"
    )]
    NotShown {
        /// Name of the simulation.
        name: String,
        /// `watch` or `steer`.
        purpose: &'static str,
    },
    /// The peer serves as many streams as it can.
    #[error("the source serves as many viewers as it can at this time; try again later")]
    Busy,
    /// The peer does not keep to the protocol.
    #[error("the peer does not keep to the protocol: {0}")]
    Protocol(String),
    /// The simulation does not send what is to be served.
    #[error(
        "the simulation sends {sent}, and nothing of {wanted}: choose other sections with --serve"
    )]
    Nothing {
        /// Sections that it sends.
        sent: String,
        /// Sections of the endpoints.
        wanted: String,
    },
}

impl VisualiseError {
    pub(crate) fn of(error: &impl Failure, name: &str, purpose: &'static str) -> Self {
        match error.reset_code().or(error.stop_code()) {
            Some(CODE_NO_RIGHT) => Self::NotShown {
                name: name.to_owned(),
                purpose,
            },
            Some(CODE_BUSY) => Self::Busy,
            Some(CODE_MALFORMED) => Self::Protocol(
                "it does not understand the request; is it of an older release?".to_owned(),
            ),
            _ => Self::Over(printable(&error.to_string(), REASON_CHARS)),
        }
    }

    /// True if the same request can succeed later.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Over(_) | Self::Busy | Self::Unreachable { .. })
    }
}

impl From<WireError> for VisualiseError {
    fn from(error: WireError) -> Self {
        Self::Protocol(printable(&error.0, REASON_CHARS))
    }
}
