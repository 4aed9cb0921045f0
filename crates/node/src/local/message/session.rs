//! Events of sessions in messages. Causes are open: a reader takes a kind that it does not know for an error of the protocol, with its
//! text.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{ChannelId, NodeId, SocketId, StreamId};
use anabranch_net::SessionEvent;
use anabranch_session::{
    Attempt, Attempts, ChannelReport, CloseReason, ObjectiveId, SessionCloseReason, Undeliverable,
    hose::Faults,
};
use serde::{Deserialize, Serialize};

use super::{EventBody, RefusalBody, event::ns};

/// A path of a session, and the bytes that it carried of all streams of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathBody {
    /// Number of its channel.
    pub channel: u64,
    /// Both ends, such as `wlan0 → 203.0.113.7:4433`.
    pub path: String,
    /// Status of the channel, such as `active`.
    pub state: String,
    /// Application bytes sent on it, repairs and copies included.
    pub sent_bytes: u64,
    /// Application bytes received on it, duplicates included.
    pub received_bytes: u64,
    /// Smoothed round-trip time, in nanoseconds.
    pub rtt_ns: u64,
}

impl From<&ChannelReport> for PathBody {
    fn from(report: &ChannelReport) -> Self {
        Self {
            channel: report.channel.0,
            path: report.ends(),
            state: report.state.to_string(),
            sent_bytes: report.payload_sent_bytes,
            received_bytes: report.payload_received_bytes,
            rtt_ns: ns(report.stats.rtt_smoothed),
        }
    }
}

/// Cause of the end of a session or a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CauseBody {
    /// The cause; `spec/local.md` has the list.
    pub kind: String,
    /// The cause in words.
    pub text: String,
    /// With `peer`: the peer's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u64>,
    /// With `peer`, `protocol` and `fault`: explanation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// With `timed_out` of a session: time without a path; with `unreachable` and `no_reply`: time of the attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_ns: Option<u64>,
    /// With `version`: the peer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// With `unreachable`: cause of the end of a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<Box<Self>>,
    /// With `unreachable`: result on each link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptBody>,
    /// With `other_node`, `stranger` and `not_listed`: the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// Result of the attempts on one link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptBody {
    /// Number of the local socket.
    pub socket: u64,
    /// Its interface, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Cause of the end of the latest channel; `None`: nothing has come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<CauseBody>,
}

impl AttemptBody {
    fn of(attempt: &Attempt) -> Self {
        Self {
            socket: attempt.socket.0,
            interface: attempt.interface.as_ref().map(ToString::to_string),
            remote: attempt.remote,
            cause: attempt.failure.as_ref().map(CauseBody::of_channel),
        }
    }

    fn into_attempt(self) -> Attempt {
        Attempt {
            socket: SocketId(self.socket),
            interface: self.interface.map(Into::into),
            remote: self.remote,
            failure: self.cause.map(CauseBody::into_channel),
        }
    }
}

/// Kinds of reports that packets cannot be delivered.
const UNDELIVERABLE: [(Undeliverable, &str); 4] = [
    (Undeliverable::Port, "port_unreachable"),
    (Undeliverable::Host, "host_unreachable"),
    (Undeliverable::Network, "network_unreachable"),
    (Undeliverable::Prohibited, "prohibited"),
];

impl CauseBody {
    fn new(kind: &str, cause: &impl ToString) -> Self {
        Self {
            kind: kind.to_owned(),
            text: cause.to_string(),
            ..Self::default()
        }
    }

    /// The message of a channel's end.
    pub fn of_channel(cause: &CloseReason) -> Self {
        let new = |kind| Self::new(kind, cause);
        match cause {
            CloseReason::Local => new("local"),
            CloseReason::Peer { code, reason } => Self {
                code: Some(*code),
                reason: Some(reason.clone()),
                ..new("peer")
            },
            CloseReason::TimedOut => new("timed_out"),
            CloseReason::Reset => new("reset"),
            CloseReason::NoReply(after) => Self {
                after_ns: Some(ns(*after)),
                ..new("no_reply")
            },
            CloseReason::Undeliverable(report) => {
                let kind = UNDELIVERABLE.iter().find(|(known, _)| known == report);
                new(kind.map_or("unknown", |(_, kind)| kind))
            }
            CloseReason::OtherNode(node) => Self {
                node: Some(node.to_string()),
                ..new("other_node")
            },
            CloseReason::NotListed => new("not_listed"),
            CloseReason::Stranger(node) => Self {
                node: Some(node.to_string()),
                ..new("stranger")
            },
            CloseReason::Unauthorized => new("unauthorized"),
            CloseReason::WireFormat => new("wire_format"),
            CloseReason::Protocol(reason) => Self {
                reason: Some(reason.clone()),
                ..new("protocol")
            },
            CloseReason::Fault(reason) => Self {
                reason: Some(reason.clone()),
                ..new("fault")
            },
        }
    }

    /// The message of a session's end.
    pub fn of_session(cause: &SessionCloseReason) -> Self {
        let new = |kind| Self::new(kind, cause);
        match cause {
            SessionCloseReason::Local => new("local"),
            SessionCloseReason::Peer { code, reason } => Self {
                code: Some(*code),
                reason: Some(reason.clone()),
                ..new("peer")
            },
            SessionCloseReason::TimedOut(after) => Self {
                after_ns: Some(ns(*after)),
                ..new("timed_out")
            },
            SessionCloseReason::Unreachable(attempts) => {
                let failure = attempts.links.iter().find_map(|one| one.failure.as_ref());
                Self {
                    channel: failure.map(|failure| Box::new(Self::of_channel(failure))),
                    after_ns: Some(ns(attempts.after)),
                    attempts: attempts.links.iter().map(AttemptBody::of).collect(),
                    ..new("unreachable")
                }
            }
            SessionCloseReason::NotListed(node) => Self {
                node: Some(node.to_string()),
                ..new("not_listed")
            },
            SessionCloseReason::Forgotten => new("forgotten"),
            SessionCloseReason::Version(version) => Self {
                version: Some(*version),
                ..new("version")
            },
            SessionCloseReason::VersionRefused => new("version_refused"),
            SessionCloseReason::Protocol(reason) => Self {
                reason: Some(reason.clone()),
                ..new("protocol")
            },
            SessionCloseReason::NotAdmitted => new("not_admitted"),
            SessionCloseReason::Abandoned => new("abandoned"),
            SessionCloseReason::NotAllowed => new("not_allowed"),
            // A cause of a later version gets a kind here with it.
            _ => new("unknown"),
        }
    }

    fn peer(self) -> (u64, String) {
        (self.code.unwrap_or(0), self.reason.unwrap_or_default())
    }

    fn explanation(self) -> String {
        self.reason.unwrap_or(self.text)
    }

    /// The channel's end.
    pub fn into_channel(self) -> CloseReason {
        match self.kind.as_str() {
            "local" => CloseReason::Local,
            "peer" => {
                let (code, reason) = self.peer();
                CloseReason::Peer { code, reason }
            }
            "timed_out" => CloseReason::TimedOut,
            "reset" => CloseReason::Reset,
            "no_reply" => CloseReason::NoReply(self.after()),
            "unauthorized" => CloseReason::Unauthorized,
            "wire_format" => CloseReason::WireFormat,
            "not_listed" => CloseReason::NotListed,
            "other_node" => {
                let node = self.node().map(CloseReason::OtherNode);
                node.unwrap_or(CloseReason::Unauthorized)
            }
            "stranger" => {
                let node = self.node().map(CloseReason::Stranger);
                node.unwrap_or(CloseReason::Unauthorized)
            }
            "fault" => CloseReason::Fault(self.explanation()),
            kind => match UNDELIVERABLE.iter().find(|(_, known)| *known == kind) {
                Some((report, _)) => CloseReason::Undeliverable(*report),
                None => CloseReason::Protocol(self.explanation()),
            },
        }
    }

    fn after(&self) -> Duration {
        Duration::from_nanos(self.after_ns.unwrap_or(0))
    }

    fn node(&self) -> Option<NodeId> {
        self.node.as_ref()?.parse().ok()
    }

    /// The session's end.
    pub fn into_session(self) -> SessionCloseReason {
        match self.kind.as_str() {
            "local" => SessionCloseReason::Local,
            "peer" => {
                let (code, reason) = self.peer();
                SessionCloseReason::Peer { code, reason }
            }
            "timed_out" => SessionCloseReason::TimedOut(self.after()),
            "unreachable" => SessionCloseReason::Unreachable(Attempts {
                after: self.after(),
                links: (self.attempts.into_iter())
                    .map(AttemptBody::into_attempt)
                    .collect(),
            }),
            "not_listed" => match self.node() {
                Some(node) => SessionCloseReason::NotListed(node),
                None => SessionCloseReason::Protocol(self.explanation()),
            },
            "forgotten" => SessionCloseReason::Forgotten,
            "version" => SessionCloseReason::Version(self.version.unwrap_or(0)),
            "version_refused" => SessionCloseReason::VersionRefused,
            "not_admitted" => SessionCloseReason::NotAdmitted,
            "abandoned" => SessionCloseReason::Abandoned,
            "not_allowed" => SessionCloseReason::NotAllowed,
            _ => SessionCloseReason::Protocol(self.explanation()),
        }
    }
}

/// Names of faults of objectives.
const FAULTS: [(Faults, &str); 4] = [
    (Faults::DIVISION_BY_ZERO, "division_by_zero"),
    (Faults::OVERFLOW, "overflow"),
    (Faults::UNKNOWN, "unknown"),
    (Faults::TOO_MANY_CONTEXTS, "too_many_contexts"),
];

impl EventBody {
    /// The message of a session's event; `None` for one that this version does not have.
    pub fn of_session_event(event: SessionEvent) -> Option<Self> {
        Some(match event {
            SessionEvent::ChannelUp {
                channel,
                socket,
                remote,
            } => Self::ChannelUp {
                channel: channel.0,
                socket: socket.0,
                remote,
            },
            SessionEvent::ChannelSuspected { channel } => {
                Self::ChannelSuspected { channel: channel.0 }
            }
            SessionEvent::ChannelRecovered { channel, silence } => Self::ChannelRecovered {
                channel: channel.0,
                silence_ns: ns(silence),
            },
            SessionEvent::ChannelClosed { channel, reason } => Self::ChannelClosed {
                channel: channel.0,
                cause: CauseBody::of_channel(&reason),
            },
            SessionEvent::ObjectiveRefused {
                objective,
                stream,
                refusal,
            } => Self::ObjectiveRefused {
                objective: objective.0,
                id: stream.0,
                refusal: RefusalBody::of(&refusal),
            },
            SessionEvent::ObjectiveFault { objective, faults } => {
                let named = FAULTS.iter().filter(|(fault, _)| faults.contains(*fault));
                Self::ObjectiveFault {
                    objective: objective.0,
                    faults: named.map(|(_, name)| (*name).to_owned()).collect(),
                }
            }
            _ => return None,
        })
    }

    /// The session's event, if the message is one.
    pub fn into_session_event(self) -> Option<SessionEvent> {
        Some(match self {
            Self::ChannelUp {
                channel,
                socket,
                remote,
            } => SessionEvent::ChannelUp {
                channel: ChannelId(channel),
                socket: SocketId(socket),
                remote,
            },
            Self::ChannelSuspected { channel } => SessionEvent::ChannelSuspected {
                channel: ChannelId(channel),
            },
            Self::ChannelRecovered {
                channel,
                silence_ns,
            } => SessionEvent::ChannelRecovered {
                channel: ChannelId(channel),
                silence: Duration::from_nanos(silence_ns),
            },
            Self::ChannelClosed { channel, cause } => SessionEvent::ChannelClosed {
                channel: ChannelId(channel),
                reason: cause.into_channel(),
            },
            Self::ObjectiveRefused {
                objective,
                id,
                refusal,
            } => SessionEvent::ObjectiveRefused {
                objective: ObjectiveId(objective),
                stream: StreamId(id),
                refusal: refusal.resolve(),
            },
            Self::ObjectiveFault { objective, faults } => {
                let named = FAULTS
                    .iter()
                    .filter(|(_, name)| faults.iter().any(|f| f == name));
                SessionEvent::ObjectiveFault {
                    objective: ObjectiveId(objective),
                    faults: named.fold(Faults::NONE, |all, (fault, _)| all.union(*fault)),
                }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::Rate;
    use anabranch_session::{Offer, Reason, Refusal};

    use super::*;
    use crate::local::message::Event;

    fn node() -> NodeId {
        NodeId::from_public_key([7; 32])
    }

    fn channel_causes() -> Vec<CloseReason> {
        vec![
            CloseReason::Local,
            CloseReason::Peer {
                code: 5,
                reason: "enough".to_owned(),
            },
            CloseReason::TimedOut,
            CloseReason::Reset,
            CloseReason::Unauthorized,
            CloseReason::WireFormat,
            CloseReason::NoReply(Duration::from_secs(8)),
            CloseReason::Undeliverable(Undeliverable::Port),
            CloseReason::Undeliverable(Undeliverable::Host),
            CloseReason::Undeliverable(Undeliverable::Network),
            CloseReason::Undeliverable(Undeliverable::Prohibited),
            CloseReason::OtherNode(node()),
            CloseReason::NotListed,
            CloseReason::Stranger(node()),
            CloseReason::Protocol("p".to_owned()),
            CloseReason::Fault("f".to_owned()),
        ]
    }

    #[test]
    fn causes_round_trip_and_unknown_ones_keep_their_text() {
        let again = |body: &CauseBody| -> CauseBody {
            serde_json::from_str(&serde_json::to_string(body).unwrap()).unwrap()
        };
        for cause in channel_causes() {
            let body = again(&CauseBody::of_channel(&cause));
            assert_eq!(body.text, cause.to_string());
            assert_eq!(body.into_channel(), cause);
        }
        let mut causes = vec![
            SessionCloseReason::Local,
            SessionCloseReason::Peer {
                code: 1 << 40,
                reason: String::new(),
            },
            SessionCloseReason::TimedOut(Duration::from_millis(1)),
            SessionCloseReason::Forgotten,
            SessionCloseReason::Version(3),
            SessionCloseReason::VersionRefused,
            SessionCloseReason::Protocol("p".to_owned()),
            SessionCloseReason::NotAdmitted,
            SessionCloseReason::Abandoned,
            SessionCloseReason::NotAllowed,
            SessionCloseReason::NotListed(node()),
        ];
        let attempt = |failure: Option<CloseReason>| Attempt {
            socket: SocketId(3),
            interface: Some("wlan0".into()),
            remote: "[2001:db8::1]:4433".parse().unwrap(),
            failure,
        };
        let failures = channel_causes().into_iter().map(Some).chain([None]);
        causes.push(SessionCloseReason::Unreachable(Attempts {
            after: Duration::from_secs(30),
            links: failures.map(attempt).collect(),
        }));
        for cause in causes {
            let body = again(&CauseBody::of_session(&cause));
            assert_eq!(body.text, cause.to_string());
            assert_eq!(body.into_session(), cause);
        }
        let later = r#"{"kind":"eclipse","text":"the moon is in the path"}"#;
        let later: CauseBody = serde_json::from_str(later).unwrap();
        assert!(later.into_session().to_string().contains("moon"));
    }

    #[test]
    fn events_of_sessions_round_trip() {
        let channel = ChannelId(2);
        let refusal = Refusal {
            reason: Reason::Unsteady { windows: 300 },
            offer: Offer {
                rate: Some(Rate::from_kbps(8)),
                ..Offer::default()
            },
        };
        let events = [
            SessionEvent::ChannelUp {
                channel,
                socket: SocketId(1),
                remote: "[::1]:4433".parse().unwrap(),
            },
            SessionEvent::ChannelSuspected { channel },
            SessionEvent::ChannelRecovered {
                channel,
                silence: Duration::from_nanos(7),
            },
            SessionEvent::ChannelClosed {
                channel,
                reason: CloseReason::TimedOut,
            },
            SessionEvent::ObjectiveRefused {
                objective: ObjectiveId(3),
                stream: StreamId(4),
                refusal,
            },
            SessionEvent::ObjectiveFault {
                objective: ObjectiveId(3),
                faults: Faults::OVERFLOW.union(Faults::UNKNOWN),
            },
        ];
        for event in events {
            let body = EventBody::of_session_event(event.clone()).unwrap();
            let text = serde_json::to_string(&Event::of_session(5, body)).unwrap();
            let read: Event = serde_json::from_str(&text).unwrap();
            assert_eq!(read.session, Some(5));
            let again = read.body.into_session_event().unwrap();
            assert_eq!(format!("{again:?}"), format!("{event:?}"));
        }
    }
}
