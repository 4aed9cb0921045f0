//! Configuration in force after a reload: that of the start with the keys that a reload changes.

use crate::config::NodeConfig;

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
            rendezvous: other.rendezvous,
            receive: other.receive,
            promise_record: other.promise_record,
            evidence: other.evidence,
            control: other.control,
            local: other.local,
            costs: other.costs,
            descriptions: other.descriptions,
            qlog: other.qlog,
            ..self.clone()
        }
    }
}
