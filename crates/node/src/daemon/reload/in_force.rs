//! Configuration in force after a reload: that of the start with the keys that a reload changes.

use crate::config::{NodeConfig, RendezvousConfig};

impl NodeConfig {
    /// This configuration with everything of another one that a reload changes.
    pub(super) fn with_reloaded(&self, other: Self) -> Self {
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
            locals: other.locals,
            overlay: other.overlay,
            rendezvous: rendezvous(self.rendezvous.as_ref(), other.rendezvous.as_ref()),
            receive: other.receive,
            promise_record: other.promise_record,
            evidence: other.evidence,
            control: other.control,
            local: other.local,
            costs: other.costs,
            descriptions: other.descriptions,
            ..self.clone()
        }
    }
}

/// The rendezvous after a reload: the limits and ports of one that stays are those of its start.
pub(super) fn rendezvous(
    before: Option<&RendezvousConfig>,
    now: Option<&RendezvousConfig>,
) -> Option<RendezvousConfig> {
    match (before, now) {
        (Some(before), Some(now)) => Some(RendezvousConfig {
            strangers: now.strangers,
            ..before.clone()
        }),
        (_, now) => now.cloned(),
    }
}
