//! Delivery: intact, once, in order, as numbered, in time.

use std::collections::BTreeSet;

use anabranch_session::Order;

use super::{Case, Findings, Invariant};
use crate::storm::ledger::Delivery;

pub(super) fn check(case: &Case<'_>, findings: &mut Findings) {
    intact(case, findings);
    once(case, findings);
    order(case, findings);
    identity(case, findings);
    lifetime(case, findings);
}

fn intact(case: &Case<'_>, findings: &mut Findings) {
    for one in &case.account.delivered {
        let sent = one
            .number
            .and_then(|number| case.account.sent.get(number as usize));
        let is_sized = sent.is_none_or(|sent| {
            one.bytes == sent.bytes || (one.missing.is_cut && one.bytes < sent.bytes)
        });
        let may_have_gaps = case.load.spec.partial || one.missing.is_nothing();
        if !one.is_intact || !is_sized || !may_have_gaps {
            let words = format!(
                "{}: ADU {} came damaged, {} bytes",
                case.name, one.sequence, one.bytes
            );
            findings.report(Invariant::Intact, words);
            return;
        }
    }
}

fn once(case: &Case<'_>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    let mut numbers = case.account.delivered.iter().filter_map(|one| one.number);
    if let Some(twice) = numbers.find(|number| !seen.insert(*number)) {
        let words = format!("{}: ADU {twice} was delivered twice", case.name);
        findings.report(Invariant::Once, words);
    }
}

fn order(case: &Case<'_>, findings: &mut Findings) {
    let delivered = &case.account.delivered;
    if case.load.spec.order == Order::Ordered
        && let Some(pair) = delivered.windows(2).find(|w| w[0].number > w[1].number)
    {
        let (a, b) = (pair[0].number, pair[1].number);
        let words = format!("{}: ADU {a:?} came before {b:?}", case.name);
        findings.report(Invariant::Order, words);
    }
}

fn identity(case: &Case<'_>, findings: &mut Findings) {
    let account = case.account;
    let is_odd = |one: &&Delivery| {
        one.number != Some(one.sequence) || one.sequence >= account.sent.len() as u64
    };
    if let Some(odd) = account.delivered.iter().find(is_odd) {
        let words = format!(
            "{}: the engine numbers it ADU {}, its content {:?}, {} were sent",
            case.name,
            odd.sequence,
            odd.number,
            account.sent.len()
        );
        findings.report(Invariant::Identity, words);
    }
    if account.misnumbered + account.stray_outcomes > 0 {
        let words = format!(
            "{}: {} ADUs numbered otherwise than sent, {} outcomes of ADUs never sent",
            case.name, account.misnumbered, account.stray_outcomes
        );
        findings.report(Invariant::Identity, words);
    }
}

/// The packet that carries the last byte of an ADU was sent within its lifetime, so the ADU is late at most by the
/// packet's time on the path. Two kinds may wait for a retransmission: an ADU that waits in order for one that was
/// given up, and an ADU of which only a part is delivered.
fn lifetime(case: &Case<'_>, findings: &mut Findings) {
    let Some(lifetime) = case.load.spec.lifetime else {
        return;
    };
    let account = case.account;
    let is_ordered = case.load.spec.reliable && case.load.spec.order == Order::Ordered;
    let mut expected = 0;
    let mut released_at = None;
    for one in &account.delivered {
        if one.sequence != expected {
            released_at = Some(one.at);
        }
        expected = one.sequence + 1;
        let has_waited = is_ordered && released_at == Some(one.at);
        if has_waited || !one.missing.is_nothing() {
            continue;
        }
        let sent = account.sent.get(one.sequence as usize);
        let (Some(sent), Some(departed)) = (sent, one.departed) else {
            continue;
        };
        if departed > sent.at + lifetime {
            let words = format!(
                "{}: ADU {} left {:?} after it was handed over, lifetime {lifetime:?}",
                case.name,
                one.sequence,
                departed.since(sent.at)
            );
            findings.report(Invariant::Lifetime, words);
            return;
        }
    }
}
