//! Segment sizes of TCP connections: the option of a SYN is lowered, so that whole segments fit the tunnel (RFC 9293 §3.7.1).

use super::{Header, checksum::updated};

const TCP: u8 = 6;
const FLAG_SYN: u8 = 0x02;
const OPTION_END: u8 = 0;
const OPTION_NONE: u8 = 1;
const OPTION_MSS: u8 = 2;

/// Lowers the segment size in a packet that opens a TCP connection, of either side, to what fits packets of `mtu` bytes. True if it
/// was changed. What IPsec authenticates is left as it is.
pub fn clamp(packet: &mut [u8], header: &Header, mtu: u16) -> bool {
    let Some(at) = header.transport.at else {
        return false;
    };
    if header.transport.protocol != TCP || header.is_authenticated || packet.len() < at + 20 {
        return false;
    }
    let tcp = &mut packet[at..];
    if tcp[13] & FLAG_SYN == 0 {
        return false;
    }
    // The headers of IP and TCP without options.
    let headers = if header.source.is_ipv4() { 40 } else { 60 };
    let most = mtu.saturating_sub(headers);
    let end = (usize::from(tcp[12] >> 4) * 4).min(tcp.len());
    let Some(place) = option_mss(&tcp[..end]) else {
        return false;
    };
    let size = u16::from_be_bytes([tcp[place], tcp[place + 1]]);
    if size <= most {
        return false;
    }
    replace(tcp, place, most.to_be_bytes());
    true
}

/// Offset of the segment size in a TCP header.
fn option_mss(header: &[u8]) -> Option<usize> {
    let mut at = 20;
    loop {
        match *header.get(at)? {
            OPTION_END => return None,
            OPTION_NONE => at += 1,
            kind => {
                let length = usize::from(*header.get(at + 1)?);
                if length < 2 {
                    return None;
                }
                if kind == OPTION_MSS {
                    return (length == 4 && at + 4 <= header.len()).then_some(at + 2);
                }
                at += length;
            }
        }
    }
}

/// Replaces two bytes at any offset of a TCP segment, and updates its checksum.
fn replace(tcp: &mut [u8], place: usize, value: [u8; 2]) {
    let word = |tcp: &[u8], at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    // At an odd offset, the value lies in two words of the sum.
    let words: &[usize] = match place % 2 {
        0 => &[place],
        _ => &[place - 1, place + 1],
    };
    let mut before = [0; 2];
    for (old, &at) in before.iter_mut().zip(words) {
        *old = word(tcp, at);
    }
    tcp[place..place + 2].copy_from_slice(&value);
    let mut checksum = word(tcp, 16);
    for (old, &at) in before.iter().zip(words) {
        checksum = updated(checksum, *old, word(tcp, at));
    }
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::samples::{authenticated, checksum, syn4, syn6};

    fn clamped(packet: &mut [u8], mtu: u16) -> bool {
        let header = Header::read(packet).unwrap();
        clamp(packet, &header, mtu)
    }

    fn size(packet: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([packet[at], packet[at + 1]])
    }

    #[test]
    fn syn_and_syn_ack_are_lowered_and_their_checksums_kept_right() {
        for flags in [0x02, 0x12] {
            let mut packet = syn4(1, flags, &[2, 4, 0x05, 0xb4], b"");
            assert!(clamped(&mut packet, 1400));
            assert_eq!(size(&packet, 42), 1360);
            assert_eq!(checksum(&packet, 20, 6), 0);
            let mut packet = syn6(flags, &[2, 4, 0x05, 0xa0]);
            assert!(clamped(&mut packet, 1400));
            assert_eq!(size(&packet, 62), 1340);
            assert_eq!(checksum(&packet, 40, 6), 0);
        }
    }

    #[test]
    fn what_ipsec_authenticates_stays_as_it_is() {
        let options = [2, 4, 0x05, 0xb4];
        for mut packet in [
            authenticated(&syn4(1, 0x02, &options, b""), &[]),
            authenticated(&syn6(0x02, &options), &[]),
            authenticated(&syn6(0x02, &options), &[0, 60]),
        ] {
            let before = packet.clone();
            assert!(!clamped(&mut packet, 1400));
            assert_eq!(packet, before);
        }
    }

    #[test]
    fn an_option_at_an_odd_offset() {
        let mut packet = syn4(1, 0x02, &[1, 2, 4, 0x05, 0xb4, 1, 1, 0], b"abc");
        assert!(clamped(&mut packet, 1300));
        assert_eq!(size(&packet, 43), 1260);
        assert_eq!(checksum(&packet, 20, 6), 0);
    }

    #[test]
    fn a_smaller_size_another_segment_and_bad_options_stay_as_they_are() {
        for (flags, options) in [
            (0x02, &[2_u8, 4, 0x02, 0x00][..]),
            (0x10, &[2, 4, 0x05, 0xb4]),
            (0x02, &[]),
            (0x02, &[3, 0, 2, 4]),
            (0x02, &[2, 3, 0x05, 0xb4]),
            (0x02, &[0, 4, 0x05, 0xb4]),
            (0x02, &[1, 1, 2, 4]),
        ] {
            let mut packet = syn4(1, flags, options, b"");
            let before = packet.clone();
            assert!(!clamped(&mut packet, 1400), "{options:?}");
            assert_eq!(packet, before);
        }
    }

    proptest! {
        #[test]
        fn any_options_leave_the_checksum_right(
            mut options in prop::collection::vec(any::<u8>(), 0..40),
            mtu in 68_u16..9000,
        ) {
            options.truncate(options.len() / 4 * 4);
            let mut packet = syn4(1, 0x02, &options, b"payload");
            let is_right = |packet: &[u8]| matches!(checksum(packet, 20, 6), 0 | 0xffff);
            prop_assert!(is_right(&packet));
            clamped(&mut packet, mtu);
            prop_assert!(is_right(&packet));
        }
    }
}
