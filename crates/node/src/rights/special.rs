//! Special addresses: those that no wide pattern of targets contains, because they lead to the machine itself or to its provider.
//!
//! | range | addresses |
//! |---|---|
//! | this host | `0.0.0.0/8`, `::`: connections to them reach the loopback |
//! | loopback | `127.0.0.0/8`, `::1` |
//! | link-local | `169.254.0.0/16`, `fe80::/10` |
//! | multicast, broadcast | `224.0.0.0/4`, `255.255.255.255`, `ff00::/8` |
//! | metadata of clouds | `169.254.169.254`, `100.100.100.200`, `192.0.0.192`, `168.63.129.16`, `fd00:ec2::254`, `fd20:ce::254` |
//! | IPv4 inside IPv6 | `::ffff:0:0/96` counts as the IPv4 address; `::/96`, `64:ff9b::/96` and `2002::/16` are special if that one is |

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Addresses with common first bits; an IPv4-mapped network is the IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    first: IpAddr,
    length: u8,
}

impl Network {
    /// The network of an address; without a length, the address alone. `None` if it is too long.
    pub(super) fn new(address: IpAddr, length: Option<u8>) -> Option<Self> {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let length = length.unwrap_or(bits);
        if length > bits {
            return None;
        }
        let network = Self {
            first: masked(address, length),
            length,
        };
        let IpAddr::V6(first) = network.first else {
            return Some(network);
        };
        let Some(mapped) = first.to_ipv4_mapped().filter(|_| length >= 96) else {
            return Some(network);
        };
        Some(Self {
            first: mapped.into(),
            length: length - 96,
        })
    }

    const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Self {
        Self {
            first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            length,
        }
    }

    const fn v6(first: [u16; 8], length: u8) -> Self {
        let [a, b, c, d, e, f, g, h] = first;
        Self {
            first: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)),
            length,
        }
    }

    /// True if the address that it was made of has no bits beyond its length.
    pub(super) fn is_exact(&self, address: IpAddr) -> bool {
        canonical(address) == self.first || address == self.first
    }

    /// True if it contains an address in its canonical form.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4() && masked(address, self.length) == self.first
    }

    /// First address, and number of the common bits.
    pub(super) fn parts(&self) -> (IpAddr, u8) {
        (self.first, self.length)
    }

    /// True if all of the other network is in it.
    pub(super) fn contains_network(&self, other: &Self) -> bool {
        other.length >= self.length && self.contains(other.first)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first {
            IpAddr::V4(first) if self.length == 32 => write!(f, "{first}"),
            IpAddr::V4(first) => write!(f, "{first}/{}", self.length),
            IpAddr::V6(first) if self.length == 128 => write!(f, "[{first}]"),
            IpAddr::V6(first) => write!(f, "[{first}]/{}", self.length),
        }
    }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

/// The address to which packets go: an IPv4-mapped one as IPv4.
pub(super) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Narrow ranges first: that of an address is the first that contains it.
const RANGES: &[Network] = &[
    Network::v4(169, 254, 169, 254, 32),
    Network::v4(100, 100, 100, 200, 32),
    Network::v4(192, 0, 0, 192, 32),
    Network::v4(168, 63, 129, 16, 32),
    Network::v4(255, 255, 255, 255, 32),
    Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128),
    Network::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
    Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 128),
    Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128),
    Network::v4(0, 0, 0, 0, 8),
    Network::v4(127, 0, 0, 0, 8),
    Network::v4(169, 254, 0, 0, 16),
    Network::v4(224, 0, 0, 0, 4),
    Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
];

/// Ranges of IPv6 addresses that contain an IPv4 address, and the bit at which it ends.
const EMBEDDING: &[(Network, u32)] = &[
    (Network::v6([0; 8], 96), 0),
    (Network::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), 0),
    (Network::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), 80),
];

/// The special range of an address in its canonical form; `None`: it is an ordinary one.
pub(super) fn special_range(address: IpAddr) -> Option<Network> {
    if let Some(range) = RANGES.iter().find(|range| range.contains(address)) {
        return Some(*range);
    }
    let IpAddr::V6(outer) = address else {
        return None;
    };
    let (_, end) = EMBEDDING
        .iter()
        .find(|(range, _)| range.contains(address))?;
    // The shift leaves the 32 bits of the address as the lowest.
    let inner = Ipv4Addr::from((u128::from(outer) >> end) as u32);
    special_range(inner.into())?;
    // It must be named by itself.
    Network::new(address, None)
}
