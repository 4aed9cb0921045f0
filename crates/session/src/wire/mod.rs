//! Wire format inside a QUIC packet: one container of frames. The normative text is `spec/wire.md`.
//!
//! ```text
//! Container {
//!   flags      8 bits   bit 0: a timestamp follows; the other bits are zero
//!   timestamp  24 bits  optional: sender's clock in units of 16 us, modulo 2^24, big endian
//!   frames     ...      until the end of the container
//! }
//! ```
//!
//! Integers are QUIC variable-length integers (RFC 9000 §16) unless a width is given.

pub mod container;
pub mod frame;
pub mod promised;
mod varint;

pub use container::{Header, read_header, write_header};
pub use frame::{Control, FRAGMENT_HEADER_BYTES_MAX, Fragment, Frame, Reader};

/// The newest version of the wire format that this node understands. Two ends use the older of theirs.
pub const VERSION: u64 = 2;
/// The first version with the frames PROMISED, BESIDE and NEIGHBOURS.
pub const VERSION_OF_PROMISES: u64 = 2;

/// A container that does not follow the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The container ends inside a frame.
    #[error("the container ends inside a frame")]
    Truncated,
    /// A frame type or a flag that the format does not define.
    #[error("unknown frame type {0:#04x}")]
    UnknownType(u8),
    /// A value outside its range.
    #[error("{0} is out of range")]
    Range(&'static str),
}
