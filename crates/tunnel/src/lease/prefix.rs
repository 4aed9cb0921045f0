//! Networks: addresses with common first bits.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    first: IpAddr,
    length: u8,
}

/// The text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// It is not an address with a length.
    #[error("give ADDRESS/LENGTH, such as 10.77.0.0/24 or fd77::/64")]
    Form,
    /// The address has bits beyond the length.
    #[error("the address has bits beyond the length; write {0}")]
    Bits(Prefix),
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address as a number.
pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => v6.into(),
    }
}

fn address(number: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from(number as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(number).into(),
    }
}

impl Prefix {
    /// The network of an address; `None` if the length exceeds that of the address.
    pub fn of(inside: IpAddr, length: u8) -> Option<Self> {
        let free = bits(inside).checked_sub(length)?;
        let mask = u128::MAX.checked_shl(free.into()).unwrap_or(0);
        Some(Self {
            first: address(number(inside) & mask, inside),
            length,
        })
    }

    /// The network of one address alone.
    pub fn host(address: IpAddr) -> Self {
        Self {
            first: address,
            length: bits(address),
        }
    }

    /// True if it is of IPv4.
    pub fn is_v4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// Length of the common bits.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Its first address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// Number of its addresses; the largest number if there are more.
    pub fn size(&self) -> u128 {
        let free = bits(self.first) - self.length;
        1_u128.checked_shl(free.into()).unwrap_or(u128::MAX)
    }

    /// The address with this number in it.
    ///
    /// # Panics
    /// If it has no such address.
    pub fn nth(&self, index: u128) -> IpAddr {
        assert!(index < self.size(), "an index within the network");
        address(number(self.first) + index, self.first)
    }

    /// Number of an address in it; `None` if it is elsewhere.
    pub fn index(&self, of: IpAddr) -> Option<u128> {
        self.contains(of).then(|| number(of) - number(self.first))
    }

    /// True if the address is in it.
    pub fn contains(&self, of: IpAddr) -> bool {
        of.is_ipv4() == self.is_v4() && Self::of(of, self.length) == Some(*self)
    }

    /// True if the networks have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.first) || other.contains(self.first)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, length) = text.split_once('/').ok_or(PrefixError::Form)?;
        let address: IpAddr = address.parse().map_err(|_| PrefixError::Form)?;
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        let length: u8 = length.parse().map_err(|_| PrefixError::Form)?;
        let network = Self::of(address, length).filter(|_| is_number);
        let network = network.ok_or(PrefixError::Form)?;
        if network.first != address {
            return Err(PrefixError::Bits(network));
        }
        Ok(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip_and_wrong_ones_are_refused() {
        for text in [
            "10.77.0.0/24",
            "0.0.0.0/0",
            "fd77::/64",
            "::/0",
            "192.0.2.1/32",
        ] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "fd77::/129",
            "a/8",
            "10.0.0.0/+8",
            "10.0.0.0/",
        ] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError::Form), "{text}");
        }
        let error = "10.77.0.9/24".parse::<Prefix>().unwrap_err().to_string();
        assert!(error.contains("write 10.77.0.0/24"), "{error}");
    }

    #[test]
    fn addresses_are_counted() {
        let network: Prefix = "10.77.0.0/24".parse().unwrap();
        assert_eq!(
            (network.size(), network.nth(5)),
            (256, [10, 77, 0, 5].into())
        );
        assert_eq!(network.index([10, 77, 0, 5].into()), Some(5));
        assert_eq!(network.index([10, 77, 1, 5].into()), None);
        assert!(!network.contains("fd77::1".parse().unwrap()));
        let all: Prefix = "::/0".parse().unwrap();
        assert_eq!(all.size(), u128::MAX);
        assert!(all.contains("fd77::1".parse().unwrap()));
    }

    #[test]
    fn networks_overlap_if_one_contains_the_other() {
        let of = |text: &str| text.parse::<Prefix>().unwrap();
        assert!(of("10.0.0.0/8").overlaps(&of("10.77.0.0/24")));
        assert!(of("10.77.0.0/24").overlaps(&of("10.0.0.0/8")));
        assert!(!of("10.77.0.0/24").overlaps(&of("10.77.1.0/24")));
        assert!(!of("0.0.0.0/0").overlaps(&of("fd77::/64")));
    }
}
