//! Record of a node.
//!
//! ```text
//! Record {
//!   origin      6 bytes
//!   version     varint
//!   flags       8 bits   0b0000_00RL   L: leaving, R: relays for others
//!   headroom   16 bits   only with R: short number, bit/s
//!   addresses   8 bits   at most 4, then of each: 4 or 6, 4 or 16 bytes, port 16 bits
//!   links       8 bits   at most 32, then of each:
//!     peer      6 bytes
//!     bandwidth 16 bits  short number, bit/s
//!     delay_min 16 bits  short number, µs
//!     deviation  8 bits  relative standard error of the bandwidth, in 1/128; 255: unknown
//!     age        8 bits  tiny number, s, when signed
//!     group      8 bits  0, or the same number as the origin's other links that share a bottleneck
//!   signature  64 bytes  over "anabranch overlay record 1", 0, and all of the above
//! }
//! ```

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anabranch_base::{NodeId, Rate};

use super::{
    DecodeError, ShortId,
    code::{Cursor, VARINT_MAX, from_short, from_tiny, put_varint, to_short, to_tiny},
};
use crate::keys::{Keys, SIGNATURE_BYTES};

/// Most addresses of a node.
pub const ADDRESSES_MAX: usize = 4;
/// Most links that a node publishes.
pub const LINKS_MAX: usize = 32;
/// Longest record, in bytes.
pub const RECORD_BYTES_MAX: usize =
    6 + 8 + 1 + 2 + 1 + ADDRESSES_MAX * 19 + 1 + LINKS_MAX * 13 + SIGNATURE_BYTES;
/// Greatest version: a digest adds one bit to it.
pub const VERSION_MAX: u64 = VARINT_MAX / 2;
/// Fastest believable link: 1 Tbit/s.
pub const RATE_MAX: Rate = Rate::from_mbps(1_000_000);
/// Longest believable delay of a link.
pub const DELAY_MAX: Duration = Duration::from_secs(100);

const CONTEXT: &[u8] = b"anabranch overlay record 1\0";
const LEAVING: u8 = 0x01;
const RELAYS: u8 = 0x02;
const DEVIATION_UNKNOWN: u8 = u8::MAX;

/// Signed statement of a node about itself: its addresses, its headroom as a relay, and its outgoing links.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Origin of the record.
    pub origin: ShortId,
    /// Grows with every record of the origin, over restarts too.
    pub version: u64,
    /// True if the origin leaves; it then has no links.
    pub leaving: bool,
    /// The rate that the origin can relay for others in 95 % of the time; `None` when it does not relay.
    pub headroom: Option<Rate>,
    /// Addresses of the origin; empty: those in the list of members.
    pub addresses: Vec<SocketAddr>,
    /// Its measured outgoing links.
    pub links: Vec<LinkState>,
}

/// One outgoing link as its origin measured it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkState {
    /// The other end.
    pub peer: ShortId,
    /// Effective bandwidth, above 0 and at most [`RATE_MAX`].
    pub bandwidth: Rate,
    /// Delay of a message of size 0, at most [`DELAY_MAX`].
    pub delay_min: Duration,
    /// Relative standard error of the bandwidth, [0, 1.98]; `None`: unknown.
    pub deviation: Option<f64>,
    /// Age of the estimate when the record was signed, whole seconds.
    pub age: Duration,
    /// Group of links that share a bottleneck: the origin's links with the same number; 0: none.
    pub group: u8,
}

impl Record {
    /// The encoded and signed record.
    ///
    /// # Panics
    /// With more than [`ADDRESSES_MAX`] addresses or [`LINKS_MAX`] links.
    pub fn encode(&self, keys: &dyn Keys) -> Vec<u8> {
        assert!(self.addresses.len() <= ADDRESSES_MAX && self.links.len() <= LINKS_MAX);
        let mut out = CONTEXT.to_vec();
        out.extend_from_slice(&self.origin.0);
        put_varint(&mut out, self.version);
        out.push(if self.leaving { LEAVING } else { 0 } | self.headroom.map_or(0, |_| RELAYS));
        if let Some(headroom) = self.headroom {
            put_short(&mut out, headroom.as_bps());
        }
        out.push(self.addresses.len() as u8);
        for address in &self.addresses {
            put_address(&mut out, address);
        }
        out.push(self.links.len() as u8);
        for link in &self.links {
            link.encode(&mut out);
        }
        let signature = keys.sign(&out);
        out.drain(..CONTEXT.len());
        out.extend_from_slice(&signature);
        out
    }

    /// Reads a record. Its signature is not checked: see [`verify`].
    ///
    /// # Errors
    /// Malformed bytes: too few, too many, out of range, a link twice or to the origin itself.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(DecodeError::TooLong);
        }
        let body = bytes
            .len()
            .checked_sub(SIGNATURE_BYTES)
            .ok_or(DecodeError::Truncated)?;
        let mut from = Cursor::new(&bytes[..body]);
        let (origin, version) = head(&mut from)?;
        let flags = from.u8()?;
        if flags & !(LEAVING | RELAYS) != 0 {
            return Err(DecodeError::Value);
        }
        let headroom = if flags & RELAYS != 0 {
            let rate = Rate::from_bps(from_short(from.u16()?)?);
            (rate <= RATE_MAX)
                .then_some(Some(rate))
                .ok_or(DecodeError::Value)?
        } else {
            None
        };
        let addresses = list(&mut from, ADDRESSES_MAX, read_address)?;
        let links = list(&mut from, LINKS_MAX, LinkState::decode)?;
        let leaving = flags & LEAVING != 0;
        let is_absurd = !from.is_empty()
            || leaving && !links.is_empty()
            || links.iter().enumerate().any(|(at, link)| {
                link.peer == origin || links[..at].iter().any(|other| other.peer == link.peer)
            });
        if is_absurd {
            return Err(DecodeError::Value);
        }
        Ok(Self {
            origin,
            version,
            leaving,
            headroom,
            addresses,
            links,
        })
    }
}

/// Origin and version of a record, without reading the rest.
///
/// # Errors
/// Too few bytes.
pub fn peek(bytes: &[u8]) -> Result<(ShortId, u64), DecodeError> {
    head(&mut Cursor::new(bytes))
}

/// The headroom in a record, without reading the rest; `None`: the origin does not relay, or the bytes are not a
/// record.
pub fn headroom(bytes: &[u8]) -> Option<Rate> {
    let mut from = Cursor::new(bytes);
    head(&mut from).ok()?;
    let relays = from.u8().ok()? & RELAYS != 0;
    let rate = from_short(from.u16().ok()?).ok()?;
    relays.then(|| Rate::from_bps(rate))
}

/// True if `bytes` carry the signature of `origin`.
pub fn verify(keys: &dyn Keys, origin: &NodeId, bytes: &[u8]) -> bool {
    super::claim::is_signed(keys, origin, CONTEXT, bytes)
}

fn head(from: &mut Cursor<'_>) -> Result<(ShortId, u64), DecodeError> {
    let (origin, version) = (ShortId(from.array()?), from.varint()?);
    if version > VERSION_MAX {
        return Err(DecodeError::Value);
    }
    Ok((origin, version))
}

fn list<'a, T>(
    from: &mut Cursor<'a>,
    most: usize,
    mut read: impl FnMut(&mut Cursor<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = usize::from(from.u8()?);
    if count > most {
        return Err(DecodeError::TooLong);
    }
    (0..count).map(|_| read(from)).collect()
}

fn put_short(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&to_short(value).to_be_bytes());
}

fn put_address(out: &mut Vec<u8>, address: &SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

fn read_address(from: &mut Cursor<'_>) -> Result<SocketAddr, DecodeError> {
    let ip = match from.u8()? {
        4 => IpAddr::from(from.array::<4>()?),
        6 => IpAddr::from(from.array::<16>()?),
        _ => return Err(DecodeError::Value),
    };
    match from.u16()? {
        0 => Err(DecodeError::Value),
        port => Ok(SocketAddr::new(ip, port)),
    }
}

impl LinkState {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.peer.0);
        put_short(out, self.bandwidth.as_bps());
        put_short(
            out,
            u64::try_from(self.delay_min.as_micros()).unwrap_or(u64::MAX),
        );
        out.push(self.deviation.map_or(DEVIATION_UNKNOWN, |deviation| {
            (deviation * 128.0).round().clamp(0.0, 254.0) as u8
        }));
        out.push(to_tiny(self.age.as_secs()));
        out.push(self.group);
    }

    fn decode(from: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let link = Self {
            peer: ShortId(from.array()?),
            bandwidth: Rate::from_bps(from_short(from.u16()?)?),
            delay_min: Duration::from_micros(from_short(from.u16()?)?),
            deviation: Some(from.u8()?)
                .filter(|&code| code != DEVIATION_UNKNOWN)
                .map(|code| f64::from(code) / 128.0),
            age: Duration::from_secs(from_tiny(from.u8()?)),
            group: from.u8()?,
        };
        let is_sane = link.bandwidth > Rate::ZERO
            && link.bandwidth <= RATE_MAX
            && link.delay_min <= DELAY_MAX;
        is_sane.then_some(link).ok_or(DecodeError::Value)
    }

    /// The link as others receive it: rounded to the precision of the encoding.
    pub fn rounded(&self) -> Self {
        let mut out = Vec::with_capacity(13);
        self.encode(&mut out);
        Self::decode(&mut Cursor::new(&out)).unwrap_or(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::FakeKeys;
    use proptest::prelude::*;

    fn node(n: u8) -> NodeId {
        NodeId::from_public_key([n; 32])
    }

    fn link(peer: u8) -> LinkState {
        LinkState {
            peer: ShortId::of(&node(peer)),
            bandwidth: Rate::from_mbps(100),
            delay_min: Duration::from_millis(20),
            deviation: Some(0.125),
            age: Duration::from_secs(12),
            group: 1,
        }
        .rounded()
    }

    fn record() -> Record {
        Record {
            origin: ShortId::of(&node(1)),
            version: 300,
            leaving: false,
            headroom: Some(Rate::from_mbps(64)),
            addresses: vec![
                "192.0.2.1:443".parse().unwrap(),
                "[2001:db8::1]:9".parse().unwrap(),
            ],
            links: vec![link(2), link(3)],
        }
    }

    #[test]
    fn round_trips_and_is_compact() {
        let bytes = record().encode(&FakeKeys(node(1)));
        let back = Record::decode(&bytes).unwrap();
        let rate = back.headroom.unwrap().as_bps() as f64 / 64e6;
        assert!((rate - 1.0).abs() < 1e-3);
        assert_eq!(
            Record {
                headroom: None,
                ..back
            },
            Record {
                headroom: None,
                ..record()
            }
        );
        assert_eq!(bytes.len(), 6 + 2 + 1 + 2 + 1 + 7 + 19 + 1 + 2 * 13 + 64);
        assert!(verify(&FakeKeys(node(9)), &node(1), &bytes));
        assert!(!verify(&FakeKeys(node(9)), &node(2), &bytes));
    }

    #[test]
    fn every_changed_bit_breaks_the_signature() {
        let bytes = record().encode(&FakeKeys(node(1)));
        for at in 0..bytes.len() * 8 {
            let mut forged = bytes.clone();
            forged[at / 8] ^= 1 << (at % 8);
            assert!(!verify(&FakeKeys(node(9)), &node(1), &forged), "bit {at}");
        }
    }

    #[test]
    fn absurd_records_are_refused() {
        let decode = |record: Record| Record::decode(&record.encode(&FakeKeys(node(1))));
        let with = |links| Record { links, ..record() };
        let none = LinkState {
            bandwidth: Rate::ZERO,
            ..link(2)
        };
        assert_eq!(decode(with(vec![none])), Err(DecodeError::Value));
        let infinite = LinkState {
            bandwidth: RATE_MAX * 1.01,
            ..link(2)
        };
        assert_eq!(decode(with(vec![infinite])), Err(DecodeError::Value));
        let slow = LinkState {
            delay_min: DELAY_MAX * 2,
            ..link(2)
        };
        assert_eq!(decode(with(vec![slow])), Err(DecodeError::Value));
        assert_eq!(
            decode(with(vec![link(2), link(2)])),
            Err(DecodeError::Value)
        );
        assert_eq!(decode(with(vec![link(1)])), Err(DecodeError::Value));
        assert_eq!(
            decode(Record {
                leaving: true,
                ..record()
            }),
            Err(DecodeError::Value)
        );
        let mut long = record().encode(&FakeKeys(node(1)));
        long.insert(long.len() - 64, 0);
        assert_eq!(Record::decode(&long), Err(DecodeError::Value));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
            if let Ok(record) = Record::decode(&bytes) {
                let again = record.encode(&FakeKeys(node(1)));
                prop_assert_eq!(&again[..again.len() - 64], &bytes[..bytes.len() - 64]);
            }
        }
    }
}
