//! Routes of a client, in a table of their own, and the rules by which packets are looked up there.
//!
//! | priority | rule | purpose |
//! |---|---|---|
//! | 5270 | UDP to an address of the server: table `main` | answers of the server pass a strict reverse-path filter |
//! | 5271 | table `main`, but for its default routes | the networks of this machine's own interfaces stay as they are |
//! | 5272 | without the mark of the node: the tunnel's table | everything else goes through the tunnel |
//!
//! The node's own packets carry the mark, and are routed as if there were no tunnel. The routes in the table are bound to the device. A
//! family that the tunnel does not carry is routed into it as well under a default route: its packets are answered with "prohibited"
//! and never leave by another way.

use std::net::{IpAddr, SocketAddr};

use anabranch::{
    config::TUNNEL_MARK,
    net::tun::{ip, ip_output},
};

use crate::lease::Prefix;

/// Priorities of the rules, as texts.
const PRIORITY_SERVER: &str = "5270";
const PRIORITY_OWN_NETWORKS: &str = "5271";
const PRIORITY_TUNNEL: &str = "5272";
/// Rules of one priority that are removed at most: one for each address of the server.
const RULES_MAX: usize = 256;

/// The routes cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutingError {
    /// A command failed.
    #[error("cannot set the routes of the tunnel: {0}")]
    Ip(String),
    /// IPv6 would stay outside the tunnel.
    #[error(
        "IPv6 cannot be routed into the tunnel ({0}), so that its packets would pass outside; allow this with --allow-ipv6-leak \
         (`allow_ipv6_leak`), or turn IPv6 off with `sysctl -w net.ipv6.conf.all.disable_ipv6=1`"
    )]
    Leak(String),
    /// Another tunnel has the routes.
    #[error(
        "another tunnel has the default route of this machine, at the device {0}; end it first"
    )]
    Taken(String),
}

/// Destinations that go through the tunnel, in addition to its own network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Everything.
    pub default_route: bool,
    /// These networks.
    pub networks: Vec<Prefix>,
    /// IPv6 may stay outside if it cannot be routed into the tunnel.
    pub allow_ipv6_leak: bool,
}

/// Routes and rules of a client; taken back when dropped.
#[derive(Debug)]
pub struct Routing {
    _priv: (),
}

impl Drop for Routing {
    fn drop(&mut self) {
        remove_rules();
    }
}

/// The tunnel's table, as a text.
fn table() -> String {
    TUNNEL_MARK.to_string()
}

/// Removes the rules of a tunnel, of this process or of one that was killed.
fn remove_rules() {
    remove(&[PRIORITY_TUNNEL, PRIORITY_OWN_NETWORKS, PRIORITY_SERVER]);
}

/// Removes the rules with these priorities.
pub(super) fn remove(priorities: &[&str]) {
    for family in ["-4", "-6"] {
        for priority in priorities {
            for _ in 0..RULES_MAX {
                // It fails when there is none left.
                if ip(&[family, "rule", "delete", "priority", priority]).is_err() {
                    break;
                }
            }
        }
    }
}

/// Device of a route in a table of the tunnel, if it is another one.
pub(super) fn taken_by(device: &str, table: u32) -> Option<String> {
    let table = table.to_string();
    for family in ["-4", "-6"] {
        let shown = ip_output(&[family, "route", "show", "table", &table]).unwrap_or_default();
        let mut devices = shown.lines().filter_map(device_of_route);
        if let Some(other) = devices.find(|other| *other != device) {
            return Some(other.to_owned());
        }
    }
    None
}

fn device_of_route(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    words.by_ref().find(|word| *word == "dev")?;
    words.next()
}

impl Routing {
    /// Sets the routes of a device, and the rules. Rules that another process left are replaced. `servers`: addresses at which the node
    /// reaches the server.
    ///
    /// # Errors
    /// The command that failed, or IPv6 would stay outside; nothing is left of what was set.
    pub fn set(
        device: &str,
        kinds: &Kinds,
        servers: &[SocketAddr],
        has_v6: bool,
    ) -> Result<Option<Self>, RoutingError> {
        if let Some(other) = taken_by(device, TUNNEL_MARK) {
            return Err(RoutingError::Taken(other));
        }
        remove_rules();
        if !kinds.default_route && kinds.networks.is_empty() {
            return Ok(None);
        }
        // From here on, dropping it takes the rules back.
        let routing = Self { _priv: () };
        let of = |v4: bool| kinds.networks.iter().filter(move |n| n.is_v4() == v4);
        if kinds.default_route || of(true).next().is_some() {
            set_family(device, kinds, servers, true).map_err(RoutingError::Ip)?;
        }
        if kinds.default_route || of(false).next().is_some() {
            super::enable_v6(device);
            match set_family(device, kinds, servers, false) {
                Ok(()) => {}
                Err(error) if !kinds.default_route => return Err(RoutingError::Ip(error)),
                Err(error) if has_v6 && !kinds.allow_ipv6_leak => {
                    return Err(RoutingError::Leak(error));
                }
                Err(error) => tracing::warn!(error, "IPv6 stays outside the tunnel"),
            }
        }
        Ok(Some(routing))
    }
}

fn set_family(
    device: &str,
    kinds: &Kinds,
    servers: &[SocketAddr],
    is_v4: bool,
) -> Result<(), String> {
    let family = if is_v4 { "-4" } else { "-6" };
    let table = table();
    let default = kinds.default_route.then(|| "default".to_owned());
    let networks = kinds.networks.iter().filter(|n| n.is_v4() == is_v4);
    let networks = networks.map(ToString::to_string);
    for network in default.into_iter().chain(networks) {
        ip(&[
            family, "route", "replace", &network, "dev", device, "table", &table,
        ])?;
    }
    for server in servers.iter().filter(|server| server.is_ipv4() == is_v4) {
        let (to, port) = (host(server.ip()), server.port().to_string());
        let rule = ["ipproto", "udp", "dport", &port, "lookup", "main"];
        let head = [
            family,
            "rule",
            "add",
            "priority",
            PRIORITY_SERVER,
            "to",
            &to,
        ];
        // Older kernels have no ports in rules; they serve machines with a loose filter all the same.
        if let Err(error) = ip(&[&head[..], &rule].concat()) {
            tracing::debug!(error, "no rule for the server");
        }
    }
    let own = ["priority", PRIORITY_OWN_NETWORKS, "lookup", "main"];
    let all_but_default = ["suppress_prefixlength", "0"];
    ip(&[&[family, "rule", "add"][..], &own, &all_but_default].concat())?;
    let mark = TUNNEL_MARK.to_string();
    let unmarked = ["priority", PRIORITY_TUNNEL, "not", "fwmark", &mark];
    ip(&[&[family, "rule", "add"][..], &unmarked, &["lookup", &table]].concat())
}

/// An address as the network of one host.
fn host(address: IpAddr) -> String {
    let length = if address.is_ipv4() { 32 } else { 128 };
    format!("{address}/{length}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_routes_are_read() {
        assert_eq!(
            device_of_route("default dev anabranch0 scope link"),
            Some("anabranch0")
        );
        assert_eq!(
            device_of_route("default via 10.0.0.1 dev eth0 proto dhcp"),
            Some("eth0")
        );
        assert_eq!(
            device_of_route("unreachable default metric 4294967295"),
            None
        );
        assert_eq!(device_of_route(""), None);
    }

    #[test]
    fn hosts_are_networks_of_one() {
        assert_eq!(host([192, 0, 2, 1].into()), "192.0.2.1/32");
        assert_eq!(host("2001:db8::1".parse().unwrap()), "2001:db8::1/128");
    }
}
