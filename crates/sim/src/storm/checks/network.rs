//! Checks of the network, and of the bytes that metered paths carried.

use super::{Findings, Invariant};
use crate::{
    storm::{plan::Plan, tamper::Tamper},
    world::World,
};

pub(super) fn check(
    world: &mut World,
    plan: &Plan,
    tamper: Option<Tamper>,
    findings: &mut Findings,
) {
    for words in world.audit() {
        findings.report(Invariant::Network, words);
    }
    let Some(budget) = plan.budget else {
        return;
    };
    let hop = plan.first_hop(budget.side, budget.path);
    let wire = world.wire(hop.wire);
    let mut carried = wire.one_way(hop.forward).stats().offered.bytes;
    let cap = budget.cap_kilobytes * 1000;
    if tamper == Some(Tamper::Overspend) {
        carried += cap;
    }
    if carried > cap {
        let words = format!("{budget:?}: {carried} bytes were sent");
        findings.report(Invariant::Budget, words);
    }
}
