//! Nodes that process streams on the way.
//!
//! A source offers a stream to a processing node, and names the nodes that may derive from it; a subscriber asks that node for what a
//! pipeline derives from the stream. Both legs end at the processing node, in a program that is attached to it. User's guide in
//! `docs/processing.md`, protocol in `spec/processing.md`.
//!
//! | module | holds |
//! |---|---|
//! | [`wire`] | the protocol: labels, messages, ADUs and marks |
//! | [`service`] | the application at the processing node |
//! | [`offer`] | the source |
//! | [`subscribe`] | the subscriber |
//! | [`status`] | the state of a processing node |
//! | `received` | events of a subscriber |
//! | `account` | windows of the source's time at a subscriber |
//! | `link` | streams of these two to a service |
//! | `bring` | modules that a subscriber brings |
//! | `placed` | a source that chooses its place |
//! | `presence` | processing nodes that do not respond any more |
//! | `error` | [`ProcessingError`] |

mod account;
mod bring;
mod error;
mod link;
pub mod offer;
mod placed;
mod presence;
mod received;
pub mod service;
pub mod status;
pub mod subscribe;
#[cfg(test)]
mod tests;
pub mod wire;

/// Bytes that wait in the stream to an unreliable subscriber before the next ADU is derived for it: what waits longer is out of date when its pipeline changes,
/// and can be discarded only before it is handed over.
pub const UNSENT_BYTES: u32 = 16 << 10;

pub use anabranch_process as process;
pub use error::ProcessingError;
