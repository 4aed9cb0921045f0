//! Updates: a transfer into a file or directory that the receiver has, of which only what differs is sent.
//!
//! ```text
//! Offer with `update` ──────────►
//!        ◄──────── Present, Extra       entries whose names are taken; what the offer lacks
//!        ◄──────── Have … , Go          files of the same size, with their hashes, and parts that an interrupted attempt left
//! Delete … , Proceed ───────────►       what is deleted of `Extra`; without Proceed, nothing changes
//! ```
//! Content that differs waits in the transfer's own folder until all of it is there and verified. Then each file takes its place by a rename, so
//! that at any time every file has its old or its new content.

mod compare;
mod placing;
mod survey;

pub(super) use compare::{Plan, compare};
pub(super) use placing::Placing;
pub(super) use survey::{Present, Survey, have_here, is_unchanged};

use serde::{Deserialize, Serialize};

/// An update of what the receiver has, as the sender asks for it. The receiver must permit it, and deletion, too
/// ([`Rules`](super::Rules)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// Delete in the receiver's directory of the same name what the source does not have.
    #[serde(default)]
    pub delete: bool,
    /// Only report what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// A file or link that an update brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its path, beginning with the name of the transfer.
    pub path: String,
    /// Its size; 0 of a link.
    pub bytes: u64,
}

/// Changes that an update makes, or would make. Directories that are made are not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Files and links under names that were free.
    pub added: Vec<Change>,
    /// Files and links in the place of something else.
    pub replaced: Vec<Change>,
    /// Paths that are deleted, directories before what is in them.
    pub deleted: Vec<String>,
}

impl Changes {
    /// Bytes of the files that are added or replaced.
    pub fn bytes(&self) -> u64 {
        let all = self.added.iter().chain(&self.replaced);
        all.map(|change| change.bytes).sum()
    }
}

/// Something at the receiver that the offer lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extra {
    /// Its path, as that of an entry.
    pub(crate) path: String,
    /// True if it is a directory.
    #[serde(default)]
    pub(crate) is_directory: bool,
}

/// The directory that a path is in.
fn parent_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

#[cfg(test)]
mod tests;
