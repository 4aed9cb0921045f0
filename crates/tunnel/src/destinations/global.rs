//! Global addresses: the unicast addresses that can be reached from everywhere.
//!
//! They are those outside the ranges that the registries of special-purpose addresses (RFC 6890 and its successors, as of 2025) list as
//! not globally reachable, outside the ranges that are reserved or for groups, and outside the special ones of [`special_range`]. Of
//! IPv6, only `2000::/3` is assigned. Addresses that embed one of IPv4 are judged by that one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch::rights::special_range;

/// First address of a range of IPv4, and its length.
type V4 = ([u8; 4], u8);
/// First groups of a range of IPv6, and its length.
type V6 = ([u16; 4], u8);

/// Exceptions from [`LOCAL_V4`]: anycast of PCP and of TURN.
const GLOBAL_V4: &[V4] = &[([192, 0, 0, 9], 32), ([192, 0, 0, 10], 32)];

/// Ranges of IPv4 that are not global.
const LOCAL_V4: &[V4] = &[
    // This network (RFC 791).
    ([0, 0, 0, 0], 8),
    // Private (RFC 1918).
    ([10, 0, 0, 0], 8),
    // Shared by the customers of a provider (RFC 6598).
    ([100, 64, 0, 0], 10),
    // Loopback (RFC 1122).
    ([127, 0, 0, 0], 8),
    // Link-local (RFC 3927).
    ([169, 254, 0, 0], 16),
    // Private.
    ([172, 16, 0, 0], 12),
    // Protocols of the IETF (RFC 6890).
    ([192, 0, 0, 0], 24),
    // Documentation (RFC 5737).
    ([192, 0, 2, 0], 24),
    // Relays of 6to4 (RFC 7526, deprecated): what is sent there goes on to an address within.
    ([192, 88, 99, 0], 24),
    // Private.
    ([192, 168, 0, 0], 16),
    // Benchmarks (RFC 2544).
    ([198, 18, 0, 0], 15),
    // Documentation.
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    // Groups (RFC 5771).
    ([224, 0, 0, 0], 4),
    // Reserved (RFC 1112), and broadcast.
    ([240, 0, 0, 0], 4),
];

/// Exceptions from [`LOCAL_V6`]: protocols of the IETF that are global.
const GLOBAL_V6: &[V6] = &[
    // AMT (RFC 7450).
    ([0x2001, 3, 0, 0], 32),
    // AS112 (RFC 7535).
    ([0x2001, 4, 0x112, 0], 48),
    // ORCHIDv2 (RFC 7343).
    ([0x2001, 0x20, 0, 0], 28),
    // Identifiers of drones (RFC 9374).
    ([0x2001, 0x30, 0, 0], 28),
];

/// Ranges within `2000::/3` that are not global.
const LOCAL_V6: &[V6] = &[
    // Protocols of the IETF, with benchmarks and ORCHID (RFC 2928).
    ([0x2001, 0, 0, 0], 23),
    // Documentation (RFC 3849, RFC 9637).
    ([0x2001, 0xdb8, 0, 0], 32),
    ([0x3fff, 0, 0, 0], 20),
];

/// True if the address is a unicast one that can be reached from everywhere.
pub fn is_global(address: IpAddr) -> bool {
    let is_global = match address {
        IpAddr::V4(v4) => is_global_v4(v4),
        IpAddr::V6(v6) => is_global_v6(v6),
    };
    is_global && special_range(address).is_none()
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    let is_in = |ranges: &[V4]| {
        ranges.iter().any(|(first, length)| {
            let differing = u32::from(address) ^ u32::from_be_bytes(*first);
            differing.leading_zeros() >= u32::from(*length)
        })
    };
    is_in(GLOBAL_V4) || !is_in(LOCAL_V4)
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    let bits = u128::from(address);
    let is_in = |ranges: &[V6]| {
        ranges.iter().any(|(first, length)| {
            let [a, b, c, d] = *first;
            let differing = bits ^ u128::from(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0));
            differing.leading_zeros() >= u32::from(*length)
        })
    };
    // The shift leaves the 32 bits of the embedded address as the lowest.
    let embedded = |end: u32| is_global(Ipv4Addr::from((bits >> end) as u32).into());
    match address.segments() {
        // NAT64 (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded(0),
        // 6to4 (RFC 3056).
        [0x2002, ..] => embedded(80),
        // Teredo (RFC 4380): the server, and the client with its bits inverted.
        [0x2001, 0, ..] => embedded(64) && is_global(Ipv4Addr::from(!(bits as u32)).into()),
        // Anycast of PCP (RFC 7723), of TURN (RFC 8155), and of registration for DNS-SD (RFC 9665).
        [0x2001, 1, 0, 0, 0, 0, 0, 1..=3] => true,
        [first, ..] => first >> 13 == 1 && (is_in(GLOBAL_V6) || !is_in(LOCAL_V6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: bool, texts: &[&str]) {
        for text in texts {
            assert_eq!(is_global(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn ordinary_addresses_are_global() {
        check(
            true,
            &[
                "1.1.1.1",
                "9.9.9.9",
                "11.0.0.0",
                "9.255.255.255",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "192.0.1.0",
                "192.31.196.1",
                "192.167.255.255",
                "192.169.0.0",
                "198.17.255.255",
                "198.20.0.0",
                "223.255.255.255",
                "2000::",
                "2001:200::1",
                "2606:4700::1111",
                "2620:fe::fe",
                "2620:4f:8000::1",
                "3ffe::1",
                "3fff:1000::1",
            ],
        );
    }

    #[test]
    fn local_reserved_and_group_addresses_are_not() {
        check(
            false,
            &[
                "0.0.0.0",
                "0.1.2.3",
                "10.0.0.0",
                "10.255.255.255",
                "100.64.0.0",
                "100.127.255.255",
                "127.0.0.1",
                "169.254.169.254",
                "172.16.0.0",
                "172.31.255.255",
                "192.0.0.8",
                "192.0.0.192",
                "192.0.2.1",
                "192.88.99.1",
                "192.168.0.1",
                "198.18.0.0",
                "198.19.255.255",
                "198.51.100.1",
                "203.0.113.1",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
                "::",
                "::1",
                "::9.9.9.9",
                "64:ff9b:1::1",
                "100::1",
                "1fff::1",
                "2001:2::1",
                "2001:10::1",
                "2001:1ff::1",
                "2001:db8::1",
                "3fff:fff::1",
                "4000::1",
                "5f00::1",
                "fc00::1",
                "fd77:616e::1",
                "fe80::1",
                "fec0::1",
                "ff02::1",
            ],
        );
    }

    #[test]
    fn metadata_of_clouds_are_not_even_at_global_addresses() {
        check(false, &["168.63.129.16", "fd00:ec2::254", "fd20:ce::254"]);
        check(true, &["168.63.129.17"]);
    }

    #[test]
    fn exceptions_of_the_registries_are_global() {
        check(
            true,
            &[
                "192.0.0.9",
                "192.0.0.10",
                "2001:1::1",
                "2001:1::3",
                "2001:3::1",
                "2001:4:112::1",
                "2001:20::1",
                "2001:3f::1",
            ],
        );
        check(false, &["2001:1::4", "2001:4:113::1", "2001:40::1"]);
    }

    #[test]
    fn embedded_addresses_count() {
        check(
            true,
            &[
                "64:ff9b::9.9.9.9",
                "2002:909:909::1",
                // Server 9.9.9.9, client 8.8.8.8.
                "2001:0:909:909:0:0:f7f7:f7f7",
            ],
        );
        check(
            false,
            &[
                "64:ff9b::10.0.0.1",
                "64:ff9b::127.0.0.1",
                "64:ff9b::a9fe:a9fe",
                "64:ff9b::168.63.129.16",
                "2002:a00:1::1",
                "2002:7f00:1::1",
                "2001:0:a00:1:0:0:f7f7:f7f7",
                // Client 10.0.0.1.
                "2001:0:909:909:0:0:f5ff:fffe",
                "::ffff:9.9.9.9",
                "::ffff:10.0.0.1",
            ],
        );
    }
}
