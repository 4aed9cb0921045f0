//! Metrics of a program that carries stored video, from its state.
//!
//! Labels are types of frames, causes, the two flows, and names of tickets; there is none by video or by play, which come and go
//! without end.

use std::{collections::BTreeMap, sync::atomic::AtomicU64};

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::{Registry, Unit},
};
use serde::Deserialize;

use super::{
    Form,
    export::{Labels, counters, encoded, gauges, rate, with},
};

/// Letters of types of frames, and their names; others are not counted.
const TYPES: [(&str, &str); 5] = [
    ("I", "intra"),
    ("P", "predicted"),
    ("B", "bidirectional"),
    ("A", "audio"),
    ("?", "other"),
];

/// State of an origin or a proxy.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct State {
    kind: String,
    version: String,
    uptime_s: f64,
    counters: Counts,
    /// At a proxy.
    origin: Option<Origin>,
    plays: Option<Plays>,
    cache: Option<Cache>,
    /// At an origin.
    proxies: Vec<Proxy>,
}

/// Counters; those that a program does not have are `None`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Counts {
    sessions: Option<u64>,
    plays: u64,
    refused: u64,
    failed: Option<u64>,
    essential_bytes: u64,
    enhanced_bytes: u64,
    frames: BTreeMap<String, Frames>,
    thinned_frames: u64,
    lost_on_the_way_frames: Option<u64>,
    repaired_frames: Option<u64>,
    lost_adus: Option<u64>,
    dropped_adus: Option<u64>,
    responses: Option<u64>,
    response_bytes: Option<u64>,
    at_once: Option<u64>,
    waits: Option<u64>,
    waited_ms: Option<u64>,
    stalls: Option<u64>,
    stalled_ms: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Frames {
    sent: Option<u64>,
    lost: Option<u64>,
    late: Option<u64>,
    left_out: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Origin {
    is_connected: bool,
    sessions: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Plays {
    running: u64,
    target_bps: f64,
    rate_bps: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cache {
    bytes: u64,
    prefix_bytes: u64,
    limit_bytes: u64,
    videos: u64,
    evicted: u64,
    damaged: u64,
    is_disk_usable: bool,
}

/// A session of an origin.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Proxy {
    ticket: String,
    running: u64,
    target_bps: f64,
    held_bps: f64,
    essential_rate_bps: f64,
    enhanced_rate_bps: f64,
}

/// The text of a state.
pub(super) fn text(state: &State, form: Form) -> String {
    let mut registry = Registry::with_prefix("anabranch_video");
    let families = &mut Families(&mut registry);
    let role = vec![
        ("role", state.kind.clone()),
        ("version", state.version.clone()),
    ];
    families.gauge(
        "build_info",
        "1; the version of the program and its role are labels",
        None,
        &[(role, 1.0)],
    );
    families.gauge(
        "uptime",
        "Time since the program was started",
        Some(Unit::Seconds),
        &[(Vec::new(), state.uptime_s)],
    );
    plays(families, state);
    data(families, &state.counters, &state.kind);
    frames(families, &state.counters);
    if let Some(cache) = &state.cache {
        cached(families, cache);
    }
    responses(families, &state.counters);
    encoded(&registry, form)
}

/// Registers families with all their series at once.
struct Families<'a>(&'a mut Registry);

impl Families<'_> {
    fn gauge(&mut self, name: &str, help: &str, unit: Option<Unit>, series: &[(Labels, f64)]) {
        let family = gauges(self.0, name, help, unit);
        for (labels, value) in series {
            // Several sessions may show one ticket.
            family.get_or_create(labels).inc_by(*value);
        }
    }

    fn counter(&mut self, name: &str, help: &str, unit: Option<Unit>, series: &[(Labels, u64)]) {
        let family = counters(self.0, name, help, unit);
        for (labels, value) in series {
            family.get_or_create(labels).inc_by(*value);
        }
    }

    /// A counter without labels, if the program has it.
    fn one(&mut self, name: &str, help: &str, unit: Option<Unit>, value: Option<u64>) {
        if let Some(value) = value {
            self.counter(name, help, unit, &[(Vec::new(), value)]);
        }
    }

    /// A counter of times in ms, if the program has it.
    fn time(&mut self, name: &str, help: &str, ms: Option<u64>) {
        if let Some(ms) = ms {
            let family = Family::<Labels, Counter<f64, AtomicU64>>::default();
            family.get_or_create(&Vec::new()).inc_by(ms as f64 / 1e3);
            self.0.register_with_unit(name, help, Unit::Seconds, family);
        }
    }
}

/// Plays, sessions, and rates by the other side: `origin` at a proxy, the name of the ticket at an origin.
fn plays(families: &mut Families<'_>, state: &State) {
    let peer = |name: &str| vec![("peer", name.to_owned())];
    let mut rows = Vec::new();
    if let Some(plays) = &state.plays {
        rows.push((
            peer("origin"),
            [
                plays.running as f64,
                plays.target_bps / 8.0,
                plays.rate_bps / 8.0,
            ],
        ));
    }
    for proxy in &state.proxies {
        let delivered = proxy.essential_rate_bps + proxy.enhanced_rate_bps;
        rows.push((
            peer(&proxy.ticket),
            [
                proxy.running as f64,
                proxy.target_bps / 8.0,
                delivered / 8.0,
            ],
        ));
    }
    let column = |index: usize| -> Vec<(Labels, f64)> {
        let cells = rows.iter();
        cells
            .map(|(labels, values)| (labels.clone(), values[index]))
            .collect()
    };
    families.gauge(
        "plays",
        "Plays over the pipe, by the other side",
        None,
        &column(0),
    );
    families.gauge(
        "target",
        "Rate that the plays need, by the other side",
        rate(),
        &column(1),
    );
    families.gauge(
        "rate",
        "Rate of the plays that came in time (proxy) or left and arrived (origin), by the other side",
        rate(),
        &column(2),
    );
    let held = state.proxies.iter();
    let held: Vec<_> = held
        .map(|proxy| (peer(&proxy.ticket), proxy.held_bps / 8.0))
        .collect();
    let sessions = state.proxies.iter();
    let sessions: Vec<_> = sessions.map(|proxy| (peer(&proxy.ticket), 1.0)).collect();
    if state.origin.is_none() {
        families.gauge(
            "held",
            "Rate that the paths to a proxy are held to",
            rate(),
            &held,
        );
        families.gauge("sessions", "Sessions by ticket", None, &sessions);
    }
    let counts = &state.counters;
    families.one(
        "plays_begun",
        "Plays that were begun",
        None,
        Some(counts.plays),
    );
    let causes = [
        ("capacity", Some(counts.refused)),
        ("unreadable", counts.failed),
    ];
    let causes: Vec<_> = causes
        .into_iter()
        .filter_map(|(cause, count)| Some((vec![("cause", cause.to_owned())], count?)))
        .collect();
    families.counter(
        "plays_refused",
        "Plays that were refused or given up, by cause",
        None,
        &causes,
    );
    let opened = state.origin.as_ref().map(|origin| origin.sessions);
    families.one(
        "sessions_opened",
        "Sessions with the other side so far",
        None,
        opened.or(counts.sessions),
    );
    if let Some(origin) = &state.origin {
        let value = f64::from(u8::from(origin.is_connected));
        families.gauge(
            "origin_connected",
            "1 if there is a session with the origin",
            None,
            &[(Vec::new(), value)],
        );
    }
}

/// Bytes of the two flows: sent by an origin, received by a proxy.
fn data(families: &mut Families<'_>, counts: &Counts, kind: &str) {
    let (name, help) = match kind {
        "origin" => ("sent", "Data sent, by flow"),
        _ => ("received", "Data received, by flow"),
    };
    let flow = |name: &str| vec![("flow", name.to_owned())];
    let series = [
        (flow("essential"), counts.essential_bytes),
        (flow("enhanced"), counts.enhanced_bytes),
    ];
    families.counter(name, help, Some(Unit::Bytes), &series);
}

/// Frames by type, and those that were dropped by cause.
fn frames(families: &mut Families<'_>, counts: &Counts) {
    type Count = fn(&Frames) -> Option<u64>;
    let columns: [(&str, &str, Count); 4] = [
        (
            "frames",
            "Frames of chunks that were sent, by type",
            |frames| frames.sent,
        ),
        (
            "frames_lost",
            "Frames of them that did not arrive in time, by type",
            |frames| frames.lost,
        ),
        (
            "frames_late",
            "Frames of them that arrived too late, by type",
            |frames| frames.late,
        ),
        (
            "frames_left_out",
            "Frames left out of responses to players, whether lost or useless without a lost one, by type",
            |frames| frames.left_out,
        ),
    ];
    for (name, help, of) in columns {
        let series: Vec<_> = TYPES
            .into_iter()
            .filter_map(|(letter, name)| {
                let count = of(counts.frames.get(letter)?)?;
                Some((vec![("type", name.to_owned())], count))
            })
            .collect();
        if !series.is_empty() {
            families.counter(name, help, None, &series);
        }
    }
    let cause =
        |name: &'static str, count: Option<u64>| Some((with(&Vec::new(), "cause", name), count?));
    let series: Vec<_> = [
        cause("no_capacity", Some(counts.thinned_frames)),
        cause("lost", counts.lost_on_the_way_frames),
    ]
    .into_iter()
    .flatten()
    .collect();
    families.counter(
        "frames_dropped",
        "Frames that were not sent for lack of capacity, or lost on the way, by cause",
        None,
        &series,
    );
    families.one(
        "frames_repaired",
        "Lost frames that came in time when they were requested again",
        None,
        counts.repaired_frames,
    );
    let series: Vec<_> = [
        cause("lost", counts.lost_adus),
        cause("no_capacity", counts.dropped_adus),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !series.is_empty() {
        families.counter(
            "messages_dropped",
            "Messages of enhanced flows that were lost on the way, or not sent or too late for lack of capacity, by cause",
            None,
            &series,
        );
    }
}

fn cached(families: &mut Families<'_>, cache: &Cache) {
    let bytes = || Some(Unit::Bytes);
    let one = |value: f64| [(Vec::new(), value)];
    families.gauge(
        "cache",
        "Data in the cache",
        bytes(),
        &one(cache.bytes as f64),
    );
    families.gauge(
        "cache_prefix",
        "Beginnings and indexes of videos in the cache",
        bytes(),
        &one(cache.prefix_bytes as f64),
    );
    families.gauge(
        "cache_limit",
        "Size of the cache",
        bytes(),
        &one(cache.limit_bytes as f64),
    );
    families.gauge(
        "cache_videos",
        "Videos in the cache",
        None,
        &one(cache.videos as f64),
    );
    families.gauge(
        "cache_usable",
        "1 if the disk accepts data",
        None,
        &one(f64::from(u8::from(cache.is_disk_usable))),
    );
    let cause = |name: &str| vec![("cause", name.to_owned())];
    let series = [
        (cause("evicted"), cache.evicted),
        (cause("damaged"), cache.damaged),
    ];
    families.counter(
        "cache_dropped",
        "Parts dropped from the cache, by cause",
        None,
        &series,
    );
}

/// Services of a proxy for players.
fn responses(families: &mut Families<'_>, counts: &Counts) {
    families.one("responses", "Responses to players", None, counts.responses);
    families.one(
        "response",
        "Video data in responses",
        Some(Unit::Bytes),
        counts.response_bytes,
    );
    let from = |name: &str| vec![("from", name.to_owned())];
    let chunks: Vec<_> = [("cache", counts.at_once), ("origin", counts.waits)]
        .into_iter()
        .filter_map(|(name, count)| Some((from(name), count?)))
        .collect();
    if !chunks.is_empty() {
        families.counter(
            "chunks",
            "Requests for chunks that were answered: at once from the cache, or when the origin had sent them",
            None,
            &chunks,
        );
    }
    families.time(
        "waited",
        "Time for which requests waited for the origin",
        counts.waited_ms,
    );
    families.one(
        "stalls",
        "Stalls of players, as far as the proxy can tell",
        None,
        counts.stalls,
    );
    families.time(
        "stalled",
        "Time for which players had nothing to play",
        counts.stalled_ms,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(state: &serde_json::Value) -> Vec<String> {
        let state: State = serde_json::from_value(state.clone()).unwrap();
        let text = text(&state, Form::Prometheus);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn a_proxy_has_its_counters_in_base_units() {
        let lines = lines(&serde_json::json!({
            "kind": "proxy", "version": "7.0", "uptime_s": 2.5,
            "origin": { "is_connected": true, "sessions": 3 },
            "plays": { "running": 2, "target_bps": 8_000, "rate_bps": 4_000 },
            "counters": {
                "plays": 5, "refused": 1, "essential_bytes": 10, "enhanced_bytes": 20,
                "frames": { "I": { "sent": 4, "lost": 0, "late": 0, "left_out": 1 }, "X": { "sent": 9 } },
                "thinned_frames": 6, "lost_on_the_way_frames": 7, "stalls": 2, "stalled_ms": 1_500, "at_once": 8, "waits": 9,
            },
            "cache": { "bytes": 100, "is_disk_usable": true },
        }));
        for line in [
            "anabranch_video_origin_connected 1.0",
            "anabranch_video_plays{peer=\"origin\"} 2.0",
            "anabranch_video_target_bytes_per_second{peer=\"origin\"} 1000.0",
            "anabranch_video_plays_refused_total{cause=\"capacity\"} 1",
            "anabranch_video_received_bytes_total{flow=\"enhanced\"} 20",
            "anabranch_video_frames_total{type=\"intra\"} 4",
            "anabranch_video_frames_left_out_total{type=\"intra\"} 1",
            "anabranch_video_frames_dropped_total{cause=\"no_capacity\"} 6",
            "anabranch_video_frames_dropped_total{cause=\"lost\"} 7",
            "anabranch_video_stalled_seconds_total 1.5",
            "anabranch_video_chunks_total{from=\"cache\"} 8",
            "anabranch_video_chunks_total{from=\"origin\"} 9",
            "anabranch_video_cache_bytes 100.0",
        ] {
            assert!(
                lines.iter().any(|own| own == line),
                "no {line} in {lines:#?}"
            );
        }
        assert!(
            !lines.iter().any(|line| line.contains("\"X\"")),
            "{lines:#?}"
        );
    }

    #[test]
    fn sessions_with_one_ticket_are_one_series() {
        let proxy = serde_json::json!({
            "ticket": "near", "running": 2, "held_bps": 800, "target_bps": 80,
            "essential_rate_bps": 8, "enhanced_rate_bps": 16,
        });
        let lines = lines(&serde_json::json!({
            "kind": "origin", "proxies": [proxy, proxy], "counters": { "failed": 1, "lost_adus": 2 },
        }));
        for line in [
            "anabranch_video_plays{peer=\"near\"} 4.0",
            "anabranch_video_sessions{peer=\"near\"} 2.0",
            "anabranch_video_held_bytes_per_second{peer=\"near\"} 200.0",
            "anabranch_video_rate_bytes_per_second{peer=\"near\"} 6.0",
            "anabranch_video_plays_refused_total{cause=\"unreadable\"} 1",
            "anabranch_video_messages_dropped_total{cause=\"lost\"} 2",
        ] {
            assert!(
                lines.iter().any(|own| own == line),
                "no {line} in {lines:#?}"
            );
        }
    }
}
