//! Reload of the configuration while the node runs: rights, peers, settings of sessions and of parts, at once and as a whole, or not at all.

use std::{fmt::Debug, sync::Arc};

use anabranch_base::NodeId;

use super::{
    Core,
    peers::{Call, Receivers},
};
use crate::{
    config::{Change, LocalConfig, NodeConfig, OverlayConfig},
    exports::{Settings, is_readable},
    objectives::{Objectives, ObjectivesFileError},
    rights::{Right, Table},
    transfer::{Receiver, TransferError},
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
    /// A folder for files cannot be used.
    #[error(transparent)]
    Receive(#[from] TransferError),
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
        let objectives = Objectives::read(&config)?;
        let restart = started.differs(&config);
        let changes = started.config.settings.changes(&config.settings);
        let mut table = config.rights.clone();
        // The list of members is fixed for the lifetime of the agent.
        for node in config.rights.with(Right::Member) {
            if !self
                .overlay
                .as_ref()
                .is_some_and(|overlay| overlay.is_listed(&node))
            {
                table.take(&node, Right::Member);
                table.take(&node, Right::UseRelay);
            }
        }
        let receivers = {
            let before = self.receivers.lock();
            let before = before.unwrap_or_else(|error| error.into_inner()).clone();
            Receivers::new(started.config.receive.as_deref(), &table, &before, |path| {
                Receiver::with_rights(path, &self.key, self.rights.clone())
            })?
        };
        let parts = self.prepare_parts(&config).map_err(ReloadError::Config)?;
        let mut engine = config.engine.clone();
        engine.objectives.clone_from(&objectives.all);
        // Nothing fails from here on. Rights are withdrawn before others are granted.
        let before = self.rights.table();
        for (node, _) in before.iter().filter(|(node, _)| !table.may_connect(node)) {
            self.allowed.remove(node);
        }
        *self
            .receivers
            .lock()
            .unwrap_or_else(|error| error.into_inner()) = receivers;
        self.rights.replace(table.clone());
        for (node, _) in table.iter().filter(|(node, _)| table.may_connect(node)) {
            self.allowed.add(*node);
        }
        self.host.set_config(engine);
        self.calls
            .send_replace(Arc::new(calls(&config, objectives)));
        self.via.send_if_modified(|via| {
            let is_other = *via != config.via;
            via.clone_from(&config.via);
            is_other
        });
        if let (Some(overlay), Some(settings)) = (&self.overlay, &config.overlay) {
            let quotas = settings.relay.as_ref().map(|relay| relay.quotas.clone());
            overlay.set_quotas(quotas.unwrap_or_default()).await;
        }
        self.names
            .lock()
            .unwrap_or_else(|error| error.into_inner())
            .clone_from(&config.names);
        self.exports.replace(exports(&config));
        started.config = started.config.with_peers_of(config);
        for put_into_force in parts {
            put_into_force();
        }
        Ok(Reloaded {
            reduced: lost(&before, &table),
            extended: lost(&table, &before),
            changes,
            restart,
        })
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

impl NodeConfig {
    /// This configuration with the rights and peers of another one, as after a reload.
    fn with_peers_of(&self, other: Self) -> Self {
        Self {
            rights: other.rights,
            names: other.names,
            via: other.via,
            peers: other.peers,
            exports: other.exports,
            forwards: other.forwards,
            rules: other.rules,
            gateway: other.gateway,
            objectives: other.objectives,
            engine: {
                let mut engine = other.engine;
                engine.channel.mtu_max_bytes = self.engine.channel.mtu_max_bytes;
                engine
            },
            settings: other.settings,
            local: match (&self.local, other.local) {
                (Some(local), Some(other)) => Some(LocalConfig {
                    users: other.users,
                    ..local.clone()
                }),
                (local, _) => local.clone(),
            },
            ..self.clone()
        }
    }
}

impl Started {
    /// Keys that differ in `now` and that a reload does not change.
    fn differs(&self, now: &NodeConfig) -> Vec<&'static str> {
        let before = &self.config;
        let text = |value: &dyn Debug| format!("{value:?}");
        let members = |overlay: &Option<OverlayConfig>| {
            let all = overlay.iter().flat_map(|overlay| &overlay.sites);
            all.map(|(node, site)| (*node, site.clone()))
                .collect::<Vec<_>>()
        };
        let has_new = members(&now.overlay)
            .iter()
            .any(|member| !members(&before.overlay).contains(member));
        let overlay = |overlay: &Option<OverlayConfig>| {
            let relay = |overlay: &OverlayConfig| {
                let relay = overlay.relay.as_ref();
                relay.map(|relay| text(&(relay.capacity, &relay.ports, &relay.public)))
            };
            let overlay = overlay.as_ref();
            text(&overlay.map(|overlay| (&overlay.agent, relay(overlay))))
        };
        let pairs = [
            ("key", text(&before.key), text(&now.key)),
            (
                "listen, interfaces or port",
                text(&before.locals),
                text(&now.locals),
            ),
            ("control", text(&before.control), text(&now.control)),
            ("receive", text(&before.receive), text(&now.receive)),
            (
                "local, local_tcp or local_token",
                text(&before.local.as_ref().map(LocalConfig::fixed)),
                text(&now.local.as_ref().map(LocalConfig::fixed)),
            ),
            (
                "cost, currency or ledger",
                text(&before.costs),
                text(&now.costs),
            ),
            (
                "promise_record",
                text(&before.promise_record),
                text(&now.promise_record),
            ),
            ("evidence", text(&before.evidence), text(&now.evidence)),
            ("qlog", text(&before.qlog), text(&now.qlog)),
            (
                "interface",
                text(&before.descriptions),
                text(&now.descriptions),
            ),
            (
                "channel.mtu_max",
                text(&before.engine.channel.mtu_max_bytes),
                text(&now.engine.channel.mtu_max_bytes),
            ),
            ("overlay", overlay(&before.overlay), overlay(&now.overlay)),
            (
                "rendezvous",
                text(&before.rendezvous),
                text(&now.rendezvous),
            ),
            (
                "tunnel (all but the pools of its server)",
                text(&before.tunnel.without_reloaded()),
                text(&now.tunnel.without_reloaded()),
            ),
        ];
        let changed = pairs.into_iter().filter(|(_, before, now)| before != now);
        let mut keys: Vec<&'static str> = changed.map(|(key, ..)| key).collect();
        if has_new {
            keys.push("overlay.member (new ones, and other addresses)");
        }
        keys
    }
}
