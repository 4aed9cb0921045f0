//! Parts of a program above the node that take their settings from its configuration, and follow its reloads.

use std::{
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use anabranch_base::NodeId;
use anabranch_session::Explanation;

use super::{Core, Handle};
use crate::config::NodeConfig;

/// Applies prepared settings.
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

    /// Packets that it dropped, by the name of the reason, for the control socket.
    fn dropped(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// A new link to the console, if it is one.
    ///
    /// # Errors
    /// The reason for which it cannot be made.
    fn console_link(&self) -> Option<Result<String, String>> {
        None
    }
}

/// Flows that follow no configuration, for the control socket.
pub trait FlowReports: Send + Sync + fmt::Debug {
    /// Flows that are open now.
    fn flows(&self) -> Vec<FlowReport>;

    /// Rules for flows.
    fn rules(&self) -> Vec<RuleReport>;
}

/// Report of an open flow: a connection, or the datagrams between a program and a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// The program's address, or its process; `None`: it is the peer's.
    pub source: Option<String>,
    /// Target.
    pub target: String,
    /// `tcp`, `udp` or `unix`: that of the target; or another one of IP, such as `icmp`.
    pub protocol: &'static str,
    /// The node at the other end.
    pub peer: Option<NodeId>,
    /// Name of the rule that it is under.
    pub rule: Option<String>,
    /// Its service, in words.
    pub service: String,
    /// State of its promise; `None`: it asks for none.
    pub promise: Option<PromiseState>,
    /// State of the peer's promise for the way back; `None`: it was asked for none, or does not report it.
    pub promise_back: Option<PromiseState>,
    /// Bytes of the program that were sent to the peer.
    pub sent_bytes: u64,
    /// Bytes of the peer.
    pub received_bytes: u64,
    /// Time since it began.
    pub age: Duration,
}

/// State of the promise that a flow's service asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromiseState {
    /// It cannot be given yet; the flow is carried without.
    Waiting,
    /// It is in force.
    Promised,
    /// It is in force, and will not be kept or renewed as far as can be foreseen.
    Warned,
    /// It has lapsed; the flow is carried as one that waits.
    Withdrawn,
    /// The flows of its rule ask for as much as they may; the flow is carried without.
    OverLimit,
}

impl PromiseState {
    /// The state of the promise that a stream asks for.
    pub fn of(explained: &Explanation) -> Self {
        match explained.term {
            Some(_) if explained.is_warned => Self::Warned,
            Some(_) => Self::Promised,
            None if explained.account.withdrawn > 0 => Self::Withdrawn,
            None => Self::Waiting,
        }
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Promised => "promised",
            Self::Warned => "warned",
            Self::Withdrawn => "withdrawn",
            Self::OverLimit => "over limit",
        }
    }
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
    /// Number of these that were refused by the rule or its limits.
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

/// Part that only shows its flows.
#[derive(Debug)]
struct Shown(Arc<dyn FlowReports>);

impl Part for Shown {
    fn prepare(&self, _: &NodeConfig) -> Result<Commit, String> {
        Ok(Box::new(|| ()))
    }

    fn flows(&self) -> Vec<FlowReport> {
        self.0.flows()
    }

    fn rules(&self) -> Vec<RuleReport> {
        self.0.rules()
    }
}

impl Handle {
    /// Shows flows at the control socket of the node, for as long as the node is there.
    pub fn show_flows(&self, flows: Arc<dyn FlowReports>) {
        self.attach(Arc::new(Shown(flows)));
    }

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

    /// Packets that all parts dropped, by the name of the reason.
    pub(crate) fn dropped(&self) -> Vec<(&'static str, u64)> {
        let parts = self.parts();
        parts.iter().flat_map(|part| part.dropped()).collect()
    }

    /// A new link to the console, if there is one.
    pub(crate) fn console_link(&self) -> Option<Result<String, String>> {
        self.parts().iter().find_map(|part| part.console_link())
    }

    /// Rules of all parts.
    pub(crate) fn rules(&self) -> Vec<RuleReport> {
        let parts = self.parts();
        parts.iter().flat_map(|part| part.rules()).collect()
    }
}
