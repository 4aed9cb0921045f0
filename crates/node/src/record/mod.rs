//! Record of promises: what was promised to which stream, warned of and withdrawn, and how many windows were kept, over weeks and
//! restarts of the node.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`PromiseRecord`]: follows the promises of a host |
//! | `entry` | an [`Entry`], and those that follow from the promises at one time |
//! | `file` | the file: lines of JSON, two files of bounded size |
//! | `recent` | the latest entries with numbers, for those who watch |

mod entry;
mod file;
mod recent;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use anabranch_base::NodeId;
use anabranch_net::Host;

use crate::channel_names::ChannelNames;

use entry::Follower;
pub use entry::{Entry, Kind};
pub use file::BYTES_MAX;
use recent::Recent;
pub use recent::Since;

/// Interval between two looks at the promises. A stream keeps more decisions than it makes meanwhile; one that is shorter may be missed.
const EVERY: Duration = Duration::from_secs(1);

/// The record of a node. Its file, if it has one, is created with the first promise that is asked for.
#[derive(Debug)]
pub struct PromiseRecord {
    path: Mutex<Option<PathBuf>>,
    follower: Mutex<Follower>,
    recent: Mutex<Recent>,
}

impl PromiseRecord {
    /// A record in this file, or of the latest entries only.
    pub fn new(path: Option<PathBuf>) -> Self {
        Self {
            path: Mutex::new(path),
            follower: Mutex::default(),
            recent: Mutex::default(),
        }
    }

    /// The file.
    pub fn path(&self) -> Option<PathBuf> {
        self.lock_path().clone()
    }

    /// Writes the entries that follow to this file; without one, only the latest are kept.
    pub(crate) fn set_path(&self, path: Option<PathBuf>) {
        *self.lock_path() = path;
    }

    fn lock_path(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.path.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entries with numbers from `number` on, as far as they are kept; without one, none, but the next number.
    pub fn since(&self, number: Option<u64>) -> Since {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.since(number)
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
            let Some(path) = self.path() else {
                continue;
            };
            let shown = path.display().to_string();
            let written = tokio::task::spawn_blocking(move || file::append(&path, &entries)).await;
            match written {
                Ok(Ok(())) => has_failed = false,
                Ok(Err(error)) if !std::mem::replace(&mut has_failed, true) => {
                    tracing::warn!("promises are not recorded: {shown}: {error}");
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
        if let Some(path) = self.path().filter(|_| !entries.is_empty())
            && let Err(error) = file::append(&path, &entries)
        {
            let path = path.display();
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
        let mut entries = follower.follow(unix_ms(), host.clock().now(), &promises, &peers);
        // Numbers of channels say nothing once the channels are gone.
        let texts = entries.iter().map(|entry| entry.text.as_str());
        let channels = ChannelNames::for_texts(host, texts);
        for entry in &mut entries {
            entry.text = channels.put(&entry.text);
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.extend(&entries);
        entries
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
