//! Messages of the local interface: the bodies of frames in JSON (`spec/local.md` §3 to §6).
//!
//! A field that a reader does not know is ignored and one that is missing has its default, so that programs of different versions
//! understand each other. The specification of a stream is the exception: an unknown demand is refused.

mod chances;
mod event;
mod load;
mod promise;
mod session;

use std::{collections::BTreeMap, num::NonZeroU32};

use anabranch_base::{ChannelId, Rate, duration};
use anabranch_net::Field;
use anabranch_session::{Discarded, Priority, StreamParameters};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    chances::ChancesBody,
    event::{Event, EventBody},
    load::LoadBody,
    promise::{ExplanationBody, GrantBody, RefusalBody},
    session::{CauseBody, PathBody},
};
use crate::{
    config::ConfigError,
    spec::{GuaranteeText, SpecText, drop_name, drop_order},
};

/// Name of the protocol in a greeting.
pub const PROTOCOL: &str = "anabranch-local";

/// Protocol versions that a program supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest.
    pub min: u32,
    /// The newest.
    pub max: u32,
}

impl Versions {
    /// The versions of this library.
    pub const OURS: Self = Self { min: 1, max: 1 };

    /// The newest version that both support.
    pub fn common(self, other: Self) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

/// First message of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: String,
    /// The versions that it supports.
    pub versions: Versions,
    /// Name of the program, for logs.
    #[serde(default)]
    pub program: String,
    /// Over TCP: the node's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// First message of the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version that both use from here on.
    pub version: u32,
    /// The node.
    pub node: String,
    /// Its release.
    #[serde(default)]
    pub release: String,
    /// Bytes that the application may send on all streams together.
    pub credit: u32,
}

/// Last message of either side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bye {
    /// `done`, `version`, `violation`, `limit`, `not_allowed` or `stopping`.
    pub code: String,
    /// Explanation.
    pub reason: String,
    /// The versions that this side supports, with `version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<Versions>,
}

/// A request with its number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numbered {
    /// Number that the answer repeats.
    pub id: u64,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
}

/// Number of a request that is not understood.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Number {
    /// The number.
    pub id: u64,
}

/// Header fields of an ADU.
pub type Fields = BTreeMap<String, FieldBody>;

/// Value of a header field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldBody {
    /// True or false.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

impl From<FieldBody> for Field {
    fn from(body: FieldBody) -> Self {
        match body {
            FieldBody::Boolean(is_true) => Self::Boolean(is_true),
            FieldBody::Number(number) => Self::Number(number),
            FieldBody::Text(text) => Self::Text(text),
        }
    }
}

impl From<&Field> for FieldBody {
    fn from(field: &Field) -> Self {
        match field {
            Field::Boolean(is_true) => Self::Boolean(*is_true),
            Field::Number(number) => Self::Number(*number),
            Field::Text(text) => Self::Text(text.clone()),
        }
    }
}

/// A request of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Uses the session with a peer, which is opened if there is none.
    Connect {
        /// Its name in the configuration, its id or a ticket.
        peer: String,
        /// Its addresses, `IP:PORT` or `HOST:PORT`; empty: those in the configuration, or in the ticket.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<String>,
        /// The events of the session are to be reported.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        events: bool,
    },
    /// Uses a session no more.
    Release {
        /// The session.
        session: u32,
    },
    /// Opens a stream.
    Open {
        /// The session.
        session: u32,
        /// The stream.
        spec: Box<SpecText>,
        /// Bytes that the node may send on it.
        #[serde(default)]
        credit: u32,
    },
    /// Takes the streams that peers open with a label.
    Register {
        /// The label, or its beginning and `*`.
        label: String,
        /// Streams that may wait to be accepted; further ones are refused.
        #[serde(default = "backlog")]
        backlog: u32,
    },
    /// Takes them no more.
    Unregister {
        /// The service.
        service: u32,
    },
    /// States the load of a program that processes streams, which the node publishes in its overlay. It holds for ten seconds, and until the
    /// program leaves.
    StateLoad {
        /// The load.
        load: LoadBody,
    },
    /// Asks for the decision on a guarantee, without opening a stream.
    Admit {
        /// The session.
        session: u32,
        /// The stream.
        spec: Box<SpecText>,
    },
    /// Asks for the explanation of a stream's promise.
    Explain {
        /// The stream.
        stream: u32,
    },
    /// Changes parameters of a stream.
    Adjust {
        /// The stream.
        stream: u32,
        /// The changes.
        #[serde(flatten)]
        changes: Changes,
    },
    /// Asks for another guarantee.
    ChangeGuarantee {
        /// The stream.
        stream: u32,
        /// The guarantee; absent: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guarantee: Option<GuaranteeText>,
    },
    /// Sets header fields of an ADU that waits.
    UpdateFields {
        /// The stream.
        stream: u32,
        /// Number of the ADU.
        adu: u64,
        /// The fields.
        fields: Fields,
    },
    /// Asks for the probability that an ADU would arrive in time.
    OnTime {
        /// The stream.
        stream: u32,
        /// Size of the ADU, in bytes.
        bytes: u64,
        /// Time from now within which it has to arrive; absent: the lifetime of the stream.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<String>,
    },
    /// Gives up the ADUs of a stream that were handed over before and are not sent completely, if they may be lost.
    Discard {
        /// The stream.
        stream: u32,
    },
    /// Asks every path of a session for an acknowledgement.
    Probe {
        /// The session.
        session: u32,
    },
    /// Asks for the paths of a session, with the bytes that each carried.
    Paths {
        /// The session.
        session: u32,
    },
    /// Applies objectives for what this node sends in a session.
    Inject {
        /// The session.
        session: u32,
        /// The objectives, in HOSE.
        text: String,
    },
    /// Removes an objective.
    Remove {
        /// The session.
        session: u32,
        /// Its number.
        objective: u64,
    },
    /// Lists the objectives in force.
    Objectives {
        /// The session.
        session: u32,
    },
}

/// Default of [`Request::Register`]'s backlog.
pub(super) fn backlog() -> u32 {
    256
}

/// Changes of a stream's parameters; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// Share among streams of equal priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Rate limit, or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// Drop order, or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<String>,
    /// Bytes that may wait unsent in the session, or 0: as many as its buffer holds. A node of an older release ignores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsent_max: Option<u32>,
    /// True if every packet is sent on every path that has a slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redundant: Option<bool>,
    /// Importance, 0 to 255.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Lifetime of ADUs from now on, or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<String>,
    /// Number of the only channel that it may use, or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// True if the outcome of each ADU is reported. A node of an older release ignores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<bool>,
}

impl Changes {
    /// The texts of changes.
    pub fn of(parameters: &StreamParameters) -> Self {
        let none = || "none".to_owned();
        let cap =
            |cap: Option<Rate>| cap.map_or_else(none, |cap| format!("{} bit/s", cap.as_bps()));
        Self {
            weight: parameters.weight,
            cap: parameters.cap.map(cap),
            drop: parameters
                .drop
                .map(|drop| drop.map_or_else(none, |order| drop_name(order).to_owned())),
            unsent_max: (parameters.unsent_max).map(|max| max.map_or(0, NonZeroU32::get)),
            redundant: parameters.redundant,
            priority: parameters.priority.map(|priority| priority.0),
            lifetime: parameters.lifetime.map(|lifetime| {
                lifetime.map_or_else(none, |lifetime| format!("{} ns", lifetime.as_nanos()))
            }),
            pinned: (parameters.pinned)
                .map(|channel| channel.map_or_else(none, |channel| channel.0.to_string())),
            notify: parameters.notify,
        }
    }

    /// The changes.
    ///
    /// # Errors
    /// A value cannot be read.
    pub fn resolve(&self) -> Result<StreamParameters, ConfigError> {
        use crate::config::{parsed, refused};
        let mut parameters = StreamParameters {
            weight: self.weight,
            unsent_max: self.unsent_max.map(NonZeroU32::new),
            redundant: self.redundant,
            priority: self.priority.map(Priority),
            notify: self.notify,
            ..StreamParameters::default()
        };
        if let Some(text) = &self.cap {
            parameters.cap = Some(match text.as_str() {
                "none" => None,
                text => Some(parsed(text).map_err(|why| refused("cap", text, why))?),
            });
        }
        if let Some(text) = &self.drop {
            parameters.drop = Some(drop_order(text).map_err(|why| refused("drop", text, why))?);
        }
        if let Some(text) = &self.lifetime {
            let read = |text| {
                duration::parse(text)
                    .map(Some)
                    .map_err(|why| refused("lifetime", text, why.to_string()))
            };
            parameters.lifetime = Some(match text.as_str() {
                "none" => None,
                text => read(text)?,
            });
        }
        if let Some(text) = &self.pinned {
            let channel = text.parse().map(ChannelId).map(Some);
            let why = |_| "give the number of a channel, or \"none\"".to_owned();
            parameters.pinned = Some(match text.as_str() {
                "none" => None,
                text => channel.map_err(|error| refused("pinned", text, why(error)))?,
            });
        }
        Ok(parameters)
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Number of the request.
    pub id: u64,
    /// The result, if the request was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<Value>,
    /// The error otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
}

/// Error of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorBody {
    /// `request`, `limit`, `handle`, `peer`, `unreachable`, `session_over`, `spec`, `refused`, `stream`, `objectives` or `field`.
    pub kind: String,
    /// Cause, and what to do.
    pub message: String,
    /// With `refused`: the reason, and what could be promised instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Box<RefusalBody>>,
    /// With `limit`, if it is one of the user: which, and what is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Box<LimitBody>>,
}

/// Limit of a user that would be exceeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitBody {
    /// Its key in the node's configuration: `priority_max`, `promised_rate_max`, `streams_max` or `objectives`.
    pub key: String,
    /// The limit.
    pub allowed: String,
    /// The rest of it, if it is shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// Answer to [`Request::Connect`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connected {
    /// The session's handle.
    pub session: u32,
    /// Id of the peer.
    pub peer: String,
    /// The events of the session are reported, as was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub events: bool,
}

/// Answer to [`Request::Open`], and the streams of [`EventBody::Incoming`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The stream's handle.
    pub stream: u32,
    /// Its number in its session, the same at both nodes.
    pub id: u64,
    /// Bytes that the application may send on it.
    pub credit: u32,
}

/// Answer to [`Request::Discard`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardedBody {
    /// ADUs that were given up.
    pub adus: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl From<Discarded> for DiscardedBody {
    fn from(Discarded { adus, bytes }: Discarded) -> Self {
        Self { adus, bytes }
    }
}

impl From<DiscardedBody> for Discarded {
    fn from(DiscardedBody { adus, bytes }: DiscardedBody) -> Self {
        Self { adus, bytes }
    }
}

/// A message as the body of a frame.
pub fn json(message: &impl Serialize) -> bytes::Bytes {
    serde_json::to_vec(message)
        .expect("a message is a text")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_chosen() {
        let versions = |min, max| Versions { min, max };
        assert_eq!(versions(1, 1).common(versions(1, 4)), Some(1));
        assert_eq!(versions(2, 5).common(versions(1, 4)), Some(4));
        assert_eq!(versions(1, 1).common(versions(2, 4)), None);
        assert_eq!(versions(3, 4).common(versions(1, 2)), None);
    }

    #[test]
    fn unknown_fields_and_events_are_ignored_and_missing_ones_have_defaults() {
        let text = r#"{"id":4,"do":"register","label":"x","colour":"blue"}"#;
        let request: Numbered = serde_json::from_str(text).unwrap();
        let expected = Request::Register {
            label: "x".to_owned(),
            backlog: 256,
        };
        assert_eq!((request.id, request.request), (4, expected));
        let event: Event =
            serde_json::from_str(r#"{"stream":1,"event":"eclipse","at":3}"#).unwrap();
        assert_eq!(event.body, EventBody::Unknown);
        // A demand that is not understood is not ignored.
        let text = r#"{"id":4,"do":"open","session":1,"spec":{"taste":"sour"}}"#;
        assert!(serde_json::from_str::<Numbered>(text).is_err());
    }

    #[test]
    fn changes_resolve_to_those_that_they_are_of() {
        let changes = [
            StreamParameters::default(),
            StreamParameters {
                weight: Some(3),
                notify: Some(true),
                cap: Some(None),
                drop: Some(None),
                redundant: Some(true),
                lifetime: Some(None),
                pinned: Some(None),
                ..StreamParameters::default()
            },
            StreamParameters {
                pinned: Some(Some(ChannelId(7))),
                cap: Some(Some(Rate::from_bps(1_234_567))),
                priority: Some(Priority(200)),
                lifetime: Some(Some(std::time::Duration::from_micros(1_234_567))),
                drop: Some(Some(anabranch_session::DropOrder::LeastImportant)),
                ..StreamParameters::default()
            },
        ];
        for change in changes {
            let text = serde_json::to_string(&Changes::of(&change)).unwrap();
            let read: Changes = serde_json::from_str(&text).unwrap();
            assert_eq!(read.resolve().unwrap(), change);
        }
    }
}
