//! Settings of the tunnel, as texts: the tunnel reads them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Mark of the packets of a node that joins a tunnel, by which its rules of routing leave them out (`SO_MARK`; the letters "an").
pub const TUNNEL_MARK: u32 = 0x616e;
/// Device of a tunnel that a node joins, unless another one is named.
pub const CLIENT_DEVICE: &str = "anabranch0";
/// Device of a node that serves a tunnel, unless another one is named.
pub const SERVER_DEVICE: &str = "anabranch1";

/// Settings of the tunnel.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TunnelLayer {
    /// The tunnel that other nodes may join.
    pub server: Option<TunnelServerLayer>,
    /// The tunnel that this node joins.
    pub client: Option<TunnelClientLayer>,
}

/// The tunnel that other nodes may join.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelServerLayer {
    /// Networks from which its addresses are assigned, one of each family at most: `ADDRESS/LENGTH`.
    pub pools: Vec<String>,
    /// Name of its device.
    #[serde(default)]
    pub device: Option<String>,
    /// Largest IP packet, with its unit.
    #[serde(default)]
    pub mtu: Option<String>,
    /// File of the addresses by node; empty: none.
    #[serde(default)]
    pub leases: Option<PathBuf>,
    /// True if TCP connections of clients that split theirs are made here; `None`: yes.
    #[serde(default)]
    pub split_tcp: Option<bool>,
    /// Destinations of its clients' packets outside the tunnel: networks, addresses, `internet` or `any`; `None`: not limited here.
    #[serde(default)]
    pub destinations: Option<Vec<String>>,
    /// Share of what can be promised that the services of its clients' packets have together, with `%`, or `none`.
    #[serde(default)]
    pub promised_share_max: Option<String>,
    /// True if its clients' packets leave under an address of this machine, which forwards for it.
    #[serde(default)]
    pub masquerade: bool,
}

/// The tunnel that this node joins.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelClientLayer {
    /// Name or ID of the peer that serves it.
    pub peer: String,
    /// Name of its device.
    #[serde(default)]
    pub device: Option<String>,
    /// Largest IP packet, with its unit.
    #[serde(default)]
    pub mtu: Option<String>,
    /// True if all traffic of this machine goes through it.
    #[serde(default)]
    pub default_route: bool,
    /// Networks that are reached through it, in addition to its own.
    #[serde(default)]
    pub routes: Vec<String>,
    /// Addresses of the servers that resolve names.
    #[serde(default)]
    pub dns: Vec<String>,
    /// True if IPv6 may stay outside where a default route for it cannot be set.
    #[serde(default)]
    pub allow_ipv6_leak: bool,
    /// True if TCP connections end at this node and at the server's, and are carried as streams.
    #[serde(default)]
    pub split_tcp: bool,
    /// Devices of local networks whose machines reach everything through it.
    #[serde(default)]
    pub lan: Vec<String>,
}

impl TunnelLayer {
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            server: self.server.or(below.server),
            client: self.client.or(below.client),
        }
    }

    /// Fills in the file of the server's addresses; an empty path stays, for none.
    pub(super) fn with_leases(mut self, default: Option<PathBuf>) -> Self {
        if let Some(server) = &mut self.server {
            server.leases = server.leases.take().or(default);
        }
        self
    }

    /// Names of its devices, and of those of local networks behind it, which carry no paths of this node.
    pub fn devices(&self) -> Vec<String> {
        let server = self.server.as_ref();
        let client = self.client.as_ref();
        let named = |device: &Option<String>, or: &str| device.clone().unwrap_or(or.to_owned());
        let server = server.map(|server| named(&server.device, SERVER_DEVICE));
        let client = client.map(|client| named(&client.device, CLIENT_DEVICE));
        let lan = self.client.as_ref().map(|client| client.lan.clone());
        let devices = server.into_iter().chain(client);
        devices.chain(lan.unwrap_or_default()).collect()
    }

    /// The settings that a reload does not change.
    pub(crate) fn without_reloaded(&self) -> Self {
        let mut rest = self.clone();
        if let Some(server) = &mut rest.server {
            server.pools.clear();
            server.destinations = None;
            server.promised_share_max = None;
        }
        rest
    }

    /// Mark of the node's packets: it is needed where the node joins a tunnel.
    pub fn mark(&self) -> Option<u32> {
        self.client.as_ref().map(|_| TUNNEL_MARK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_defaults_and_only_a_client_is_marked() {
        let read = |text: &str| toml::from_str::<TunnelLayer>(text).unwrap();
        let none = read("");
        assert_eq!((none.devices().len(), none.mark()), (0, None));
        let server = read("[server]\npools = [\"10.77.0.0/24\"]\n");
        assert_eq!(server.devices(), [SERVER_DEVICE]);
        assert_eq!(server.mark(), None);
        let both = read(
            "[server]\npools = []\ndevice = \"exit0\"\n[client]\npeer = \"studio\"\ndefault_route = true\nlan = [\"eth1\"]\n",
        );
        assert_eq!(both.devices(), ["exit0", CLIENT_DEVICE, "eth1"]);
        assert_eq!(both.mark(), Some(TUNNEL_MARK));
        assert!(toml::from_str::<TunnelLayer>("[client]\npeers = \"x\"\n").is_err());
    }
}
