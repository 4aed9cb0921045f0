//! The peers that a node keeps sessions with, and the folders that files go into, according to the configuration in force.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
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

/// Receivers of files, by the folder that a right names.
#[derive(Clone, Debug, Default)]
pub(super) struct Receivers(BTreeMap<Option<PathBuf>, Arc<Receiver>>);

impl Receivers {
    /// Creates the receivers that a table needs; those of `before` are kept, with their transfers. Folders are created and
    /// `open`ed.
    ///
    /// # Errors
    /// A folder cannot be made or written to.
    pub(super) fn new(
        directory: Option<&Path>,
        table: &Table,
        before: &Self,
        open: impl Fn(PathBuf) -> Result<Receiver, TransferError>,
    ) -> Result<Self, TransferError> {
        let Some(directory) = directory else {
            return Ok(Self::default());
        };
        let mut folders: Vec<Option<PathBuf>> = vec![None];
        let terms = |node: NodeId| table.terms(&node, Right::SendFiles);
        let named = table
            .with(Right::SendFiles)
            .filter_map(|node| terms(node)?.folder.clone());
        folders.extend(named.map(Some));
        let mut receivers = BTreeMap::new();
        for folder in folders {
            let receiver = match before.0.get(&folder) {
                Some(receiver) => receiver.clone(),
                None => Arc::new(open(made(directory, folder.as_deref())?)?),
            };
            receivers.insert(folder, receiver);
        }
        Ok(Self(receivers))
    }

    /// The receiver for files from a node with these terms; without a right, the one that checks tickets.
    fn of(&self, terms: Option<&Terms>) -> Option<Arc<Receiver>> {
        let folder = terms.and_then(|terms| terms.folder.clone());
        self.0.get(&folder).cloned()
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
    /// The receiver for files from a node with these terms; `None`: this node accepts no files.
    pub(super) fn receiver(&self, terms: Option<&Terms>) -> Option<Arc<Receiver>> {
        let receivers = self.receivers.lock();
        receivers
            .unwrap_or_else(|error| error.into_inner())
            .of(terms)
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
