//! Rows about what the node refused and dropped since it was started, by cause.

use serde_json::{Value, json};

use super::Context;
use anabranch_net::relay::Reason;
use anabranch_session::Refused;

/// Rows `refused` (requests of peers) and `dropped` (packets), one for each cause that there can be.
pub(super) async fn rows(context: &Context) -> Vec<Value> {
    let refused = |of: &str, cause: &str, count: u64| json!({ "kind": "refused", "of": of, "cause": cause, "count": count });
    let dropped = |of: &str, cause: &str, packets: u64| json!({ "kind": "dropped", "of": of, "cause": cause, "packets": packets });
    let refusals = context.host.refusals();
    let channels = Refused::ALL.map(|cause| refused("channel", cause.name(), refusals.by(cause)));
    let mut rows = Vec::from(channels);
    if let Some(node) = &context.node {
        let rights = node.rights().refused();
        rows.extend(rights.map(|(right, count)| refused("right", right.name(), count)));
    }
    let totals = match context.overlay() {
        Some(overlay) => overlay.relay_totals().await,
        None => None,
    };
    let totals = totals.unwrap_or_default();
    rows.push(refused("circuit", "any", totals.refused));
    let by_reason = totals.account.dropped;
    let reasons = Reason::ALL.map(|reason| (reason.name(), by_reason.by(reason)));
    let relayed = reasons
        .into_iter()
        .chain([("foreign", totals.foreign_packets)]);
    rows.extend(relayed.map(|(cause, packets)| dropped("relay", cause, packets)));
    if let Some(node) = &context.node {
        let all = node.dropped();
        rows.extend(
            all.iter()
                .map(|(cause, packets)| dropped("tunnel", cause, *packets)),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use anabranch_net::{Host, HostConfig};
    use anabranch_session::{AllowList, SecretKey};

    use super::*;

    fn host(seed: u8, allowed: AllowList) -> Host {
        let key = SecretKey::from_seed([seed; 32]);
        let loopback: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        Host::start(HostConfig::new(key, allowed).bind([loopback])).unwrap()
    }

    #[tokio::test]
    async fn a_stranger_is_counted_with_the_cause() {
        let guard = host(31, AllowList::default());
        let stranger = host(32, AllowList::everyone());
        let context = Context {
            host: guard.clone(),
            overlay: None,
            node: None,
            flows: None,
            user: None,
        };
        let count = |rows: &[Value], cause: &str| {
            let of = |row: &&Value| row["of"] == "channel" && row["cause"] == cause;
            rows.iter().find(of).unwrap()["count"].as_u64().unwrap()
        };
        let before = rows(&context).await;
        assert_eq!(count(&before, "not_listed"), 0, "a series from the start");
        let addresses = guard.addresses();
        stranger
            .connect(guard.node_id(), &addresses)
            .await
            .unwrap_err();
        let after = rows(&context).await;
        assert!(count(&after, "not_listed") > 0, "{after:?}");
        assert_eq!(count(&after, "busy"), 0);
        let relayed = after.iter().filter(|row| row["of"] == "relay");
        assert_eq!(relayed.count(), Reason::ALL.len() + 1);
    }
}
