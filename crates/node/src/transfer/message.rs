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

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::update::{Extra, Update};

/// Label of the control stream; the digit is the version of the protocol.
pub const CONTROL_LABEL: &str = "anabranch-transfer/2";
/// Label of the data stream.
pub const DATA_LABEL: &str = "anabranch-transfer-data/2";
/// Revision of the protocol. A higher one only adds what a lower one ignores, or what is sent to a peer that has it; 0: stated by
/// none.
pub(crate) const REVISION: u32 = 2;
/// Limit on the transfers of one command under one ticket, after the first.
pub const MORE_MAX: u32 = 999;
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
/// Limit on the numbers in one message.
pub(crate) const NUMBERS_PER_MESSAGE: usize = 5_000;
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

/// Attributes of an entry; what is not stated is left as it is made. Beside the entry, because an old receiver refuses unknown fields
/// in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attributes {
    /// Permission bits, with those for set-user-ID, set-group-ID and sticky.
    #[serde(default)]
    pub mode: Option<u32>,
    /// Modification time in nanoseconds since 1970.
    #[serde(default)]
    pub modified_ns: Option<i64>,
}

/// A symbolic link of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    /// Its path, as that of an entry.
    pub path: String,
    /// Its content.
    pub target: String,
}

impl Link {
    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        self.path.len() + self.target.len()
    }
}

/// Message from the sender, on the control stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Request {
    Hello {
        /// The ticket's secret in base 32; empty if the node itself is known.
        secret: String,
        /// [`REVISION`] of the sender.
        #[serde(default)]
        revision: u32,
        /// Transfers that follow this one under the same ticket, at most [`MORE_MAX`].
        #[serde(default)]
        more: u32,
    },
    Offer {
        kind: Kind,
        name: String,
        entries: u64,
        /// From revision 2 on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        update: Option<Update>,
    },
    Entries {
        list: Vec<Entry>,
        /// Of each entry in `list`, or of none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attributes: Vec<Attributes>,
    },
    /// From revision 1 on.
    Links {
        list: Vec<Link>,
    },
    OfferEnd,
    /// Positions, in the order of all `Extra`, of what an update deletes.
    Delete {
        list: Vec<u32>,
    },
    /// An update is carried out. Without it, nothing changes.
    Proceed,
}

/// Message from the receiver, on the control stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Reply {
    Welcome {
        /// [`REVISION`] of the receiver.
        #[serde(default)]
        revision: u32,
    },
    Refused {
        reason: String,
    },
    /// Bytes of this entry that are present already, and the BLAKE3 hash of these bytes in hexadecimal, read from the disk for
    /// this message.
    Have {
        index: u32,
        bytes: u64,
        hash: String,
        /// Of an update: they are not in their place yet, but left by an interrupted attempt.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waits: bool,
    },
    /// Of an update: entries and links whose names are taken, by index; may be several.
    Present {
        #[serde(default)]
        entries: Vec<u32>,
        #[serde(default)]
        links_same: Vec<u32>,
        #[serde(default)]
        links_other: Vec<u32>,
    },
    /// Of an update that deletes: what the offer lacks; may be several.
    Extra {
        list: Vec<Extra>,
    },
    Go,
    /// Files and bytes that are on the disk, in all; from revision 1 on.
    Durable {
        files: u64,
        bytes: u64,
    },
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
    /// `3 | index u32 | offset u64 | bytes u64`: zeros that need no space; from revision 1 on
    Hole { index: u32, offset: u64, bytes: u64 },
    /// `4 | (index u32 | size u32 | BLAKE3 hash, 32 bytes | bytes)…`: whole files, at least one; from revision 1 on
    Files(Vec<Whole>),
}

/// A whole file in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) index: u32,
    pub(crate) hash: [u8; 32],
    pub(crate) data: Bytes,
}

/// Bytes of a whole file in a record before its data.
pub(crate) const WHOLE_HEADER_BYTES: usize = 40;

/// Bytes of a chunk record before its data.
pub(crate) const CHUNK_HEADER_BYTES: usize = 13;

impl Record {
    /// Writes a chunk's header; its data follows.
    pub(crate) fn begin_chunk(record: &mut impl BufMut, index: u32, offset: u64) {
        record.put_u8(0);
        record.put_u32(index);
        record.put_u64(offset);
    }

    /// Writes a whole file into a record of them, which begins with the first.
    pub(crate) fn add_whole(record: &mut BytesMut, index: u32, hash: &[u8; 32], data: &[u8]) {
        if record.is_empty() {
            record.put_u8(4);
        }
        record.put_u32(index);
        record.put_u32(data.len() as u32);
        record.put_slice(hash);
        record.put_slice(data);
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
            Self::Hole {
                index,
                offset,
                bytes,
            } => {
                buffer.put_u8(3);
                buffer.put_u32(*index);
                buffer.put_u64(*offset);
                buffer.put_u64(*bytes);
            }
            Self::Files(files) => {
                for file in files {
                    Self::add_whole(&mut buffer, file.index, &file.hash, &file.data);
                }
            }
        }
        buffer.freeze()
    }

    /// The entry that a record is about, the byte after the last that it brings, and the number of these; `None`: the record brings
    /// no bytes.
    pub(crate) fn reach(record: &Bytes) -> Option<(u32, u64, u64)> {
        let (index, offset, bytes) = match Self::decode(record)? {
            Self::Chunk {
                index,
                offset,
                data,
            } => (index, offset, data.len() as u64),
            Self::Hole {
                index,
                offset,
                bytes,
            } => (index, offset, bytes),
            Self::Files(files) => {
                let bytes = files.iter().map(|file| file.data.len() as u64).sum();
                // An empty file has no bytes to move.
                let last = files.iter().rev().find(|file| !file.data.is_empty())?;
                return Some((last.index, last.data.len() as u64, bytes));
            }
            Self::FileEnd { .. } | Self::End => return None,
        };
        Some((index, offset.saturating_add(bytes), bytes))
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
            3 if bytes.len() == 21 => Some(Self::Hole {
                index: u32_at(1)?,
                offset: u64_at(5)?,
                bytes: u64_at(13)?,
            }),
            4 => whole_files(bytes.slice(1..)).map(Self::Files),
            _ => None,
        }
    }
}

/// Files in the rest of a record; `None`: there are none, or the last is cut off.
fn whole_files(mut rest: Bytes) -> Option<Vec<Whole>> {
    let mut files = Vec::new();
    while !rest.is_empty() {
        let header = rest.get(..WHOLE_HEADER_BYTES)?;
        let index = u32::from_be_bytes(header[..4].try_into().ok()?);
        let size = u32::from_be_bytes(header[4..8].try_into().ok()?) as usize;
        let hash = header[8..].try_into().ok()?;
        rest.advance(WHOLE_HEADER_BYTES);
        if rest.len() < size {
            return None;
        }
        let data = rest.split_to(size);
        files.push(Whole { index, hash, data });
    }
    (!files.is_empty()).then_some(files)
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
            Record::Hole {
                index: 2,
                offset: 1 << 40,
                bytes: 1 << 50,
            },
            Record::Files(vec![
                Whole {
                    index: 3,
                    hash: [1; 32],
                    data: Bytes::new(),
                },
                Whole {
                    index: 5,
                    hash: [2; 32],
                    data: Bytes::from_static(b"small"),
                },
            ]),
            Record::End,
        ];
        for record in records {
            assert_eq!(Record::decode(&record.encode()), Some(record.clone()));
            let reach = match record {
                Record::Chunk { .. } => Some((7, (1 << 40) + 4, 4)),
                Record::Files(_) => Some((5, 5, 5)),
                Record::Hole { .. } => Some((2, (1 << 40) + (1 << 50), 1 << 50)),
                _ => None,
            };
            assert_eq!(Record::reach(&record.encode()), reach);
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_not_read() {
        let hello = encode(&Request::Hello {
            secret: "a".repeat(HELLO_BYTES_MAX),
            revision: REVISION,
            more: 0,
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
