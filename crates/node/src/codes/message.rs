//! Messages of the exchange behind a code, as bytes (`spec/codes.md`).

/// Bytes of a SPAKE2 message: the side, and an element of the group.
pub(super) const ELEMENT_BYTES: usize = 33;
/// Bytes of a proof that a side has derived the same keys.
pub(super) const PROOF_BYTES: usize = 32;
/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = 1600;
/// Version of the exchange, in its first message.
const VERSION: u8 = 1;

/// A message of the exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Of the holder, first.
    Start {
        /// Its SPAKE2 message.
        element: [u8; ELEMENT_BYTES],
    },
    /// Of the issuer.
    Answer {
        /// Its SPAKE2 message.
        element: [u8; ELEMENT_BYTES],
    },
    /// Of the holder: it knows the code. What it says is sealed.
    Proof {
        /// Keyed hash of the exchange so far.
        proof: [u8; PROOF_BYTES],
        /// Its card, sealed.
        sealed: Vec<u8>,
    },
    /// Of the issuer: it knows the code, too.
    Accept {
        /// Keyed hash of the exchange so far.
        proof: [u8; PROOF_BYTES],
        /// Its card, sealed.
        sealed: Vec<u8>,
    },
    /// Of the issuer: the exchange is over.
    Refuse(Refusal),
}

/// Reason for the issuer's refusal. The numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refusal {
    /// The code is not that of the issuer.
    #[error(
        "the code is wrong; compare it with the one that the other side shows, and enter it again"
    )]
    Wrong = 1,
    /// Wrong codes were entered too often.
    #[error(
        "the code was entered wrongly three times and is no longer valid; ask the other side for a new one"
    )]
    Dead = 2,
    /// The code was used.
    #[error("the code was used already; it is good for one use, ask the other side for a new one")]
    Used = 3,
    /// Too many exchanges at a time.
    #[error("the other side is busy with others who try its code; enter it again")]
    Busy = 4,
    /// The two sides want different things, such as both to send.
    #[error(
        "the two sides do not fit together: a code of 'send' is for 'recv', one of 'recv --code' is for 'send', and one of 'pair' for 'pair'"
    )]
    Purpose = 5,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Wrong,
        Self::Dead,
        Self::Used,
        Self::Busy,
        Self::Purpose,
    ];
}

/// The bytes are not a message of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Another version.
    #[error(
        "the other side speaks version {0} of codes, this one version {VERSION}; use the same release on both"
    )]
    Version(u8),
    /// Anything else.
    #[error("not a message of the exchange behind a code")]
    Malformed,
}

impl Message {
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Start { element } => {
                bytes.extend([1, VERSION]);
                bytes.extend(element);
            }
            Self::Answer { element } => {
                bytes.push(2);
                bytes.extend(element);
            }
            Self::Proof { proof, sealed } => {
                bytes.push(3);
                bytes.extend(proof);
                bytes.extend(sealed);
            }
            Self::Accept { proof, sealed } => {
                bytes.push(4);
                bytes.extend(proof);
                bytes.extend(sealed);
            }
            Self::Refuse(refusal) => bytes.extend([5, *refusal as u8]),
        }
        bytes
    }

    /// Reads a message.
    ///
    /// # Errors
    /// The bytes are not one message of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(DecodeError::Malformed);
        }
        let element = |rest: &[u8]| rest.try_into().map_err(|_| DecodeError::Malformed);
        let proven = |rest: &[u8]| {
            let (proof, sealed) = rest.split_first_chunk().ok_or(DecodeError::Malformed)?;
            Ok((*proof, sealed.to_vec()))
        };
        match bytes {
            [1, VERSION, rest @ ..] => Ok(Self::Start {
                element: element(rest)?,
            }),
            [1, version, ..] => Err(DecodeError::Version(*version)),
            [2, rest @ ..] => Ok(Self::Answer {
                element: element(rest)?,
            }),
            [3, rest @ ..] => proven(rest).map(|(proof, sealed)| Self::Proof { proof, sealed }),
            [4, rest @ ..] => proven(rest).map(|(proof, sealed)| Self::Accept { proof, sealed }),
            [5, reason] => {
                let mut all = Refusal::ALL.into_iter();
                let found = all.find(|known| *known as u8 == *reason);
                found.map(Self::Refuse).ok_or(DecodeError::Malformed)
            }
            _ => Err(DecodeError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> impl Strategy<Value = Message> {
        let element = || {
            prop::collection::vec(any::<u8>(), ELEMENT_BYTES)
                .prop_map(|bytes| <[u8; ELEMENT_BYTES]>::try_from(bytes).unwrap())
        };
        let sealed = || prop::collection::vec(any::<u8>(), 0..1500);
        prop_oneof![
            element().prop_map(|element| Message::Start { element }),
            element().prop_map(|element| Message::Answer { element }),
            (any::<[u8; 32]>(), sealed())
                .prop_map(|(proof, sealed)| Message::Proof { proof, sealed }),
            (any::<[u8; 32]>(), sealed())
                .prop_map(|(proof, sealed)| Message::Accept { proof, sealed }),
            prop::sample::select(&Refusal::ALL[..]).prop_map(Message::Refuse),
        ]
    }

    proptest! {
        #[test]
        fn messages_round_trip(message in messages()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn what_is_read_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Message::Start {
            element: [0; ELEMENT_BYTES],
        }
        .encode();
        bytes[1] = 9;
        assert_eq!(Message::decode(&bytes), Err(DecodeError::Version(9)));
        assert_eq!(Message::decode(&[5, 99]), Err(DecodeError::Malformed));
        assert_eq!(
            Message::decode(&vec![3; MESSAGE_BYTES_MAX + 1]),
            Err(DecodeError::Malformed)
        );
    }
}
