//! Errors of sources and viewers.

use anabranch::{
    Failure,
    base::text::{REASON_CHARS, printable},
    rights::CODE_NO_RIGHT,
};

use crate::{
    imd::ImdError,
    molecule::MoleculeError,
    streams::{CODE_BUSY, CODE_MALFORMED},
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
        "the peer shows no simulation '{name}' to this node: there, run `{command}`, and grant \
         the right {{ right = \"use-service\", services = [\"{label}\"] }} to this node"
    )]
    NotShown {
        /// Name of the simulation.
        name: String,
        /// Label of the stream.
        label: String,
        /// Command that serves it.
        command: String,
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
    /// The molecule cannot be shown.
    #[error(transparent)]
    Molecule(#[from] MoleculeError),
}

impl VisualiseError {
    /// Error of a stream with this label; `command` is that which serves it.
    pub(crate) fn of(error: &impl Failure, name: &str, label: String, command: String) -> Self {
        match error.reset_code().or(error.stop_code()) {
            Some(CODE_NO_RIGHT) => Self::NotShown {
                name: name.to_owned(),
                label,
                command,
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
