//! Checks of a storm, one function per invariant: the first four files go through the [`Ledger`] flow by flow, the
//! others inspect the two nodes and the network.

mod bounds;
mod delivery;
mod ends;
mod network;
mod outcomes;
mod sessions;

use std::fmt;

use super::{actor::Actor, invariant::Invariant, ledger::Ledger, plan::Plan, tamper::Tamper};
use crate::world::World;

/// A broken invariant, with a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The invariant.
    pub invariant: Invariant,
    /// Description of the violation.
    pub words: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.words)
    }
}

/// Violations found so far.
#[derive(Debug, Default)]
pub(super) struct Findings(pub Vec<Broken>);

impl Findings {
    pub(super) fn report(&mut self, invariant: Invariant, words: impl Into<String>) {
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
    /// Intervals in which its receiver did not read.
    pub pauses: &'a [(anabranch_base::Instant, anabranch_base::Instant)],
    /// Stream window of its receiver.
    pub stream_window_bytes: u64,
}

impl Case<'_> {
    /// Number of ADUs that were to be sent.
    fn adus(&self) -> u64 {
        if self.flow.is_back {
            self.load.back.map_or(0, |(adus, _)| adus)
        } else {
            self.load.adus
        }
    }

    /// True if the flow was not cut short.
    fn is_whole(&self) -> bool {
        !self.account.is_orphaned && !self.account.ends.is_cut_short()
    }

    /// True if everything must arrive.
    fn is_certain(&self) -> bool {
        self.load.spec.reliable && self.load.spec.lifetime.is_none()
    }
}

/// The application of a node.
fn actor(world: &mut World, side: usize) -> &mut Actor {
    world.app::<Actor>(side)
}
