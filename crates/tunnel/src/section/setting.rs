//! Settings of the tunnel in a node's configuration: texts as values.

use std::net::{IpAddr, SocketAddr};

use anabranch::{
    Share,
    base::{NodeId, size},
    config::{
        CLIENT_DEVICE, ConfigError, NodeConfig, SERVER_DEVICE, TunnelClientLayer, TunnelLayer,
        TunnelServerLayer,
    },
    net::tun::is_name,
};

use crate::{
    Destinations, client, lease,
    lease::{Pools, Prefix},
    server,
    system::Kinds,
    wire::{MTU_MAX, MTU_MIN},
};

/// Largest IP packet, unless another one is named: with the headers of the tunnel, of QUIC and of IPv6 it fits an Ethernet frame.
pub const MTU: u16 = 1400;
/// Networks that go through the tunnel, and servers that resolve names, at most.
const LIST_MAX: usize = 64;

/// The tunnel of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The tunnel that other nodes may join.
    pub server: Option<server::Settings>,
    /// The tunnel that this node joins, with its server.
    pub client: Option<(NodeId, client::Settings)>,
}

fn refused(key: &str, value: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: reason.into(),
    }
}

fn device(key: &str, text: Option<&String>, or: &str) -> Result<String, ConfigError> {
    let name = text.map_or(or, String::as_str);
    match is_name(name) {
        true => Ok(name.to_owned()),
        false => {
            let reason = "give 1 to 15 letters, digits, '-', '_' or '.'";
            Err(refused(key, name, reason))
        }
    }
}

fn mtu(key: &str, text: Option<&String>) -> Result<u16, ConfigError> {
    let Some(text) = text else {
        return Ok(MTU);
    };
    let bytes = size::parse(text)
        .ok()
        .and_then(|bytes| u16::try_from(bytes).ok());
    let bytes = bytes.filter(|bytes| (MTU_MIN..=MTU_MAX).contains(bytes));
    bytes.ok_or_else(|| refused(key, text, format!("give {MTU_MIN} B to {MTU_MAX} B")))
}

fn list<T: std::str::FromStr>(
    key: &str,
    texts: &[String],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, ConfigError> {
    if texts.len() > LIST_MAX {
        let count = texts.len().to_string();
        return Err(refused(key, &count, format!("give {LIST_MAX} at most")));
    }
    let read = |text: &String| read(text).map_err(|reason| refused(key, text, reason));
    texts.iter().map(read).collect()
}

fn prefix(text: &str) -> Result<Prefix, String> {
    text.parse()
        .map_err(|error: lease::PrefixError| error.to_string())
}

/// Settings of a server.
///
/// # Errors
/// The first value that is refused.
pub fn of_server(layer: &TunnelServerLayer) -> Result<server::Settings, ConfigError> {
    let key = "tunnel.server.pools";
    let networks = list(key, &layer.pools, prefix)?;
    let pools = Pools::new(networks);
    let pools = pools.map_err(|error| refused(key, &layer.pools.join(", "), error.to_string()))?;
    let leases = layer.leases.clone();
    let destinations = layer.destinations.as_ref().map(|texts| {
        let key = "tunnel.server.destinations";
        Destinations::parse(texts)
            .map_err(|error| refused(key, &texts.join(", "), error.to_string()))
    });
    let destinations = destinations.transpose()?;
    Ok(server::Settings {
        destinations: destinations.or_else(|| layer.masquerade.then(Destinations::default)),
        masquerade: layer.masquerade,
        pools,
        device: device("tunnel.server.device", layer.device.as_ref(), SERVER_DEVICE)?,
        mtu: mtu("tunnel.server.mtu", layer.mtu.as_ref())?,
        leases: leases.filter(|path| !path.as_os_str().is_empty()),
        split_tcp: layer.split_tcp.unwrap_or(true),
        promised_share: promised_share(layer.promised_share_max.as_deref())?,
    })
}

/// Share of what can be promised that clients have, unless another one is named.
const PROMISED_SHARE: &str = "50 %";

/// Share of what can be promised that clients have; `None`: none.
fn promised_share(text: Option<&str>) -> Result<Option<Share>, ConfigError> {
    let text = text.unwrap_or(PROMISED_SHARE);
    if text.trim() == "none" {
        return Ok(None);
    }
    let share = text.parse::<Share>().map_err(|error| {
        let reason = format!("{error}; or \"none\"");
        refused("tunnel.server.promised_share_max", text, reason)
    })?;
    Ok(Some(share))
}

/// Settings of a client, whose node reaches the server at these addresses.
///
/// # Errors
/// The first value that is refused.
pub fn of_client(
    layer: &TunnelClientLayer,
    servers: Vec<SocketAddr>,
) -> Result<client::Settings, ConfigError> {
    let name = |text: &str| {
        let parsed = text.parse::<IpAddr>();
        parsed.map_err(|_| "give the IP address of a server that resolves names".to_owned())
    };
    let own = device("tunnel.client.device", layer.device.as_ref(), CLIENT_DEVICE)?;
    let lan = list("tunnel.client.lan", &layer.lan, |text| {
        let fits = is_name(text) && text != own;
        fits.then(|| text.to_owned()).ok_or_else(|| {
            "give the name of another network interface, such as eth1, that `ip link` lists"
                .to_owned()
        })
    })?;
    Ok(client::Settings {
        device: own,
        mtu: mtu("tunnel.client.mtu", layer.mtu.as_ref())?,
        kinds: Kinds {
            default_route: layer.default_route,
            networks: list("tunnel.client.routes", &layer.routes, prefix)?,
            allow_ipv6_leak: layer.allow_ipv6_leak,
        },
        dns: list("tunnel.client.dns", &layer.dns, name)?,
        servers,
        split_tcp: layer.split_tcp,
        lan,
    })
}

impl Settings {
    /// Reads the settings of a node.
    ///
    /// # Errors
    /// The first value that is refused.
    pub fn read(config: &NodeConfig) -> Result<Self, ConfigError> {
        let TunnelLayer { server, client } = &config.tunnel;
        let server = server.as_ref().map(of_server).transpose()?;
        let client = client.as_ref().map(|layer| {
            let named = config.names.iter().find(|(_, name)| **name == layer.peer);
            let node = named
                .map(|(node, _)| *node)
                .or_else(|| layer.peer.parse().ok());
            let peer = config.peers.iter().find(|peer| Some(peer.node) == node);
            let peer = peer.ok_or_else(|| {
                let reason = "there is no [[peer]] of this name with addresses";
                refused("tunnel.client.peer", &layer.peer, reason)
            })?;
            let settings = of_client(layer, peer.addresses.addresses.clone())?;
            Ok((peer.node, settings))
        });
        let settings = Self {
            server,
            client: client.transpose()?,
        };
        if let (Some(server), Some((_, client))) = (&settings.server, &settings.client)
            && server.device == client.device
        {
            let reason = "the server and the client need devices of different names";
            return Err(refused("tunnel.client.device", &client.device, reason));
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use anabranch::config::Layer;

    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let id = NodeId::from_public_key([1; 32]);
        let peer = format!(
            "control = \"/run/c\"\n[[peer]]\nname = \"studio\"\nnode = \"{id}\"\nmay = []\naddresses = [\"192.0.2.7:4433\"]\n"
        );
        let layer = Layer::from_toml(&(peer + text)).map_err(|error| error.to_string())?;
        let variable = |name: &str| (name == "HOME").then(|| "/home/ada".to_owned());
        let config = layer.resolve(variable).map_err(|error| error.to_string())?;
        Settings::read(&config).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_filled_in() {
        let settings = read("[tunnel.server]\npools = [\"10.77.0.0/24\"]\n").unwrap();
        let server = settings.server.unwrap();
        assert_eq!((server.device.as_str(), server.mtu), ("anabranch1", 1400));
        let leases = server.leases.unwrap();
        assert!(
            leases.ends_with(".local/state/anabranch/leases"),
            "{leases:?}"
        );
        assert!(settings.client.is_none());
        let text =
            "[tunnel.client]\npeer = \"studio\"\ndefault_route = true\ndns = [\"9.9.9.9\"]\n";
        let (_, client) = read(text).unwrap().client.unwrap();
        assert_eq!(client.device, "anabranch0");
        assert_eq!(client.servers, ["192.0.2.7:4433".parse().unwrap()]);
        assert!(client.kinds.default_route && client.kinds.networks.is_empty());
        let text = "[tunnel.server]\npools = [\"10.77.0.0/24\"]\nleases = \"\"\n";
        assert_eq!(read(text).unwrap().server.unwrap().leases, None);
    }

    #[test]
    fn masquerading_is_for_the_internet_unless_other_destinations_are_named() {
        let of = |more: &str| {
            let text = format!("[tunnel.server]\npools = [\"10.77.0.0/24\"]\n{more}\n");
            let server = read(&text).unwrap().server.unwrap();
            let destinations = server.destinations.map(|list| list.to_string());
            (server.masquerade, destinations)
        };
        assert_eq!(of(""), (false, None));
        let internet = Some("internet".to_owned());
        assert_eq!(of("masquerade = true"), (true, internet));
        let both = "masquerade = true\ndestinations = [\"any\"]";
        assert_eq!(of(both), (true, Some("any".to_owned())));
    }

    #[test]
    fn clients_are_promised_a_share_at_most() {
        let of = |more: &str| {
            let text = format!("[tunnel.server]\npools = [\"10.77.0.0/24\"]\n{more}\n");
            let server = read(&text).unwrap().server.unwrap();
            server.promised_share.map(|share| share.to_string())
        };
        assert_eq!(of("").as_deref(), Some("50 %"));
        assert_eq!(of("promised_share_max = \"20 %\"").as_deref(), Some("20 %"));
        assert_eq!(of("promised_share_max = \"none\""), None);
    }

    #[test]
    fn values_that_do_not_fit_are_named() {
        let server = "[tunnel.server]\npools = [\"10.77.0.0/24\"]\n";
        for (text, expected) in [
            ("[tunnel.server]\npools = []\n", "name a network"),
            (
                &format!("{server}destinations = [\"internet\", \"10.0.0.1/8\"]\n"),
                "write 10.0.0.0/8",
            ),
            (
                &format!("{server}destinations = [\"example.net\"]\n"),
                "\"example.net\" is no destination",
            ),
            (&format!("{server}destinations = []\n"), "at least one"),
            (
                &format!("{server}promised_share_max = \"2\"\n"),
                "or \"none\"",
            ),
            (
                "[tunnel.server]\npools = [\"10.77.0.0\"]\n",
                "ADDRESS/LENGTH",
            ),
            (
                "[tunnel.client]\npeer = \"other\"\n",
                "no [[peer]] of this name",
            ),
            (&format!("{server}mtu = \"1000 B\"\n"), "1280 B to 9000 B"),
            (&format!("{server}device = \"a/b\"\n"), "letters"),
            (
                "[tunnel.client]\npeer = \"studio\"\nlan = [\"eth 1\"]\n",
                "that `ip link` lists",
            ),
            (
                "[tunnel.client]\npeer = \"studio\"\nlan = [\"anabranch0\"]\n",
                "another network interface",
            ),
            (
                "[tunnel.client]\npeer = \"studio\"\ndns = [\"example.net\"]\n",
                "IP address of a server",
            ),
            (
                &format!("{server}[tunnel.client]\npeer = \"studio\"\ndevice = \"anabranch1\"\n"),
                "different names",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
