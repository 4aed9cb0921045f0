//! Report of the flows that parts of the node carry, and of the rules for them.

use serde_json::{Value, json};

use super::{Context, NAME_CHARS, ms, printable};
use crate::daemon::PromiseState;

/// Error of a process that carries no flows.
const NONE: &str = "this process carries no flows; send the request to a node of `anabranch node`, or to a tunnel with --split-tcp";

/// Open flows.
pub(super) fn list(context: &Context) -> Result<Vec<Value>, String> {
    let flows = match (&context.node, &context.flows) {
        (Some(node), _) => node.flows(),
        (None, Some(flows)) => flows.flows(),
        (None, None) => return Err(NONE.to_owned()),
    };
    let name = |peer| match &context.node {
        Some(node) => node.name(&peer),
        None => peer.to_string(),
    };
    let rows = flows.iter().map(|flow| {
        json!({
            "kind": "flow",
            "source": flow.source,
            "is_incoming": flow.source.is_none(),
            "target": printable(&flow.target, 2 * NAME_CHARS),
            "protocol": flow.protocol,
            "peer": flow.peer.map(|peer| printable(&name(peer), NAME_CHARS)),
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
pub(super) fn rules(context: &Context) -> Result<Vec<Value>, String> {
    let rules = match (&context.node, &context.flows) {
        (Some(node), _) => node.rules(),
        (None, Some(flows)) => flows.rules(),
        (None, None) => return Err(NONE.to_owned()),
    };
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
