//! Sets of records whose components matter differently [IQ-Paths §VI-C]: their bytes in one order, and the layouts by which several
//! paths share them.
//!
//! | module | holds |
//! |---|---|
//! | [`manifest`] | [`Manifest`]: the records of a set, their components, and where the bytes of each are |
//! | [`layout`] | [`Layout`]: which lane carries which bytes |
//! | [`sequence`] | [`Sequence`]: the bytes of consecutive parts as one line of bytes, and back |
//!
//! No file, no socket, no clock: the application that reads the records divides their bytes with a [`Layout`], and a [`Sequence`]
//! tells which component of which record they are.

pub mod layout;
pub mod manifest;
pub mod sequence;

pub use layout::{Layout, LayoutError};
pub use manifest::{Manifest, ManifestError};
pub use sequence::{Part, Sequence};
