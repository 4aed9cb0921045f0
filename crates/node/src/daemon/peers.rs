//! The peers that a node keeps sessions with, and the folders that files go into, according to the configuration in force.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use anabranch_base::NodeId;
use tokio::task::{AbortHandle, JoinSet};

use super::Core;
use crate::{
    config::Peer,
    rights::{Right, Table, Terms},
    transfer::{Receiver, TransferError},
};

/// A peer to keep a session with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) peer: Peer,
    /// Objectives for sessions with it.
    pub(super) objectives: Option<Arc<str>>,
}

/// Receivers of files.
#[derive(Clone, Debug, Default)]
pub(super) struct Receivers {
    /// By the folder that a right names.
    by_folder: BTreeMap<Option<PathBuf>, Arc<Receiver>>,
    /// Those of before that are not among them, as long as they have transfers.
    earlier: Vec<Weak<Receiver>>,
}

impl Receivers {
    /// Folders in the directory that a table needs; `None`: the directory itself.
    pub(super) fn folders(table: &Table) -> BTreeSet<Option<PathBuf>> {
        let terms = |node: NodeId| table.terms(&node, Right::SendFiles);
        let named = table
            .with(Right::SendFiles)
            .filter_map(|node| terms(node)?.folder.clone());
        named.map(Some).chain([None]).collect()
    }

    /// Creates the receivers that a table needs; those of `before` are kept, with their transfers, where their directory stays.
    /// Folders are created and `open`ed.
    ///
    /// # Errors
    /// A folder cannot be made or written to.
    pub(super) fn new(
        directory: Option<&Path>,
        table: &Table,
        before: &Self,
        open: impl Fn(PathBuf) -> Result<Receiver, TransferError>,
    ) -> Result<Self, TransferError> {
        let earlier = before.earlier.iter().filter_map(Weak::upgrade);
        let earlier: Vec<_> = earlier.chain(before.by_folder.values().cloned()).collect();
        let mut by_folder = BTreeMap::new();
        for folder in directory.map(|_| Self::folders(table)).unwrap_or_default() {
            let path = made(directory.unwrap_or(Path::new(".")), folder.as_deref())?;
            // One that still receives must know of every attempt to send the same again.
            let known = earlier.iter().find(|known| known.directory() == path);
            let receiver = match known {
                Some(receiver) => receiver.clone(),
                None => Arc::new(open(path)?),
            };
            by_folder.insert(folder, receiver);
        }
        let is_left = |earlier: &&Arc<Receiver>| {
            let mut now = by_folder.values();
            !now.any(|receiver| Arc::ptr_eq(receiver, earlier))
        };
        Ok(Self {
            earlier: earlier.iter().filter(is_left).map(Arc::downgrade).collect(),
            by_folder,
        })
    }

    /// The receiver for files from a node with these terms; without a right, the one that checks tickets.
    fn of(&self, terms: Option<&Terms>) -> Option<Arc<Receiver>> {
        let folder = terms.and_then(|terms| terms.folder.clone());
        self.by_folder.get(&folder).cloned()
    }

    /// True if this node accepts no files.
    pub(super) fn is_empty(&self) -> bool {
        self.by_folder.is_empty()
    }
}

/// The folder, created if necessary.
fn made(directory: &Path, folder: Option<&Path>) -> Result<PathBuf, TransferError> {
    let Some(folder) = folder else {
        return Ok(directory.to_owned());
    };
    let path = directory.join(folder);
    std::fs::create_dir_all(&path).map_err(TransferError::write(&path))?;
    Ok(path)
}

impl Core {
    /// The receiver for files from a node with these terms; `None`: there is none now.
    pub(super) fn receiver(&self, terms: Option<&Terms>) -> Option<Arc<Receiver>> {
        self.resources.receivers.borrow().of(terms)
    }

    /// Waits until another receiver than this one is for files from a node with these terms.
    pub(super) async fn until_other_receiver(
        &self,
        receiver: Option<&Arc<Receiver>>,
        terms: Option<&Terms>,
    ) {
        let is_other = |now: &Receivers| match (now.of(terms), receiver) {
            (Some(now), Some(receiver)) => !Arc::ptr_eq(&now, receiver),
            (now, receiver) => now.is_some() != receiver.is_some(),
        };
        let mut receivers = self.resources.receivers.subscribe();
        // This node keeps the sender, so the channel is not closed.
        let _ = receivers.wait_for(is_other).await;
    }

    /// Keeps the sessions that are wanted, and ends those that are no longer wanted.
    pub(super) async fn keep_all(self: Arc<Self>) {
        let mut wanted = self.calls.subscribe();
        let mut tasks = JoinSet::new();
        let mut running: BTreeMap<NodeId, (Call, AbortHandle)> = BTreeMap::new();
        loop {
            let calls = wanted.borrow_and_update().clone();
            running.retain(|_, (call, task)| {
                let stays = calls.contains(call);
                if !stays {
                    // Its session is closed when its last handle is dropped with the task.
                    task.abort();
                }
                stays
            });
            for call in calls.iter() {
                running.entry(call.peer.node).or_insert_with(|| {
                    let attempt = self.calling.begin(call.peer.node);
                    let task = tasks.spawn(self.clone().keep(call.clone(), attempt));
                    (call.clone(), task)
                });
            }
            while tasks.try_join_next().is_some() {}
            if wanted.changed().await.is_err() {
                // `self` holds the other end.
                return;
            }
        }
    }
}
