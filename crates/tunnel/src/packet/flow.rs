//! Flows: packets between the same programs, which share a queue at the entrance and an order at the exit.

use std::{collections::hash_map::DefaultHasher, hash::Hasher, net::IpAddr};

use super::Header;

const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// Number of buckets into which flows are distributed: the number of queues of RFC 8290 §5.2.
pub const BUCKETS: u16 = 1024;

/// A flow in one direction: addresses, protocol and, where these are in the packets, ports (RFC 8290 §4.1.1). All fragments of a packet
/// are of one flow, which has no ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol number.
    pub protocol: u8,
    /// Ports of source and destination.
    pub ports: Option<(u16, u16)>,
}

impl FlowKey {
    /// The flow of a packet.
    pub fn of(packet: &[u8], header: &Header) -> Self {
        let protocol = header.transport.protocol;
        let has_ports =
            matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE) && !header.is_fragment;
        let ports = header.transport.at.filter(|_| has_ports);
        let ports = ports.and_then(|at| packet.get(at..at + 4));
        let ports = ports.map(|ports| {
            let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
            (port(0), port(2))
        });
        Self {
            source: header.source,
            destination: header.destination,
            protocol,
            ports,
        }
    }

    /// The flow in the other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ports: self.ports.map(|(from, to)| (to, from)),
            ..self
        }
    }

    /// Hash of the flow. `secret` keeps others from choosing flows with equal ones.
    pub fn hash(&self, secret: u64) -> u64 {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let (from, to) = self.ports.unwrap_or_default();
        // In one piece: several small ones take longer.
        let mut bytes = [0; 45];
        bytes[..8].copy_from_slice(&secret.to_ne_bytes());
        bytes[8..24].copy_from_slice(&octets(self.source));
        bytes[24..40].copy_from_slice(&octets(self.destination));
        bytes[40..42].copy_from_slice(&from.to_ne_bytes());
        bytes[42..44].copy_from_slice(&to.to_ne_bytes());
        bytes[44] = self.protocol;
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        hasher.finish()
    }
}

/// Bucket of the flow with this hash.
pub fn bucket_of(hash: u64) -> u16 {
    (hash % u64::from(BUCKETS)) as u16
}

/// Bucket of a packet; see [`FlowKey`].
pub fn bucket(packet: &[u8], header: &Header, secret: u64) -> u16 {
    bucket_of(FlowKey::of(packet, header).hash(secret))
}

/// True for a packet of a connection whose sender takes a missing packet for congestion: TCP, SCTP, and QUIC, which is told from other
/// datagrams by their first byte (RFC 9443 §2). A packet of QUIC need not show it: its first byte may be that of the channels of TURN, and
/// that of anything where the fixed bit is not (RFC 9287).
pub fn is_loss_sensitive(packet: &[u8], header: &Header) -> bool {
    const UDP_BYTES: usize = 8;
    let first = header
        .transport
        .at
        .and_then(|at| packet.get(at + UDP_BYTES));
    match header.transport.protocol {
        TCP | SCTP => true,
        UDP => first.is_some_and(|first| matches!(first, 80..=127 | 192..=255)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::packet::samples::{tcp4, udp6};

    fn of(packet: &[u8]) -> u16 {
        bucket(packet, &Header::read(packet).unwrap(), 7)
    }

    #[test]
    fn a_flow_has_one_bucket_and_flows_are_spread() {
        assert_eq!(of(&tcp4(100, b"a")), of(&tcp4(100, b"another")));
        let buckets: BTreeSet<u16> = (0..200).map(|port| of(&tcp4(port, b"x"))).collect();
        // 200 balls in 1,024 bins leave some 18 collisions.
        assert!((160..=200).contains(&buckets.len()), "{}", buckets.len());
        assert!(buckets.iter().all(|&bucket| bucket < BUCKETS));
        let other = bucket(&tcp4(1, b"x"), &Header::read(&tcp4(1, b"x")).unwrap(), 8);
        assert_ne!(of(&tcp4(1, b"x")), other, "by the secret");
        let _ = of(&udp6(b"x"));
    }

    #[test]
    fn the_answers_to_a_flow_are_of_the_reversed_flow() {
        let packet = tcp4(100, b"a");
        let key = FlowKey::of(&packet, &Header::read(&packet).unwrap());
        let back = key.reversed();
        assert_eq!(
            (back.source, back.destination),
            (key.destination, key.source)
        );
        assert_eq!(back.ports.map(|(from, to)| (to, from)), key.ports);
        assert_eq!(back.reversed(), key);
        assert_ne!(back.hash(7), key.hash(7));
    }

    #[test]
    fn connections_are_told_from_other_datagrams() {
        let is = |packet: &[u8]| is_loss_sensitive(packet, &Header::read(packet).unwrap());
        assert!(is(&tcp4(1, b"")));
        // Short and long headers of QUIC.
        assert!(is(&udp6(&[0x5f, 1])) && is(&udp6(&[0xc3, 1])));
        // STUN, DTLS, a channel of TURN, RTP, and nothing.
        assert!(
            ![&[0_u8][..], &[22], &[64], &[0x80, 96], &[]]
                .into_iter()
                .any(|data| is(&udp6(data)))
        );
    }

    #[test]
    fn all_fragments_of_a_packet_are_in_one_bucket() {
        let mut first = tcp4(100, b"xxxx");
        first[6..8].copy_from_slice(&0x2000_u16.to_be_bytes());
        let mut second = tcp4(200, b"yy");
        second[6..8].copy_from_slice(&0x0003_u16.to_be_bytes());
        assert_eq!(of(&first), of(&second));
    }
}
