//! Files and sockets of a node that a reload can replace.

use std::{path::Path, sync::Arc};

use anabranch_net::Host;
use tokio::sync::watch;

use super::{DaemonError, is_unsupported, peers::Receivers};
use crate::{
    config::LocalConfig,
    control::{Control, ControlError},
    evidence::Evidence,
    ledger::{Ledger, LedgerError},
    local::{LocalError, LocalServer, MEMORY_BYTES},
    record::PromiseRecord,
    socket_file::SocketFile,
};

/// Files and sockets in use. Each is replaced by itself, and whoever uses one goes on with the next.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(super) receivers: watch::Sender<Receivers>,
    /// The record of promises.
    pub(super) record: PromiseRecord,
    /// Knowledge of the interfaces that outlasts sessions.
    pub(super) evidence: Evidence,
    pub(super) control: Control,
    pub(super) local: LocalServer,
    ledger: watch::Sender<Option<Arc<Ledger>>>,
}

/// Files and sockets of a node that starts.
pub(super) struct Opened {
    pub(super) receivers: Receivers,
    pub(super) control: Control,
    pub(super) local: LocalServer,
    pub(super) evidence: Evidence,
    pub(super) record: PromiseRecord,
    pub(super) ledger: Option<Ledger>,
}

impl Resources {
    pub(super) fn new(opened: Opened) -> Self {
        Self {
            receivers: watch::Sender::new(opened.receivers),
            record: opened.record,
            evidence: opened.evidence,
            control: opened.control,
            local: opened.local,
            ledger: watch::Sender::new(opened.ledger.map(Arc::new)),
        }
    }

    /// The ledger, if sending costs something.
    pub(super) fn ledger(&self) -> Option<Arc<Ledger>> {
        self.ledger.borrow().clone()
    }

    /// Replaces the ledger; the one before must be closed.
    pub(super) fn set_ledger(&self, ledger: Option<Ledger>) {
        self.ledger.send_replace(ledger.map(Arc::new));
    }

    /// Keeps the usage of a host, in whichever ledger there is, until dropped.
    pub(super) async fn keep_usage(&self, host: &Host) {
        let mut ledgers = self.ledger.subscribe();
        loop {
            let ledger = ledgers.borrow_and_update().clone();
            let keeping = async {
                match ledger {
                    Some(ledger) => ledger.keep(host).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = keeping => return,
                changed = ledgers.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    /// Records the exact usage at the end of a host.
    pub(super) fn close_ledger(&self, host: &Host) -> Result<(), LedgerError> {
        match self.ledger() {
            Some(ledger) => ledger.close(host),
            None => Ok(()),
        }
    }
}

/// Opens a control socket; `None`: the system has none.
///
/// # Errors
/// As [`Control::open`].
pub(super) async fn open_control(path: &Path) -> Result<Option<SocketFile>, ControlError> {
    match Control::file(path).await {
        Err(ControlError::Listen { source, .. }) if is_unsupported(&source) => {
            tracing::warn!(%source, "no control socket");
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

/// Opens the local interface, if there is one, and the system has the sockets for it.
///
/// # Errors
/// As [`LocalServer::open`].
pub(super) async fn open_local(config: Option<&LocalConfig>) -> Result<LocalServer, DaemonError> {
    let Some(config) = config else {
        return Ok(LocalServer::closed(MEMORY_BYTES));
    };
    match LocalServer::open(config).await {
        Err(LocalError::Listen { source, .. }) if is_unsupported(&source) => {
            tracing::warn!(%source, "no local interface");
            Ok(LocalServer::closed(config.memory_bytes))
        }
        opened => Ok(opened?),
    }
}
