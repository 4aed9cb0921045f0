//! Reasons for which a machine is not in the tunnel.

use anabranch::{StreamFailure, rights::CODE_NO_RIGHT};

use crate::{
    system::SetupError,
    wire::{CODE_PROTOCOL, CODE_REPLACED, Code},
};

/// This machine is not in the tunnel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server refuses.
    #[error("the server refuses: {text}")]
    Refused {
        /// The reason.
        code: Code,
        /// The reason in its words.
        text: String,
    },
    /// The peer serves no tunnel.
    #[error(
        "the peer serves no tunnel; there, run `anabranch tun --serve`, or give a node the section [tunnel.server]"
    )]
    NoTunnel,
    /// The server took the right away.
    #[error("the server took the right to its tunnel away")]
    Withdrawn,
    /// The same node has joined in another session.
    #[error(
        "another process with this key has joined the tunnel; give each machine a key of its own (`anabranch keygen`)"
    )]
    Replaced,
    /// The server did not answer, or the session is over.
    #[error("no answer from the server: {0}")]
    Lost(String),
    /// The server broke the rules.
    #[error("the server sent what is no message of the tunnel")]
    Protocol,
    /// This machine cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl ClientError {
    /// True if trying again has no prospect before something is changed, here or at the server.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::NoTunnel | Self::Setup(_) | Self::Withdrawn
        )
    }
}

/// Meaning of the failure of a stream.
pub(super) fn lost(failure: StreamFailure) -> ClientError {
    match failure {
        StreamFailure::Reset(CODE_NO_RIGHT) | StreamFailure::Stopped(CODE_NO_RIGHT) => {
            ClientError::NoTunnel
        }
        StreamFailure::Reset(CODE_REPLACED) | StreamFailure::Stopped(CODE_REPLACED) => {
            ClientError::Replaced
        }
        StreamFailure::Reset(CODE_PROTOCOL) | StreamFailure::Stopped(CODE_PROTOCOL) => {
            ClientError::Protocol
        }
        failure => ClientError::Lost(failure.to_string()),
    }
}
