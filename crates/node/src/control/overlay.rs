//! Report of a node's overlay.

use serde_json::{Value, json};

use super::{PathsQuery, ms};
use crate::overlay::{LinkView, Load, MemberView, Overlay, PathFeedback, Source, State};

/// Most addresses, and most paths, that an asker may name; it cannot have been given more.
const PATHS_MAX: usize = 64;
/// Fastest rate that is believed, bit/s.
const RATE_MAX_BPS: u64 = 1_000_000_000_000;
/// Longest time between two questions that is believed.
const WINDOW_MAX_MS: u64 = 3_600_000;
/// Longest round trip that is believed.
const RTT_MAX_US: u64 = 100_000_000;
/// Largest message that paths are sought for: 1 PB.
const BYTES_MAX: u64 = 1_000_000_000_000_000;
/// Askers' numbers begin here; those below are the node's own.
const USERS_FROM: u64 = 1 << 32;

fn joined(overlay: Option<&Overlay>) -> Result<&Overlay, String> {
    overlay.ok_or_else(|| {
        "this node takes part in no overlay; list its members as [[overlay.member]] in its configuration".to_owned()
    })
}

/// Members, links, paths, relays and circuits.
pub(super) async fn list(overlay: Option<&Overlay>) -> Result<Vec<Value>, String> {
    Ok(rows(joined(overlay)?).await)
}

/// Paths to a member, for an application.
pub(super) async fn paths(
    overlay: Option<&Overlay>,
    query: &PathsQuery,
) -> Result<Vec<Value>, String> {
    let overlay = joined(overlay)?;
    let to = query
        .to
        .parse()
        .map_err(|error| format!("'{}': {error}", query.to))?;
    if query.user < USERS_FROM {
        return Err(format!(
            "'user' is below {USERS_FROM}; choose a larger number"
        ));
    }
    check(query)?;
    let feedback = PathFeedback {
        failed: query.failed.clone(),
        unanswered: query.unanswered.clone(),
        used: query.used.clone(),
    };
    let open = overlay.paths(query.user, to, query.bytes, feedback);
    let open = open.await.map_err(|error| error.to_string())?;
    let row = |path: &crate::overlay::OpenPath| {
        json!({
            "kind": "path",
            "to": overlay.name(&to),
            "via": via(overlay, &path.relays),
            "near": path.near.map(|near| near.to_string()),
            "bandwidth_bps": path.bandwidth.as_bps(),
            "delay_min_ms": ms(path.delay_min),
            "bytes": path.bytes,
        })
    };
    Ok(open.iter().map(row).collect())
}

/// Refuses values that no traffic can have.
fn check(paths: &PathsQuery) -> Result<(), String> {
    let lengths = [paths.failed.len(), paths.unanswered.len(), paths.used.len()];
    if lengths.iter().any(|&length| length > PATHS_MAX) {
        return Err(format!(
            "'failed', 'unanswered' and 'used' have {PATHS_MAX} entries at most"
        ));
    }
    if paths.bytes > BYTES_MAX {
        return Err(format!("'bytes' is above {BYTES_MAX}"));
    }
    for used in &paths.used {
        for (name, value, most) in [
            ("rate_bps", used.rate_bps, RATE_MAX_BPS),
            ("window_ms", used.window_ms, WINDOW_MAX_MS),
            ("rtt_min_us", used.rtt_min_us, RTT_MAX_US),
        ] {
            if value > most {
                return Err(format!(
                    "'{name}' of a path in 'used' is {value}; it is {most} at most"
                ));
            }
        }
    }
    Ok(())
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

/// Load of a node that processes streams.
fn load(load: &Load) -> Value {
    json!({
        "machine_share": load.machine,
        "cores": (load.cores > 0).then_some(load.cores),
        "operators_cores": load.operators,
        "memory_used": load.memory_used,
        "memory_bound": load.memory_bound,
        "queued_adus": load.queued_adus,
        "queued_bytes": load.queued_bytes,
        "unit_ps": (load.unit_ps > 0).then_some(load.unit_ps),
    })
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
            "last_received_s": view.last_received.map(|age| ms(age) / 1e3),
            "has_session": view.has_session,
            "load": view.load.as_ref().map(load),
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
        for path in &routes.paths {
            rows.push(json!({
                "kind": "path",
                "to": overlay.name(&routes.to),
                "via": via(overlay, &path.relays),
                "bandwidth_bps": path.bandwidth.as_bps(),
                "delay_min_ms": ms(path.delay_min),
                "bytes": path.bytes,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::PathUse;

    #[test]
    fn what_no_traffic_can_show_is_refused() {
        let with = |used: PathUse| PathsQuery {
            used: vec![used],
            ..PathsQuery::default()
        };
        let largest = PathUse {
            rate_bps: RATE_MAX_BPS,
            window_ms: WINDOW_MAX_MS,
            rtt_min_us: RTT_MAX_US,
            ..PathUse::default()
        };
        assert_eq!(check(&with(largest.clone())), Ok(()));
        for (wrong, word) in [
            (
                with(PathUse {
                    rate_bps: u64::MAX,
                    ..largest.clone()
                }),
                "rate_bps",
            ),
            (
                with(PathUse {
                    window_ms: u64::MAX,
                    ..largest.clone()
                }),
                "window_ms",
            ),
            (
                with(PathUse {
                    rtt_min_us: u64::MAX,
                    ..largest.clone()
                }),
                "rtt_min_us",
            ),
            (
                PathsQuery {
                    bytes: u64::MAX,
                    ..PathsQuery::default()
                },
                "bytes",
            ),
            (
                PathsQuery {
                    used: vec![largest; PATHS_MAX + 1],
                    ..PathsQuery::default()
                },
                "entries",
            ),
        ] {
            assert!(check(&wrong).unwrap_err().contains(word), "{word}");
        }
    }
}
