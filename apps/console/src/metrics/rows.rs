//! Rows of the control socket, as far as metrics need them. Fields that a node does not have are absent, not errors.

use std::collections::BTreeMap;

use serde::Deserialize;

/// An answer with rows of one kind.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub(super) struct Answer<T> {
    #[serde(default)]
    pub(super) version: String,
    #[serde(default = "Vec::new")]
    pub(super) rows: Vec<Option<T>>,
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// Row of `status`.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Status {
    Node {
        #[serde(default)]
        uptime_s: f64,
    },
    Socket {
        interface: Option<String>,
        #[serde(default)]
        is_up: bool,
        #[serde(default)]
        packets_refused: u64,
        #[serde(default)]
        batches_overflowed: u64,
        sent_bytes: Option<u64>,
        sent_packets: Option<u64>,
        received_bytes: Option<u64>,
        received_packets: Option<u64>,
    },
    Budget {
        place: String,
        #[serde(default)]
        used_bytes: u64,
        left_bytes: Option<u64>,
        #[serde(default)]
        is_spent: bool,
    },
    Session {
        #[serde(default)]
        session: String,
        #[serde(default)]
        peer_name: String,
        #[serde(default)]
        send_held_bytes: u64,
        #[serde(default)]
        recv_held_bytes: u64,
        #[serde(default)]
        dropped_adus: BTreeMap<String, u64>,
    },
    Refused {
        of: String,
        cause: String,
        #[serde(default)]
        count: u64,
    },
    Dropped {
        of: String,
        cause: String,
        #[serde(default)]
        packets: u64,
    },
    #[serde(other)]
    Other,
}

/// Row of `paths`.
#[derive(Debug, Deserialize)]
pub(super) struct Path {
    #[serde(default)]
    pub(super) peer_name: String,
    pub(super) interface: Option<String>,
    #[serde(default)]
    pub(super) state: String,
    pub(super) rtt_ms: Option<f64>,
    pub(super) rate_delivered_bps: Option<f64>,
    pub(super) loss_recent_fraction: Option<f64>,
    pub(super) streams_promised_bps: Option<f64>,
    pub(super) bandwidth_p10_bps: Option<f64>,
    #[serde(default)]
    pub(super) in_flight_bytes: u64,
}

/// Row of `streams`.
#[derive(Debug, Deserialize)]
pub(super) struct Stream {
    #[serde(default)]
    pub(super) peer_name: String,
    #[serde(default)]
    pub(super) backlog_bytes: u64,
    pub(super) promise: Option<String>,
    #[serde(default)]
    pub(super) promise_is_warned: Option<bool>,
}

/// Row of `flow_rules`.
#[derive(Debug, Deserialize)]
pub(super) struct Rule {
    /// `None`: what no rule matched.
    pub(super) rule: Option<String>,
    #[serde(default)]
    pub(super) denied: u64,
}

/// Row of `promise_events`.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Event {
    Position {
        next: u64,
        #[serde(default)]
        missed: u64,
    },
    #[serde(rename = "promise_event")]
    Happened { event: String },
    #[serde(other)]
    Other,
}
