//! Events of one session: its channels and objectives.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{ChannelId, SocketId, StreamId};
use anabranch_channel::CloseReason;
use anabranch_hose::{Faults, ObjectiveId};

use anabranch_admission::Refusal;

/// An event of the channels or objectives of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A channel can carry data.
    ChannelUp {
        /// The channel.
        channel: ChannelId,
        /// Its local socket.
        socket: SocketId,
        /// The peer's address.
        remote: SocketAddr,
    },
    /// A channel has fallen silent; its data in flight is moved to others.
    ChannelSuspected {
        /// The channel.
        channel: ChannelId,
    },
    /// A silent channel carries data again.
    ChannelRecovered {
        /// The channel.
        channel: ChannelId,
        /// Time for which it was suspected.
        silence: Duration,
    },
    /// A channel is over. The session continues, and dials again if it was the dialler.
    ChannelClosed {
        /// The channel.
        channel: ChannelId,
        /// Reason.
        reason: CloseReason,
    },
    /// The answer to a ping.
    Pong {
        /// The channel.
        channel: ChannelId,
        /// Round trip; `None`: nothing came back, or the channel could not send.
        round_trip: Option<Duration>,
    },
    /// A `rate` item of an objectives' text demands a rate that cannot be promised now. The stream
    /// waits for the promise where that may help.
    ObjectiveRefused {
        /// The item.
        objective: ObjectiveId,
        /// The stream.
        stream: StreamId,
        /// Reason, and what could be promised instead.
        refusal: Refusal,
    },
    /// A fault in the evaluation of an objective, with the result that its description
    /// states; each kind is reported once for an objective.
    ObjectiveFault {
        /// The objective.
        objective: ObjectiveId,
        /// The faults.
        faults: Faults,
    },
}
