//! Outcomes of ADUs as reported to senders, compared with what happened to each of them.

use std::{collections::BTreeMap, ops::Range};

use anabranch_base::Instant;
use anabranch_session::Order;

use super::{Case, Findings, Invariant};
use crate::storm::ledger::{AduOutcome, Delivery, Sent};

/// Number of ADUs per window below which an incomplete one may be dropped for lack of space.
const CROWD: u64 = 8;

pub(super) fn check(case: &Case<'_>, findings: &mut Findings) {
    let delivered: BTreeMap<u64, &Delivery> = (case.account.delivered.iter())
        .map(|one| (one.sequence, one))
        .collect();
    one_outcome(case, findings);
    discarded(case, findings);
    for (number, sent) in (0..).zip(&case.account.sent) {
        let came = delivered.get(&number).copied();
        for (at, outcome) in &sent.outcomes {
            let fault = match outcome {
                AduOutcome::Acked => acked(case, &delivered, (number, sent, *at)),
                AduOutcome::Lost { arrived, lost } => lost_parts(case, sent, came, (arrived, lost)),
                AduOutcome::Dropped => dropped(case, came),
                AduOutcome::Expired => None,
            };
            if let Some((invariant, words)) = fault {
                let words = format!("{}: ADU {number} {words}", case.name);
                findings.report(invariant, words);
                return;
            }
        }
    }
}

fn one_outcome(case: &Case<'_>, findings: &mut Findings) {
    // The accepting node of a duplex stream does not request outcomes.
    let least = usize::from(case.is_whole() && !case.flow.is_back);
    let mut sent = (0..).zip(&case.account.sent);
    let odd = sent.find(|(_, one)| one.outcomes.len() > 1 || one.outcomes.len() < least);
    if let Some((number, one)) = odd {
        let outcomes: Vec<&AduOutcome> = one.outcomes.iter().map(|(_, outcome)| outcome).collect();
        let words = format!("{}: ADU {number} has the outcomes {outcomes:?}", case.name);
        findings.report(Invariant::OneOutcome, words);
    }
}

/// Checks that as many ADUs were reported as dropped as their application was told that it has discarded.
fn discarded(case: &Case<'_>, findings: &mut Findings) {
    if !case.is_whole() || case.load.spec.drop.is_some() {
        return;
    }
    let outcomes = case.account.sent.iter().flat_map(|sent| &sent.outcomes);
    let dropped = outcomes.filter(|(_, outcome)| *outcome == AduOutcome::Dropped);
    let (dropped, discarded) = (dropped.count() as u64, case.account.discarded_adus);
    if dropped != discarded {
        let words = format!(
            "{}: {dropped} ADUs were reported as dropped, {discarded} were discarded",
            case.name
        );
        findings.report(Invariant::DroppedUnsent, words);
    }
}

type Fault = (Invariant, String);

/// Checks that an acknowledged ADU reached the application, unless the receiver of an unreliable stream had a
/// documented reason to drop it.
fn acked(
    case: &Case<'_>,
    delivered: &BTreeMap<u64, &Delivery>,
    (number, sent, at): (u64, &Sent, Instant),
) -> Option<Fault> {
    if delivered.contains_key(&number) || !case.is_whole() {
        return None;
    }
    let spec = &case.load.spec;
    let may_drop = !spec.reliable && {
        let is_overtaken = || {
            spec.order == Order::Ordered
                && delivered
                    .range(number + 1..)
                    .any(|(_, later)| later.at <= at)
        };
        let is_late = || {
            spec.lifetime
                .is_some_and(|lifetime| at >= sent.at + lifetime)
        };
        // Incomplete ADUs alone may fill the window; then the oldest are dropped.
        let is_crowded = || {
            let is_large = sent.bytes as u64 * CROWD > case.stream_window_bytes;
            is_large || case.account.dropped_adus > 0
        };
        // They are also dropped when the application does not read.
        let is_unread = || {
            case.pauses
                .iter()
                .any(|(from, to)| sent.at <= *to && at >= *from)
        };
        is_overtaken() || is_late() || is_crowded() || is_unread()
    };
    let words = "was acknowledged and never delivered".to_owned();
    (!may_drop).then_some((Invariant::AckedDelivered, words))
}

/// Checks that every byte is in exactly one of the two lists, and that data reported as arrived was delivered where the
/// stream delivers parts.
fn lost_parts(
    case: &Case<'_>,
    sent: &Sent,
    came: Option<&Delivery>,
    (arrived, lost): (&[Range<u64>], &[Range<u64>]),
) -> Option<Fault> {
    if case.load.spec.reliable {
        let words = "of a reliable stream was reported as lost".to_owned();
        return Some((Invariant::ReliableKept, words));
    }
    let mut all: Vec<&Range<u64>> = arrived.iter().chain(lost).collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut at = 0;
    for range in all {
        if range.start != at {
            return Some((Invariant::PartsReported, reported_parts(arrived, lost)));
        }
        at = range.end;
    }
    if at != sent.bytes as u64 {
        return Some((Invariant::PartsReported, reported_parts(arrived, lost)));
    }
    let came = came?;
    let is_missing = |range: &Range<u64>| {
        let ranges = &came.missing.ranges;
        let in_gap = |gap: &Range<u64>| gap.start < range.end && range.start < gap.end;
        ranges.iter().any(in_gap) || range.end > came.bytes as u64
    };
    arrived
        .iter()
        .any(is_missing)
        .then(|| (Invariant::PartsReported, reported_parts(arrived, lost)))
}

fn reported_parts(arrived: &[Range<u64>], lost: &[Range<u64>]) -> String {
    format!("was reported as arrived in {arrived:?}, as lost in {lost:?}")
}

fn dropped(case: &Case<'_>, came: Option<&Delivery>) -> Option<Fault> {
    let may_drop = case.load.spec.drop.is_some() || case.load.discard_after.is_some();
    let is_sound = came.is_none() && may_drop;
    let words = "was reported as dropped before it was sent".to_owned();
    (!is_sound).then_some((Invariant::DroppedUnsent, words))
}
