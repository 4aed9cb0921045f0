//! Settings of the gateway, as texts: the gateway reads them.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::{ConfigError, refused, set, time};

/// Most SOCKS servers of a node.
pub const SOCKS_MAX: usize = 64;

/// Settings of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayLayer {
    /// SOCKS servers.
    pub socks: Option<Vec<SocksLayer>>,
    /// Time in which a new connection must be made.
    pub connect_timeout: Option<String>,
    /// Time without a datagram after which a flow ends.
    pub flow_timeout: Option<String>,
    /// Time without a path to the peer after which connections end.
    pub outage_timeout: Option<String>,
}

/// A SOCKS5 server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SocksLayer {
    /// Address at which it listens, `ADDRESS:PORT`.
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

/// Settings of the gateway, which reads the servers.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayConfig {
    /// SOCKS servers.
    pub socks: Vec<SocksLayer>,
    /// Time in which a new connection must be made, 1 s to 5 min.
    pub connect_timeout: Duration,
    /// Time without a datagram after which a flow ends, 1 s to 1 h.
    pub flow_timeout: Duration,
    /// Time without a path to the peer after which connections end, 1 s to 1 h.
    pub outage_timeout: Duration,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            socks: Vec::new(),
            connect_timeout: Duration::from_secs(30),
            flow_timeout: Duration::from_secs(60),
            outage_timeout: Duration::from_secs(30),
        }
    }
}

fn from_to(text: &str, seconds_max: u64, range: &str) -> Result<Duration, String> {
    let given = time(text)?;
    let is_within = (Duration::from_secs(1)..=Duration::from_secs(seconds_max)).contains(&given);
    is_within
        .then_some(given)
        .ok_or_else(|| format!("give {range}"))
}

impl GatewayLayer {
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            socks: self.socks.or(below.socks),
            connect_timeout: self.connect_timeout.or(below.connect_timeout),
            flow_timeout: self.flow_timeout.or(below.flow_timeout),
            outage_timeout: self.outage_timeout.or(below.outage_timeout),
        }
    }

    /// Checks the values and fills in the defaults.
    ///
    /// # Errors
    /// The first value that is refused.
    pub fn resolve(&self) -> Result<GatewayConfig, ConfigError> {
        let socks = self.socks.clone().unwrap_or_default();
        if socks.len() > SOCKS_MAX {
            let count = socks.len().to_string();
            let reason = format!("a node has at most {SOCKS_MAX} SOCKS servers");
            return Err(refused("gateway.socks", &count, reason));
        }
        let mut config = GatewayConfig {
            socks,
            ..GatewayConfig::default()
        };
        set(
            &mut config.connect_timeout,
            "gateway.connect_timeout",
            &self.connect_timeout,
            |text| from_to(text, 300, "1 s to 5 min"),
        )?;
        set(
            &mut config.flow_timeout,
            "gateway.flow_timeout",
            &self.flow_timeout,
            |text| from_to(text, 3600, "1 s to 1 h"),
        )?;
        set(
            &mut config.outage_timeout,
            "gateway.outage_timeout",
            &self.outage_timeout,
            |text| from_to(text, 3600, "1 s to 1 h"),
        )?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_defaults_and_ranges() {
        let layer = |connect: &str, flow: &str, outage: &str| GatewayLayer {
            connect_timeout: Some(connect.to_owned()),
            flow_timeout: Some(flow.to_owned()),
            outage_timeout: Some(outage.to_owned()),
            ..GatewayLayer::default()
        };
        let config = layer("2 s", "1 h", "5 min").resolve().unwrap();
        assert_eq!(config.connect_timeout, Duration::from_secs(2));
        assert_eq!(config.flow_timeout, Duration::from_secs(3600));
        assert_eq!(config.outage_timeout, Duration::from_secs(300));
        let preset = GatewayLayer::default().resolve().unwrap();
        assert_eq!(preset, GatewayConfig::default());
        for (layer, key) in [
            (layer("500 ms", "1 s", "1 s"), "gateway.connect_timeout"),
            (layer("6 min", "1 s", "1 s"), "gateway.connect_timeout"),
            (layer("1 s", "2 h", "1 s"), "gateway.flow_timeout"),
            (layer("1 s", "1", "1 s"), "gateway.flow_timeout"),
            (layer("1 s", "1 s", "0 s"), "gateway.outage_timeout"),
            (layer("1 s", "1 s", "61 min"), "gateway.outage_timeout"),
        ] {
            let error = layer.resolve().unwrap_err().to_string();
            assert!(error.starts_with(key), "{error}");
        }
    }
}
