//! Settings of the gateway, as texts: the gateway reads them.

use std::path::PathBuf;

use serde::Deserialize;

use super::{ConfigError, refused};

/// Most SOCKS servers of a node.
pub const SOCKS_MAX: usize = 64;

/// Settings of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayLayer {
    /// SOCKS servers.
    pub socks: Option<Vec<SocksLayer>>,
}

/// A SOCKS5 server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocksLayer {
    /// Where it listens, `ADDRESS:PORT`.
    pub local: String,
    /// Name or ID of the peer that makes the connections for which no rule names another one; absent: these are refused.
    #[serde(default)]
    pub peer: Option<String>,
    /// Name that programs must give.
    #[serde(default)]
    pub user: Option<String>,
    /// File with their password in its first line.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// Service for the data, in place of the rules.
    #[serde(default)]
    pub service: Option<crate::spec::ServiceText>,
}

/// Settings of the gateway, not yet read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayConfig {
    /// SOCKS servers.
    pub socks: Vec<SocksLayer>,
}

impl GatewayLayer {
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            socks: self.socks.or(below.socks),
        }
    }

    pub(super) fn resolve(&self) -> Result<GatewayConfig, ConfigError> {
        let socks = self.socks.clone().unwrap_or_default();
        if socks.len() > SOCKS_MAX {
            let count = socks.len().to_string();
            let reason = format!("a node has at most {SOCKS_MAX} SOCKS servers");
            return Err(refused("gateway.socks", &count, reason));
        }
        Ok(GatewayConfig { socks })
    }
}
