//! Record of promises: what was promised to which stream, warned of and withdrawn, and how many windows were kept, over weeks and
//! restarts of the node.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`PromiseRecord`]: follows the promises of a host |
//! | `entry` | an [`Entry`], and those that follow from the promises at one time |
//! | `file` | the file: lines of JSON, two files of bounded size |

mod entry;
mod file;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use anabranch_base::NodeId;
use anabranch_net::Host;

use entry::Follower;
pub use entry::{Entry, Kind};
pub use file::BYTES_MAX;

/// Interval between two looks at the promises. A stream keeps more decisions than it makes meanwhile; one that is shorter may be missed.
const EVERY: Duration = Duration::from_secs(1);

/// The record of a node. Its file is created with the first promise that is asked for.
#[derive(Debug)]
pub struct PromiseRecord {
    path: PathBuf,
    follower: Mutex<Follower>,
}

impl PromiseRecord {
    /// A record in this file.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            follower: Mutex::default(),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Follows the promises of `host` until dropped. `names` returns the name of a peer.
    pub async fn keep(&self, host: &Host, names: impl Fn(&NodeId) -> String) {
        let mut has_failed = false;
        loop {
            tokio::time::sleep(EVERY).await;
            let entries = self.look(host, &names);
            if entries.is_empty() {
                continue;
            }
            let path = self.path.clone();
            let written = tokio::task::spawn_blocking(move || file::append(&path, &entries)).await;
            match written {
                Ok(Ok(())) => has_failed = false,
                Ok(Err(error)) if !std::mem::replace(&mut has_failed, true) => {
                    let path = self.path.display();
                    tracing::warn!("promises are not recorded: {path}: {error}");
                }
                _ => {}
            }
        }
    }

    /// Records the end of all promises that there are; for the end of the node.
    pub fn close(&self, host: &Host, names: impl Fn(&NodeId) -> String) {
        let mut entries = self.look(host, &names);
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        entries.extend(follower.close_all(unix_ms()));
        if !entries.is_empty()
            && let Err(error) = file::append(&self.path, &entries)
        {
            let path = self.path.display();
            tracing::warn!("promises are not recorded: {path}: {error}");
        }
    }

    fn look(&self, host: &Host, names: &impl Fn(&NodeId) -> String) -> Vec<Entry> {
        let promises = host.promises();
        let peers: BTreeMap<NodeId, String> = promises
            .iter()
            .map(|promise| (promise.peer, names(&promise.peer)))
            .collect();
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        follower.follow(unix_ms(), host.clock().now(), &promises, &peers)
    }

    /// The entries of a file, oldest first: the last `most` that `is_wanted`. What is damaged is left out.
    ///
    /// # Errors
    /// The file cannot be read. One that does not exist has no entries.
    pub fn read(
        path: &Path,
        most: usize,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> std::io::Result<Vec<Entry>> {
        let mut entries = file::read(path)?;
        entries.retain(is_wanted);
        entries.drain(..entries.len().saturating_sub(most));
        Ok(entries)
    }
}

/// Time on the calendar, in milliseconds since 1970, by the machine's wall clock. Only for the record, which people read.
#[expect(
    clippy::disallowed_methods,
    reason = "entries are compared with calendars, and with those of earlier runs"
)]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
