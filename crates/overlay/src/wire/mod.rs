//! Messages between agents (`spec/overlay.md`).
//!
//! | file | holds |
//! |---|---|
//! | `code` | numbers: variable-length integers, two-byte and one-byte floating point |
//! | [`record`] | [`Record`]: signed statements of a node about itself and its links |
//! | [`load`] | [`Load`]: load of a node that processes streams, signed by it |
//! | [`claim`] | [`Claim`]: claim that a node is silent, signed by its accuser |
//! | [`frame`] | [`Frame`]: the frames of which messages consist |

pub mod claim;
pub(crate) mod code;
pub mod frame;
pub mod load;
pub mod record;

use anabranch_base::NodeId;

pub use claim::Claim;
pub use code::VARINT_MAX;
pub use frame::{DigestEntry, Frame, Reader, Want};
pub use load::{Load, LoadOf};
pub use record::{LinkState, Record};

/// Largest message, in bytes: it fits in one packet on any Internet path.
pub const MESSAGE_BYTES_MAX: usize = 1_100;

/// Error in the encoding of a member's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It ends too early.
    #[error("the message ends in the middle of a field")]
    Truncated,
    /// A frame of an unknown type.
    #[error("frame of unknown type {0}")]
    UnknownType(u8),
    /// A value outside its range, or not in its shortest form.
    #[error("a field has an invalid value")]
    Value,
    /// More than the format allows.
    #[error("the message is longer than {MESSAGE_BYTES_MAX} bytes, or a list in it too long")]
    TooLong,
}

/// First six bytes of a node's key: enough to find it in the list of members, where no two keys may share them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShortId(pub [u8; 6]);

impl ShortId {
    /// The lowest ID.
    pub const FIRST: Self = Self([0; 6]);
    /// The highest ID.
    pub const LAST: Self = Self([0xff; 6]);

    /// The short ID of `node`.
    pub fn of(node: &NodeId) -> Self {
        let key = node.public_key();
        Self([key[0], key[1], key[2], key[3], key[4], key[5]])
    }
}
