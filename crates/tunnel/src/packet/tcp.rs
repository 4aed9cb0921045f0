//! TCP segments: their ends and flags, other ends in place of theirs, and the reset that answers a connection which is refused
//! (RFC 9293 §3.1, §3.10.7).

use std::net::{IpAddr, SocketAddr};

use super::{
    Header,
    checksum::{pseudo, sum, updated},
};

const TCP: u8 = 6;
/// Bytes of a TCP header without options.
const TCP_BYTES: usize = 20;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// The ends of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
}

impl Ends {
    /// Those of the segments in the other direction.
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
        }
    }
}

/// A TCP segment, as far as the tunnel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its ends.
    pub ends: Ends,
    flags: u8,
    /// Offset of the TCP header.
    at: usize,
}

/// The numbers and flags of a segment that show the state of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The sequence number after its last byte; SYN and FIN count as one each.
    pub next: u32,
    /// The sequence number that its sender expects; `None` in an opening.
    pub acknowledged: Option<u32>,
    /// True if its sender sends nothing more.
    pub is_last: bool,
    /// True if it resets its connection.
    pub is_reset: bool,
}

impl Segment {
    /// Reads a packet; `None`: it is no whole TCP segment, or one that IPsec authenticates, whose ends nobody else can be.
    pub fn read(packet: &[u8], header: &Header) -> Option<Self> {
        if header.transport.protocol != TCP || header.is_fragment || header.is_authenticated {
            return None;
        }
        let at = header.transport.at?;
        let tcp = packet.get(at..at + TCP_BYTES)?;
        let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        Some(Self {
            ends: Ends {
                source: SocketAddr::new(header.source, port(0)),
                destination: SocketAddr::new(header.destination, port(2)),
            },
            flags: tcp[13],
            at,
        })
    }

    /// True if it opens a connection.
    pub fn is_opening(&self) -> bool {
        self.flags & (SYN | ACK | RST | FIN) == SYN
    }

    /// True if it resets its connection.
    pub fn is_reset(&self) -> bool {
        self.flags & RST != 0
    }

    /// Progress of its connection; `packet` is the one that this was read from.
    pub fn progress(&self, packet: &[u8]) -> Progress {
        let number = |at: usize| {
            let bytes = packet[at..at + 4].try_into();
            u32::from_be_bytes(bytes.expect("it was read"))
        };
        let has = |flag: u8| self.flags & flag != 0;
        let header_bytes = usize::from(packet[self.at + 12] >> 4) * 4;
        let data_bytes = packet.len().saturating_sub(self.at + header_bytes) as u32;
        Progress {
            next: number(self.at + 4)
                .wrapping_add(data_bytes + u32::from(has(SYN)) + u32::from(has(FIN))),
            acknowledged: has(ACK).then(|| number(self.at + 8)),
            is_last: has(FIN),
            is_reset: has(RST),
        }
    }

    /// Puts other ends, of the same family, in place of those of `packet`, which this was read from; its checksums are updated. A partial
    /// checksum is the sum of the addresses and the length, not complemented.
    pub fn readdress(&self, packet: &mut [u8], is_partial: bool, ends: Ends) {
        let is_v4 = matches!(
            (ends.source, ends.destination),
            (SocketAddr::V4(_), SocketAddr::V4(_))
        );
        debug_assert_eq!(is_v4, packet[0] >> 4 == 4, "ends of another family");
        let (first, length) = if is_v4 { (12, 4) } else { (8, 16) };
        let flip = if is_partial { u16::MAX } else { 0 };
        let mut tcp = word(packet, self.at + 16) ^ flip;
        let mut ip = word(packet, 10);
        let mut replace = |packet: &mut [u8], place: usize, value: &[u8], is_address: bool| {
            for (index, pair) in value.chunks_exact(2).enumerate() {
                let place = place + 2 * index;
                let (before, after) = (word(packet, place), u16::from_be_bytes([pair[0], pair[1]]));
                if is_address || !is_partial {
                    tcp = updated(tcp, before, after);
                }
                if is_address && is_v4 {
                    ip = updated(ip, before, after);
                }
                packet[place..place + 2].copy_from_slice(pair);
            }
        };
        for (end, address_at, port_at) in [
            (ends.source, first, self.at),
            (ends.destination, first + length, self.at + 2),
        ] {
            match end.ip() {
                IpAddr::V4(v4) => replace(packet, address_at, &v4.octets(), true),
                IpAddr::V6(v6) => replace(packet, address_at, &v6.octets(), true),
            }
            replace(packet, port_at, &end.port().to_be_bytes(), false);
        }
        packet[self.at + 16..self.at + 18].copy_from_slice(&(tcp ^ flip).to_be_bytes());
        if is_v4 {
            packet[10..12].copy_from_slice(&ip.to_be_bytes());
        }
    }

    /// The segment with which the receiver refuses the connection that `packet`, which this was read from, opens.
    pub fn refusal(&self, packet: &[u8]) -> Vec<u8> {
        let sequence = packet[self.at + 4..self.at + 8].try_into();
        let sequence = u32::from_be_bytes(sequence.expect("it was read"));
        // The bit SYN counts as a byte.
        reset_with(self.ends.reversed(), 0, Some(sequence.wrapping_add(1)))
    }
}

/// A segment that resets the connection of these ends, whose destination expects the number.
pub fn reset(ends: Ends, sequence: u32) -> Vec<u8> {
    reset_with(ends, sequence, None)
}

fn reset_with(ends: Ends, sequence: u32, acknowledged: Option<u32>) -> Vec<u8> {
    let Ends {
        source: from,
        destination: to,
    } = ends;
    let mut reply = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut reply = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, TCP, 0, 0];
            reply.extend(from.octets());
            reply.extend(to.octets());
            let checksum = !sum(0, &reply);
            reply[10..12].copy_from_slice(&checksum.to_be_bytes());
            reply
        }
        (from, to) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V6(v6) => v6.octets(),
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            };
            let mut reply = vec![0x60, 0, 0, 0, 0, TCP_BYTES as u8, TCP, 64];
            reply.extend(octets(from));
            reply.extend(octets(to));
            reply
        }
    };
    let at = reply.len();
    let flags = RST | if acknowledged.is_some() { ACK } else { 0 };
    reply.extend(from.port().to_be_bytes());
    reply.extend(to.port().to_be_bytes());
    reply.extend(sequence.to_be_bytes());
    reply.extend(acknowledged.unwrap_or(0).to_be_bytes());
    reply.extend([(TCP_BYTES as u8 / 4) << 4, flags, 0, 0, 0, 0, 0, 0]);
    let addresses = if at == 20 { 12..20 } else { 8..40 };
    let before = pseudo(&reply[addresses], TCP_BYTES, TCP);
    let checksum = !sum(before, &reply[at..]);
    reply[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
    reply
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::samples::{authenticated, checksum, syn4, syn6, tcp4, udp6};

    fn read(packet: &[u8]) -> Option<Segment> {
        Segment::read(packet, &Header::read(packet).unwrap())
    }

    fn ends(source: &str, destination: &str) -> Ends {
        Ends {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        }
    }

    #[test]
    fn ends_and_flags_are_read() {
        let segment = read(&syn4(4000, 0x02, &[], b"")).unwrap();
        assert_eq!(segment.ends, ends("10.77.0.2:4000", "192.0.2.1:80"));
        assert!(segment.is_opening() && !segment.is_reset());
        assert!(!read(&syn4(1, 0x12, &[], b"")).unwrap().is_opening());
        assert!(read(&syn4(1, 0x14, &[], b"")).unwrap().is_reset());
        assert!(!read(&tcp4(1, b"x")).unwrap().is_opening());
        let segment = read(&syn6(0x02, &[])).unwrap();
        assert_eq!(segment.ends, ends("[fd77::2]:32768", "[2001:db8::1]:80"));
        assert_eq!(read(&udp6(b"x")), None);
        let mut fragment = tcp4(1, b"x");
        fragment[6] = 0x20;
        assert_eq!(read(&fragment), None);
    }

    /// The receiver would discard what has other ends, and no other end can authenticate its own segments.
    #[test]
    fn what_ipsec_authenticates_is_no_segment_to_take_apart() {
        for flags in [0x02, 0x12, 0x10, 0x11, 0x04] {
            assert!(read(&syn4(4000, flags, &[], b"")).is_some());
            assert_eq!(
                read(&authenticated(&syn4(4000, flags, &[], b""), &[])),
                None
            );
            assert!(read(&syn6(flags, &[])).is_some());
            for before in [&[][..], &[0], &[60], &[0, 43, 60]] {
                let packet = authenticated(&syn6(flags, &[]), before);
                assert_eq!(read(&packet), None, "{flags} behind {before:?}");
            }
        }
    }

    #[test]
    fn other_ends_leave_the_checksums_right() {
        let mut packet = tcp4(4000, b"payload");
        let other = ends("10.77.0.1:7", "10.77.0.2:40000");
        read(&packet).unwrap().readdress(&mut packet, false, other);
        assert_eq!(read(&packet).unwrap().ends, other);
        assert_eq!(
            (sum(0, &packet[..20]), checksum(&packet, 20, 6)),
            (0xffff, 0)
        );
        let mut packet = syn6(0x02, &[2, 4, 5, 0xa0]);
        let other = ends("[fd77::1]:7", "[fd77::2]:40000");
        read(&packet).unwrap().readdress(&mut packet, false, other);
        assert_eq!(read(&packet).unwrap().ends, other);
        assert_eq!(checksum(&packet, 40, 6), 0);
    }

    /// The kernel, and it alone, sums up the rest.
    #[test]
    fn a_partial_checksum_stays_one_of_the_addresses_and_the_length() {
        let partial = |packet: &[u8], at: usize| {
            let addresses = if at == 20 { 12..20 } else { 8..40 };
            pseudo(&packet[addresses], packet.len() - at, TCP).to_be_bytes()
        };
        for (mut packet, at, other) in [
            (tcp4(1, b"abc"), 20, ends("10.77.0.1:7", "10.77.0.2:40000")),
            (syn6(0x02, &[]), 40, ends("[fd77::1]:7", "[fd77::2]:40000")),
        ] {
            let sum = partial(&packet, at);
            packet[at + 16..at + 18].copy_from_slice(&sum);
            read(&packet).unwrap().readdress(&mut packet, true, other);
            assert_eq!(read(&packet).unwrap().ends, other);
            assert_eq!(packet[at + 16..at + 18], partial(&packet, at));
        }
    }

    #[test]
    fn a_refusal_acknowledges_what_it_refuses() {
        for (packet, at) in [(syn4(4000, 0x02, &[], b""), 20), (syn6(0x02, &[]), 40)] {
            let segment = read(&packet).unwrap();
            let reply = segment.refusal(&packet);
            let refusal = read(&reply).unwrap();
            assert_eq!(refusal.ends, segment.ends.reversed());
            assert!(refusal.is_reset());
            assert_eq!(reply[at + 8..at + 12], 2_u32.to_be_bytes(), "1 and the SYN");
            assert_eq!(checksum(&reply, at, 6), 0);
            assert_eq!(reply.len(), at + 20);
        }
    }

    #[test]
    fn what_takes_a_number_is_counted() {
        let opening = syn4(4000, 0x02, &[2, 4, 5, 0xa0], b"data");
        let progress = read(&opening).unwrap().progress(&opening);
        assert_eq!((progress.next, progress.acknowledged), (1 + 4 + 1, None));
        let last = syn4(4000, 0x11, &[], b"data");
        let progress = read(&last).unwrap().progress(&last);
        assert_eq!((progress.next, progress.acknowledged), (1 + 4 + 1, Some(0)));
        assert!(progress.is_last && !progress.is_reset);
        // A header that is longer than its packet.
        let mut cut = tcp4(4000, b"");
        cut[32] = 0xf0;
        assert_eq!(read(&cut).unwrap().progress(&cut).next, 1);
    }

    #[test]
    fn a_reset_has_its_number() {
        for (source, destination, at) in [
            ("10.77.0.2:1", "192.0.2.1:80", 20),
            ("[fd77::2]:1", "[2001:db8::1]:80", 40),
        ] {
            let packet = reset(ends(source, destination), 77);
            let segment = read(&packet).unwrap();
            assert_eq!(segment.ends, ends(source, destination));
            assert!(segment.is_reset());
            assert_eq!(segment.progress(&packet).next, 77);
            assert_eq!(checksum(&packet, at, 6), 0);
        }
    }

    proptest! {
        #[test]
        fn any_ends_leave_the_checksums_right(
            addresses: [[u8; 4]; 2],
            ports: [u16; 2],
            payload in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut packet = tcp4(1, &payload);
            let [source, destination] = addresses;
            let other = Ends {
                source: (source, ports[0]).into(),
                destination: (destination, ports[1]).into(),
            };
            read(&packet).unwrap().readdress(&mut packet, false, other);
            prop_assert_eq!(read(&packet).unwrap().ends, other);
            // Both zeros of the one's complement mean the same.
            prop_assert!(matches!(sum(0, &packet[..20]), 0 | 0xffff));
            prop_assert!(matches!(checksum(&packet, 20, 6), 0 | 0xffff));
        }
    }
}
