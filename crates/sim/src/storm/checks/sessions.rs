//! Checks of the session between the two nodes.

use super::{Findings, Invariant, actor};
use crate::{
    storm::{ledger::Ledger, plan::Plan},
    world::World,
};

pub(super) fn check(world: &mut World, plan: &Plan, ledger: &Ledger, findings: &mut Findings) {
    lives(plan, ledger, findings);
    one(world, findings);
}

/// The session ends only if a restart ends it.
fn lives(plan: &Plan, ledger: &Ledger, findings: &mut Findings) {
    let restart = plan.restart_at();
    let is_expected =
        |closed: &crate::storm::ledger::Closed| restart.is_some_and(|at| closed.at >= at);
    if let Some(closed) = ledger.closed.iter().find(|closed| !is_expected(closed)) {
        let words = format!("node {}: the session ended: {}", closed.side, closed.reason);
        findings.report(Invariant::SessionLives, words);
    }
    for (side, sessions) in ledger.sessions.iter().enumerate() {
        if sessions.is_empty() {
            let words = format!("node {side}: there never was a session");
            findings.report(Invariant::SessionLives, words);
        }
    }
}

fn one(world: &mut World, findings: &mut Findings) {
    for side in [0, 1] {
        let (peer, current) = (actor(world, side).peer(), actor(world, side).session());
        let engine = world.engine(side);
        let all = engine.session_ids();
        let with_peer = all.into_iter().filter(|id| {
            let stats = engine.session(*id).ok().map(|mut session| session.stats());
            stats.is_some_and(|stats| stats.peer == peer)
        });
        let with_peer: Vec<_> = with_peer.collect();
        if with_peer.len() != 1 || with_peer.first() != current.as_ref() {
            let words = format!("node {side}: sessions {with_peer:?}, in use {current:?}");
            findings.report(Invariant::OneSession, words);
        }
    }
}
