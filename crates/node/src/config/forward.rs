//! Forwards of the configuration, as texts: the gateway reads them.

use serde::{Deserialize, Serialize};

use super::{ConfigError, Layer, refused};
use crate::spec::ServiceText;

/// Most forwards of a node.
pub const FORWARDS_MAX: usize = 1024;

/// Connections accepted here and made by a peer (`local`), or accepted by the peer and made here (`remote`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardLayer {
    /// Accepting end on this machine: `ADDRESS:PORT`, or `unix:PATH`.
    #[serde(default)]
    pub local: Option<String>,
    /// Accepting end at the peer, instead.
    #[serde(default)]
    pub remote: Option<String>,
    /// Name or ID of the peer.
    pub peer: String,
    /// Target of the connections, made by the other side: `HOST:PORT`, or `unix:PATH`.
    pub to: String,
    /// `tcp` or `udp`; absent for Unix sockets on both sides.
    #[serde(default)]
    pub protocol: Option<String>,
    /// Service for the data, in place of the preset for the protocol.
    #[serde(default)]
    pub service: Option<ServiceText>,
}

impl Layer {
    /// The forwards, not yet read.
    pub(super) fn forwards(&self) -> Result<Vec<ForwardLayer>, ConfigError> {
        let forwards = self.forward.clone().unwrap_or_default();
        if forwards.len() > FORWARDS_MAX {
            let count = forwards.len().to_string();
            let reason = format!("a node has at most {FORWARDS_MAX} forwards");
            return Err(refused("forward", &count, reason));
        }
        Ok(forwards)
    }
}
