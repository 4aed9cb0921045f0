//! Checks of a storm, one invariant a function: the first four files go through the [`Ledger`] flow by flow,
//! the others look at the two nodes and at the network.

mod bounds;
mod delivery;
mod ends;
mod network;
mod outcomes;
mod sessions;

use std::fmt;

use super::{actor::Actor, ledger::Ledger, plan::Plan, tamper::Tamper};
use crate::world::World;

/// What must hold in every storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// What is delivered has the bytes that were sent, and gaps only where they are marked.
    Intact,
    /// No ADU is delivered twice.
    Once,
    /// Ordered streams deliver in order.
    Order,
    /// The engine's numbers of ADUs are the application's, at both ends; nothing is delivered that was not sent.
    Identity,
    /// Reliable streams without lifetime deliver every ADU.
    Complete,
    /// Both ends of a stream learn once that it is over.
    End,
    /// Every ADU has exactly one fate.
    OneOutcome,
    /// What is acknowledged was delivered.
    AckedDelivered,
    /// Reliable streams lose nothing.
    ReliableKept,
    /// What is said to be dropped before it was sent is not delivered.
    DroppedUnsent,
    /// What the sender hears of the parts of a lost ADU is what the receiver has.
    PartsTold,
    /// Codes of resets and stops are those of the other end, and nothing is delivered afterwards.
    GivenUp,
    /// Nothing of an ADU is sent after its lifetime.
    Lifetime,
    /// The session outlives the weather.
    SessionLives,
    /// The two nodes have one session.
    OneSession,
    /// Send buffers keep to their bound.
    SendBuffer,
    /// What waits to be read keeps to the session's window.
    SessionWindow,
    /// What waits to be read of a reliable stream keeps to the stream's window.
    StreamWindow,
    /// Copies keep to their budget.
    Copies,
    /// Capped streams keep to their caps.
    Cap,
    /// A metered path carries no byte beyond its cap.
    Budget,
    /// The network accounts for every packet, and keeps order where it says so.
    Network,
    /// The process holds no more memory than the windows in use allow.
    Memory,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::Intact,
        Self::Once,
        Self::Order,
        Self::Identity,
        Self::Complete,
        Self::End,
        Self::OneOutcome,
        Self::AckedDelivered,
        Self::ReliableKept,
        Self::DroppedUnsent,
        Self::PartsTold,
        Self::GivenUp,
        Self::Lifetime,
        Self::SessionLives,
        Self::OneSession,
        Self::SendBuffer,
        Self::SessionWindow,
        Self::StreamWindow,
        Self::Copies,
        Self::Cap,
        Self::Budget,
        Self::Network,
        Self::Memory,
    ];
}

/// A broken invariant, with words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The invariant.
    pub invariant: Invariant,
    /// Place where and how.
    pub words: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.words)
    }
}

/// What is broken so far.
#[derive(Debug, Default)]
pub(super) struct Findings(pub Vec<Broken>);

impl Findings {
    pub(super) fn say(&mut self, invariant: Invariant, words: impl Into<String>) {
        let words = words.into();
        self.0.push(Broken { invariant, words });
    }
}

pub(super) fn check(
    world: &mut World,
    plan: &Plan,
    ledger: &Ledger,
    tamper: Option<Tamper>,
) -> Vec<Broken> {
    let mut findings = Findings::default();
    for (flow, account) in &ledger.flows {
        let load = &plan.loads[flow.side][flow.load];
        let case = Case {
            name: format!(
                "flow {}{}",
                flow.label(),
                if flow.is_back { " back" } else { "" }
            ),
            flow: *flow,
            load,
            account,
            pauses: &plan.pauses[1 - flow.sender()],
            stream_window_bytes: plan.config.stream_window_bytes,
        };
        delivery::check(&case, &mut findings);
        outcomes::check(&case, &mut findings);
        ends::check(&case, plan, &mut findings);
    }
    ends::check_all_there(plan, ledger, &mut findings);
    sessions::check(world, plan, ledger, &mut findings);
    bounds::check(ledger, &mut findings);
    network::check(world, plan, tamper, &mut findings);
    findings.0
}

/// A flow to check.
pub(super) struct Case<'a> {
    pub name: String,
    pub flow: super::ledger::Flow,
    pub load: &'a super::plan::Load,
    pub account: &'a super::ledger::Account,
    /// Time at which its receiver did not read.
    pub pauses: &'a [(anabranch_base::Instant, anabranch_base::Instant)],
    /// Of its receiver.
    pub stream_window_bytes: u64,
}

impl Case<'_> {
    /// ADUs that were to be sent.
    fn adus(&self) -> u64 {
        if self.flow.is_back {
            self.load.back.map_or(0, |(adus, _)| adus)
        } else {
            self.load.adus
        }
    }

    /// The flow lived as long as it wanted to.
    fn is_whole(&self) -> bool {
        !self.account.is_orphaned && !self.account.ends.is_cut_short()
    }

    /// Everything must arrive.
    fn is_certain(&self) -> bool {
        self.load.spec.reliable && self.load.spec.lifetime.is_none()
    }
}

/// The nodes' applications.
fn actor(world: &mut World, side: usize) -> &mut Actor {
    world.app::<Actor>(side)
}
