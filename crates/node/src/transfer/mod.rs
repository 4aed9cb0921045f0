//! Files, directories and byte streams from one node to another.
//!
//! What arrives is kept in a hidden folder beside the destination until every file of it is there and
//! its BLAKE3 hash agrees; then it gets its name in one step. An interrupted transfer resumes when it is
//! sent again, whichever side was restarted.
//!
//! | module | holds |
//! |---|---|
//! | `message` | what the two sides say |
//! | `manifest` | what there is to send, read and checked |
//! | `area` | the hidden folder: partial files and the journal |
//! | `write_behind` | data goes to the disk while more arrives |
//! | `tickets` | which tickets are good, and for whom |
//! | `active` | of two attempts at the same transfer, the newer goes on |
//! | `receive` | [`Receiver`] |
//! | `send` | [`Source`], [`send`], [`send_promised`] |
//! | `redial` | [`send_with_patience`]: a transfer that goes on by itself after an interruption |
//! | `progress` | [`Progress`] |
//! | `error` | [`TransferError`] |

mod active;
mod area;
mod error;
mod manifest;
mod message;
mod progress;
mod receive;
mod redial;
mod send;
mod tickets;
mod write_behind;

/// The hash by which transfers are verified end to end.
pub use blake3::Hasher;
pub use error::TransferError;
pub use manifest::ENTRIES_MAX;
pub use message::{CONTROL_LABEL, DATA_LABEL, Kind};
pub use progress::{Progress, Snapshot};
pub use receive::{Completed, Receiver};
pub use redial::{Manner, Step, send_with_patience};
pub use send::{Source, send, send_promised};
