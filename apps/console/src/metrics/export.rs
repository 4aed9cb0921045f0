//! A sample as families of metrics.

use std::collections::BTreeMap;

use prometheus_client::{
    encoding::{prometheus_text, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use super::{
    Form, Sample,
    rows::{Path, Status, Stream},
};

pub(super) type Labels = Vec<(&'static str, String)>;
pub(super) type Gauges = Family<Labels, Gauge<f64, std::sync::atomic::AtomicU64>>;
pub(super) type Counters = Family<Labels, Counter>;

/// Kinds of events, so that each has a series before it has happened.
const EVENTS: [&str; 6] = [
    "waits",
    "promised",
    "warned",
    "withdrawn",
    "changed",
    "closed",
];

/// The text of a sample.
pub(super) fn text(sample: &Sample, form: Form) -> String {
    let mut registry = Registry::with_prefix("anabranch");
    let build = gauges(
        &mut registry,
        "build_info",
        "1; the version of the node is its label",
        None,
    );
    set(&build, &vec![("version", sample.version.clone())], 1.0);
    status(&mut registry, &sample.status);
    refused(&mut registry, &sample.status);
    paths(&mut registry, &sample.paths);
    streams(&mut registry, &sample.streams);
    events(&mut registry, sample);
    drops(&mut registry, sample);
    encoded(&registry, form)
}

/// The text of all metrics.
pub(super) fn encoded(registry: &Registry, form: Form) -> String {
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = match form {
        Form::OpenMetrics => text::encode(&mut text, registry),
        Form::Prometheus => prometheus_text::encode(&mut text, registry),
    };
    text
}

pub(super) fn gauges(
    registry: &mut Registry,
    name: &str,
    help: &str,
    unit: Option<Unit>,
) -> Gauges {
    let family = Gauges::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
        None => registry.register(name, help, family.clone()),
    }
    family
}

pub(super) fn counters(
    registry: &mut Registry,
    name: &str,
    help: &str,
    unit: Option<Unit>,
) -> Counters {
    let family = Counters::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
        None => registry.register(name, help, family.clone()),
    }
    family
}

pub(super) fn rate() -> Option<Unit> {
    Some(Unit::Other("bytes_per_second".to_owned()))
}

pub(super) fn set(gauges: &Gauges, labels: &Labels, value: f64) {
    gauges.get_or_create(labels).set(value);
}

fn status(registry: &mut Registry, rows: &[Status]) {
    let uptime = gauges(
        registry,
        "uptime",
        "Time since the node was started",
        Some(Unit::Seconds),
    );
    let sessions = gauges(registry, "sessions", "Open sessions by peer", None);
    let held = gauges(
        registry,
        "session_held",
        "Memory for data to send and data to be read, by peer",
        Some(Unit::Bytes),
    );
    let up = gauges(
        registry,
        "interface_up",
        "1 if the interface can be used",
        None,
    );
    let bytes = counters(
        registry,
        "interface",
        "Payload of UDP packets by interface and direction",
        Some(Unit::Bytes),
    );
    let packets = counters(
        registry,
        "interface_packets",
        "UDP packets by interface and direction",
        None,
    );
    let dropped = counters(
        registry,
        "interface_dropped",
        "Packets the kernel refused, and batches for which it had no space, by interface and cause",
        None,
    );
    let used = gauges(
        registry,
        "quota_used",
        "Bytes sent in the billing period, by place",
        Some(Unit::Bytes),
    );
    let left = gauges(
        registry,
        "quota_left",
        "Bytes left in the billing period before sending stops, by place; none where it does not stop",
        Some(Unit::Bytes),
    );
    let spent = gauges(
        registry,
        "quota_spent",
        "1 if nothing may be sent there any more",
        None,
    );
    for row in rows {
        match row {
            Status::Node { uptime_s } => set(&uptime, &Vec::new(), *uptime_s),
            Status::Session {
                peer_name,
                send_held_bytes,
                recv_held_bytes,
                ..
            } => {
                let peer = vec![("peer", peer_name.clone())];
                sessions.get_or_create(&peer).inc();
                for (side, value) in [("send", send_held_bytes), ("receive", recv_held_bytes)] {
                    let labels = with(&peer, "direction", side);
                    held.get_or_create(&labels).inc_by(*value as f64);
                }
            }
            Status::Socket {
                interface,
                is_up,
                packets_refused,
                batches_overflowed,
                sent_bytes,
                sent_packets,
                received_bytes,
                received_packets,
            } => {
                // An interface may have several addresses, each with a socket.
                let name = vec![("interface", interface.clone().unwrap_or_default())];
                let state = up.get_or_create_owned(&name);
                state.set(state.get().max(f64::from(u8::from(*is_up))));
                for (family, direction, value) in [
                    (&bytes, "sent", sent_bytes),
                    (&bytes, "received", received_bytes),
                    (&packets, "sent", sent_packets),
                    (&packets, "received", received_packets),
                ] {
                    if let Some(value) = value {
                        let labels = with(&name, "direction", direction);
                        family.get_or_create(&labels).inc_by(*value);
                    }
                }
                for (cause, value) in [
                    ("refused", packets_refused),
                    ("no_space", batches_overflowed),
                ] {
                    let labels = with(&name, "cause", cause);
                    dropped.get_or_create(&labels).inc_by(*value);
                }
            }
            Status::Budget {
                place,
                used_bytes,
                left_bytes,
                is_spent,
            } => {
                let place = vec![("place", place.clone())];
                set(&used, &place, *used_bytes as f64);
                if let Some(bytes) = left_bytes {
                    set(&left, &place, *bytes as f64);
                }
                set(&spent, &place, f64::from(u8::from(*is_spent)));
            }
            Status::Refused { .. } | Status::Dropped { .. } | Status::Other => {}
        }
    }
}

fn refused(registry: &mut Registry, rows: &[Status]) {
    let requests = counters(
        registry,
        "refused",
        "Requests of peers that were refused since the node was started, by what they were for and cause",
        None,
    );
    let packets = counters(
        registry,
        "packets_dropped",
        "Packets that the relay or the tunnel of the node dropped since it was started, by place and cause",
        None,
    );
    for row in rows {
        let (family, of, cause, count) = match row {
            Status::Refused { of, cause, count } => (&requests, of, cause, count),
            Status::Dropped {
                of,
                cause,
                packets: count,
            } => (&packets, of, cause, count),
            _ => continue,
        };
        let labels = vec![("of", of.clone()), ("cause", cause.clone())];
        family.get_or_create(&labels).inc_by(*count);
    }
}

pub(super) fn with(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.to_owned()));
    labels
}

/// A field of a path, and the way in which those of several paths of one interface become one.
struct Figure {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    of: fn(&Path) -> Option<f64>,
    join: fn(f64, f64) -> f64,
}

fn figures() -> [Figure; 6] {
    let sum: fn(f64, f64) -> f64 = |one, other| one + other;
    [
        Figure {
            name: "path_rate",
            help: "Rate delivered, by peer and interface",
            unit: rate(),
            of: |path| path.rate_delivered_bps.map(|bps| bps / 8.0),
            join: sum,
        },
        Figure {
            name: "path_promised",
            help: "Rate that is promised to streams",
            unit: rate(),
            of: |path| path.streams_promised_bps.map(|bps| bps / 8.0),
            join: sum,
        },
        Figure {
            name: "path_bandwidth_p10",
            help: "Rate that nine of ten windows reach",
            unit: rate(),
            of: |path| path.bandwidth_p10_bps.map(|bps| bps / 8.0),
            join: sum,
        },
        Figure {
            name: "path_round_trip",
            help: "Smoothed round-trip time; the longest where an interface has several paths to the peer",
            unit: Some(Unit::Seconds),
            of: |path| path.rtt_ms.map(|ms| ms / 1e3),
            join: f64::max,
        },
        Figure {
            name: "path_loss",
            help: "Share of recent packets that were lost; the highest where there are several paths",
            unit: Some(Unit::Other("ratio".to_owned())),
            of: |path| path.loss_recent_fraction,
            join: f64::max,
        },
        Figure {
            name: "path_in_flight",
            help: "Bytes sent and not acknowledged",
            unit: Some(Unit::Bytes),
            of: |path| Some(path.in_flight_bytes as f64),
            join: sum,
        },
    ]
}

fn paths(registry: &mut Registry, rows: &[Path]) {
    let states = gauges(
        registry,
        "paths",
        "Paths by peer, interface and state",
        None,
    );
    let labels = |path: &Path| {
        vec![
            ("peer", path.peer_name.clone()),
            ("interface", path.interface.clone().unwrap_or_default()),
        ]
    };
    for path in rows {
        let labels = with(&labels(path), "state", &path.state);
        states.get_or_create(&labels).inc();
    }
    for figure in figures() {
        let family = gauges(registry, figure.name, figure.help, figure.unit);
        let mut joined = BTreeMap::<Labels, f64>::new();
        for path in rows {
            if let Some(value) = (figure.of)(path) {
                let join = |old: &mut f64| *old = (figure.join)(*old, value);
                joined.entry(labels(path)).and_modify(join).or_insert(value);
            }
        }
        for (labels, value) in &joined {
            set(&family, labels, *value);
        }
    }
}

fn streams(registry: &mut Registry, rows: &[Stream]) {
    let open = gauges(
        registry,
        "streams",
        "Open streams by peer and promise: none, waiting, renewable, durable, or warned",
        None,
    );
    let backlog = gauges(
        registry,
        "stream_backlog",
        "Bytes of streams that wait to be sent, by peer",
        Some(Unit::Bytes),
    );
    for stream in rows {
        let peer = vec![("peer", stream.peer_name.clone())];
        let promise = match &stream.promise {
            _ if stream.promise_is_warned == Some(true) => "warned",
            Some(state) => state,
            None => "none",
        };
        open.get_or_create(&with(&peer, "promise", promise)).inc();
        backlog
            .get_or_create(&peer)
            .inc_by(stream.backlog_bytes as f64);
    }
}

fn events(registry: &mut Registry, sample: &Sample) {
    let family = counters(
        registry,
        "promise_events",
        "Events of promises since the console was started, by kind",
        None,
    );
    for kind in EVENTS {
        drop(family.get_or_create(&vec![("event", kind.to_owned())]));
    }
    for (kind, count) in &sample.promise_events {
        let labels = vec![("event", kind.clone())];
        family.get_or_create(&labels).inc_by(*count);
    }
    let missed = counters(
        registry,
        "promise_events_missed",
        "Events of promises that came too fast to be counted",
        None,
    );
    missed
        .get_or_create(&Vec::new())
        .inc_by(sample.promise_events_missed);
}

fn drops(registry: &mut Registry, sample: &Sample) {
    let messages = counters(
        registry,
        "messages_dropped",
        "Messages that did not reach an application since the console was started, by peer and cause",
        None,
    );
    for (peer, cause, count) in &sample.dropped {
        let labels = vec![("peer", peer.clone()), ("cause", (*cause).to_owned())];
        messages.get_or_create(&labels).inc_by(*count);
    }
    let denied = counters(
        registry,
        "flows_denied",
        "Flows that a rule of the configuration denied, by rule",
        None,
    );
    for rule in &sample.rules {
        let name = rule.rule.clone().unwrap_or_else(|| "none".to_owned());
        denied
            .get_or_create(&vec![("rule", name)])
            .inc_by(rule.denied);
    }
}
