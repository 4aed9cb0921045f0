//! Packets for tests.

use super::checksum::{pseudo, sum};

/// A TCP packet over IPv4 with these flags, a port of the source and a payload; its checksums are right.
pub(crate) fn tcp4(port: u16, payload: &[u8]) -> Vec<u8> {
    syn4(port, 0x10, &[], payload)
}

/// As [`tcp4`], with flags and options (whole words).
pub(crate) fn syn4(port: u16, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = 40 + options.len() + payload.len();
    let mut packet = vec![0x45, 0];
    packet.extend((length as u16).to_be_bytes());
    packet.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 2, 192, 0, 2, 1]);
    let ip = !sum(0, &packet);
    packet[10..12].copy_from_slice(&ip.to_be_bytes());
    packet.extend(port.to_be_bytes());
    packet.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0]);
    packet.push(((5 + options.len() / 4) << 4) as u8);
    packet.extend([flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(options);
    packet.extend(payload);
    let tcp = checksum(&packet, 20, 6);
    packet[36..38].copy_from_slice(&tcp.to_be_bytes());
    packet
}

/// A TCP packet over IPv6 with flags and options.
pub(crate) fn syn6(flags: u8, options: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((20 + options.len() as u16).to_be_bytes());
    packet.extend([6, 64]);
    packet.extend("fd77::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
    packet.extend(
        "2001:db8::1"
            .parse::<std::net::Ipv6Addr>()
            .unwrap()
            .octets(),
    );
    packet.extend([0x80, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0]);
    packet.push(((5 + options.len() / 4) << 4) as u8);
    packet.extend([flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(options);
    let tcp = checksum(&packet, 40, 6);
    packet[56..58].copy_from_slice(&tcp.to_be_bytes());
    packet
}

/// A UDP packet over IPv6; its checksum is 0.
pub(crate) fn udp6(payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([17, 64]);
    packet.extend("fd77::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
    packet.extend(
        "2001:db8::1"
            .parse::<std::net::Ipv6Addr>()
            .unwrap()
            .octets(),
    );
    packet.extend([0x80, 0, 0, 53]);
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

/// The same packet with an authentication header (RFC 4302) in front of its transport header. With IPv6, these extension headers, of
/// 8 bytes each, are before it.
pub(crate) fn authenticated(packet: &[u8], before: &[u8]) -> Vec<u8> {
    const AUTHENTICATION: u8 = 51;
    let is_v4 = packet[0] >> 4 == 4;
    let (at, protocol_at) = if is_v4 { (20, 9) } else { (40, 6) };
    let mut result = packet[..at].to_vec();
    let protocols = [before, &[AUTHENTICATION, packet[protocol_at]]].concat();
    result[protocol_at] = protocols[0];
    for next in &protocols[1..=before.len()] {
        // An option that pads the rest.
        result.extend([*next, 0, 1, 4, 0, 0, 0, 0]);
    }
    // The next protocol, the length, the index, the sequence number, and 12 bytes of the check value.
    result.extend([protocols[before.len() + 1], 4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
    result.extend([0xa5; 12]);
    result.extend(&packet[at..]);
    let bytes = result.len() as u16;
    if is_v4 {
        result[2..4].copy_from_slice(&bytes.to_be_bytes());
        result[10..12].fill(0);
        let ip = !sum(0, &result[..20]);
        result[10..12].copy_from_slice(&ip.to_be_bytes());
    } else {
        result[4..6].copy_from_slice(&(bytes - 40).to_be_bytes());
    }
    result
}

/// Checksum of the transport header at `at`; 0 where that in the packet is right.
pub(crate) fn checksum(packet: &[u8], at: usize, protocol: u8) -> u16 {
    let addresses = if packet[0] >> 4 == 4 {
        &packet[12..20]
    } else {
        &packet[8..40]
    };
    !sum(
        pseudo(addresses, packet.len() - at, protocol),
        &packet[at..],
    )
}

/// A UDP packet over IPv4 with these ports, from 10.77.0.2 to 192.0.2.1; its checksum is 0.
pub(crate) fn udp4(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = 28 + payload.len();
    let mut packet = vec![0x45, 0];
    packet.extend((length as u16).to_be_bytes());
    packet.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 2, 192, 0, 2, 1]);
    let ip = !sum(0, &packet);
    packet[10..12].copy_from_slice(&ip.to_be_bytes());
    packet.extend(from.to_be_bytes());
    packet.extend(to.to_be_bytes());
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}
