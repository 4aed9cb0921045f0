//! Destinations: the addresses that packets and connections of clients may go to, beyond the tunnel.
//!
//! | item | stands for |
//! |---|---|
//! | `10.20.0.0/16`, `2001:db8::/32`, `10.20.0.7` | the addresses of a network, or one address |
//! | `internet` | the unicast addresses that can be reached from everywhere ([`is_global`]) |
//! | `any` | every address |
//!
//! A special address ([`special_range`]: loopback, link-local, metadata of clouds, …) is in a network only if that network is one inside
//! the same special range, as for the targets of the gateway: `0.0.0.0/0` does not contain 169.254.169.254. An IPv4-mapped address
//! (`::ffff:0:0/96`) counts as the IPv4 address, since sockets connect to that one; `internet` contains none.

mod global;

use std::{fmt, net::IpAddr};

use anabranch::rights::special_range;

pub use self::global::is_global;
use crate::lease::{Prefix, PrefixError};

/// Items of a list at most.
pub const ITEMS_MAX: usize = 1024;

const INTERNET: &str = "internet";
const ANY: &str = "any";

/// The texts are not a list of destinations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DestinationsError {
    /// There is no item.
    #[error("name at least one destination: `internet`, `any`, or a network such as 10.20.0.0/16")]
    Empty,
    /// There are too many items.
    #[error("there are more than {ITEMS_MAX} destinations; join them to larger networks")]
    TooMany,
    /// An item is none of the words, and no network or address.
    #[error(
        "{0:?} is no destination; give `internet`, `any`, a network such as 10.20.0.0/16 or fd12:3456::/48, or an IP address"
    )]
    Item(String),
    /// The address of an item has bits beyond the length.
    #[error("the address of {text:?} has bits beyond the length; write {network}")]
    Bits {
        /// The item.
        text: String,
        /// The network that contains it.
        network: Prefix,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Network(Prefix),
    Internet,
    Any,
}

/// List of allowed destinations. By default, `internet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destinations(Vec<Item>);

impl Default for Destinations {
    fn default() -> Self {
        Self(vec![Item::Internet])
    }
}

impl Destinations {
    /// Reads the items of a list, each a text of its own.
    ///
    /// # Errors
    /// There is no item, there are more than [`ITEMS_MAX`], or the first one that is not a destination.
    pub fn parse<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Self, DestinationsError> {
        let mut items = Vec::new();
        for text in texts {
            if items.len() == ITEMS_MAX {
                return Err(DestinationsError::TooMany);
            }
            items.push(Item::parse(text.as_ref())?);
        }
        match items.is_empty() {
            true => Err(DestinationsError::Empty),
            false => Ok(Self(items)),
        }
    }

    /// True if the address is one of them.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.0.iter().any(|item| item.contains(address))
    }
}

impl Item {
    fn parse(text: &str) -> Result<Self, DestinationsError> {
        match text {
            INTERNET => return Ok(Self::Internet),
            ANY => return Ok(Self::Any),
            _ => {}
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Network(Prefix::host(address)));
        }
        let network = text.parse().map_err(|error| match error {
            PrefixError::Bits(network) => DestinationsError::Bits {
                text: text.to_owned(),
                network,
            },
            PrefixError::Form => DestinationsError::Item(text.to_owned()),
        });
        network.map(Self::Network)
    }

    fn contains(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Internet => is_global(address),
            Self::Network(network) => {
                let address = address.to_canonical();
                network.contains(address)
                    && special_range(address).is_none_or(|(first, length)| {
                        let range = Prefix::of(first, length).expect("a range of that family");
                        range.contains(network.first()) && network.length() >= range.length()
                    })
            }
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet => f.write_str(INTERNET),
            Self::Any => f.write_str(ANY),
            Self::Network(network) if network.size() == 1 => write!(f, "{}", network.first()),
            Self::Network(network) => write!(f, "{network}"),
        }
    }
}

/// The items, with commas between them.
impl fmt::Display for Destinations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn of(texts: &[&str]) -> Destinations {
        Destinations::parse(texts).unwrap()
    }

    fn allows(texts: &[&str], address: &str) -> bool {
        of(texts).allows(address.parse().unwrap())
    }

    #[test]
    fn networks_contain_their_addresses() {
        let texts = ["10.20.0.0/16", "2001:db8::/32", "192.168.1.7"];
        for address in ["10.20.255.255", "2001:db8:ffff::1", "192.168.1.7"] {
            assert!(allows(&texts, address), "{address}");
            assert!(!allows(&["internet"], address), "{address}");
        }
        for address in ["10.21.0.0", "2001:db9::1", "192.168.1.8", "9.9.9.9"] {
            assert!(!allows(&texts, address), "{address}");
        }
        // A socket that connects to it has a connection to 10.20.0.1.
        assert!(allows(&texts, "::ffff:10.20.0.1"));
        assert!(!allows(&texts, "::ffff:10.21.0.1"));
        assert!(allows(&["internet", "10.20.0.0/16"], "9.9.9.9"));
    }

    #[test]
    fn special_addresses_must_be_named() {
        let all = ["0.0.0.0/0", "::/0"];
        for address in [
            "169.254.169.254",
            "169.254.1.1",
            "127.0.0.1",
            "224.0.0.1",
            "168.63.129.16",
            "::1",
            "fe80::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
        ] {
            assert!(!allows(&all, address), "{address}");
            assert!(!allows(&["internet"], address), "{address}");
            assert!(allows(&["any"], address), "{address}");
        }
        assert!(allows(&["169.254.169.254"], "169.254.169.254"));
        assert!(allows(&["169.254.1.0/24"], "169.254.1.1"));
        assert!(!allows(&["169.254.0.0/16"], "169.254.169.254"));
        assert!(allows(&all, "10.0.0.1") && allows(&all, "fd77::1"));
    }

    #[test]
    fn the_default_is_the_internet() {
        assert_eq!(Destinations::default(), of(&["internet"]));
        assert!(Destinations::default().allows([9, 9, 9, 9].into()));
        assert!(!Destinations::default().allows([10, 0, 0, 1].into()));
    }

    #[test]
    fn wrong_texts_are_refused_with_what_to_write() {
        for text in [
            "Internet",
            "",
            "example.net",
            "10.0.0.0/33",
            "10.0/8",
            " any",
            "10.0.0.0/8:80",
            "[::1]",
        ] {
            let error = Destinations::parse(["internet", text]).unwrap_err();
            assert_eq!(error, DestinationsError::Item(text.to_owned()));
            assert!(error.to_string().contains("10.20.0.0/16"), "{error}");
        }
        let error = Destinations::parse(["10.0.0.1/8"]).unwrap_err().to_string();
        assert!(error.contains("write 10.0.0.0/8"), "{error}");
        let none: [&str; 0] = [];
        assert_eq!(Destinations::parse(none), Err(DestinationsError::Empty));
        assert!(Destinations::parse(vec!["any"; ITEMS_MAX]).is_ok());
        let many = Destinations::parse(vec!["any"; ITEMS_MAX + 1]);
        assert_eq!(many, Err(DestinationsError::TooMany));
    }

    fn address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<[u8; 4]>().prop_map(|octets| Ipv4Addr::from(octets).into()),
            any::<u128>().prop_map(|bits| Ipv6Addr::from(bits).into()),
        ]
    }

    fn item() -> impl Strategy<Value = Item> {
        let network = (address(), 0..=128_u8).prop_map(|(address, length)| {
            let longest = if address.is_ipv4() { 32 } else { 128 };
            Item::Network(Prefix::of(address, length.min(longest)).unwrap())
        });
        prop_oneof![network, Just(Item::Internet), Just(Item::Any)]
    }

    proptest! {
        #[test]
        fn texts_round_trip(items in prop::collection::vec(item(), 1..8)) {
            let list = Destinations(items);
            let text = list.to_string();
            prop_assert_eq!(Destinations::parse(text.split(", ")), Ok(list));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            if let Ok(list) = Destinations::parse([&text]) {
                let shown = list.to_string();
                prop_assert_eq!(Destinations::parse([&shown]), Ok(list));
            }
        }

        #[test]
        fn a_list_allows_what_one_of_its_items_does(
            items in prop::collection::vec(item(), 1..8),
            address in address(),
        ) {
            let alone = |item: &Item| Destinations(vec![*item]).allows(address);
            let expected = items.iter().any(alone);
            prop_assert_eq!(Destinations(items).allows(address), expected);
        }

        #[test]
        fn a_network_allows_no_address_outside_it(length in 0..=128_u8, inside in address(), address in address()) {
            let longest = if inside.is_ipv4() { 32 } else { 128 };
            let network = Prefix::of(inside, length.min(longest)).unwrap();
            let list = Destinations(vec![Item::Network(network)]);
            prop_assert!(!list.allows(address) || network.contains(address.to_canonical()));
        }

        #[test]
        fn the_internet_has_no_special_address(address in address()) {
            prop_assert!(!is_global(address) || special_range(address.to_canonical()).is_none());
        }
    }
}
