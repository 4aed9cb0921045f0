//! Identifiers of nodes, sessions, channels, streams and sockets.

use std::{fmt, str::FromStr};

/// A node's identity: its Ed25519 public key.
///
/// Printed and read as 52 characters of lower-case base 32 (RFC 4648 alphabet, no padding).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; 32]);

/// Reason why a text is not a node id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseNodeIdError {
    /// The text has the wrong length.
    #[error(
        "a node id has 52 characters, this one has {0}; copy the whole id that `anabranch keygen` printed"
    )]
    Length(usize),
    /// The text has a character outside the alphabet a–z, 2–7, or unused bits set.
    #[error(
        "a node id uses only the letters a-z and the digits 2-7; copy the whole id that `anabranch keygen` printed"
    )]
    Alphabet,
}

const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl NodeId {
    /// The identity whose Ed25519 public key is `key`.
    pub const fn from_public_key(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The Ed25519 public key.
    pub const fn public_key(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Lower-case RFC 4648 base 32 without padding.
pub fn encode_base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let mut buffer = 0u32;
    let mut bits = 0;
    for &byte in bytes {
        buffer = (buffer << 8) | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(BASE32[(buffer >> bits) as usize & 31]));
        }
    }
    if bits > 0 {
        text.push(char::from(BASE32[(buffer << (5 - bits)) as usize & 31]));
    }
    text
}

/// Reverses [`encode_base32`]; `None` on a foreign character or on set padding bits.
pub fn decode_base32(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    let mut buffer = 0u32;
    let mut bits = 0;
    for c in text.bytes() {
        let value = BASE32.iter().position(|&b| b == c.to_ascii_lowercase())?;
        buffer = (buffer << 5) | value as u32;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits) as u8);
        }
    }
    let padding_is_zero = bits < 5 && buffer & ((1 << bits) - 1) == 0;
    padding_is_zero.then_some(bytes)
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_base32(&self.0))
    }
}

impl fmt::Debug for NodeId {
    /// The first ten characters, enough to distinguish nodes in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_base32(&self.0)[..10])
    }
}

impl FromStr for NodeId {
    type Err = ParseNodeIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.len() != 52 {
            return Err(ParseNodeIdError::Length(text.chars().count()));
        }
        let bytes = decode_base32(text).ok_or(ParseNodeIdError::Alphabet)?;
        let key = <[u8; 32]>::try_from(bytes).map_err(|_| ParseNodeIdError::Alphabet)?;
        Ok(Self(key))
    }
}

macro_rules! small_id {
    ($(#[$meta:meta])* $name:ident, $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    };
}

small_id! {
    /// A session of this node, numbered locally from 0; never reused within a process.
    SessionId, "session-"
}
small_id! {
    /// A channel of this node, numbered locally from 0 across sessions; never reused within a process.
    ChannelId, "channel-"
}
small_id! {
    /// A stream of a session, the same number on both nodes.
    ///
    /// Bit 0 identifies the opener: 0 is the node that opened the session, 1 the other.
    StreamId, "stream-"
}
small_id! {
    /// One of the host's sockets (one local address), numbered by the host.
    SocketId, "socket-"
}

impl StreamId {
    /// The `index`-th stream opened by the session's initiator (`true`) or its responder (`false`).
    pub const fn new(index: u64, by_initiator: bool) -> Self {
        Self((index << 1) | !by_initiator as u64)
    }

    /// True if the session's initiator opened the stream.
    pub const fn is_by_initiator(self) -> bool {
        self.0 & 1 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn base32_round_trips(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(decode_base32(&encode_base32(&bytes)), Some(bytes));
        }

        #[test]
        fn node_id_round_trips(key in any::<[u8; 32]>()) {
            let id = NodeId::from_public_key(key);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn a_wrong_id_says_what_is_wrong() {
        assert_eq!("abc".parse::<NodeId>(), Err(ParseNodeIdError::Length(3)));
        assert_eq!(
            "1".repeat(52).parse::<NodeId>(),
            Err(ParseNodeIdError::Alphabet)
        );
    }

    #[test]
    fn stream_ids_show_who_opened_them() {
        assert!(StreamId::new(3, true).is_by_initiator());
        assert!(!StreamId::new(3, false).is_by_initiator());
        assert_ne!(StreamId::new(3, true), StreamId::new(3, false));
    }
}
