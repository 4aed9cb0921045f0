//! Protocol between a client of record sets and a server (`spec/records.md` §5).
//!
//! The client opens every stream, with a label that says what for, so that the rights of a node are granted by label. Its first ADU is
//! a [`Request`]; the server answers on the same stream.
//!
//! | file | holds |
//! |---|---|
//! | `label` | [`Label`]: purpose, set and component of a stream |
//! | `message` | [`Request`], [`Want`], [`Notice`]: JSON |
//! | `piece` | [`Pack`], [`Piece`]: bytes of parts, with their hash |

mod label;
mod message;
mod piece;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};

pub use label::{ALL_LABELS, Label, Purpose, SET_NAME_BYTES_MAX};
pub use message::{
    Begun, Block, Demand, Digest, Fault, Format, Get, Item, Lane, Notice, OnRefusal, Promised,
    Request, SetEntry, Want,
};
pub use piece::{HEADER_BYTES, PIECE_BYTES_MAX, Pack, Piece, pieces};

/// Longest message in JSON.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a manifest in one ADU.
pub const CHUNK_BYTES: usize = 256 << 10;

/// An ADU is none of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent what is no message of record sets: {0}")]
pub struct WireError(pub String);

const JSON: u8 = 0;
const PIECES: u8 = 1;
const CHUNK: u8 = 2;

/// Kind of an ADU, with its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message in JSON.
    Message(Bytes),
    /// Pieces with their hash.
    Pieces(Bytes),
    /// Bytes of a manifest.
    Chunk(Bytes),
}

impl Kind {
    /// Reads the first byte.
    ///
    /// # Errors
    /// The kind is not known.
    pub fn of(adu: &Bytes) -> Result<Self, WireError> {
        let rest = adu.slice(adu.len().min(1)..);
        match adu.first() {
            Some(&JSON) if rest.len() <= MESSAGE_BYTES_MAX => Ok(Self::Message(rest)),
            Some(&PIECES) => Ok(Self::Pieces(rest)),
            Some(&CHUNK) => Ok(Self::Chunk(rest)),
            Some(&JSON) => Err(WireError(format!("{} bytes of JSON", rest.len()))),
            kind => Err(WireError(format!("kind {kind:?}"))),
        }
    }
}

/// A message as an ADU.
pub fn encode(message: &impl Serialize) -> Bytes {
    let mut bytes = vec![JSON];
    serde_json::to_writer(&mut bytes, message).expect("messages have no maps with other keys");
    bytes.into()
}

/// Reads the message of an ADU.
///
/// # Errors
/// It is another kind, or no such message.
pub fn decode<T: DeserializeOwned>(adu: &Bytes) -> Result<T, WireError> {
    match Kind::of(adu)? {
        Kind::Message(json) => from_json(&json),
        _ => Err(WireError("data in place of a message".to_owned())),
    }
}

/// Reads a message.
///
/// # Errors
/// It is no such message.
pub fn from_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, WireError> {
    serde_json::from_slice(json).map_err(|error| WireError(error.to_string()))
}

/// Bytes of a manifest as an ADU.
pub fn chunk(bytes: &[u8]) -> Bytes {
    let mut adu = BytesMut::with_capacity(1 + bytes.len());
    adu.put_u8(CHUNK);
    adu.put_slice(bytes);
    adu.freeze()
}
