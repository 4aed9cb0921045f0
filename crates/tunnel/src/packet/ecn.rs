//! Congestion marks of IP packets (RFC 3168 §5).

use super::checksum::updated;

/// Congestion experienced, in the two bits of the field.
const CE: u8 = 0b11;

/// The field of a packet that has a header; 0 of others.
fn field(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 4 => second & 0b11,
        [first, second, ..] if first >> 4 == 6 => (second >> 4) & 0b11,
        _ => 0,
    }
}

/// Code point of a packet that has a header, 0 to 63 (RFC 2474 §3); 0 of others.
pub fn dscp(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 4 => second >> 2,
        [first, second, ..] if first >> 4 == 6 => (first & 0xf) << 2 | second >> 6,
        _ => 0,
    }
}

/// True if congestion can be marked on a packet instead of dropping it: its field is ECT(0), ECT(1) or CE.
pub fn is_capable(packet: &[u8]) -> bool {
    field(packet) != 0
}

/// Marks congestion on a packet, and corrects the checksum of its header. Does nothing with what is no IP packet.
pub fn mark(packet: &mut [u8]) {
    let Some(&first) = packet.first() else {
        return;
    };
    match first >> 4 {
        4 if packet.len() >= 20 => {
            let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
            let before = word(packet, 0);
            packet[1] |= CE;
            let checksum = updated(word(packet, 10), before, word(packet, 0));
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        6 if packet.len() >= 40 => packet[1] |= CE << 4,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{
        checksum::sum,
        samples::{tcp4, udp6},
    };

    #[test]
    fn the_code_point_is_read() {
        let (mut v4, mut v6) = (tcp4(1, b""), udp6(b""));
        assert_eq!((dscp(&v4), dscp(&v6), dscp(&[])), (0, 0, 0));
        // Expedited forwarding (46), with a mark.
        v4[1] = 46 << 2 | 3;
        v6[0] |= 46 >> 2;
        v6[1] = (46 & 3) << 6 | 3 << 4;
        assert_eq!((dscp(&v4), dscp(&v6)), (46, 46));
    }

    #[test]
    fn a_mark_keeps_the_checksum_of_ipv4_right() {
        for ecn in [1_u8, 2, 3] {
            let mut packet = tcp4(0, b"x");
            assert!(!is_capable(&packet));
            packet[1] |= ecn;
            packet[10..12].fill(0);
            let checksum = !sum(0, &packet[..20]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            assert!(is_capable(&packet));
            mark(&mut packet);
            assert_eq!(packet[1] & 0b11, 0b11);
            assert_eq!(sum(0, &packet[..20]), 0xffff);
        }
    }

    #[test]
    fn a_mark_on_ipv6_leaves_the_rest_of_the_class() {
        let mut packet = udp6(b"x");
        packet[0] = 0x6b;
        packet[1] = 0x95;
        mark(&mut packet);
        assert_eq!((packet[0], packet[1]), (0x6b, 0xb5));
    }

    #[test]
    fn rubbish_is_left_alone() {
        mark(&mut []);
        let mut short = [0x45, 2, 0];
        mark(&mut short);
        assert_eq!(short, [0x45, 2, 0]);
        assert!(!is_capable(&[]) && !is_capable(&[0x45]));
    }
}
