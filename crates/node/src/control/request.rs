//! Requests of the control socket.

use serde::{Deserialize, Serialize};

use crate::spec::SpecText;

/// A request to a running node: a line of JSON, such as `{"show":"explain","stream":"4"}`.
///
/// `session` names the session that the request is about, such as `session-0` or `0`; `None`: all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "show", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// State of the node, its sockets, budgets and sessions.
    Status {},
    /// Channels of all sessions.
    Paths {},
    /// Streams of all sessions.
    Streams {},
    /// Rights that other nodes have here.
    Rights {},
    /// Open flows of the gateway.
    Flows {},
    /// Rules for flows, and what happened under each.
    FlowRules {},
    /// A new link to the node's console.
    ConsoleLink {},
    /// Reads the configuration again and applies its rights and peers.
    Reload {},
    /// The configuration in force, with the source of each value.
    Config {},
    /// Measures the round trip of every path to a peer.
    Ping {
        /// The peer, by its name in the configuration, or by its id.
        peer: String,
        /// Time to wait for replies in milliseconds, 10,000 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// The answer that a stream would get if it were opened.
    Admit {
        /// The stream, which is not opened.
        spec: Box<SpecText>,
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// Reasons for the promise of a stream, or for its refusal.
    Explain {
        /// The stream, such as `stream-4` or `4`.
        stream: String,
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// Events of promises over the last weeks, oldest first.
    PromiseHistory {
        /// Only of streams with this label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// Only the last so many milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_ms: Option<u64>,
    },
    /// Events of promises from a number on.
    PromiseEvents {
        /// The first number, from the answer before; without it, none are returned but the number to begin with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
    },
    /// Objectives in force.
    Objectives {
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// Labels, fields, technologies and attributes that objectives can refer to.
    Provided {
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// The next plan of a session that follows objectives, as a schedule in JSON.
    Cycle {
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Least number of ADUs that wait in it; without it, one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        adus: Option<usize>,
        /// Time to wait for it in milliseconds, 60,000 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// Applies objectives.
    ObjectiveAdd {
        /// Objectives in HOSE.
        text: String,
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// Removes an objective.
    ObjectiveRemove {
        /// Its number.
        objective: String,
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// Begins the transcript of a session anew.
    Record {
        /// The session; `None`: the only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Memory in bytes, 64 KiB to 32 MiB; 0: the recording ends, and goes on as the node is configured.
        bytes: u64,
    },
    /// The transcript of a session so far, in base 32. Without `session`, there must be one transcript only.
    Transcript {
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// Bytes of that transcript so far.
    TranscriptSize {
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// Takes a path out of use: it carries no data of streams.
    PathOut {
        /// Its channel, such as `channel-2` or `2`.
        channel: String,
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Time after which it is used again, in milliseconds; `None`: when it is taken in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_ms: Option<u64>,
        /// Even if it is the last path of its session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Uses a path again.
    PathIn {
        /// Its channel.
        channel: String,
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// Changes an open stream.
    StreamSet {
        /// The stream, such as `stream-4` or `4`.
        stream: String,
        /// See [`Request`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// The changes.
        set: StreamChanges,
    },
    /// Members, links, paths, relays and circuits of the overlay.
    Overlay {},
    /// Paths to a member of the overlay, for an application that sends on them.
    OverlayPaths {
        /// The query.
        paths: PathsQuery,
    },
}

/// Changes to an open stream; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamChanges {
    /// Rate to be guaranteed, such as `4 Mbit/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Share of the windows in which it is, such as `95 %`; that, if the stream had no guarantee.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<String>,
    /// The guarantee is given up.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub release: bool,
    /// A guarantee that cannot be promised yet is waited for, and not refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Share among streams of equal priority; 1 to 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// `scavenger`, `bulk`, `normal`, `urgent`, or 0 to 255; from the next packet on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// Time after which a message is of no use, such as `300 ms`, or `none`; for messages that are sent from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<String>,
    /// Rate limit, or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// Every packet is sent on every path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redundant: Option<bool>,
}

/// Query for paths of the overlay, by an application that uses them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathsQuery {
    /// The member to be reached.
    pub to: String,
    /// A number that the application chose at random and keeps.
    pub user: u64,
    /// Approximate number of bytes to be sent.
    pub bytes: u64,
    /// Addresses of an earlier answer that failed.
    #[serde(default)]
    pub failed: Vec<std::net::SocketAddr>,
    /// Addresses of an earlier answer from which nothing has been received yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<std::net::SocketAddr>,
    /// Measurements of its own traffic on them since the last query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<crate::overlay::PathUse>,
}

impl Request {
    /// True for requests that change something; the node logs them with their user.
    pub(super) const fn is_act(&self) -> bool {
        matches!(
            self,
            Self::Reload {}
                | Self::ObjectiveAdd { .. }
                | Self::ObjectiveRemove { .. }
                | Self::PathOut { .. }
                | Self::PathIn { .. }
                | Self::StreamSet { .. }
        )
    }

    /// Its value of `show`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Status {} => "status",
            Self::Paths {} => "paths",
            Self::Streams {} => "streams",
            Self::Rights {} => "rights",
            Self::Flows {} => "flows",
            Self::FlowRules {} => "flow_rules",
            Self::ConsoleLink {} => "console_link",
            Self::Reload {} => "reload",
            Self::Config {} => "config",
            Self::Ping { .. } => "ping",
            Self::Admit { .. } => "admit",
            Self::Explain { .. } => "explain",
            Self::PromiseHistory { .. } => "promise_history",
            Self::PromiseEvents { .. } => "promise_events",
            Self::Objectives { .. } => "objectives",
            Self::Provided { .. } => "provided",
            Self::Cycle { .. } => "cycle",
            Self::ObjectiveAdd { .. } => "objective_add",
            Self::ObjectiveRemove { .. } => "objective_remove",
            Self::Record { .. } => "record",
            Self::Transcript { .. } => "transcript",
            Self::TranscriptSize { .. } => "transcript_size",
            Self::PathOut { .. } => "path_out",
            Self::PathIn { .. } => "path_in",
            Self::StreamSet { .. } => "stream_set",
            Self::Overlay {} => "overlay",
            Self::OverlayPaths { .. } => "overlay_paths",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_named_as_it_is_written() {
        let session = || Some("0".to_owned());
        let all = [
            Request::Status {},
            Request::Paths {},
            Request::Streams {},
            Request::Rights {},
            Request::Flows {},
            Request::FlowRules {},
            Request::ConsoleLink {},
            Request::Reload {},
            Request::Config {},
            Request::Ping {
                peer: "ship".to_owned(),
                within_ms: None,
            },
            Request::Admit {
                spec: Box::default(),
                session: None,
            },
            Request::Explain {
                stream: "4".to_owned(),
                session: session(),
            },
            Request::PromiseHistory {
                label: Some("video".to_owned()),
                last_ms: None,
            },
            Request::PromiseEvents { from: Some(7) },
            Request::Objectives { session: None },
            Request::Provided { session: session() },
            Request::Cycle {
                session: session(),
                adus: Some(4),
                within_ms: None,
            },
            Request::ObjectiveAdd {
                text: "hose 2".to_owned(),
                session: session(),
            },
            Request::ObjectiveRemove {
                objective: "1".to_owned(),
                session: session(),
            },
            Request::Record {
                session: session(),
                bytes: 1 << 20,
            },
            Request::Transcript { session: None },
            Request::TranscriptSize { session: None },
            Request::PathOut {
                channel: "channel-2".to_owned(),
                session: None,
                for_ms: Some(5_000),
                force: true,
            },
            Request::PathIn {
                channel: "2".to_owned(),
                session: session(),
            },
            Request::StreamSet {
                stream: "4".to_owned(),
                session: None,
                set: StreamChanges {
                    rate: Some("4 Mbit/s".to_owned()),
                    cap: Some("none".to_owned()),
                    ..StreamChanges::default()
                },
            },
            Request::Overlay {},
            Request::OverlayPaths {
                paths: PathsQuery {
                    user: u64::MAX,
                    ..PathsQuery::default()
                },
            },
        ];
        for request in all {
            let text = serde_json::to_string(&request).unwrap();
            assert!(text.contains(&format!("\"show\":\"{}\"", request.name())));
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        }
    }
}
