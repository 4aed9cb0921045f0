//! Addresses of clients: each node has its own, and keeps it over reconnections and restarts of the server.
//!
//! | module | holds |
//! |---|---|
//! | `prefix` | [`Prefix`]: a network |
//! | [`pools`](Pools) | the networks from which addresses are assigned |
//! | `table` | [`Table`]: the addresses of each node, as values and as text |

mod prefix;
mod table;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use prefix::{Prefix, PrefixError};
pub use table::{Lease, NoAddress, TEXT_BYTES_MAX, Table, TableError};

/// Range of the lengths of networks of IPv4.
const LENGTHS_V4: std::ops::RangeInclusive<u8> = 8..=30;
/// Range of the lengths of networks of IPv6.
const LENGTHS_V6: std::ops::RangeInclusive<u8> = 48..=126;

/// The networks from which addresses are assigned. The second address of each, the first that a host may have, is the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pools {
    v4: Option<Prefix>,
    v6: Option<Prefix>,
}

/// The networks cannot be those of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolsError {
    /// There is none.
    #[error("name a network for the addresses of the tunnel, such as 10.77.0.0/24 or fd77::/64")]
    None,
    /// There are several of one family.
    #[error("{0} is the second network of its family; name one of IPv4 and one of IPv6 at most")]
    Several(Prefix),
    /// One is too large or too small.
    #[error("{0} has the wrong length; give /8 to /30 for IPv4, and /48 to /126 for IPv6")]
    Length(Prefix),
    /// One is not for the addresses of hosts.
    #[error("{0} is not a network of hosts")]
    Kind(Prefix),
}

/// Index of the server's address in a network.
const SERVER: u128 = 1;

impl Pools {
    /// Checks the networks.
    ///
    /// # Errors
    /// They cannot be those of a tunnel.
    pub fn new(networks: impl IntoIterator<Item = Prefix>) -> Result<Self, PoolsError> {
        let mut pools = Self { v4: None, v6: None };
        for network in networks {
            let lengths = if network.is_v4() {
                LENGTHS_V4
            } else {
                LENGTHS_V6
            };
            if !lengths.contains(&network.length()) {
                return Err(PoolsError::Length(network));
            }
            let is_host = match network.first() {
                IpAddr::V4(v4) => {
                    v4.octets()[0] != 0 && v4.octets()[0] != 127 && v4.octets()[0] < 224
                }
                IpAddr::V6(v6) => {
                    !v6.is_multicast() && !v6.is_unicast_link_local() && v6.segments()[0] != 0
                }
            };
            if !is_host {
                return Err(PoolsError::Kind(network));
            }
            let place = match network.is_v4() {
                true => &mut pools.v4,
                false => &mut pools.v6,
            };
            if place.replace(network).is_some() {
                return Err(PoolsError::Several(network));
            }
        }
        match pools {
            Self { v4: None, v6: None } => Err(PoolsError::None),
            _ => Ok(pools),
        }
    }

    /// The network of IPv4.
    pub fn v4(&self) -> Option<Prefix> {
        self.v4
    }

    /// The network of IPv6.
    pub fn v6(&self) -> Option<Prefix> {
        self.v6
    }

    /// Address of the server, of IPv4.
    pub fn server_v4(&self) -> Option<Ipv4Addr> {
        match self.v4?.nth(SERVER) {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        }
    }

    /// Address of the server, of IPv6.
    pub fn server_v6(&self) -> Option<Ipv6Addr> {
        match self.v6?.nth(SERVER) {
            IpAddr::V6(v6) => Some(v6),
            IpAddr::V4(_) => None,
        }
    }

    /// Indices of the addresses that clients may have: those after the server's, without the broadcast address of IPv4.
    fn indices(network: &Prefix) -> std::ops::Range<u128> {
        let end = if network.is_v4() {
            network.size() - 1
        } else {
            network.size()
        };
        SERVER + 1..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(texts: &[&str]) -> Result<Pools, PoolsError> {
        Pools::new(texts.iter().map(|text| text.parse().unwrap()))
    }

    #[test]
    fn networks_of_a_tunnel() {
        let both = pools(&["fd77::/64", "10.77.0.0/24"]).unwrap();
        assert_eq!(both.server_v4(), Some([10, 77, 0, 1].into()));
        assert_eq!(both.server_v6(), Some("fd77::1".parse().unwrap()));
        assert_eq!(Pools::indices(&both.v4().unwrap()), 2..255);
        assert_eq!(pools(&["10.77.0.0/24"]).unwrap().server_v6(), None);
        assert_eq!(pools(&[]), Err(PoolsError::None));
        for (texts, expected) in [
            (&["10.0.0.0/24", "10.0.1.0/24"][..], "second network"),
            (&["10.0.0.0/31"], "wrong length"),
            (&["fd77::/32"], "wrong length"),
            (&["127.0.0.0/8"], "not a network of hosts"),
            (&["224.0.0.0/8"], "not a network of hosts"),
            (&["fe80::/64"], "not a network of hosts"),
        ] {
            let error = pools(texts).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
