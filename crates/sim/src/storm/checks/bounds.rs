//! Bounds on what nodes hold and send.

use super::{Findings, Invariant};
use crate::storm::ledger::{Gauge, Ledger};

pub(super) fn check(ledger: &Ledger, findings: &mut Findings) {
    let mut judge = |invariant: Invariant, whose: &str, gauge: Gauge| {
        if gauge.value > gauge.bound {
            let words = format!("{whose}: {} of {} bytes", gauge.value, gauge.bound);
            findings.report(invariant, words);
        }
    };
    for (side, gauges) in ledger.gauges.iter().enumerate() {
        let whose = format!("node {side}");
        judge(Invariant::SendBuffer, &whose, gauges.send_buffer);
        judge(Invariant::SessionWindow, &whose, gauges.session_window);
        judge(Invariant::StreamWindow, &whose, gauges.stream_window);
        judge(Invariant::Copies, &whose, gauges.copies);
        judge(Invariant::Cap, &whose, gauges.cap);
    }
    judge(Invariant::Memory, "the process", ledger.memory);
    for (side, gauges) in ledger.gauges.iter().enumerate() {
        let Gauge { value, bound, .. } = gauges.promised;
        if value > bound {
            let words = format!("node {side}: {value} bit/s promised on a path of {bound}");
            findings.report(Invariant::Promised, words);
        }
    }
    for (invariant, words) in &ledger.contradictions {
        findings.report(*invariant, words);
    }
}
