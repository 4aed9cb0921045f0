//! Attaching to a running node: the flags that name its local interface, and failures of what is done through it.

use std::path::{Path, PathBuf};

use anabranch::{Client, ClientError, LocalAddress, config::SERVICE_LOCAL};

use crate::exit::Failure;

#[cfg(any(feature = "process", feature = "records", feature = "visualise"))]
mod again;

#[cfg(any(feature = "process", feature = "records", feature = "visualise"))]
pub(crate) use again::keep;

/// Place of the node's local interface.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// Socket of the node's local interface, or tcp:127.0.0.1:PORT [default: $XDG_RUNTIME_DIR/anabranch-local.sock, or
    /// ~/.local/state/anabranch/run/anabranch-local.sock].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_LOCAL")]
    local: Option<PathBuf>,
    /// File with the node's token, for tcp:….
    #[arg(long, value_name = "FILE", env = "ANABRANCH_LOCAL_TOKEN")]
    local_token: Option<PathBuf>,
}

impl Place {
    /// Attaches to the node there.
    ///
    /// # Errors
    /// As [`Client::attach_at`].
    pub(crate) async fn attach(&self, program: &str) -> Result<Client, ClientError> {
        match &self.local {
            Some(place) => {
                let place = LocalAddress::parse(place, self.local_token.as_deref())?;
                Client::attach_at(&place, program).await
            }
            None => match Client::attach_default(program).await {
                Err(ClientError::Attach { .. }) if Path::new(SERVICE_LOCAL).exists() => {
                    // The node of the machine, if it lets this user attach.
                    let of_machine = LocalAddress::Unix(SERVICE_LOCAL.into());
                    Client::attach_at(&of_machine, program).await
                }
                attached => attached,
            },
        }
    }
}

/// Failure of a command for an error of the node.
pub(crate) fn failure(error: ClientError) -> Failure {
    match &error {
        ClientError::NoSocket | ClientError::Address { .. } | ClientError::Send(_) => {
            Failure::usage(error)
        }
        ClientError::Token { .. } => Failure::file(error),
        ClientError::Attach { .. } | ClientError::TurnedAway(_) => Failure::unreachable(error),
        ClientError::Refused(_)
        | ClientError::Limited { .. }
        | ClientError::Reset(_)
        | ClientError::Stopped(_) => Failure::refused(error),
        ClientError::SessionOver(_) | ClientError::Detached(_) => Failure::unreachable(error),
        ClientError::Node { kind, .. } => match kind.as_str() {
            "unreachable" => Failure::unreachable(error),
            "peer" | "spec" | "request" => Failure::usage(error),
            _ => Failure::other(error),
        },
        _ => Failure::other(error),
    }
}
