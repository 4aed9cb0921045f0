//! Report of the flows that parts of the node carry, and of the rules for them.

use serde_json::{Value, json};

use super::{NAME_CHARS, ms, printable, rights::configured};
use crate::daemon::{Core, PromiseState};

/// Open flows.
pub(super) fn list(node: Option<&Core>) -> Result<Vec<Value>, String> {
    let node = configured(node)?;
    let flows = node.flows();
    let rows = flows.iter().map(|flow| {
        json!({
            "kind": "flow",
            "source": flow.source,
            "is_incoming": flow.source.is_none(),
            "target": printable(&flow.target, 2 * NAME_CHARS),
            "protocol": flow.protocol,
            "peer": flow.peer.map(|peer| printable(&node.name(&peer), NAME_CHARS)),
            "rule": flow.rule,
            "service": printable(&flow.service, 2 * NAME_CHARS),
            "promise": flow.promise.map(PromiseState::name),
            "promise_back": flow.promise_back.map(PromiseState::name),
            "sent_bytes": flow.sent_bytes,
            "received_bytes": flow.received_bytes,
            "age_ms": ms(flow.age),
        })
    });
    Ok(rows.collect())
}

/// Rules, and what happened under each.
pub(super) fn rules(node: Option<&Core>) -> Result<Vec<Value>, String> {
    let rules = configured(node)?.rules();
    let rows = rules.iter().map(|rule| {
        json!({
            "kind": "rule",
            "rule": rule.rule,
            "match": printable(&rule.matches, 20 * NAME_CHARS),
            "action": printable(&rule.action, 2 * NAME_CHARS),
            "flows": rule.flows,
            "denied": rule.denied,
            "open": rule.open,
            "promised_asked_bps": rule.promised_asked_bps,
            "sent_bytes": rule.sent_bytes,
            "received_bytes": rule.received_bytes,
        })
    });
    Ok(rows.collect())
}
