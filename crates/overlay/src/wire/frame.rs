//! Frames, whose sequences are the messages between agents.
//!
//! ```text
//! HEARTBEAT 1 { summary 32 bits }
//! RECORD    2 { held varint (ms), is_pushed 8 bits, length varint, record }
//! CLAIM     3 { length varint, claim }
//! DIGEST    4 { from 6 bytes, to 6 bytes, count varint, of each: id 6 bytes, version·2 + is_accused varint }
//! WANT      5 { count varint, of each: id 6 bytes, what 8 bits: 1 record, 2 claim, 3 both }
//! PRUNE     6 { }
//! INTEREST  7 { count varint, of each: id 6 bytes }
//! LOAD      8 { length varint, load }
//! ```

use std::time::Duration;

use super::{
    DecodeError, MESSAGE_BYTES_MAX, ShortId,
    claim::CLAIM_BYTES_MAX,
    code::{Cursor, put_varint, varint_bytes},
    load::LOAD_BYTES_MAX,
    record::RECORD_BYTES_MAX,
};

/// One statement of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Sign of life, with a summary of the sender's member table.
    Heartbeat {
        /// Equal summaries mean equal member tables (versions and accusations).
        summary: u32,
    },
    /// A record, the sender's own or passed on.
    Record {
        /// Time since it was signed, as reported by the nodes that passed it on.
        held: Duration,
        /// True if the sender passed it on unasked.
        is_pushed: bool,
        /// The signed record.
        bytes: &'a [u8],
    },
    /// A claim that a node is silent.
    Claim {
        /// The signed claim.
        bytes: &'a [u8],
    },
    /// Digest of the sender's member table.
    Digest {
        /// First member of the range that the digest covers …
        from: ShortId,
        /// … and the last one. If `to` is less than `from`, it covers no range and only lists some members.
        to: ShortId,
        /// In ascending order.
        entries: Vec<DigestEntry>,
    },
    /// Request for data that the sender lacks.
    Want(Vec<(ShortId, Want)>),
    /// Request to push no more records: the sender gets them sooner from others.
    Prune,
    /// Destinations of the sender, so that the receiver measures its links to them and may relay.
    Interest(Vec<ShortId>),
    /// Load of a node that processes streams, the sender's own or passed on. Nodes that do not know it drop the rest of the message, so that it
    /// comes last.
    Load {
        /// The signed load.
        bytes: &'a [u8],
    },
}

/// Entry of one member in a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestEntry {
    /// The member.
    pub id: ShortId,
    /// The version of its record.
    pub version: u64,
    /// True if the member was claimed to be silent since that version.
    pub is_accused: bool,
}

/// Parts of a member's data to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Its record, and the claim against it if there is one.
    Record,
    /// The claim against the version that both nodes hold.
    Claim,
}

const HEARTBEAT: u8 = 1;
const RECORD: u8 = 2;
const CLAIM: u8 = 3;
const DIGEST: u8 = 4;
const WANT: u8 = 5;
const PRUNE: u8 = 6;
const INTEREST: u8 = 7;
const LOAD: u8 = 8;

/// Most entries of a digest or a list of wants.
pub const ENTRIES_MAX: usize = 120;
/// Longest time that a record may have been held, beyond which the frame is refused.
pub const HELD_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

impl Frame<'_> {
    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Heartbeat { summary } => {
                out.push(HEARTBEAT);
                out.extend_from_slice(&summary.to_be_bytes());
            }
            Self::Record {
                held,
                is_pushed,
                bytes,
            } => {
                out.push(RECORD);
                put_varint(out, (*held).min(HELD_MAX).as_millis() as u64);
                out.push(u8::from(*is_pushed));
                put_varint(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
            Self::Claim { bytes } => {
                out.push(CLAIM);
                put_varint(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
            Self::Digest { from, to, entries } => {
                out.push(DIGEST);
                out.extend_from_slice(&from.0);
                out.extend_from_slice(&to.0);
                put_varint(out, entries.len() as u64);
                for entry in entries {
                    out.extend_from_slice(&entry.id.0);
                    put_varint(out, entry.version * 2 + u64::from(entry.is_accused));
                }
            }
            Self::Want(wants) => {
                out.push(WANT);
                put_varint(out, wants.len() as u64);
                for (id, want) in wants {
                    out.extend_from_slice(&id.0);
                    out.push(match want {
                        Want::Record => 1,
                        Want::Claim => 2,
                    });
                }
            }
            Self::Prune => out.push(PRUNE),
            Self::Interest(ids) => {
                out.push(INTEREST);
                put_varint(out, ids.len() as u64);
                ids.iter().for_each(|id| out.extend_from_slice(&id.0));
            }
            Self::Load { bytes } => {
                out.push(LOAD);
                put_varint(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
        }
    }
}

/// Bytes of a digest entry.
pub(crate) fn entry_bytes(entry: &DigestEntry) -> usize {
    6 + varint_bytes(entry.version * 2 + 1)
}

/// True if a written frame may be unknown to nodes that know those before it.
pub(crate) fn is_last(frame: &[u8]) -> bool {
    frame.first() == Some(&LOAD)
}

/// Reader of a message, frame by frame.
#[derive(Debug, Clone)]
pub struct Reader<'a>(Cursor<'a>);

impl<'a> Reader<'a> {
    /// Reads `message`.
    ///
    /// # Errors
    /// Longer than [`MESSAGE_BYTES_MAX`].
    pub fn new(message: &'a [u8]) -> Result<Self, DecodeError> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(DecodeError::TooLong);
        }
        Ok(Self(Cursor::new(message)))
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// Malformed bytes; nothing after them can be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'a>>, DecodeError> {
        let from = &mut self.0;
        if from.is_empty() {
            return Ok(None);
        }
        let frame = match from.u8()? {
            HEARTBEAT => Frame::Heartbeat {
                summary: from.u32()?,
            },
            RECORD => {
                let held = Duration::from_millis(from.varint()?);
                let is_pushed = boolean(from.u8()?)?;
                let bytes = counted(from, RECORD_BYTES_MAX)?;
                if held > HELD_MAX {
                    return Err(DecodeError::Value);
                }
                Frame::Record {
                    held,
                    is_pushed,
                    bytes,
                }
            }
            CLAIM => Frame::Claim {
                bytes: counted(from, CLAIM_BYTES_MAX)?,
            },
            DIGEST => {
                let (lowest, highest) = (ShortId(from.array()?), ShortId(from.array()?));
                let entries = many(from, |from| {
                    let id = ShortId(from.array()?);
                    let both = from.varint()?;
                    Ok(DigestEntry {
                        id,
                        version: both / 2,
                        is_accused: both % 2 == 1,
                    })
                })?;
                if entries.windows(2).any(|pair| pair[0].id >= pair[1].id) {
                    return Err(DecodeError::Value);
                }
                Frame::Digest {
                    from: lowest,
                    to: highest,
                    entries,
                }
            }
            WANT => Frame::Want(many(from, |from| {
                let id = ShortId(from.array()?);
                let want = match from.u8()? {
                    1 => Want::Record,
                    2 => Want::Claim,
                    _ => return Err(DecodeError::Value),
                };
                Ok((id, want))
            })?),
            PRUNE => Frame::Prune,
            INTEREST => Frame::Interest(many(from, |from| Ok(ShortId(from.array()?)))?),
            LOAD => Frame::Load {
                bytes: counted(from, LOAD_BYTES_MAX)?,
            },
            other => return Err(DecodeError::UnknownType(other)),
        };
        Ok(Some(frame))
    }

    /// Bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0.rest()
    }
}

fn boolean(byte: u8) -> Result<bool, DecodeError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Value),
    }
}

fn counted<'a>(from: &mut Cursor<'a>, most: usize) -> Result<&'a [u8], DecodeError> {
    let length = usize::try_from(from.varint()?).map_err(|_| DecodeError::TooLong)?;
    if length > most {
        return Err(DecodeError::TooLong);
    }
    from.take(length)
}

fn many<'a, T>(
    from: &mut Cursor<'a>,
    mut read: impl FnMut(&mut Cursor<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = usize::try_from(from.varint()?).map_err(|_| DecodeError::TooLong)?;
    if count > ENTRIES_MAX {
        return Err(DecodeError::TooLong);
    }
    (0..count).map(|_| read(from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(n: u8) -> ShortId {
        ShortId([n; 6])
    }

    #[test]
    fn a_message_round_trips() {
        let entry = |n: u8| DigestEntry {
            id: id(n),
            version: 1 << n,
            is_accused: n % 2 == 1,
        };
        let frames = [
            Frame::Heartbeat {
                summary: 0xdead_beef,
            },
            Frame::Record {
                held: Duration::from_millis(1234),
                is_pushed: true,
                bytes: &[1; 180],
            },
            Frame::Claim { bytes: &[2; 77] },
            Frame::Digest {
                from: ShortId::FIRST,
                to: ShortId::LAST,
                entries: vec![entry(3), entry(40)],
            },
            Frame::Want(vec![(id(3), Want::Record), (id(4), Want::Claim)]),
            Frame::Prune,
            Frame::Interest(vec![id(9), id(2)]),
            Frame::Load { bytes: &[3; 86] },
        ];
        let mut message = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut message));
        let mut reader = Reader::new(&message).unwrap();
        for frame in frames {
            assert_eq!(reader.next_frame(), Ok(Some(frame)));
        }
        assert_eq!(reader.next_frame(), Ok(None));
    }

    #[test]
    fn bounds_are_kept() {
        let read =
            |message: &[u8]| Reader::new(message).and_then(|mut r| r.next_frame().map(|_| ()));
        assert_eq!(read(&[0; MESSAGE_BYTES_MAX + 1]), Err(DecodeError::TooLong));
        assert_eq!(read(&[9]), Err(DecodeError::UnknownType(9)));
        assert_eq!(read(&[WANT, 0x40, 121]), Err(DecodeError::TooLong));
        assert_eq!(read(&[RECORD, 0, 2, 0]), Err(DecodeError::Value));
        assert_eq!(read(&[CLAIM, 20, 1]), Err(DecodeError::Truncated));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = Reader::new(&bytes).unwrap();
            for _ in 0..=bytes.len() {
                let before = reader.rest();
                let Ok(Some(frame)) = reader.next_frame() else { return Ok(()) };
                let mut again = Vec::new();
                frame.write(&mut again);
                prop_assert_eq!(&again[..], &before[..again.len()]);
            }
            prop_assert!(false, "more frames than bytes");
        }
    }
}
