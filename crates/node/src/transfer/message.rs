//! Messages between sender and receiver of a transfer.
//!
//! A transfer uses two streams that the sender opens: [`CONTROL_LABEL`], both ways, where every ADU is
//! one [`Request`] or [`Reply`] in JSON, and [`DATA_LABEL`], where every ADU is one [`Record`].
//!
//! ```text
//! sender                            receiver
//!   Hello ─────────────────────────►        the ticket's secret
//!        ◄──────────────── Welcome | Refused
//!   Offer, Entries … , OfferEnd ───►        what there is to send
//!        ◄──────────────── Have … , Go      what is here already, with its hash
//!   data: Chunk … FileEnd … End ───►        a FileEnd for every file, sent now or before
//!        ◄──────────────── Done | Failed
//!   end of the control stream ─────►        Done was read
//! ```
//! `spec/transfer.md` is the specification.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Label of the control stream; the digit is the version of the protocol.
pub const CONTROL_LABEL: &str = "anabranch-transfer/2";
/// Label of the data stream.
pub const DATA_LABEL: &str = "anabranch-transfer-data/2";
/// Beginning of the labels of transfers, of every version.
const LABELS: &str = "anabranch-transfer";

/// True for the label of a stream that belongs to a transfer, of this version or another.
pub(crate) fn is_transfer(label: &str) -> bool {
    label.starts_with(LABELS)
}
/// Limit on the bytes of a message on the control stream.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Limit on the bytes of the first message, which comes from an unknown peer.
pub(crate) const HELLO_BYTES_MAX: usize = 512;
/// Bytes of paths in one `Entries` message, beyond which the next one begins. Quotation can double them.
pub(crate) const PATHS_PER_MESSAGE_BYTES: usize = 32 << 10;
/// Limit on the bytes of a record on the data stream.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;
/// Limit on the entries in one `Entries` message.
pub(crate) const ENTRIES_PER_MESSAGE: usize = 500;

/// Kind of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One file.
    File,
    /// A directory with everything in it.
    Directory,
    /// Bytes whose number is not known beforehand.
    Stream,
}

/// One file or directory of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Its path, parts joined by `/`, beginning with the transfer's name.
    pub path: String,
    /// True if it is a directory.
    #[serde(default)]
    pub is_directory: bool,
    /// Bytes; `None` if not known beforehand.
    pub size_bytes: Option<u64>,
    /// Modification time in nanoseconds since 1970; a file that changed is not resumed.
    #[serde(default)]
    pub modified_ns: u64,
    /// True if it may be executed.
    #[serde(default)]
    pub is_executable: bool,
}

/// Message from the sender, on the control stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Request {
    Hello {
        /// The ticket's secret in base 32; empty if the node itself is known.
        secret: String,
    },
    Offer {
        kind: Kind,
        name: String,
        entries: u64,
    },
    Entries {
        list: Vec<Entry>,
    },
    OfferEnd,
}

/// Message from the receiver, on the control stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Reply {
    Welcome,
    Refused {
        reason: String,
    },
    /// Bytes of this entry that are present already, and the BLAKE3 hash of these bytes in hexadecimal, read from the disk for
    /// this message.
    Have {
        index: u32,
        bytes: u64,
        hash: String,
    },
    Go,
    Done {
        files: u64,
        bytes: u64,
    },
    Failed {
        reason: String,
    },
}

/// Encodes a message for the control stream.
pub(crate) fn encode(message: &impl Serialize) -> Bytes {
    let text = serde_json::to_vec(message).expect("messages are made of texts and numbers");
    text.into()
}

/// Decodes a message of at most `bytes_max` bytes; `None`: it is longer, or not a message.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], bytes_max: usize) -> Option<T> {
    if bytes.len() > bytes_max {
        return None;
    }
    serde_json::from_slice(bytes).ok()
}

/// Record on the data stream: one byte of type, then numbers in network byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// `0 | index u32 | offset u64 | bytes`
    Chunk {
        index: u32,
        offset: u64,
        data: Bytes,
    },
    /// `1 | index u32 | size u64 | BLAKE3 hash, 32 bytes`
    FileEnd {
        index: u32,
        size: u64,
        hash: [u8; 32],
    },
    /// `2`
    End,
}

/// Bytes of a chunk record before its data.
pub(crate) const CHUNK_HEADER_BYTES: usize = 13;

impl Record {
    /// Writes a chunk's header; its data follows.
    pub(crate) fn begin_chunk(record: &mut impl BufMut, index: u32, offset: u64) {
        record.put_u8(0);
        record.put_u32(index);
        record.put_u64(offset);
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut buffer = BytesMut::new();
        match self {
            Self::Chunk {
                index,
                offset,
                data,
            } => {
                Self::begin_chunk(&mut buffer, *index, *offset);
                buffer.extend_from_slice(data);
            }
            Self::FileEnd { index, size, hash } => {
                buffer.put_u8(1);
                buffer.put_u32(*index);
                buffer.put_u64(*size);
                buffer.put_slice(hash);
            }
            Self::End => buffer.put_u8(2),
        }
        buffer.freeze()
    }

    /// The entry that a record is about, and the byte after the last that it brings; `None`: the record brings no bytes.
    pub(crate) fn reach(record: &[u8]) -> Option<(u32, u64)> {
        let header = record.get(..CHUNK_HEADER_BYTES)?;
        let (index, offset) = (header[1..5].try_into().ok()?, header[5..].try_into().ok()?);
        let bytes = (record.len() - CHUNK_HEADER_BYTES) as u64;
        let end = u64::from_be_bytes(offset).saturating_add(bytes);
        (header[0] == 0).then_some((u32::from_be_bytes(index), end))
    }

    /// Decodes a record; `None`: not a record.
    pub(crate) fn decode(bytes: &Bytes) -> Option<Self> {
        let u32_at = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        match *bytes.first()? {
            0 if bytes.len() > CHUNK_HEADER_BYTES => Some(Self::Chunk {
                index: u32_at(1)?,
                offset: u64_at(5)?,
                data: bytes.slice(CHUNK_HEADER_BYTES..),
            }),
            1 if bytes.len() == 45 => Some(Self::FileEnd {
                index: u32_at(1)?,
                size: u64_at(5)?,
                hash: bytes[13..45].try_into().ok()?,
            }),
            2 if bytes.len() == 1 => Some(Self::End),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_round_trip() {
        let records = [
            Record::Chunk {
                index: 7,
                offset: 1 << 40,
                data: Bytes::from_static(b"data"),
            },
            Record::FileEnd {
                index: 1,
                size: 9,
                hash: [3; 32],
            },
            Record::End,
        ];
        for record in records {
            assert_eq!(Record::decode(&record.encode()), Some(record.clone()));
            let reach = matches!(record, Record::Chunk { .. }).then_some((7, (1 << 40) + 4));
            assert_eq!(Record::reach(&record.encode()), reach);
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_not_read() {
        let hello = encode(&Request::Hello {
            secret: "a".repeat(HELLO_BYTES_MAX),
        });
        assert!(decode::<Request>(&hello, HELLO_BYTES_MAX).is_none());
        assert!(decode::<Request>(&hello, MESSAGE_BYTES_MAX).is_some());
    }

    proptest! {
        #[test]
        fn garbage_is_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let bytes = Bytes::from(bytes);
            if let Some(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }
}
