//! Messages between a service, its sources and its subscribers, in JSON.

use std::time::Duration;

use anabranch::base::NodeId;
use anabranch_process::{
    serve::{self, windows},
    text::{STEPS_MAX, TEXT_BYTES_MAX},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use super::state::{
    DerivationState, LoadState, OperatorState, ServiceState, SourceState, SubscriberState,
};
use super::{JSON, WireError};

/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Subscribers that a source can name.
pub const ALLOWED_MAX: usize = 256;
/// Name of all subscribers with the right at the processing node.
pub const ANYONE: &str = "*";

/// Deadline of a subscriber that names none, in milliseconds.
pub const DEADLINE_MS: u32 = 500;
/// Longest deadline, in milliseconds.
pub const DEADLINE_MS_MAX: u32 = 30_000;

/// Longest time for which a service waits for a stream to be offered, in milliseconds.
pub const WAIT_MS_MAX: u32 = 1_000;
/// That of a subscriber that can go to other nodes: a source finds out soon before or after it that a node is gone.
pub const WAIT_OF_SEVERAL_MS: u32 = 250;

/// Progress of a subscriber that is slower than its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// The source waits for reliable subscribers.
    Slowest,
    /// The source does not wait; a reliable subscriber whose queue is full ends.
    Live,
}

/// Offer of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Number of this run of the source, chosen at random: a source that returns has the same.
    pub run: u64,
    /// Nodes that may derive from the stream, or [`ANYONE`]. At most [`ALLOWED_MAX`].
    pub subscribers: Vec<String>,
    /// True if no ADU may be lost or repeated.
    pub is_reliable: bool,
    /// Reaction to slow reliable subscribers.
    pub pace: Pace,
    /// Number of the first ADU that the source still has.
    pub first: u64,
    /// Reliable subscribers that the service reported last: it waits for as many to return before ADUs are forgotten.
    pub readers: u32,
    /// True if the source answers reports of reliable subscribers with [`Request::Readers`].
    #[serde(default)]
    pub confirms: bool,
    /// Number of the stream with ADUs that the source opens at once; `None`: it waits for that from the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<u64>,
}

impl Offer {
    /// True if the source lets a node derive from its stream.
    pub fn allows(&self, node: NodeId) -> bool {
        let id = node.to_string();
        let mut allowed = self.subscribers.iter();
        allowed.any(|allowed| *allowed == ANYONE || *allowed == id)
    }

    /// The offer, if its fields are within their bounds.
    ///
    /// # Errors
    /// There are too many subscribers, or one is no node.
    pub fn check(&self) -> Result<(), WireError> {
        let count = self.subscribers.len();
        if !(1..=ALLOWED_MAX).contains(&count) {
            return Err(WireError(format!("{count} allowed subscribers")));
        }
        let is_known = |text: &String| text == ANYONE || text.parse::<NodeId>().is_ok();
        match self.subscribers.iter().find(|text| !is_known(text)) {
            Some(text) => Err(WireError(format!("'{text}' as a subscriber"))),
            None => Ok(()),
        }
    }
}

/// Place of a subscriber in the stream of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Number of the source's next ADU.
    pub next: u64,
    /// Phase of each operator, at most 16; `None`: that right after an ADU that passed all steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<u32>>,
}

impl From<serve::Position> for Position {
    fn from(serve::Position { next, phases }: serve::Position) -> Self {
        Self { next, phases }
    }
}

impl From<Position> for serve::Position {
    fn from(Position { next, phases }: Position) -> Self {
        Self { next, phases }
    }
}

/// Promise that a subscriber asks for its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// Rate, in bit/s.
    pub rate_bps: u64,
    /// Share of windows that must reach the rate, in millionths; from 1 to 999,999.
    pub share_ppm: u32,
    /// Time on top of the least transit after which an ADU is late, from the source to the subscriber; from 1 to
    /// [`DEADLINE_MS_MAX`]. `None`: [`DEADLINE_MS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u32>,
}

impl Demand {
    /// Time after which an ADU is late.
    pub fn deadline(&self) -> Duration {
        let ms = self.deadline_ms.unwrap_or(DEADLINE_MS);
        Duration::from_millis(ms.into())
    }
}

/// Part of the way from a source to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// From the source to the processing node.
    SourceLeg,
    /// The operators at the processing node.
    Processing,
    /// From the processing node to the subscriber.
    LastLeg,
}

impl From<windows::Part> for Part {
    fn from(part: windows::Part) -> Self {
        match part {
            windows::Part::SourceLeg => Self::SourceLeg,
            windows::Part::Processing => Self::Processing,
            windows::Part::LastLeg => Self::LastLeg,
        }
    }
}

impl From<Part> for windows::Part {
    fn from(part: Part) -> Self {
        match part {
            Part::SourceLeg => Self::SourceLeg,
            Part::Processing => Self::Processing,
            Part::LastLeg => Self::LastLeg,
        }
    }
}

/// Subscription to what is derived from a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// Number of this run of the subscriber, chosen at random: one that returns has the same.
    pub run: u64,
    /// Node of the source; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Pipeline.
    pub pipeline: String,
    /// True if no derived ADU may be lost or repeated.
    pub is_reliable: bool,
    /// Number of the pipeline, which ADUs carry that are derived by it.
    pub change: u32,
    /// Run of the source that the position is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// Place in the stream of a reliable subscriber that returns; `None`: from the source's next ADU on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Promise for the stream to the subscriber; `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
    /// Time for which the service waits for the stream to be offered before it refuses, in milliseconds; above [`WAIT_MS_MAX`], that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wait_ms: u32,
    /// As [`Offer::opens`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<u64>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Subscribe {
    /// The subscription, if its fields are within their bounds.
    ///
    /// # Errors
    /// The pipeline is too long, or a number is out of its range.
    pub fn check(&self) -> Result<(), WireError> {
        let phases = self.position.as_ref().and_then(|at| at.phases.as_ref());
        if phases.is_some_and(|phases| phases.len() > STEPS_MAX) {
            return Err(WireError("a position with too many phases".to_owned()));
        }
        if self.pipeline.len() > TEXT_BYTES_MAX {
            let bytes = self.pipeline.len();
            return Err(WireError(format!("a pipeline of {bytes} bytes")));
        }
        match self.demand {
            Some(Demand { share_ppm, .. }) if !(1..1_000_000).contains(&share_ppm) => {
                Err(WireError(format!("a share of {share_ppm} millionths")))
            }
            Some(Demand {
                deadline_ms: Some(ms),
                ..
            }) if !(1..=DEADLINE_MS_MAX).contains(&ms) => {
                Err(WireError(format!("a deadline of {ms} ms")))
            }
            _ => Ok(()),
        }
    }
}

/// Bytes that were derived for the subscribers of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DerivedBytes {
    /// The node.
    pub node: String,
    /// Bytes that were sent to it, that wait, and that were lost.
    pub bytes: u64,
    /// Bytes that were sent; to a reliable subscriber, that it holds. None: the service does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Bytes that wait now, or are on their way.
    #[serde(default)]
    pub waiting: u64,
}

/// A message to a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// First message of a source.
    Offer(Offer),
    /// First message of a subscriber.
    Subscribe(Subscribe),
    /// Another pipeline, from the next ADU on.
    Change {
        /// Its number, which ADUs carry that are derived by it; grows.
        number: u32,
        /// Pipeline.
        pipeline: String,
    },
    /// A reliable subscriber holds what is derived from the ADUs before this one.
    Held {
        /// Number in the source's stream.
        next: u64,
    },
    /// A source knows of that many reliable subscribers, which the service reported: they are waited for wherever it goes.
    Readers {
        /// The number.
        count: u32,
    },
    /// A source asks for [`Notice::Derived`] from now on.
    Measure,
    /// A source states the reason for which it is at this service, for who asks for the state.
    Chosen {
        /// Reason; what is beyond 500 characters is left out.
        why: String,
    },
    /// A source goes on at another place, and its subscribers are to follow.
    Leave {
        /// Reason.
        why: String,
    },
    /// First message of a stream on which a subscriber brings a module.
    Module {
        /// Hash of the module; the label has its beginning.
        hash: String,
        /// Size, in bytes.
        bytes: u32,
    },
    /// Asks for the state of the service.
    Status,
}

/// A message of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Notice {
    /// Answer to [`Request::Offer`].
    Offered {
        /// Number in the label of the stream for the ADUs.
        stream: u64,
        /// Number of the first ADU that the service lacks.
        next: u64,
    },
    /// ADUs before this one are not needed any more.
    Acknowledged {
        /// Number in the source's stream.
        next: u64,
        /// Reliable subscribers.
        readers: u32,
    },
    /// Number of subscribers, when it has changed.
    Subscribers {
        /// The number.
        count: u32,
    },
    /// Totals of the operators of a source that has asked for them, about every second.
    Derived {
        /// ADUs of the source that they have taken.
        taken: u64,
        /// Units of work.
        work: u64,
        /// Bytes derived for the subscribers of each node.
        subscribers: Vec<DerivedBytes>,
    },
    /// Answer to [`Request::Subscribe`].
    Subscribed {
        /// Number in the label of the stream for the ADUs.
        stream: u64,
        /// Node of the source.
        source: String,
        /// Run of the source, from its offer.
        run: u64,
        /// Place of the subscriber.
        position: Position,
    },
    /// Answer to [`Request::Change`]: the source's next ADU is derived by it.
    Changed {
        /// Its number.
        number: u32,
    },
    /// A request is not done.
    Refused {
        /// Number of the change; `None`: the offer or the subscription.
        number: Option<u32>,
        /// True if the same request can be granted later.
        may_retry: bool,
        /// Reason and remedy.
        why: String,
    },
    /// Answer to [`Request::Module`], and again once the module has come.
    Module {
        /// True if the service has it, and it can be named; false: it is to be sent.
        is_held: bool,
    },
    /// State of the promise of a subscriber's stream.
    Promise {
        /// Rate, in bit/s; `None`: none is promised.
        rate_bps: Option<u64>,
        /// Reason why none is.
        why: String,
        /// The part of the way for which none is; `None`: one is, or too little is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<Part>,
        /// Share of windows that is promised over both legs, or that could be, in millionths; `None`: not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share_ppm: Option<u32>,
    },
    /// A window in which ADUs were late already before they were sent to the subscriber.
    Late {
        /// Number of the window: seconds since the source's beginning.
        window: u64,
        /// The part of the way that was late.
        part: Part,
    },
    /// Derived ADUs that the subscriber does not get, in all, when there are more.
    Dropped {
        /// Those that it did not take in time.
        lost: u64,
        /// ADUs of the source that the pipeline could not process.
        failed: u64,
        /// The last failure.
        why: String,
    },
    /// The source of a subscriber is away, or there again.
    Away {
        /// True if it is away.
        is_away: bool,
    },
    /// No ADU follows.
    Ended {
        /// Reason.
        why: String,
        /// True if the stream may go on here or at another node, and the subscriber can go on with it.
        #[serde(default)]
        may_return: bool,
    },
    /// State of the service, the first of a state.
    Service(ServiceState),
    /// State of a source.
    Source(SourceState),
    /// State of a derivation of the source before.
    Derivation(DerivationState),
    /// State of a subscriber of the source before.
    Subscriber(SubscriberState),
    /// A message of a later version, which is left out.
    #[serde(other)]
    Unknown,
}

/// A message as an ADU.
pub fn encode(message: &impl Serialize) -> Bytes {
    let mut bytes = vec![JSON];
    serde_json::to_writer(&mut bytes, message).expect("messages have no maps with other keys");
    bytes.into()
}

/// Reads the message of an ADU.
///
/// # Errors
/// It is another kind, too long, or no such message.
pub fn decode<T: DeserializeOwned>(adu: &Bytes) -> Result<T, WireError> {
    match adu.split_first() {
        Some((&JSON, json)) if json.len() <= MESSAGE_BYTES_MAX => {
            serde_json::from_slice(json).map_err(|error| WireError(error.to_string()))
        }
        Some((&JSON, json)) => Err(WireError(format!("{} bytes of JSON", json.len()))),
        kind => Err(WireError(format!("kind {:?}", kind.map(|(kind, _)| kind)))),
    }
}
