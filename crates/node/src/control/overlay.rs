//! What a node tells of its overlay.

use serde_json::{Value, json};

use super::{Question, ms};
use crate::overlay::{LinkView, MemberView, News, Overlay, Source, State};

/// Askers' numbers begin here; those below are the node's own.
const USERS_FROM: u64 = 1 << 32;

pub(super) async fn answer(
    overlay: Option<&Overlay>,
    question: &Question,
) -> Result<Vec<Value>, String> {
    let overlay = overlay.ok_or(
        "this node takes part in no overlay; list its members as [[overlay.member]] in its configuration",
    )?;
    match (question.show.as_str(), &question.ways) {
        ("overlay", _) => Ok(rows(overlay).await),
        ("overlay_ways", Some(ways)) => {
            let to = ways
                .to
                .parse()
                .map_err(|error| format!("'{}': {error}", ways.to))?;
            if ways.user < USERS_FROM {
                return Err(format!(
                    "'user' is below {USERS_FROM}; choose a larger number"
                ));
            }
            let news = News {
                failed: ways.failed.clone(),
                unanswered: ways.unanswered.clone(),
                used: ways.used.clone(),
            };
            let open = overlay.ways(ways.user, to, ways.bytes, news);
            let open = open.await.map_err(|error| error.to_string())?;
            let row = |way: &crate::overlay::OpenWay| {
                json!({
                    "kind": "way",
                    "to": overlay.name(&to),
                    "via": via(overlay, &way.relays),
                    "near": way.near.map(|near| near.to_string()),
                    "bandwidth_bps": way.bandwidth.as_bps(),
                    "delay_min_ms": ms(way.delay_min),
                    "bytes": way.bytes,
                })
            };
            Ok(open.iter().map(row).collect())
        }
        _ => Err("'overlay_ways' goes with 'ways'".to_owned()),
    }
}

fn via(overlay: &Overlay, relays: &[anabranch_base::NodeId]) -> String {
    if relays.is_empty() {
        return "direct".to_owned();
    }
    let names: Vec<String> = relays.iter().map(|relay| overlay.name(relay)).collect();
    names.join(" > ")
}

const fn state(state: State) -> &'static str {
    match state {
        State::Unknown => "unknown",
        State::Alive => "alive",
        State::Suspect => "suspect",
        State::Down => "down",
        State::Left => "left",
    }
}

fn source(source: Source) -> String {
    format!("{source:?}").to_lowercase()
}

async fn rows(overlay: &Overlay) -> Vec<Value> {
    let member = |view: &MemberView| {
        json!({
            "kind": "member",
            "name": overlay.name(&view.node),
            "node": view.node.to_string(),
            "state": state(view.state),
            "version": view.version,
            "record_age_s": view.record_age.map(|age| ms(age) / 1e3),
            "heard_s": view.heard.map(|age| ms(age) / 1e3),
            "has_session": view.has_session,
        })
    };
    let link = |view: &LinkView| {
        json!({
            "kind": "link",
            "from": overlay.name(&view.from),
            "to": overlay.name(&view.to),
            "bandwidth_bps": view.bandwidth.as_bps(),
            "delay_min_ms": ms(view.delay_min),
            "deviation_fraction": view.deviation,
            "age_s": ms(view.age) / 1e3,
            "source": source(view.source),
            "trust": view.trust,
        })
    };
    let mut rows: Vec<Value> = overlay.members().await.iter().map(member).collect();
    rows.extend(overlay.links().await.iter().map(link));
    for routes in overlay.routes().await {
        for way in &routes.ways {
            rows.push(json!({
                "kind": "way",
                "to": overlay.name(&routes.to),
                "via": via(overlay, &way.relays),
                "bandwidth_bps": way.bandwidth.as_bps(),
                "delay_min_ms": ms(way.delay_min),
                "bytes": way.bytes,
                "finish_s": ms(routes.finish) / 1e3,
            }));
        }
    }
    if let Some(report) = overlay.relayed().await {
        rows.push(json!({
            "kind": "relay",
            "circuits": report.circuits.len(),
            "ports": report.ports,
            "headroom_bps": report.headroom.as_bps(),
        }));
        for circuit in &report.circuits {
            rows.push(json!({
                "kind": "circuit",
                "circuit": circuit.circuit.to_string(),
                "source": overlay.name(&circuit.source),
                "to": overlay.name(&circuit.next),
                "near": circuit.near.to_string(),
                "towards": circuit.towards.to_string(),
                "rate_bps": circuit.rate.as_bps(),
                "outward_bytes": circuit.account.outward.bytes,
                "back_bytes": circuit.account.back.bytes,
                "left_s": ms(circuit.left) / 1e3,
            }));
        }
    }
    rows
}
