//! Messages between a node and the rendezvous at a relay, as bytes (`spec/codes.md`).

use std::net::{IpAddr, SocketAddr};

use anabranch_base::NodeId;

use crate::codes::{MESSAGE_BYTES_MAX as SAID_BYTES_MAX, Place};

/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = SAID_BYTES_MAX + 1;
/// Addresses of a node that are told to the other.
pub const ADDRESSES_MAX: usize = 8;

/// Request of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Wait at a place for whoever reaches it.
    Wait(Place),
    /// Reach the node that waits at a place.
    Reach(Place),
    /// Pass this on to the other node.
    Say(Vec<u8>),
    /// Part from the node that has reached this one, and wait for the next.
    Release,
    /// Open a circuit to the other node.
    Circuit,
    /// Meet this node, once it wants to meet this one; without a place.
    Meet(NodeId),
    /// Wait for one node that calls this one by its id, with this port.
    Attend(u16),
    /// Call a node that attends, with the port that it has named; 0: any.
    Call(NodeId, u16),
}

/// Notice of the rendezvous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The place is this node's.
    Waiting,
    /// Another node is there: the one that waits, or one that has reached this one.
    Peer {
        /// The node, authenticated by its session with the relay.
        node: NodeId,
        /// Addresses at which the relay sees it; at most [`ADDRESSES_MAX`].
        addresses: Vec<SocketAddr>,
    },
    /// The other node says this.
    Heard(Vec<u8>),
    /// The other node has gone, or has parted from this one.
    Left,
    /// There is a circuit to the other node at this address; an unspecified IP address means that of the relay. To both nodes.
    Circuit(SocketAddr),
    /// The request is refused.
    Refused(Refusal),
}

/// Reason for a refusal. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refusal {
    /// Another node waits there.
    #[error("another node waits at this place; the next code will have another one")]
    Taken = 1,
    /// Nobody waits there.
    #[error("nobody waits there")]
    Nobody = 2,
    /// A node has reached it before.
    #[error("another node is trying a code at this place; enter the code again")]
    Busy = 3,
    /// All places are taken, or this node or its address has too many.
    #[error("the relay has no place left, or none for this node; try again later")]
    Full = 4,
    /// The node has no right to it.
    #[error(
        "the relay does not serve this node: there, list it as a [[peer]] with may = [\"use-rendezvous\"], or admit everyone with strangers = true \
         in [rendezvous]"
    )]
    NoRight = 5,
    /// No circuit can be opened.
    #[error(
        "the relay opens no circuit for this node now: the node has as many as it may there, or has used up its bytes of the day (per_day in \
         [rendezvous]), or the relay has no rate or port left; see its log, try again later, or use another relay"
    )]
    NoCircuit = 6,
    /// More messages than an exchange has.
    #[error("more messages than the exchange behind a code has")]
    TooMuch = 7,
    /// It has waited long enough.
    #[error("nobody has entered the code within 15 minutes")]
    Expired = 8,
    /// The request does not fit to the ones before it.
    #[error("a request out of place; use the same release on both sides")]
    OutOfPlace = 9,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Taken,
        Self::Nobody,
        Self::Busy,
        Self::Full,
        Self::NoRight,
        Self::NoCircuit,
        Self::TooMuch,
        Self::Expired,
        Self::OutOfPlace,
    ];
}

/// The bytes are not a message of the rendezvous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message of a rendezvous")]
pub struct DecodeError;

fn place(bytes: &[u8]) -> Result<Place, DecodeError> {
    let number = u16::from_be_bytes(bytes.try_into().map_err(|_| DecodeError)?);
    Place::new(number).ok_or(DecodeError)
}

fn node(bytes: &[u8]) -> Result<NodeId, DecodeError> {
    let key: [u8; 32] = bytes.try_into().map_err(|_| DecodeError)?;
    Ok(NodeId::from_public_key(key))
}

impl Request {
    /// The request as bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Wait(place) => [&[1][..], &place.number().to_be_bytes()].concat(),
            Self::Reach(place) => [&[2][..], &place.number().to_be_bytes()].concat(),
            Self::Say(bytes) => [&[3][..], bytes].concat(),
            Self::Release => vec![4],
            Self::Circuit => vec![5],
            Self::Meet(node) => [&[6][..], node.public_key()].concat(),
            Self::Attend(port) => [&[7][..], &port.to_be_bytes()].concat(),
            Self::Call(node, port) => [&[8][..], node.public_key(), &port.to_be_bytes()].concat(),
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(DecodeError);
        }
        match bytes {
            [1, rest @ ..] => Ok(Self::Wait(place(rest)?)),
            [2, rest @ ..] => Ok(Self::Reach(place(rest)?)),
            [3, rest @ ..] => Ok(Self::Say(rest.to_vec())),
            [4] => Ok(Self::Release),
            [5] => Ok(Self::Circuit),
            [6, key @ ..] => Ok(Self::Meet(node(key)?)),
            [7, high, low] => Ok(Self::Attend(u16::from_be_bytes([*high, *low]))),
            [8, key @ .., high, low] => {
                Ok(Self::Call(node(key)?, u16::from_be_bytes([*high, *low])))
            }
            _ => Err(DecodeError),
        }
    }
}

fn push_address(bytes: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            bytes.push(4);
            bytes.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.push(6);
            bytes.extend(ip.octets());
        }
    }
    bytes.extend(address.port().to_be_bytes());
}

/// Takes an address from the front.
fn take_address(bytes: &mut &[u8]) -> Result<SocketAddr, DecodeError> {
    let (family, rest) = bytes.split_first().ok_or(DecodeError)?;
    let (ip, rest): (IpAddr, &[u8]) = match family {
        4 => {
            let (ip, rest) = rest.split_first_chunk::<4>().ok_or(DecodeError)?;
            ((*ip).into(), rest)
        }
        6 => {
            let (ip, rest) = rest.split_first_chunk::<16>().ok_or(DecodeError)?;
            ((*ip).into(), rest)
        }
        _ => return Err(DecodeError),
    };
    let (port, rest) = rest.split_first_chunk::<2>().ok_or(DecodeError)?;
    *bytes = rest;
    Ok(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

impl Notice {
    /// The notice as bytes. Of the addresses of a peer, the first [`ADDRESSES_MAX`].
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Waiting => vec![1],
            Self::Peer { node, addresses } => {
                let mut bytes = vec![2];
                bytes.extend(node.public_key());
                for &address in addresses.iter().take(ADDRESSES_MAX) {
                    push_address(&mut bytes, address);
                }
                bytes
            }
            Self::Heard(said) => [&[3][..], said].concat(),
            Self::Left => vec![4],
            Self::Circuit(address) => {
                let mut bytes = vec![5];
                push_address(&mut bytes, *address);
                bytes
            }
            Self::Refused(refusal) => vec![6, *refusal as u8],
        }
    }

    /// Reads a notice.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(DecodeError);
        }
        match bytes {
            [1] => Ok(Self::Waiting),
            [2, rest @ ..] => {
                let (key, mut rest) = rest.split_first_chunk::<32>().ok_or(DecodeError)?;
                let mut addresses = Vec::new();
                while !rest.is_empty() {
                    if addresses.len() == ADDRESSES_MAX {
                        return Err(DecodeError);
                    }
                    addresses.push(take_address(&mut rest)?);
                }
                Ok(Self::Peer {
                    node: NodeId::from_public_key(*key),
                    addresses,
                })
            }
            [3, rest @ ..] => Ok(Self::Heard(rest.to_vec())),
            [4] => Ok(Self::Left),
            [5, rest @ ..] => {
                let mut rest = rest;
                let address = take_address(&mut rest)?;
                rest.is_empty()
                    .then_some(Self::Circuit(address))
                    .ok_or(DecodeError)
            }
            [6, reason] => {
                let mut all = Refusal::ALL.into_iter();
                let found = all.find(|known| *known as u8 == *reason);
                found.map(Self::Refused).ok_or(DecodeError)
            }
            _ => Err(DecodeError),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requests() -> impl Strategy<Value = Request> {
        let places = || (0..2048u16).prop_map(|number| Place::new(number).unwrap());
        prop_oneof![
            places().prop_map(Request::Wait),
            places().prop_map(Request::Reach),
            prop::collection::vec(any::<u8>(), 0..SAID_BYTES_MAX).prop_map(Request::Say),
            Just(Request::Release),
            Just(Request::Circuit),
            any::<[u8; 32]>().prop_map(|key| Request::Meet(NodeId::from_public_key(key))),
            any::<u16>().prop_map(Request::Attend),
            (any::<[u8; 32]>(), any::<u16>())
                .prop_map(|(key, port)| Request::Call(NodeId::from_public_key(key), port)),
        ]
    }

    fn addresses() -> impl Strategy<Value = SocketAddr> {
        (any::<IpAddr>(), any::<u16>()).prop_map(SocketAddr::from)
    }

    fn notices() -> impl Strategy<Value = Notice> {
        let peer = (
            any::<[u8; 32]>(),
            prop::collection::vec(addresses(), 0..=ADDRESSES_MAX),
        );
        prop_oneof![
            Just(Notice::Waiting),
            peer.prop_map(|(key, addresses)| Notice::Peer {
                node: NodeId::from_public_key(key),
                addresses,
            }),
            prop::collection::vec(any::<u8>(), 0..SAID_BYTES_MAX).prop_map(Notice::Heard),
            Just(Notice::Left),
            addresses().prop_map(Notice::Circuit),
            prop::sample::select(&Refusal::ALL[..]).prop_map(Notice::Refused),
        ]
    }

    proptest! {
        #[test]
        fn requests_round_trip(request in requests()) {
            prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        }

        #[test]
        fn notices_round_trip(notice in notices()) {
            prop_assert_eq!(Notice::decode(&notice.encode()), Ok(notice));
        }

        #[test]
        fn what_is_read_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(&request.encode(), &bytes);
            }
            if let Ok(notice) = Notice::decode(&bytes) {
                prop_assert_eq!(&notice.encode(), &bytes);
            }
        }
    }
}
