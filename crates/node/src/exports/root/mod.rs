//! Files and directories beneath an exported directory. Every call blocks, and opens what it needs anew, so that nothing is held between
//! requests.
//!
//! A path is resolved by the system with the exported directory as its root, and so never leads out of it, even while directories are
//! moved. Only files and directories are opened; the kind is looked at before, because opening a device or a pipe has effects.

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use other::is_readable;
#[cfg(not(unix))]
pub(super) use other::{list, read, stat};
#[cfg(unix)]
pub(crate) use unix::is_readable;
#[cfg(unix)]
pub(super) use unix::{list, read, stat};

use super::message::Version;

/// Range of a file.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(unix),
    expect(dead_code, reason = "no directory is exported there")
)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) bytes: u32,
    /// Version that the file must have.
    pub(super) version: Option<Version>,
}

/// A range that was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) version: Version,
    pub(super) size_bytes: u64,
    /// Header space, filled by the caller, and the bytes.
    pub(super) message: Vec<u8>,
}
