//! Settings of the kernel: addresses of devices, routes, rules of routing, and the servers that resolve names.
//!
//! Addresses and routes are bound to a device; they end with it, and so with the process, however that ends. Rules do not: they have
//! fixed priorities, refer to a table that is then empty, and are removed or replaced at the next start.
//!
//! | module | holds |
//! |---|---|
//! | `routing` | [`Routing`]: the routes and rules of a client |
//! | `hold` | those routes while the addresses of the device change |
//! | `names` | [`Names`]: the servers that resolve names |
//! | `masquerade`, `lan` | what leaves under an address of this machine: packets of clients, and of local networks behind a client |
//! | `filter`, `forwarding` | tables of the packet filter; forwarding between devices. They end with the process, however that ends |

mod filter;
mod forwarding;
mod hold;
mod lan;
mod masquerade;
mod names;
mod routing;

use std::{
    fs, io,
    net::{IpAddr, UdpSocket},
};

use anabranch::net::tun::{TunError, await_v6_route, ip, ip_output};

pub use filter::FilterError;
pub(crate) use lan::{Lan, check as check_lan, remove_rules as remove_lan_rules};
pub(crate) use masquerade::{Masquerade, keep as keep_masquerade, restore as restore_forwarding};
pub use names::{Names, NamesError, restore as restore_names};
pub use routing::{Kinds, Routing, RoutingError};

use self::hold::Hold;
use crate::lease::Prefix;

/// A device cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// It cannot be created.
    #[error(transparent)]
    Device(#[from] TunError),
    /// It does not get its addresses.
    #[error("cannot set up the device: {0}")]
    Ip(String),
    /// No connections can be accepted at the tunnel's address.
    #[error("cannot accept the connections that are split at the tunnel's address: {0}")]
    Listen(io::Error),
    /// The tunnel's network is one of this machine already.
    #[error(
        "the tunnel's network {network} is also that of {device} here ({address}); one of them needs other addresses: the server takes \
         them from `pools`"
    )]
    Conflict {
        /// Network of the tunnel.
        network: Prefix,
        /// The other device.
        device: String,
        /// Its address.
        address: String,
    },
    /// The routes cannot be set.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// The servers that resolve names cannot be set.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// Masquerading cannot be set up.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The device of a local network is not there.
    #[error("there is no network interface {0}; give --lan (`lan`) one that `ip link` lists")]
    NoInterface(String),
}

/// Sets the MTU of a new device, and sets it up.
///
/// # Errors
/// The command that failed.
pub fn set_up(device: &str, mtu: u16) -> Result<(), SetupError> {
    // Without an address of its own making, which nobody in the tunnel could use. A kernel without IPv6 has none.
    let _ = ip(&["link", "set", device, "addrgenmode", "none"]);
    let mtu = mtu.to_string();
    ip(&["link", "set", device, "mtu", &mtu, "up"]).map_err(SetupError::Ip)
}

/// Changes the MTU of a device.
///
/// # Errors
/// The command that failed.
pub fn set_mtu(device: &str, mtu: u16) -> Result<(), SetupError> {
    ip(&["link", "set", device, "mtu", &mtu.to_string()]).map_err(SetupError::Ip)
}

/// Gives a device these addresses, with the lengths of their networks, and no others.
///
/// # Errors
/// The command that failed.
pub fn set_addresses(device: &str, addresses: &[(IpAddr, u8)]) -> Result<(), SetupError> {
    let is_v6_needed = addresses.iter().any(|(address, _)| address.is_ipv6());
    if is_v6_needed {
        enable_v6(device);
    }
    let shown =
        ip_output(&["-oneline", "address", "show", "dev", device]).map_err(SetupError::Ip)?;
    let wanted: Vec<String> = addresses
        .iter()
        .map(|(address, length)| format!("{address}/{length}"))
        .collect();
    let present: Vec<String> = shown
        .lines()
        .filter_map(address_of_line)
        .map(|(_, address)| address)
        .collect();
    if present.iter().all(|address| wanted.contains(address)) {
        return add_addresses(device, &wanted);
    }
    let _hold = Hold::new(device);
    // First, so that there is always one.
    add_addresses(device, &wanted)?;
    for address in present.iter().filter(|address| !wanted.contains(address)) {
        ip(&["address", "delete", address, "dev", device]).map_err(SetupError::Ip)?;
    }
    // With the first address in a network, the kernel may have removed the others.
    add_addresses(device, &wanted)
}

fn add_addresses(device: &str, addresses: &[String]) -> Result<(), SetupError> {
    for address in addresses {
        let mut command = vec!["address", "replace", address, "dev", device];
        if address.contains(':') {
            command.push("nodad");
        }
        ip(&command).map_err(SetupError::Ip)?;
    }
    for address in addresses.iter().filter(|address| address.contains(':')) {
        if !await_v6_route(&[], address) {
            tracing::debug!(
                device,
                address,
                "the kernel has no route to the address yet"
            );
        }
    }
    Ok(())
}

/// Allows IPv6 on a device where the default of the machine does not.
fn enable_v6(device: &str) {
    let path = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
    if fs::read_to_string(&path).is_ok_and(|text| text.trim() == "1") {
        // If it cannot be changed, setting the address fails, and says so.
        let _ = fs::write(&path, "0");
    }
}

/// Device and address, with its length, of a line of `ip -oneline address show`.
fn address_of_line(line: &str) -> Option<(String, String)> {
    let mut words = line.split_ascii_whitespace();
    let device = words.nth(1)?.trim_end_matches(':');
    let family = words.next()?;
    let address = words.next()?;
    matches!(family, "inet" | "inet6").then(|| (device.to_owned(), address.to_owned()))
}

/// Checks that none of the tunnel's networks is one of this machine.
///
/// # Errors
/// One is.
pub fn check_conflicts(device: &str, networks: &[Prefix]) -> Result<(), SetupError> {
    let shown = ip_output(&["-oneline", "address", "show"]).map_err(SetupError::Ip)?;
    match conflict(device, networks, &shown) {
        Some(conflict) => Err(conflict),
        None => Ok(()),
    }
}

fn conflict(device: &str, networks: &[Prefix], shown: &str) -> Option<SetupError> {
    for (other, address) in shown.lines().filter_map(address_of_line) {
        let Some((host, length)) = address.split_once('/') else {
            continue;
        };
        let (Ok(host), Ok(length)) = (host.parse::<IpAddr>(), length.parse()) else {
            continue;
        };
        let present = Prefix::of(host, length);
        let common = networks
            .iter()
            .find(|network| present.is_some_and(|present| present.overlaps(network)));
        if let Some(&network) = common.filter(|_| other != device && other != "lo") {
            return Some(SetupError::Conflict {
                network,
                device: other,
                address,
            });
        }
    }
    None
}

/// Settings of the kernel that keep this machine from forwarding packets of clients.
pub fn not_forwarding(v4: bool, v6: bool) -> Vec<&'static str> {
    let is_off = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/")));
        text.is_ok_and(|text| text.trim() == "0")
    };
    let settings = [
        (v4, "net.ipv4.ip_forward"),
        (v6, "net.ipv6.conf.all.forwarding"),
    ];
    let off = settings
        .into_iter()
        .filter(|(is_used, name)| *is_used && is_off(name));
    off.map(|(_, name)| name).collect()
}

/// True if this machine has IPv6 addresses by which it may reach others.
pub(crate) fn has_v6() -> bool {
    // No packet is sent: the kernel looks the route up.
    let probe = || {
        let socket = UdpSocket::bind("[::]:0").ok()?;
        socket.connect("[2001:db8::1]:9").ok()?;
        socket.local_addr().ok()
    };
    probe().is_some_and(|local| !local.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "\
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: eth0    inet 10.77.0.9/16 brd 10.77.255.255 scope global eth0\\       valid_lft forever
2: eth0    inet6 2001:db8::5/64 scope global \\       valid_lft forever preferred_lft forever
3: anabranch0    inet 10.78.0.2/24 scope global anabranch0\\       valid_lft forever
";

    #[test]
    fn networks_of_other_devices_conflict() {
        let of = |network: &str| {
            let network: Prefix = network.parse().unwrap();
            conflict("anabranch0", &[network], SHOWN).map(|error| error.to_string())
        };
        let error = of("10.77.0.0/24").unwrap();
        assert!(
            error.contains("eth0") && error.contains("10.77.0.9/16"),
            "{error}"
        );
        assert!(of("2001:db8::/48").is_some());
        assert_eq!(of("10.78.0.0/24"), None, "its own");
        assert_eq!(of("10.79.0.0/24"), None);
        assert_eq!(of("fd77::/64"), None);
    }

    #[test]
    fn lines_of_ip_are_read() {
        let lines: Vec<_> = SHOWN.lines().filter_map(address_of_line).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[1], ("eth0".to_owned(), "10.77.0.9/16".to_owned()));
        assert_eq!(address_of_line("3: x    link/ether 00:11"), None);
        assert_eq!(address_of_line(""), None);
    }
}
