//! Sets of records between nodes: a server with the sets of a directory, and clients that list, fetch, watch and verify them
//! [IQ-Paths §VI-C].
//!
//! Each component of a set is carried on a stream of its own, with the promise that its manifest asks for, or each path carries a lane
//! of all of them, as GridFTP has it. What has arrived is noted, so that an interrupted copy goes on where it stopped. User's guide
//! in `docs/records.md`, protocol in `spec/records.md`.
//!
//! | module | holds |
//! |---|---|
//! | [`wire`] | the protocol: labels, messages, pieces of parts |
//! | [`shelf`] | a directory with sets |
//! | [`source`] | parts of records, read from files |
//! | [`sink`] | parts of records, written to files, and the note of what is there |
//! | [`spans`] | sets of numbers as intervals |
//! | [`server`] | the service of an application that is attached to a node |
//! | [`client`] | the side that asks |
//! | `writer` | the tasks that write what arrives, and make it durable |
//! | `carry` | the task that sends what is read |
//! | `error` | [`client::RecordsError`] |
//! | `at` | reading and writing at an offset |

pub use anabranch_recordset as recordset;

mod at;
mod carry;
pub mod client;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod server;
pub mod shelf;
pub mod sink;
pub mod source;
pub mod spans;
pub mod wire;
mod writer;
