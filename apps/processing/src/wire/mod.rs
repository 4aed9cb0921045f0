//! Protocol between a service, its sources and its subscribers (`spec/processing.md` §5).
//!
//! | module | holds |
//! |---|---|
//! | [`label`] | labels of streams |
//! | [`message`] | messages in JSON |
//! | [`state`] | those about the state of a service |
//! | [`item`] | ADUs and marks |
//! | [`module`] | modules |

pub mod item;
pub mod label;
pub mod message;
pub mod module;
pub mod state;
#[cfg(test)]
mod tests;

pub use item::{Carried, Item};
pub use label::{Label, ModuleLabel, Purpose, is_name};
pub use message::{Notice, Request, decode, encode};

const JSON: u8 = 0;
const ITEM: u8 = 1;
const MARK: u8 = 2;
const MODULE: u8 = 3;

/// True if an ADU is a message, and no derived ADU or mark.
pub fn is_message(adu: &[u8]) -> bool {
    adu.first() == Some(&JSON)
}

/// Code of a stream whose messages are none.
pub const CODE_MALFORMED: u32 = 0x20;
/// Code of a stream beyond the number that is served at a time.
pub const CODE_BUSY: u32 = 0x21;
/// Code of a stream with ADUs whose first message was refused, or whose opener uses another one.
pub const CODE_UNUSED: u32 = 0x22;

/// An ADU is none of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent what is no message about a processed stream: {0}")]
pub struct WireError(pub String);
