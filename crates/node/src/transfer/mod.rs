//! Files, directories and byte streams from one node to another.
//!
//! Data that arrives is kept in a hidden folder beside the destination until every file is present and its BLAKE3 hash agrees;
//! then the transfer gets its final name in one step. An interrupted transfer resumes when it is sent again, whichever side was
//! restarted. Stored data is never trusted: every attempt hashes it again.
//!
//! | module | holds |
//! |---|---|
//! | `message` | messages between the two sides (`spec/transfer.md`) |
//! | `manifest`, `names` | entries of a transfer, and the receiver's check of them |
//! | `selection`, `exclude`, `source`, `holes` | choice of what is sent; its entries, read from the sender's disk; holes of sparse files |
//! | `offer`, `control` | the offer in parts; messages on the control stream |
//! | `area`, `sink`, `note`, `folder`, `earlier` | the hidden folder: partial files, a signed note, directories in which no link is followed; what earlier attempts left |
//! | `dress`, `naming` | attributes and links of what has arrived; its final name |
//! | `keyed` | key with which a receiver signs its notes |
//! | `write_behind`, `barrier` | write the data of a large file, and many small files, to the disk while more arrives |
//! | `tickets`, `digest`, `attempts` | valid tickets, with their holders and uses; the hashes by which they are found; attempts with wrong tickets |
//! | `rules` | [`Rules`]: limits on what is accepted; [`Offered`]: an offer that waits for an answer |
//! | `active` | attempts under way: of two at the same transfer, the newer continues |
//! | `receive`, `admission`, `taking`, `writing` | [`Receiver`] |
//! | `send`, `answers`, `reading`, `pace`, `probing` | [`Source`], [`send`], [`send_as`], [`send_in`]: over any session, in the same process or of a running node |
//! | `redial` | [`send_with_retries`]: a transfer that resumes by itself after an interruption |
//! | `update` | [`Update`]: comparison with what the receiver has, deletion, placing |
//! | `progress` | [`Progress`] |
//! | `error` | [`TransferError`] |

mod active;
mod admission;
mod answers;
mod area;
mod attempts;
mod barrier;
mod control;
#[doc(hidden)]
pub mod decoders;
mod digest;
mod dress;
mod earlier;
mod error;
mod exclude;
mod folder;
mod holes;
mod keyed;
mod manifest;
mod message;
pub(crate) mod names;
mod naming;
mod note;
mod offer;
mod pace;
mod probing;
mod progress;
mod reading;
mod receive;
mod redial;
mod rules;
mod selection;
mod send;
mod sink;
mod source;
mod taking;
mod tickets;
mod update;
mod write_behind;
mod writing;

/// Hash by which transfers are verified end to end.
pub use blake3::Hasher;
pub use error::TransferError;
pub use exclude::{Exclude, PatternError};
pub use manifest::ENTRIES_MAX;
pub(crate) use message::is_transfer;
pub use message::{CONTROL_LABEL, DATA_LABEL, Kind, MORE_MAX};
pub use progress::{FileProgress, Progress, Snapshot};
pub use receive::{Completed, Receiver};
pub use redial::{Manner, Step, connect, send_with_retries};
pub use rules::{Clash, Offered, Rules, Updates};
pub use selection::{Left, LeftOut, Selection};
pub use send::{Source, send, send_as, send_in, send_observed};
pub use update::{Change, Changes, Update};
