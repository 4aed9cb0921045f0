//! Events of one session: its channels and objectives.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{ChannelId, SocketId, StreamId};
use anabranch_channel::CloseReason;
use anabranch_hose::{Faults, ObjectiveId};

use crate::promise::Refusal;

/// Something happened to the channels or objectives of a session.
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
    /// A channel has fallen silent; what it owed is moved to others.
    ChannelSuspected {
        /// The channel.
        channel: ChannelId,
    },
    /// A silent channel is back.
    ChannelRecovered {
        /// The channel.
        channel: ChannelId,
        /// Time for which it was suspected.
        silence: Duration,
    },
    /// A channel is over. The session goes on, and dials again where it was the dialler.
    ChannelClosed {
        /// The channel.
        channel: ChannelId,
        /// Reason.
        reason: CloseReason,
    },
    /// A `rate` item of an objectives' text asks for what cannot be promised now; with what could be. The stream
    /// waits for the promise where that may help.
    ObjectiveRefused {
        /// The item.
        objective: ObjectiveId,
        /// The stream.
        stream: StreamId,
        /// Reason, and what else.
        refusal: Refusal,
    },
    /// Something went wrong in the evaluation of an objective, and had the result that its description
    /// says; each kind is told once for an objective.
    ObjectiveFault {
        /// The objective.
        objective: ObjectiveId,
        /// The faults.
        faults: Faults,
    },
}
