//! Answers of a router to packets that it does not carry: too large for the next link, or forbidden (RFC 792, RFC 1191, RFC 4443).

use std::net::IpAddr;

use super::{
    Header,
    checksum::{pseudo, sum},
};

const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// Reason why a packet is not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is larger than this many bytes, and must not be fragmented.
    TooBig(u16),
    /// The tunnel has no address of this family, or the source is not one that it may carry.
    Prohibited,
    /// Nobody has the address.
    NoHost,
}

impl Cause {
    /// Type, code and the word in the second half of the header.
    fn fields(self, is_v4: bool) -> (u8, u8, u32) {
        match (self, is_v4) {
            (Self::TooBig(mtu), true) => (3, 4, mtu.into()),
            (Self::TooBig(mtu), false) => (2, 0, mtu.into()),
            (Self::Prohibited, true) => (3, 13, 0),
            (Self::Prohibited, false) => (1, 1, 0),
            (Self::NoHost, true) => (3, 1, 0),
            (Self::NoHost, false) => (1, 3, 0),
        }
    }
}

/// The answer to a packet, which comes from the packet's destination. `None` if there must be none: the packet is an ICMP error or a
/// later fragment, its source is not one host, or its destination is a group (RFC 1122 §3.2.2, RFC 4443 §2.4).
pub fn answer(packet: &[u8], header: &Header, cause: Cause) -> Option<Vec<u8>> {
    if header.is_later_fragment || is_error(packet, header) {
        return None;
    }
    let is_host = |address: IpAddr| match address {
        IpAddr::V4(v4) => {
            !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast() && !v4.is_loopback()
        }
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_multicast() && !v6.is_loopback(),
    };
    if !is_host(header.source) || !is_host(header.destination) {
        return None;
    }
    match (header.source, header.destination) {
        (IpAddr::V4(to), IpAddr::V4(from)) => {
            // RFC 1812 §4.3.2.3: as much of it as fits 576 bytes.
            let quoted = &packet[..packet.len().min(576 - 28)];
            let mut reply = vec![0x45, 0];
            reply.extend((28 + quoted.len() as u16).to_be_bytes());
            reply.extend([0, 0, 0, 0, 64, ICMP, 0, 0]);
            reply.extend(from.octets());
            reply.extend(to.octets());
            let checksum = !sum(0, &reply);
            reply[10..12].copy_from_slice(&checksum.to_be_bytes());
            message(&mut reply, cause.fields(true), quoted, 0);
            Some(reply)
        }
        (IpAddr::V6(to), IpAddr::V6(from)) => {
            // RFC 4443 §2.4 (c): as much of it as fits the smallest MTU of IPv6.
            let quoted = &packet[..packet.len().min(1280 - 48)];
            let mut reply = vec![0x60, 0, 0, 0];
            reply.extend((8 + quoted.len() as u16).to_be_bytes());
            reply.extend([ICMP_V6, 64]);
            reply.extend(from.octets());
            reply.extend(to.octets());
            let before = pseudo(&reply[8..40], 8 + quoted.len(), ICMP_V6);
            message(&mut reply, cause.fields(false), quoted, before);
            Some(reply)
        }
        _ => None,
    }
}

fn message(reply: &mut Vec<u8>, (kind, code, word): (u8, u8, u32), quoted: &[u8], before: u16) {
    let at = reply.len();
    reply.extend([kind, code, 0, 0]);
    reply.extend(word.to_be_bytes());
    reply.extend(quoted);
    let checksum = !sum(before, &reply[at..]);
    reply[at + 2..at + 4].copy_from_slice(&checksum.to_be_bytes());
}

/// True if the packet is itself an ICMP error, or an ICMP message whose kind cannot be read.
fn is_error(packet: &[u8], header: &Header) -> bool {
    let kind = header.transport.at.and_then(|at| packet.get(at));
    match header.transport.protocol {
        // RFC 1122 §3.2.2: destination unreachable, source quench, redirect, time exceeded, parameter problem.
        ICMP => kind.is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12)),
        // RFC 4443 §2.1: errors have types below 128; a redirect (137) is answered by none either.
        ICMP_V6 => kind.is_none_or(|&kind| kind < 128 || kind == 137),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::samples::{checksum, tcp4, udp6};

    fn to(packet: &[u8], cause: Cause) -> Option<Vec<u8>> {
        answer(packet, &Header::read(packet).unwrap(), cause)
    }

    #[test]
    fn fragmentation_needed_states_the_mtu_and_quotes_the_packet() {
        let packet = tcp4(100, &[7; 1460]);
        let reply = to(&packet, Cause::TooBig(1400)).unwrap();
        assert_eq!(reply.len(), 576);
        let header = Header::read(&reply).unwrap();
        assert_eq!(header.source.to_string(), "192.0.2.1");
        assert_eq!(header.destination.to_string(), "10.77.0.2");
        assert_eq!(reply[20..22], [3, 4]);
        assert_eq!(reply[26..28], 1400_u16.to_be_bytes());
        assert_eq!(reply[28..], packet[..548]);
        assert_eq!(
            (sum(0, &reply[..20]), sum(0, &reply[20..])),
            (0xffff, 0xffff)
        );
    }

    #[test]
    fn packet_too_big_of_ipv6() {
        let packet = udp6(&[7; 1452]);
        let reply = to(&packet, Cause::TooBig(1400)).unwrap();
        assert_eq!(reply.len(), 1280);
        assert_eq!(reply[40..42], [2, 0]);
        assert_eq!(reply[44..48], 1400_u32.to_be_bytes());
        assert_eq!(checksum(&reply, 40, ICMP_V6), 0);
        assert!(Header::read(&reply).is_ok());
    }

    #[test]
    fn errors_later_fragments_and_groups_are_not_answered() {
        let packet = tcp4(100, b"x");
        let error = to(&packet, Cause::Prohibited).unwrap();
        assert_eq!(error[20..22], [3, 13]);
        assert_eq!(to(&error, Cause::NoHost), None);
        let mut later = packet.clone();
        later[7] = 1;
        assert_eq!(to(&later, Cause::NoHost), None);
        let mut group = packet.clone();
        group[16] = 224;
        assert_eq!(to(&group, Cause::NoHost), None);
        let mut nobody = packet;
        nobody[12..16].fill(0);
        assert_eq!(to(&nobody, Cause::NoHost), None);
        let error = to(&udp6(b"x"), Cause::Prohibited).unwrap();
        assert_eq!(error[40..42], [1, 1]);
        assert_eq!(to(&error, Cause::NoHost), None);
    }

    proptest! {
        #[test]
        fn answers_are_packets_and_are_not_answered(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            mtu in any::<u16>(),
        ) {
            if let Ok(header) = Header::read(&bytes)
                && let Some(reply) = answer(&bytes, &header, Cause::TooBig(mtu))
            {
                let back = Header::read(&reply).unwrap();
                prop_assert_eq!((back.source, back.destination), (header.destination, header.source));
                prop_assert_eq!(answer(&reply, &back, Cause::NoHost), None);
            }
        }
    }
}
