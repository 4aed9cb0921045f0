//! Reload of the configuration while the node runs: rights, peers, settings of sessions and of parts, at once and as a whole, or not at all.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the reload: reading, and what is put into force once nothing can fail any more |
//! | `prepared` | everything that a configuration needs, acquired before anything changes |
//! | `costs` | tariffs and the ledger |
//! | `traces` | what the preparation leaves in the file system if it fails |
//! | `differs` | keys whose new values wait for the next start |
//! | `in_force` | the configuration in force after a reload |

mod costs;
mod differs;
mod in_force;
mod prepared;
mod traces;

use std::{fmt::Debug, sync::Arc};

use anabranch_base::NodeId;
use anabranch_net::{StartError, relay::RelayError};

use self::prepared::{Files, Prepared};
use super::{Core, meeting::serves_strangers, membership::new_members, peers::Call};
use crate::{
    config::{Change, NodeConfig},
    control::ControlError,
    exports::{Settings, is_readable},
    ledger::LedgerError,
    local::LocalError,
    objectives::{Objectives, ObjectivesFileError},
    overlay::OverlayError,
    rights::{Right, Table},
    transfer::TransferError,
};

/// Reads the configuration again; the error text explains why it cannot be used.
pub type Source = Box<dyn Fn() -> Result<NodeConfig, String> + Send + Sync>;

/// The configuration is not reloaded; the previous one stays in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// There is nothing to read it from.
    #[error("this node was not started from a configuration that can be read again; restart it")]
    NoSource,
    /// The configuration is refused.
    #[error("{0}")]
    Config(String),
    /// A file of objectives cannot be used.
    #[error(transparent)]
    Objectives(#[from] ObjectivesFileError),
    /// A local address cannot be used.
    #[error(transparent)]
    Locals(#[from] StartError),
    /// The relay of the rendezvous cannot start.
    #[error("rendezvous: {0}")]
    Rendezvous(#[from] RelayError),
    /// The node cannot take part in the overlay.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// A folder for files cannot be used.
    #[error(transparent)]
    Receive(#[from] TransferError),
    /// The usage ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A place has a cost, and no address.
    #[error(
        "cost.on = \"{0}\": the node has no socket there, so a cap would never apply; name an interface or address that it listens on, \
         or restart the node if `listen` is another one, too"
    )]
    Place(String),
    /// The control socket cannot be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A socket of the local interface cannot be opened.
    #[error(transparent)]
    Local(#[from] LocalError),
}

/// Outcome of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// Nodes that have lost a right; whatever depended on it has ended.
    pub reduced: Vec<NodeId>,
    /// Nodes that were given a right.
    pub extended: Vec<NodeId>,
    /// Keys whose values differ from those read before.
    pub changes: Vec<Change>,
    /// Keys whose new values take effect only at the next start.
    pub restart: Vec<&'static str>,
}

impl Core {
    /// Reads the configuration again and applies it; if it is refused, the log has the reason, too.
    pub(crate) async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let reloaded = self.apply().await;
        if let Err(error) = &reloaded {
            tracing::error!(%error, "not reloaded; the previous configuration stays in force");
        }
        reloaded
    }

    async fn apply(&self) -> Result<Reloaded, ReloadError> {
        // One at a time: the last one requested is in force.
        let mut started = self.started.lock().await;
        let source = started.source.as_ref().ok_or(ReloadError::NoSource)?;
        let config = source().map_err(ReloadError::Config)?;
        let restart = started.differs(&config);
        let changes = started.config.settings.changes(&config.settings);
        let prepared = self.prepare(&started, config).await?;
        let now = prepared.table.clone();
        let before = self.rights.table();
        self.commit(&mut started, prepared).await;
        Ok(Reloaded {
            reduced: lost(&before, &now),
            extended: lost(&now, &before),
            changes,
            restart,
        })
    }

    /// Puts a prepared configuration into force; nothing fails. Rights are withdrawn before others are granted.
    async fn commit(&self, started: &mut Started, prepared: Prepared) {
        let Prepared {
            config,
            objectives,
            table,
            receivers,
            locals,
            rendezvous,
            overlay,
            parts,
            files,
            mut traces,
        } = prepared;
        traces.keep();
        let mut engine = config.engine.clone();
        engine.objectives.clone_from(&objectives.all);
        let before = self.rights.table();
        for (node, _) in before.iter().filter(|(node, _)| !table.may_connect(node)) {
            self.allowed.remove(node);
        }
        self.resources.receivers.send_replace(receivers);
        // Before the rights: whoever comes as a member is known as one.
        let effect = overlay.and_then(|change| self.membership.apply(change));
        let strangers = serves_strangers(config.rendezvous.as_ref());
        if !strangers {
            self.allowed.admit_strangers(false);
        }
        self.rights.replace(table.clone());
        self.rendezvous.apply(rendezvous, strangers);
        if strangers {
            self.allowed.admit_strangers(true);
        }
        for (node, _) in table.iter().filter(|(node, _)| table.may_connect(node)) {
            self.allowed.add(*node);
        }
        self.host.set_config(engine);
        let has_moved = locals.is_some();
        if let Some(locals) = locals {
            locals.commit();
        }
        if let Some(overlay) = self.overlay() {
            overlay.place_relay(&self.host);
        }
        self.rendezvous
            .place_relay(config.rendezvous.as_ref(), &self.host);
        self.calls
            .send_replace(Arc::new(calls(&config, objectives)));
        self.via.send_if_modified(|via| {
            let is_other = *via != config.via;
            via.clone_from(&config.via);
            // The relay has one of the node's ports.
            is_other || has_moved
        });
        self.names
            .lock()
            .unwrap_or_else(|error| error.into_inner())
            .clone_from(&config.names);
        self.exports.replace(exports(&config));
        self.commit_files(&started.config, &config, files);
        let new = new_members(started.config.overlay.as_ref(), config.overlay.as_ref());
        started.config = started.config.with_reloaded(config);
        for put_into_force in parts {
            put_into_force();
        }
        self.membership.notify();
        // Last: only these wait.
        self.hand_over(&new).await;
        if let Some(effect) = effect.or_else(|| self.membership.effect()) {
            effect.come().await;
        }
    }

    /// Puts files and sockets that are different into use.
    fn commit_files(&self, before: &NodeConfig, config: &NodeConfig, files: Files) {
        let resources = &self.resources;
        let Files {
            evidence,
            costs,
            control,
            local,
        } = files;
        if before.promise_record != config.promise_record {
            resources.record.set_path(config.promise_record.clone());
        }
        if let Some(other) = evidence {
            resources.evidence.move_to(other, &self.host);
        }
        if let Some(costs) = costs {
            self.commit_costs(costs);
        }
        if before.descriptions != config.descriptions {
            self.host.set_descriptions(config.descriptions.clone());
        }
        #[cfg(feature = "qlog")]
        if before.qlog != config.qlog {
            self.host.set_qlog(config.qlog.clone());
        }
        if let Some(file) = control {
            resources.control.replace(file);
        }
        resources.local.apply(local, &self.host);
    }
}

/// The directories that are exported, for the service.
pub(super) fn exports(config: &NodeConfig) -> Settings {
    for export in &config.exports {
        if let Err(error) = is_readable(&export.path) {
            let (name, path) = (&export.name, export.path.display());
            tracing::warn!(
                "export \"{name}\": {path}: {error}; peers find nothing there until it can be read"
            );
        }
    }
    Settings {
        exports: config.exports.clone(),
        names: config.names.clone(),
    }
}

/// The peers to dial, with their objectives.
pub(super) fn calls(config: &NodeConfig, objectives: Objectives) -> Vec<Call> {
    let peers = config.peers.iter().cloned().zip(objectives.peers);
    peers
        .map(|(peer, objectives)| Call { peer, objectives })
        .collect()
}

/// Nodes that had more rights in `before`, or had them on other terms.
fn lost(before: &Table, now: &Table) -> Vec<NodeId> {
    let is_less = |node: &NodeId| {
        let is_other = |right: &Right| before.terms(node, *right) != now.terms(node, *right);
        Right::ALL
            .iter()
            .any(|right| before.may(node, *right) && is_other(right))
    };
    before
        .iter()
        .map(|(node, _)| *node)
        .filter(is_less)
        .collect()
}

/// The configuration that the node was started with, and its source.
pub(super) struct Started {
    pub(super) config: NodeConfig,
    pub(super) source: Option<Source>,
}

impl Debug for Started {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.config.fmt(f)
    }
}
