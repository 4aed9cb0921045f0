//! Rows of a node, its paths and its streams.

use anabranch_base::{ChannelId, NodeId, Rate, text::printable};
use anabranch_net::Host;
use anabranch_session::{ChannelStatus, PathReport};
use serde_json::{Map, Value, json};

use super::{NAME_CHARS, ROWS_MAX, budgets, ms, promises};

/// Names of nodes in the configuration; the id of one that has none.
pub(super) type Names<'a> = dyn Fn(&NodeId) -> String + 'a;

pub(super) fn status(host: &Host, names: &Names<'_>) -> Vec<Value> {
    let (own, now) = (host.node_id().to_string(), host.clock().now());
    let mut rows = vec![json!({
        "kind": "node",
        "node": own,
        "uptime_s": now.as_secs_f64().round(),
        "uptime_ms": now.as_nanos() / 1_000_000,
        "addresses": host.addresses().iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        "sessions": host.sessions().len(),
    })];
    for socket in host.sockets() {
        rows.push(json!({
            "kind": "socket",
            "interface": socket.interface,
            "local": socket.local.to_string(),
            "is_up": socket.is_up,
            "is_retired": socket.is_retired,
            "batches_sent": socket.stats.batches_sent,
            "batches_overflowed": socket.stats.batches_overflowed,
            "packets_refused": socket.stats.packets_refused,
            "sent_packets": socket.stats.packets_sent,
            "sent_bytes": socket.stats.bytes_sent,
            "received_packets": socket.stats.packets_received,
            "received_bytes": socket.stats.bytes_received,
        }));
    }
    rows.extend(host.budgets().iter().map(budgets::row));
    for session in host.sessions() {
        rows.push(json!({
            "kind": "session",
            "session": session.stats.session.to_string(),
            "peer": session.stats.peer.to_string(),
            "peer_name": printable(&names(&session.stats.peer), NAME_CHARS),
            "is_incoming": session.stats.incoming,
            "wire_version": session.stats.wire_version,
            "policy": session.stats.policy.to_string(),
            "channels_active": session.stats.channels_active,
            "streams": session.stats.streams,
            "send_held_bytes": session.stats.send_held_bytes,
            "recv_held_bytes": session.stats.recv_held_bytes,
            "dropped_adus": by_cause(&session.stats.dropped.by_cause()),
        }));
    }
    rows
}

pub(super) fn paths(host: &Host, names: &Names<'_>) -> Vec<Value> {
    let (mut rows, now) = (Vec::new(), host.clock().now());
    for session in host.sessions() {
        let carried = |channel: &anabranch_session::ChannelReport| {
            channel.payload_sent_bytes + channel.payload_received_bytes
        };
        let total: u64 = session.channels.iter().map(carried).sum();
        for channel in &session.channels {
            let stats = &channel.stats;
            let mut row = json!({
                "session": session.stats.session.to_string(),
                "peer": session.stats.peer.to_string(),
            "peer_name": printable(&names(&session.stats.peer), NAME_CHARS),
                "channel": channel.channel.to_string(),
                "interface": channel.interface.as_deref(),
                "remote": channel.remote.to_string(),
                "state": match &channel.taken_out {
                    Some(_) if channel.state == ChannelStatus::Active => "out".to_owned(),
                    _ => channel.state.to_string(),
                },
                "is_out": channel.taken_out.is_some(),
                "out_by": channel.taken_out.as_ref().map(|order| order.by.to_string()),
                "out_for_ms": channel.taken_out.as_ref().and_then(|order| order.until)
                    .map(|until| ms(until.since(now))),
                "silent_s": channel.silent_since.map(|since| now.since(since).as_secs_f64().round()),
                "share_fraction": carried(channel) as f64 / total.max(1) as f64,
                "sent_bytes": channel.payload_sent_bytes,
                "received_bytes": channel.payload_received_bytes,
                "rtt_ms": ms(stats.rtt_smoothed),
                "rtt_min_ms": ms(stats.rtt_min),
                "rtt_variation_ms": ms(stats.rtt_variation),
                "rate_delivered_bps": stats.rate_delivered.as_bps(),
                "rate_paced_bps": stats.rate_paced.as_bps(),
                "window_bytes": stats.window_bytes,
                "in_flight_bytes": stats.in_flight_bytes,
                "mtu_bytes": stats.mtu_bytes,
                "loss_fraction": stats.loss_fraction(),
                "delay_variation_mean_ms": channel.delay_variation.map(|(_, mean, _)| ms(mean)),
            });
            if let Some(row) = row.as_object_mut() {
                add_measured(row, channel.path.as_ref());
                let taken = promises::taken_of(&session, channel.channel);
                row.insert("streams_promised_bps".into(), json!(taken.as_bps()));
            }
            rows.push(row);
        }
    }
    rows
}

/// Adds the estimates of the path; null where too little is known.
fn add_measured(row: &mut Map<String, Value>, path: Option<&PathReport>) {
    let bps = |rate: Option<Rate>| rate.map(|rate| rate.as_bps());
    row.insert("window_ms".into(), json!(path.map(|path| ms(path.window))));
    row.insert("windows".into(), json!(path.map_or(0, |path| path.samples)));
    let censored = path.map(|path| path.censored_fraction);
    row.insert("censored_fraction".into(), json!(censored));
    for (name, rate) in [
        ("mean", path.and_then(|path| path.bandwidth_mean)),
        ("p5", path.and_then(|path| path.bandwidth_p5)),
        ("p10", path.and_then(|path| path.bandwidth_p10)),
        ("p50", path.and_then(|path| path.bandwidth_p50)),
        ("p90", path.and_then(|path| path.bandwidth_p90)),
    ] {
        row.insert(format!("bandwidth_{name}_bps"), json!(bps(rate)));
    }
    for promise in path.iter().flat_map(|path| &path.promises) {
        let percent = (promise.probability * 100.0).round();
        let rate = json!(bps(promise.rate));
        row.insert(format!("promised_{percent}_bps"), rate);
        let kept = json!(promise.kept_fraction);
        row.insert(format!("kept_{percent}_fraction"), kept);
    }
    let rtt = path.and_then(|path| path.rtt_next_p95);
    row.insert("rtt_next_p95_ms".into(), json!(rtt.map(ms)));
    let lost = path.and_then(|path| path.loss_fraction);
    row.insert("loss_recent_fraction".into(), json!(lost));
    let burst = path.and_then(|path| path.burst_mean_packets);
    row.insert("loss_burst_packets".into(), json!(burst));
    let others = path.map_or(&[][..], |path| &path.shares_with);
    let names: Vec<String> = others.iter().map(ToString::to_string).collect();
    row.insert("shares_bottleneck_with".into(), json!(names.join(" ")));
}

fn by_cause(counts: &[(&str, u64)]) -> Value {
    let named = counts.iter();
    Value::Object(
        named
            .map(|(cause, count)| ((*cause).to_owned(), json!(count)))
            .collect(),
    )
}

fn by_channel(bytes: &[(ChannelId, u64)]) -> Value {
    let named = bytes
        .iter()
        .map(|(id, bytes)| (id.to_string(), json!(bytes)));
    Value::Object(named.collect())
}

pub(super) fn streams(host: &Host, names: &Names<'_>) -> Vec<Value> {
    let mut rows = Vec::new();
    for session in host.sessions() {
        for stream in &session.streams {
            if rows.len() >= ROWS_MAX {
                // One object for each of many streams would take far more memory than the streams.
                rows.push(Value::Null);
                continue;
            }
            let mut row = json!({
                "session": session.stats.session.to_string(),
                "peer": session.stats.peer.to_string(),
                "peer_name": printable(&names(&session.stats.peer), NAME_CHARS),
                "stream": stream.stream.to_string(),
                "label": printable(&stream.spec.label, NAME_CHARS),
                "is_reliable": stream.spec.reliable,
                "lifetime_ms": stream.spec.lifetime.map(ms),
                "priority": stream.spec.priority.0,
                "weight": stream.spec.weight,
                "cap_bps": stream.spec.cap.map(Rate::as_bps),
                "is_redundant": stream.spec.redundant,
                "sent_adus": stream.sent_adus,
                "sent_bytes": stream.sent_bytes,
                "acked_adus": stream.acked_adus,
                "lost_adus": stream.lost_adus,
                "expired_adus": stream.expired_adus,
                "shed_adus": stream.shed_adus,
                "repaired_bytes": stream.repaired_bytes,
                "copied_bytes": stream.copied_bytes,
                "backlog_bytes": stream.backlog_bytes,
                "acked_by_channel_bytes": by_channel(&stream.acked_by_channel),
                "received_adus": stream.received_adus,
                "received_bytes": stream.received_bytes,
                "duplicate_bytes": stream.duplicate_bytes,
            });
            let mut promises = session.promises.iter();
            let promise = promises.find(|found| found.stream == stream.stream);
            if let Some(row) = row.as_object_mut() {
                promises::add_to_stream(row, promise);
            }
            rows.push(row);
        }
    }
    rows
}
