//! Messages of the tunnel (`spec/tunnel.md`): those of the control stream and of classes, and the header of a packet.

mod service;

use std::net::{Ipv4Addr, Ipv6Addr};

use bytes::{BufMut, Bytes, BytesMut};

pub use self::service::{Ask, ServiceMessage};
use crate::numbers::BUCKETS_ALL;

/// Label of the control stream.
pub const LABEL_CONTROL: &str = "anabranch-tunnel/1";
/// Label of the two streams of packets: an urgent one, and one of normal priority.
pub const LABEL_PACKETS: &str = "anabranch-tunnel/1/packets";
/// Label of the stream of a class of packets.
pub const LABEL_SERVICE: &str = "anabranch-tunnel/1/service";
/// Label of the stream of a connection that the server makes (`spec/forward.md`).
pub const LABEL_CONNECTIONS: &str = "anabranch-tunnel/1/connections";
/// Version that this node speaks.
pub const VERSION: u8 = 1;
/// Application code of a stream whose peer broke the rules.
pub const CODE_PROTOCOL: u32 = 0x31;
/// Application code of a control stream that ends because the node joined again, in another session.
pub const CODE_REPLACED: u32 = 0x32;
/// Application code of the stream of a class that is one more than there may be.
pub const CODE_BUSY: u32 = 0x10;
/// Application code of a stream that ends because the tunnel does.
pub const CODE_ENDED: u32 = 0x30;
/// Bytes of the header of a packet.
pub const HEADER_BYTES: usize = 7;
/// Longest text of a refusal, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// Smallest largest packet: that of IPv6 (RFC 8200 §5).
pub const MTU_MIN: u16 = 1280;
/// Largest largest packet.
pub const MTU_MAX: u16 = 9000;

const REQUEST: u8 = 0x01;
const LEASE: u8 = 0x02;
const REFUSE: u8 = 0x03;
const READY: u8 = 0x04;
/// First byte of an ADU with a packet.
pub(crate) const PACKET: u8 = 0x00;

/// ADU of a stream of packets that carries none: it lets the server know the stream.
pub const HELLO: &[u8] = &[0x01];

/// An address of one family with its network, as the server assigns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned<A> {
    /// The address of the client.
    pub address: A,
    /// Length of the network's prefix, in bits.
    pub length: u8,
    /// The address of the server in this network.
    pub server: A,
}

/// Addresses and largest packet of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// IPv4.
    pub v4: Option<Assigned<Ipv4Addr>>,
    /// IPv6.
    pub v6: Option<Assigned<Ipv6Addr>>,
}

/// Addresses that a client had, which it would like to keep; and its largest packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// IPv4.
    pub v4: Option<Ipv4Addr>,
    /// IPv6.
    pub v6: Option<Ipv6Addr>,
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// The node has no right to the tunnel.
    NotAllowed,
    /// All addresses are in use.
    NoAddress,
    /// The version or the request is not supported.
    Unsupported,
    /// Another reason; unknown codes count as this one.
    Failed,
}

impl Code {
    fn number(self) -> u8 {
        match self {
            Self::NotAllowed => 1,
            Self::NoAddress => 2,
            Self::Unsupported => 3,
            Self::Failed => 4,
        }
    }

    fn of(number: u8) -> Self {
        match number {
            1 => Self::NotAllowed,
            2 => Self::NoAddress,
            3 => Self::Unsupported,
            _ => Self::Failed,
        }
    }
}

/// A message of the control stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first message of the client.
    Request(Wish),
    /// The addresses of the client from now on.
    Lease(Terms),
    /// There are none, for this reason.
    Refuse(Code, String),
    /// The server knows both streams of packets.
    Ready,
}

/// The message is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The version is another one.
    #[error("version {0} of the tunnel is not supported; this node has version {VERSION}")]
    Version(u8),
    /// It does not follow the format.
    #[error("not a message of the tunnel")]
    Format,
}

/// Reader of a message.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (first, rest) = self.0.split_at_checked(N).ok_or(WireError::Format)?;
        self.0 = rest;
        Ok(first.try_into().expect("as long as asked for"))
    }

    fn byte(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    fn has(&mut self) -> Result<bool, WireError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Format),
        }
    }

    fn mtu(&mut self) -> Result<u16, WireError> {
        let mtu = u16::from_be_bytes(self.array()?);
        (MTU_MIN..=MTU_MAX)
            .contains(&mtu)
            .then_some(mtu)
            .ok_or(WireError::Format)
    }

    fn assigned<A: From<[u8; N]>, const N: usize>(
        &mut self,
    ) -> Result<Option<Assigned<A>>, WireError> {
        if !self.has()? {
            return Ok(None);
        }
        let address = self.array::<N>()?.into();
        let length = self.byte()?;
        if !(1..=8 * N).contains(&usize::from(length)) {
            return Err(WireError::Format);
        }
        let server = self.array::<N>()?.into();
        Ok(Some(Assigned {
            address,
            length,
            server,
        }))
    }

    fn wished<A: From<[u8; N]>, const N: usize>(&mut self) -> Result<Option<A>, WireError> {
        match self.has()? {
            true => Ok(Some(self.array::<N>()?.into())),
            false => Ok(None),
        }
    }

    fn end(self) -> Result<(), WireError> {
        match self.0 {
            [] => Ok(()),
            _ => Err(WireError::Format),
        }
    }
}

fn put_octets(out: &mut BytesMut, octets: Option<&[u8]>) {
    out.put_u8(octets.is_some().into());
    out.put_slice(octets.unwrap_or_default());
}

impl Message {
    /// The bytes of the message.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Request(wish) => {
                out.put_slice(&[REQUEST, VERSION]);
                out.put_u16(wish.mtu);
                put_octets(
                    &mut out,
                    wish.v4.map(|v4| v4.octets()).as_ref().map(|o| &o[..]),
                );
                put_octets(
                    &mut out,
                    wish.v6.map(|v6| v6.octets()).as_ref().map(|o| &o[..]),
                );
            }
            Self::Lease(terms) => {
                out.put_u8(LEASE);
                out.put_u16(terms.mtu);
                let v4 = terms.v4.map(|v4| {
                    let both = (v4.address.octets(), v4.server.octets());
                    [&both.0[..], &[v4.length], &both.1].concat()
                });
                put_octets(&mut out, v4.as_deref());
                let v6 = terms.v6.map(|v6| {
                    let both = (v6.address.octets(), v6.server.octets());
                    [&both.0[..], &[v6.length], &both.1].concat()
                });
                put_octets(&mut out, v6.as_deref());
            }
            Self::Refuse(code, text) => {
                out.put_slice(&[REFUSE, code.number()]);
                let end = text.floor_char_boundary_at(TEXT_BYTES_MAX);
                out.put_slice(&text.as_bytes()[..end]);
            }
            Self::Ready => out.put_u8(READY),
        }
        out.freeze()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is of another version, or does not follow the format.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader(bytes);
        match reader.byte()? {
            REQUEST => {
                let version = reader.byte()?;
                if version != VERSION {
                    return Err(WireError::Version(version));
                }
                let wish = Wish {
                    mtu: reader.mtu()?,
                    v4: reader.wished()?,
                    v6: reader.wished()?,
                };
                reader.end()?;
                Ok(Self::Request(wish))
            }
            LEASE => {
                let terms = Terms {
                    mtu: reader.mtu()?,
                    v4: reader.assigned()?,
                    v6: reader.assigned()?,
                };
                reader.end()?;
                if terms.v4.is_none() && terms.v6.is_none() {
                    return Err(WireError::Format);
                }
                Ok(Self::Lease(terms))
            }
            REFUSE => {
                let code = Code::of(reader.byte()?);
                if reader.0.len() > TEXT_BYTES_MAX {
                    return Err(WireError::Format);
                }
                let text = std::str::from_utf8(reader.0).map_err(|_| WireError::Format)?;
                Ok(Self::Refuse(code, text.to_owned()))
            }
            READY => {
                reader.end()?;
                Ok(Self::Ready)
            }
            _ => Err(WireError::Format),
        }
    }
}

/// The end of a text cut to a number of bytes.
trait Cut {
    fn floor_char_boundary_at(&self, bytes: usize) -> usize;
}

impl Cut for str {
    fn floor_char_boundary_at(&self, bytes: usize) -> usize {
        let mut end = bytes.min(self.len());
        while !self.is_char_boundary(end) {
            end -= 1;
        }
        end
    }
}

/// Header of a packet: its place in the order of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Bucket of the flow.
    pub bucket: u16,
    /// Number in the bucket, modulo 2³².
    pub sequence: u32,
}

impl PacketHeader {
    /// Writes the header into the first bytes of an ADU.
    ///
    /// # Panics
    /// If it has fewer than [`HEADER_BYTES`].
    pub fn write(self, adu: &mut [u8]) {
        adu[0] = PACKET;
        adu[1..3].copy_from_slice(&self.bucket.to_be_bytes());
        adu[3..HEADER_BYTES].copy_from_slice(&self.sequence.to_be_bytes());
    }

    /// Reads the header of an ADU; the packet follows it.
    ///
    /// # Errors
    /// It does not follow the format.
    pub fn read(adu: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader(adu);
        if reader.byte()? != PACKET {
            return Err(WireError::Format);
        }
        let bucket = u16::from_be_bytes(reader.array()?);
        if bucket >= BUCKETS_ALL {
            return Err(WireError::Format);
        }
        Ok(Self {
            bucket,
            sequence: u32::from_be_bytes(reader.array()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(message: &Message) {
        assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(message));
    }

    fn terms() -> Terms {
        Terms {
            mtu: 1400,
            v4: Some(Assigned {
                address: [10, 77, 0, 2].into(),
                length: 24,
                server: [10, 77, 0, 1].into(),
            }),
            v6: Some(Assigned {
                address: "fd77::2".parse().unwrap(),
                length: 64,
                server: "fd77::1".parse().unwrap(),
            }),
        }
    }

    #[test]
    fn messages_round_trip() {
        round_trip(&Message::Lease(terms()));
        round_trip(&Message::Lease(Terms {
            v4: None,
            ..terms()
        }));
        round_trip(&Message::Request(Wish {
            mtu: 1280,
            v4: None,
            v6: None,
        }));
        round_trip(&Message::Request(Wish {
            mtu: 9000,
            v4: Some([10, 77, 0, 2].into()),
            v6: Some("fd77::2".parse().unwrap()),
        }));
        round_trip(&Message::Refuse(Code::NotAllowed, "no right".to_owned()));
        round_trip(&Message::Ready);
    }

    /// The bytes of `spec/tunnel.md`.
    #[test]
    fn a_request_has_the_bytes_of_the_specification() {
        let request = Message::Request(Wish {
            mtu: 1400,
            v4: Some([10, 77, 0, 2].into()),
            v6: None,
        });
        let bytes = [0x01, 1, 0x05, 0x78, 1, 10, 77, 0, 2, 0];
        assert_eq!(request.encode()[..], bytes);
    }

    #[test]
    fn messages_that_break_the_format_are_refused() {
        let lease = Message::Lease(terms()).encode();
        for bytes in 0..lease.len() {
            assert!(Message::decode(&lease[..bytes]).is_err(), "{bytes}");
        }
        let longer = [&lease[..], &[0]].concat();
        assert_eq!(Message::decode(&longer), Err(WireError::Format));
        let nothing = [0x02, 0x05, 0x78, 0, 0];
        assert_eq!(Message::decode(&nothing), Err(WireError::Format));
        assert_eq!(
            Message::decode(&[0x01, 2, 0, 0]),
            Err(WireError::Version(2))
        );
        // An MTU below that of IPv6, a flag that is neither 0 nor 1, and a prefix that is too long.
        assert!(Message::decode(&[0x01, 1, 0x04, 0xff, 0, 0]).is_err());
        assert!(Message::decode(&[0x01, 1, 0x05, 0x78, 2, 0]).is_err());
        let mut long = lease.to_vec();
        long[8] = 33;
        assert!(Message::decode(&long).is_err());
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "ä".repeat(300);
        let bytes = Message::Refuse(Code::Failed, text).encode();
        assert_eq!(bytes.len(), 2 + TEXT_BYTES_MAX);
        let text = "x".to_owned() + &"ä".repeat(300);
        let bytes = Message::Refuse(Code::Failed, text).encode();
        assert!(Message::decode(&bytes).is_ok());
    }

    proptest! {
        #[test]
        fn headers_round_trip(bucket in 0..BUCKETS_ALL, sequence in any::<u32>()) {
            let header = PacketHeader { bucket, sequence };
            let mut adu = [0; HEADER_BYTES];
            header.write(&mut adu);
            prop_assert_eq!(PacketHeader::read(&adu), Ok(header));
        }

        #[test]
        fn what_decodes_encodes_to_the_same(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
            let _ = PacketHeader::read(&bytes);
        }
    }
}
