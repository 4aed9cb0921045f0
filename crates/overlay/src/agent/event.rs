//! Events of an agent for its host.

use std::time::Duration;

use anabranch_base::{NodeId, Rate};
use anabranch_route::hysteresis::Reason;

use crate::{measure::Source, members::State, wire::Load};

/// Request to the host.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Output {
    /// Establish a session with this member and report whether it came up; nothing to do if one exists.
    Connect(NodeId),
    /// The session with this member is no longer needed here.
    Disconnect(NodeId),
    /// Send the message over the session with `to`, on the unreliable stream of the overlay. Dropping it does no harm.
    Send {
        /// Recipient.
        to: NodeId,
        /// At most [`crate::wire::MESSAGE_BYTES_MAX`].
        bytes: Vec<u8>,
    },
    /// Send a message of `bytes`, with any content, over the session with `to`, and report the outcome
    /// ([`Agent::handle_probe`](super::Agent::handle_probe)).
    Probe {
        /// Recipient.
        to: NodeId,
        /// The id.
        id: u64,
        /// Its size.
        bytes: u64,
    },
    /// Something changed.
    Event(Event),
}

/// Change of the overlay.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A member joined, or returned.
    Joined(NodeId),
    /// A member is claimed to be silent.
    Suspected(NodeId),
    /// A member answered the claim that it is silent.
    Cleared(NodeId),
    /// A member did not answer the claim that it is silent.
    Died(NodeId),
    /// A member has left.
    Left(NodeId),
    /// The quality of this node's link to a member has changed markedly, or the link died or came back.
    LinkChanged(NodeId),
    /// Other paths to a wanted destination are better now.
    RoutesChanged {
        /// The destination.
        to: NodeId,
        /// Reason.
        reason: Reason,
    },
}

impl Event {
    pub(super) fn of_change(node: NodeId, before: State, after: State) -> Option<Self> {
        match (before, after) {
            (State::Suspect, State::Alive) => Some(Self::Cleared(node)),
            (_, State::Alive) => Some(Self::Joined(node)),
            (State::Alive, State::Suspect) => Some(Self::Suspected(node)),
            (State::Alive | State::Suspect, State::Down) => Some(Self::Died(node)),
            (State::Alive | State::Suspect, State::Left) => Some(Self::Left(node)),
            _ => None,
        }
    }
}

/// One member, as this node sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemberView {
    /// The node.
    pub node: NodeId,
    /// Its state.
    pub state: State,
    /// Version of its record, 0 when there is none.
    pub version: u64,
    /// Age of its record; `None` when there is none.
    pub record_age: Option<Duration>,
    /// Time since its last message to this node itself; `None`: never.
    pub last_received: Option<Duration>,
    /// True if there is a session with it.
    pub has_session: bool,
    /// Its load, of the age of its record; `None`: it processes no streams, or what it published has not come.
    pub load: Option<Load>,
}

/// One link, as this node assesses it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkView {
    /// Node at which it begins.
    pub from: NodeId,
    /// Node at which it ends.
    pub to: NodeId,
    /// EBW, as measured or published.
    pub bandwidth: Rate,
    /// d_min, as measured or published.
    pub delay_min: Duration,
    /// Standard error of the bandwidth relative to it; `None`: unknown.
    pub deviation: Option<f64>,
    /// Time since it was measured.
    pub age: Duration,
    /// Source of the estimate.
    pub source: Source,
    /// Factor of the bandwidth in the choice of paths, in (0, 1]: below 1 after routes carried less
    /// than was published.
    pub trust: f64,
}

/// Counts of messages, records and claims that were rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refused {
    /// From or about nodes that are not on the list.
    pub strangers: u64,
    /// Messages that no node sends.
    pub malformed: u64,
    /// Invalid signatures.
    pub forged: u64,
    /// Older than the known version.
    pub stale: u64,
    /// Validly signed, but out of range.
    pub absurd: u64,
    /// In excess of what a member may send in a given time, or claims of a member that was wrong too often.
    pub excess: u64,
}
