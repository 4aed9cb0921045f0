//! Ends of flows: complete and known to both ends, or given up by one of them.

use std::collections::BTreeSet;

use super::{Case, Findings, Invariant};
use crate::storm::{
    ledger::Ledger,
    plan::{Ending, Plan},
};

pub(super) fn check(case: &Case<'_>, plan: &Plan, findings: &mut Findings) {
    complete(case, findings);
    end(case, findings);
    given_up(case, plan, findings);
}

fn complete(case: &Case<'_>, findings: &mut Findings) {
    if !case.is_whole() {
        return;
    }
    let (account, adus) = (case.account, case.adus());
    if account.sent.len() as u64 != adus {
        let sent = account.sent.len();
        let words = format!("{}: {sent} of {adus} ADUs were accepted", case.name);
        findings.report(Invariant::Complete, words);
    }
    let came: BTreeSet<u64> = account.delivered.iter().map(|one| one.sequence).collect();
    let first_missing = (0..adus).find(|number| !came.contains(number));
    if let Some(number) = first_missing.filter(|_| case.is_certain()) {
        let words = format!(
            "{}: ADU {number} never arrived; {} of {adus} did",
            case.name,
            came.len()
        );
        findings.report(Invariant::Complete, words);
    }
}

fn end(case: &Case<'_>, findings: &mut Findings) {
    let ends = &case.account.ends;
    let expected = u32::from(case.is_whole());
    let is_odd = |count: u32| count > 1 || count < expected;
    if is_odd(ends.finished) || is_odd(ends.delivered) {
        let words = format!(
            "{}: the end was reported {} times to the receiver, {} times to the sender",
            case.name, ends.finished, ends.delivered
        );
        findings.report(Invariant::End, words);
    }
}

fn given_up(case: &Case<'_>, plan: &Plan, findings: &mut Findings) {
    let ends = &case.account.ends;
    let ending = plan.loads[case.flow.side][case.flow.load].ending;
    let (may_reset, may_stop) = match ending {
        Ending::Reset { code, .. } if !case.flow.is_back => (Some(code), None),
        Ending::Stop { code, .. } if !case.flow.is_back => (None, Some(code)),
        _ => (None, None),
    };
    // A stopped stream is answered with a reset, of which the receiver is not notified any more.
    let is_odd = |notified: Option<u32>, sent_code: Option<u32>, planned: Option<u32>| {
        notified.is_some() && (notified != sent_code || notified != planned)
    };
    let is_wrong = is_odd(ends.reset_notified, ends.reset, may_reset)
        || is_odd(ends.stopped_notified, ends.stopped, may_stop);
    // Unless everything was over before, the other end is notified.
    let is_unnotified = !case.account.is_orphaned
        && ((ends.reset.is_some() && ends.reset_notified.is_none() && ends.finished == 0)
            || (ends.stopped.is_some() && ends.stopped_notified.is_none() && ends.delivered == 0));
    // A stream that the peer never received needs no end.
    let is_unknown = case.account.delivered.is_empty();
    if is_wrong || (is_unnotified && !is_unknown) || ends.late > 0 {
        let words = format!("{}: planned {ending:?}, ended with {ends:?}", case.name);
        findings.report(Invariant::GivenUp, words);
    }
}

/// Checks that every load was sent in the life of the session that lasted.
pub(super) fn check_all_there(plan: &Plan, ledger: &Ledger, findings: &mut Findings) {
    for (side, loads) in plan.loads.iter().enumerate() {
        for load in 0..loads.len() {
            let lasted = ledger.flows.iter().any(|(flow, account)| {
                (flow.side, flow.load, flow.is_back) == (side, load, false) && !account.is_orphaned
            });
            if !lasted {
                let words = format!("load {side}/{load} was never sent completely");
                findings.report(Invariant::Complete, words);
            }
        }
    }
}
