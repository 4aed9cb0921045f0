//! Parts of a program above the node that take their settings from its configuration, and follow its reloads.

use std::{
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use anabranch_base::NodeId;

use super::{Core, Handle};
use crate::config::NodeConfig;

/// Puts prepared settings into force.
pub type Commit = Box<dyn FnOnce() + Send>;

/// A part of a program that takes its settings from the node's configuration.
///
/// A part must not hold a [`Handle`], which would keep it and the node alive for ever.
pub trait Part: Send + Sync + fmt::Debug {
    /// Prepares the settings of a configuration, and acquires what they need; nothing changes before the result is called.
    /// Dropping it instead releases what was acquired. A reload calls it before anything of the node changes.
    ///
    /// # Errors
    /// The reason for which the settings cannot be used; the reload is refused.
    fn prepare(&self, config: &NodeConfig) -> Result<Commit, String>;

    /// Flows that it carries now, for the control socket.
    fn flows(&self) -> Vec<FlowReport> {
        Vec::new()
    }

    /// Rules for its flows, for the control socket.
    fn rules(&self) -> Vec<RuleReport> {
        Vec::new()
    }
}

/// Report of an open flow: a connection, or the datagrams between a program and a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// The program's address, or its process; `None`: it is the peer's.
    pub source: Option<String>,
    /// Target.
    pub target: String,
    /// `tcp`, `udp` or `unix`: that of the target.
    pub protocol: &'static str,
    /// The node at the other end.
    pub peer: Option<NodeId>,
    /// Name of the rule that it is under.
    pub rule: Option<String>,
    /// Its service, in words.
    pub service: String,
    /// Bytes of the program that were sent to the peer.
    pub sent_bytes: u64,
    /// Bytes of the peer.
    pub received_bytes: u64,
    /// Time since it began.
    pub age: Duration,
}

/// Report of a rule for flows, with what happened under it since it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleReport {
    /// Name; `None`: what no rule matched.
    pub rule: Option<String>,
    /// The flows that it is for, in words.
    pub matches: String,
    /// Its effect, in words.
    pub action: String,
    /// Flows that it was the first to match.
    pub flows: u64,
    /// Of these, the ones that were refused because the rule or its limits say so.
    pub denied: u64,
    /// Flows that are open.
    pub open: u32,
    /// Rate of all promises that they ask for, in bit/s.
    pub promised_asked_bps: u64,
    /// Bytes of programs that were sent to peers.
    pub sent_bytes: u64,
    /// Bytes of peers.
    pub received_bytes: u64,
}

impl Handle {
    /// Makes a part follow every reload from now on. It stays for as long as the node.
    pub fn attach(&self, part: Arc<dyn Part>) {
        let parts = self.core().parts.lock();
        parts.unwrap_or_else(PoisonError::into_inner).push(part);
    }
}

impl Core {
    fn parts(&self) -> Vec<Arc<dyn Part>> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.clone()
    }

    /// Prepares all parts for a configuration.
    pub(super) fn prepare_parts(&self, config: &NodeConfig) -> Result<Vec<Commit>, String> {
        let parts = self.parts();
        parts.iter().map(|part| part.prepare(config)).collect()
    }

    /// Flows of all parts.
    pub(crate) fn flows(&self) -> Vec<FlowReport> {
        let parts = self.parts();
        parts.iter().flat_map(|part| part.flows()).collect()
    }

    /// Rules of all parts.
    pub(crate) fn rules(&self) -> Vec<RuleReport> {
        let parts = self.parts();
        parts.iter().flat_map(|part| part.rules()).collect()
    }
}
