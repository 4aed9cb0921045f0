//! Events in messages.

use std::{net::SocketAddr, ops::Range, time::Duration};

use anabranch_base::{ChannelId, Rate};
use anabranch_net::StreamEvent;
use serde::{Deserialize, Serialize};

use super::{CauseBody, GrantBody, Opened, RefusalBody};
use crate::spec::SpecText;

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The stream concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<u32>,
    /// The session concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u32>,
    /// The service concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<u32>,
    /// The event.
    #[serde(flatten)]
    pub body: EventBody,
}

impl Event {
    /// An event of a stream.
    pub fn of_stream(stream: u32, body: EventBody) -> Self {
        Self {
            stream: Some(stream),
            session: None,
            service: None,
            body,
        }
    }

    /// An event of a session.
    pub fn of_session(session: u32, body: EventBody) -> Self {
        Self {
            stream: None,
            session: Some(session),
            service: None,
            body,
        }
    }
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventBody {
    /// An ADU is at the peer's node.
    Acked {
        /// Its number.
        adu: u64,
        /// Time from sending to the acknowledgement of its last byte.
        rtt_ns: u64,
        /// The channel that completed it.
        channel: u64,
        /// Round-trip time of the packet that completed it.
        packet_rtt_ns: u64,
    },
    /// Outcome of a fragment.
    Fragment {
        /// Number of the ADU.
        adu: u64,
        /// Its bytes in the ADU.
        bytes: Range<u64>,
        /// The channel.
        channel: u64,
        /// Round-trip time; absent: lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rtt_ns: Option<u64>,
    },
    /// An ADU is lost, or part of it.
    Lost {
        /// Its number.
        adu: u64,
        /// Bytes that arrived.
        arrived: Vec<Range<u64>>,
        /// Bytes that did not.
        lost: Vec<Range<u64>>,
    },
    /// An ADU outlived its lifetime.
    Expired {
        /// Its number.
        adu: u64,
    },
    /// An ADU was dropped because the stream exceeded its share.
    Dropped {
        /// Its number.
        adu: u64,
    },
    /// The rate that the stream may send has changed.
    Throttle {
        /// The rate.
        rate_bps: u64,
    },
    /// The guarantee is promised.
    Promised {
        /// The promise.
        grant: GrantBody,
    },
    /// The promise will not be kept, as far as can be foreseen.
    Warned {
        /// Reason, and what could be promised instead.
        refusal: RefusalBody,
    },
    /// The promise has lapsed.
    Withdrawn {
        /// Reason, and what could be promised instead.
        refusal: RefusalBody,
    },
    /// The stream was finished because its promise was warned, as it demands.
    Finished {
        /// Reason, and what could be promised instead.
        refusal: RefusalBody,
    },
    /// The node has taken an ADU that asked for a confirmation.
    Accepted {
        /// Its number.
        adu: u64,
    },
    /// The node has not taken an ADU.
    Refused {
        /// Its number, which no other ADU has.
        adu: u64,
        /// Cause.
        reason: String,
    },
    /// The stream or the session is over.
    Over {
        /// Cause.
        reason: String,
        /// ADUs that arrived before may follow; another such event ends them.
        #[serde(default)]
        readable: bool,
    },
    /// A peer has opened a stream for a service.
    Incoming {
        /// The stream.
        opened: Opened,
        /// Id of the peer.
        peer: String,
        /// Its name in the node's configuration; its id if it has none.
        name: String,
        /// The stream's specification.
        spec: Box<SpecText>,
    },
    /// A channel of the session can carry data.
    ChannelUp {
        /// The channel.
        channel: u64,
        /// Number of its local socket.
        socket: u64,
        /// The peer's address.
        remote: SocketAddr,
    },
    /// A channel has fallen silent.
    ChannelSuspected {
        /// The channel.
        channel: u64,
    },
    /// A silent channel carries data again.
    ChannelRecovered {
        /// The channel.
        channel: u64,
        /// Time for which it was suspected.
        silence_ns: u64,
    },
    /// A channel is over.
    ChannelClosed {
        /// The channel.
        channel: u64,
        /// Cause.
        #[serde(default)]
        cause: CauseBody,
    },
    /// The rate of an objective's `rate` item is not promised.
    ObjectiveRefused {
        /// The item.
        objective: u64,
        /// Number of the stream in its session.
        id: u64,
        /// Reason, and what could be promised instead.
        refusal: RefusalBody,
    },
    /// A fault in the evaluation of an objective.
    ObjectiveFault {
        /// The objective.
        objective: u64,
        /// `division_by_zero`, `overflow`, `unknown`, `too_many_contexts`.
        #[serde(default)]
        faults: Vec<String>,
    },
    /// The session is over; its last event.
    Closed {
        /// Cause.
        #[serde(default)]
        cause: CauseBody,
    },
    /// An event that this version does not know.
    #[serde(other)]
    Unknown,
}

pub(super) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl EventBody {
    /// The message of a stream's event, with the ADU numbered by `number`; `None` for one that this version does not have.
    pub fn of_stream_event(event: StreamEvent, number: impl Fn(u64) -> u64) -> Option<Self> {
        Some(match event {
            StreamEvent::Acked {
                adu,
                rtt,
                channel,
                packet_rtt,
            } => Self::Acked {
                adu: number(adu),
                rtt_ns: ns(rtt),
                channel: channel.0,
                packet_rtt_ns: ns(packet_rtt),
            },
            StreamEvent::Fragment {
                adu,
                bytes,
                channel,
                rtt,
            } => Self::Fragment {
                adu: number(adu),
                bytes,
                channel: channel.0,
                rtt_ns: rtt.map(ns),
            },
            StreamEvent::Lost { adu, arrived, lost } => Self::Lost {
                adu: number(adu),
                arrived,
                lost,
            },
            StreamEvent::Expired { adu } => Self::Expired { adu: number(adu) },
            StreamEvent::Dropped { adu } => Self::Dropped { adu: number(adu) },
            StreamEvent::Throttle { rate } => Self::Throttle {
                rate_bps: rate.as_bps(),
            },
            _ => return None,
        })
    }

    /// The stream's event, if the message is one.
    pub fn into_stream_event(self) -> Option<StreamEvent> {
        let time = Duration::from_nanos;
        Some(match self {
            Self::Acked {
                adu,
                rtt_ns,
                channel,
                packet_rtt_ns,
            } => StreamEvent::Acked {
                adu,
                rtt: time(rtt_ns),
                channel: ChannelId(channel),
                packet_rtt: time(packet_rtt_ns),
            },
            Self::Fragment {
                adu,
                bytes,
                channel,
                rtt_ns,
            } => StreamEvent::Fragment {
                adu,
                bytes,
                channel: ChannelId(channel),
                rtt: rtt_ns.map(time),
            },
            Self::Lost { adu, arrived, lost } => StreamEvent::Lost { adu, arrived, lost },
            Self::Expired { adu } => StreamEvent::Expired { adu },
            Self::Dropped { adu } => StreamEvent::Dropped { adu },
            Self::Throttle { rate_bps } => StreamEvent::Throttle {
                rate: Rate::from_bps(rate_bps),
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_streams_round_trip() {
        let rtt = Duration::from_nanos(1_234_567);
        let channel = ChannelId(2);
        let events = [
            StreamEvent::Acked {
                adu: 1,
                rtt,
                channel,
                packet_rtt: rtt,
            },
            StreamEvent::Fragment {
                adu: 1,
                bytes: 3..9,
                channel,
                rtt: None,
            },
            StreamEvent::Lost {
                adu: 2,
                arrived: vec![0..4, 8..9],
                lost: vec![4..8, 9..12],
            },
            StreamEvent::Expired { adu: 3 },
            StreamEvent::Dropped { adu: 4 },
            StreamEvent::Throttle {
                rate: Rate::from_kbps(7),
            },
        ];
        for event in events {
            let body = EventBody::of_stream_event(event.clone(), |adu| adu).unwrap();
            let text = serde_json::to_string(&Event::of_stream(5, body)).unwrap();
            let read: Event = serde_json::from_str(&text).unwrap();
            assert_eq!(read.stream, Some(5));
            assert_eq!(read.body.into_stream_event(), Some(event));
        }
    }
}
