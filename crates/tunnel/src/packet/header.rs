//! Headers of IP packets: addresses, the transport protocol and its place, fragments (RFC 791 §3.1, RFC 8200 §3 and §4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Extension headers that are followed before a packet counts as one of an unknown protocol.
const EXTENSIONS_MAX: usize = 8;
/// The authentication header of IPsec (RFC 4302).
const AUTHENTICATION: u8 = 51;

/// The packet is not one that an IP host may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It has no bytes.
    #[error("an empty packet")]
    Empty,
    /// Its version is neither 4 nor 6.
    #[error("IP version {0}")]
    Version(u8),
    /// It ends within its header.
    #[error("it ends within its header")]
    Short,
    /// Its length differs from that in its header.
    #[error("its header states {stated} bytes, and it has {bytes}")]
    Length {
        /// Length in the header.
        stated: usize,
        /// Length in fact.
        bytes: usize,
    },
}

/// The header of the transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Protocol number, such as 6 for TCP.
    pub protocol: u8,
    /// Offset of its header; `None`: it is in another fragment, or behind headers that were not followed.
    pub at: Option<usize>,
}

/// Fields of a packet's headers that the tunnel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Transport protocol.
    pub transport: Transport,
    /// True if it is a part of a packet that was fragmented.
    pub is_fragment: bool,
    /// True if it is a fragment other than the first.
    pub is_later_fragment: bool,
    /// True if an authentication header of IPsec is in front of the transport protocol: nothing behind it, and neither address, may be
    /// changed. That of IPv4 is not followed.
    pub is_authenticated: bool,
    /// True if a router must not fragment it: IPv6, and IPv4 with the bit DF.
    pub is_whole: bool,
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

impl Header {
    /// Reads the headers of a packet, which must be as long as its header states.
    ///
    /// # Errors
    /// The packet is malformed.
    pub fn read(packet: &[u8]) -> Result<Self, Malformed> {
        let first = packet.first().ok_or(Malformed::Empty)?;
        match first >> 4 {
            4 => Self::v4(packet),
            6 => Self::v6(packet),
            version => Err(Malformed::Version(version)),
        }
    }

    fn v4(packet: &[u8]) -> Result<Self, Malformed> {
        if packet.len() < 20 {
            return Err(Malformed::Short);
        }
        let header_bytes = usize::from(packet[0] & 0xf) * 4;
        let stated = word(packet, 2);
        if header_bytes < 20 || stated < header_bytes {
            return Err(Malformed::Short);
        }
        if stated != packet.len() {
            let bytes = packet.len();
            return Err(Malformed::Length { stated, bytes });
        }
        let fragment = word(packet, 6);
        let (offset, more) = (fragment & 0x1fff, fragment & 0x2000 != 0);
        let address = |at: usize| {
            let octets: [u8; 4] = packet[at..at + 4].try_into().expect("four octets");
            IpAddr::V4(Ipv4Addr::from(octets))
        };
        Ok(Self {
            source: address(12),
            destination: address(16),
            transport: Transport {
                protocol: packet[9],
                at: (offset == 0).then_some(header_bytes),
            },
            is_fragment: offset > 0 || more,
            is_later_fragment: offset > 0,
            is_authenticated: packet[9] == AUTHENTICATION,
            is_whole: fragment & 0x4000 != 0,
        })
    }

    fn v6(packet: &[u8]) -> Result<Self, Malformed> {
        if packet.len() < 40 {
            return Err(Malformed::Short);
        }
        let stated = 40 + word(packet, 4);
        if stated != packet.len() {
            let bytes = packet.len();
            return Err(Malformed::Length { stated, bytes });
        }
        let address = |at: usize| {
            let octets: [u8; 16] = packet[at..at + 16].try_into().expect("sixteen octets");
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        let mut header = Self {
            source: address(8),
            destination: address(24),
            transport: Transport {
                protocol: packet[6],
                at: None,
            },
            is_fragment: false,
            is_later_fragment: false,
            is_authenticated: false,
            is_whole: true,
        };
        header.follow_extensions(packet)?;
        Ok(header)
    }

    /// Follows the extension headers of IPv6 to the transport protocol.
    fn follow_extensions(&mut self, packet: &[u8]) -> Result<(), Malformed> {
        const HOP_BY_HOP: u8 = 0;
        const ROUTING: u8 = 43;
        const FRAGMENT: u8 = 44;
        const DESTINATION: u8 = 60;
        let mut at = 40;
        for _ in 0..EXTENSIONS_MAX {
            let protocol = self.transport.protocol;
            if !matches!(
                protocol,
                HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION
            ) {
                self.transport.at = Some(at);
                return Ok(());
            }
            let Some(&[next, length]) = packet.get(at..at + 2) else {
                return Err(Malformed::Short);
            };
            let bytes = match protocol {
                FRAGMENT => 8,
                // RFC 4302 §2.2: in units of four octets, less two.
                AUTHENTICATION => (usize::from(length) + 2) * 4,
                _ => (usize::from(length) + 1) * 8,
            };
            if at + bytes > packet.len() {
                return Err(Malformed::Short);
            }
            self.transport.protocol = next;
            self.is_authenticated |= protocol == AUTHENTICATION;
            if protocol == FRAGMENT {
                let field = word(packet, at + 2);
                self.is_later_fragment = field & 0xfff8 != 0;
                self.is_fragment = self.is_later_fragment || field & 1 != 0;
                if self.is_later_fragment {
                    return Ok(());
                }
            }
            at += bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::samples::{authenticated, syn6, tcp4, udp6};

    #[test]
    fn an_authentication_header_is_seen_behind_others() {
        let header = Header::read(&authenticated(&tcp4(100, b"x"), &[])).unwrap();
        assert!(header.is_authenticated);
        assert_eq!(header.transport.protocol, AUTHENTICATION);
        for (before, at) in [(&[][..], 64), (&[0][..], 72), (&[0, 43, 60][..], 88)] {
            let header = Header::read(&authenticated(&syn6(2, &[]), before)).unwrap();
            assert!(header.is_authenticated, "{before:?}");
            let transport = Transport {
                protocol: 6,
                at: Some(at),
            };
            assert_eq!(header.transport, transport, "{before:?}");
        }
        assert!(!Header::read(&tcp4(100, b"x")).unwrap().is_authenticated);
        assert!(!Header::read(&udp6(b"x")).unwrap().is_authenticated);
    }

    #[test]
    fn a_packet_of_each_family_is_read() {
        let packet = tcp4(100, b"x");
        let header = Header::read(&packet).unwrap();
        assert_eq!(header.source.to_string(), "10.77.0.2");
        assert_eq!(header.destination.to_string(), "192.0.2.1");
        let transport = Transport {
            protocol: 6,
            at: Some(20),
        };
        assert_eq!(header.transport, transport);
        assert!(header.is_whole && !header.is_fragment);
        let header = Header::read(&udp6(b"x")).unwrap();
        assert_eq!(header.source.to_string(), "fd77::2");
        assert_eq!(header.transport.at, Some(40));
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        assert_eq!(Header::read(&[]), Err(Malformed::Empty));
        assert_eq!(Header::read(&[0x50; 40]), Err(Malformed::Version(5)));
        let packet = tcp4(0, b"x");
        for bytes in 1..packet.len() {
            assert!(Header::read(&packet[..bytes]).is_err(), "{bytes}");
        }
        let mut longer = packet.clone();
        longer.push(0);
        let error = Header::read(&longer).unwrap_err();
        assert!(error.to_string().contains("41 bytes"), "{error}");
        let mut options = packet;
        options[0] = 0x44;
        assert_eq!(Header::read(&options), Err(Malformed::Short));
    }

    /// RFC 8200 §4.5: the offset is in the upper 13 bits, M in the lowest.
    #[test]
    fn extension_headers_are_followed_to_the_transport() {
        let mut packet = udp6(b"hello");
        let udp = packet.split_off(40);
        packet[6] = 0;
        packet.extend([60, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend([44, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend([17, 0, 0, 1, 0, 0, 0, 9]);
        packet.extend(&udp);
        let length = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        let header = Header::read(&packet).unwrap();
        assert_eq!(
            (header.transport.protocol, header.transport.at),
            (17, Some(64))
        );
        assert!(header.is_fragment && !header.is_later_fragment);
        packet[59] = 8;
        let header = Header::read(&packet).unwrap();
        assert!(header.is_later_fragment);
        assert_eq!((header.transport.protocol, header.transport.at), (17, None));
    }

    #[test]
    fn endless_extension_headers_end() {
        let mut packet = udp6(&[0; 200]);
        packet[6] = 60;
        packet[40..].fill(0);
        let header = Header::read(&packet).unwrap();
        assert_eq!(header.transport.at, None);
    }

    #[test]
    fn a_later_fragment_of_ipv4_has_no_transport_header() {
        let mut packet = tcp4(0, b"x");
        packet[6..8].copy_from_slice(&0x0001_u16.to_be_bytes());
        let header = Header::read(&packet).unwrap();
        assert!(header.is_later_fragment && !header.is_whole);
        assert_eq!(header.transport.at, None);
        packet[6..8].copy_from_slice(&0x2000_u16.to_be_bytes());
        let header = Header::read(&packet).unwrap();
        assert!(header.is_fragment && !header.is_later_fragment);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(header) = Header::read(&bytes) {
                prop_assert!(header.transport.at.is_none_or(|at| at <= bytes.len()));
            }
        }
    }
}
