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
//! | `receive` | [`Receiver`] |
//! | `send` | [`Source`], [`send`] |
//! | `progress` | [`Progress`] |
//! | `error` | [`TransferError`] |

mod area;
mod error;
mod manifest;
mod message;
mod progress;
mod receive;
mod send;

/// The hash by which transfers are verified end to end.
pub use blake3::Hasher;
pub use error::TransferError;
pub use manifest::ENTRIES_MAX;
pub use message::{CONTROL_LABEL, DATA_LABEL, Kind};
pub use progress::{Progress, Snapshot};
pub use receive::{Completed, Receiver};
pub use send::{Source, send};
