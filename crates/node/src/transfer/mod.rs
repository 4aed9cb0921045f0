//! Files, directories and byte streams from one node to another.
//!
//! What arrives is kept in a hidden folder beside the destination until every file of it is there and
//! its BLAKE3 hash agrees; then it gets its name in one step. An interrupted transfer resumes when it is
//! sent again, whichever side was restarted. Nothing is believed: every attempt hashes what is there.
//!
//! | module | holds |
//! |---|---|
//! | `message` | what the two sides say (`spec/transfer.md`) |
//! | `manifest`, `names` | what there is to send, and what of it is taken |
//! | `source` | what there is to send, read from the sender's disk |
//! | `area`, `note`, `folder` | the hidden folder: partial files, a signed note, and directories in which no link is followed |
//! | `keyed` | the key under which a receiver signs its notes |
//! | `write_behind` | data goes to the disk while more arrives |
//! | `tickets`, `attempts` | which tickets are good, for whom and for what; who has shown too many wrong ones |
//! | `rules` | [`Rules`]: what is taken; [`Offered`]: who is asked |
//! | `active` | of two attempts at the same transfer, the newer goes on |
//! | `receive`, `writing` | [`Receiver`] |
//! | `send` | [`Source`], [`send`], [`send_promised`] |
//! | `redial` | [`send_with_retries`]: a transfer that goes on by itself after an interruption |
//! | `progress` | [`Progress`] |
//! | `error` | [`TransferError`] |

mod active;
mod area;
mod attempts;
#[doc(hidden)]
pub mod decoders;
mod error;
mod folder;
mod keyed;
mod manifest;
mod message;
mod names;
mod note;
mod progress;
mod receive;
mod redial;
mod rules;
mod send;
mod source;
mod tickets;
mod write_behind;
mod writing;

/// The hash by which transfers are verified end to end.
pub use blake3::Hasher;
pub use error::TransferError;
pub use manifest::ENTRIES_MAX;
pub use message::{CONTROL_LABEL, DATA_LABEL, Kind};
pub use progress::{Progress, Snapshot};
pub use receive::{Completed, Receiver};
pub use redial::{Manner, Step, send_with_retries};
pub use rules::{Offered, Rules};
pub use send::{Source, send, send_promised};
