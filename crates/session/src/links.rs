//! Links to keep open, and the times to dial them again.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{ChannelId, Instant, SocketId};
use anabranch_channel::CloseReason;

/// First pause after a channel could not be opened or was lost. It doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(200);
/// Longest pause.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Factor by which the pause grows on a link that has never answered while others carry the session.
const UNANSWERED_GROWTH: u32 = 4;
/// Longest pause there.
const UNANSWERED_MAX: Duration = Duration::from_secs(60);
/// Attempts there, over two to three minutes; then the link rests until addresses change or the session has no channel.
const UNANSWERED_TRIES: u32 = 6;
/// A link counts as refused if packets cannot be delivered so long after it was first dialled: the peer may be just starting,
/// and a single report may be forged.
const REFUSAL_GRACE: Duration = Duration::from_millis(500);
/// A handshake that takes longer is given up and dialled again.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_secs(8);

/// One local socket and one address of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The local socket.
    pub socket: SocketId,
    /// The peer's address.
    pub remote: SocketAddr,
}

/// Key: session, link. Only the node that opened the session dials.
#[derive(Debug)]
pub(crate) struct LinkState {
    pub link: Link,
    pub channel: Option<ChannelId>,
    /// Time to dial, if no channel is open; `None`: it rests.
    pub dial_at: Option<Instant>,
    backoff: Duration,
    /// The local socket is usable.
    pub up: bool,
    /// Time since which it is not.
    down_since: Option<Instant>,
    /// A handshake on it was completed once.
    has_answered: bool,
    /// Attempts since it was first dialled, or woken.
    tries: u32,
    dialled_at: Option<Instant>,
    /// Result of the latest attempt that ended; `None`: none has, or it has answered.
    failure: Option<CloseReason>,
}

impl LinkState {
    pub(crate) fn new(now: Instant, link: Link) -> Self {
        Self {
            link,
            channel: None,
            dial_at: Some(now),
            backoff: RETRY_MIN,
            up: true,
            down_since: None,
            has_answered: false,
            tries: 0,
            dialled_at: None,
            failure: None,
        }
    }

    /// Time since which the link cannot be used; `None` if it can, or has a channel still.
    pub(crate) fn vacant_since(&self) -> Option<Instant> {
        self.down_since.filter(|_| self.channel.is_none())
    }

    /// True to dial now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.up && self.channel.is_none() && self.dial_at.is_some_and(|at| at <= now)
    }

    /// Time of the next attempt.
    pub(crate) fn next_dial(&self) -> Option<Instant> {
        if self.up && self.channel.is_none() {
            self.dial_at
        } else {
            None
        }
    }

    /// Result of the latest attempt; `None`: none has ended, or the link has answered since.
    pub(crate) fn failure(&self) -> Option<&CloseReason> {
        self.failure.as_ref()
    }

    /// True if no further attempt can be expected to succeed: another node answers, or nothing can be delivered.
    pub(crate) fn is_impossible(&self, now: Instant) -> bool {
        if self.channel.is_some() {
            return false;
        }
        match &self.failure {
            Some(CloseReason::Undeliverable(_)) => {
                let first = self.dialled_at;
                first.is_some_and(|first| now.since(first) >= REFUSAL_GRACE)
            }
            Some(
                CloseReason::OtherNode(_) | CloseReason::Unauthorized | CloseReason::WireFormat,
            ) => true,
            _ => false,
        }
    }

    /// True if another node answers there, or one that refuses the key of this node.
    pub(crate) fn has_another_node(&self) -> bool {
        let failure = self.failure.as_ref();
        let is_other = |failure: &CloseReason| {
            matches!(
                failure,
                CloseReason::OtherNode(_) | CloseReason::Unauthorized | CloseReason::WireFormat
            )
        };
        self.channel.is_none() && failure.is_some_and(is_other)
    }

    pub(crate) fn on_dialled(&mut self, now: Instant, channel: ChannelId) {
        self.channel = Some(channel);
        self.dial_at = None;
        self.tries += 1;
        self.dialled_at.get_or_insert(now);
    }

    pub(crate) fn on_connected(&mut self) {
        self.backoff = RETRY_MIN;
        self.has_answered = true;
        self.tries = 0;
        self.failure = None;
    }

    /// Notes the end of its channel, or of an attempt to open one. `is_spare`: other channels carry the session.
    pub(crate) fn on_closed(&mut self, now: Instant, reason: CloseReason, is_spare: bool) {
        self.channel = None;
        self.failure = Some(reason);
        let (growth, most) = match is_spare && !self.has_answered {
            true => (UNANSWERED_GROWTH, UNANSWERED_MAX),
            false => (2, RETRY_MAX),
        };
        let is_given_up = is_spare && !self.has_answered && self.tries >= UNANSWERED_TRIES;
        self.dial_at = (!is_given_up).then_some(now + self.backoff);
        self.backoff = (self.backoff * growth).min(most);
    }

    /// Dials again soon if the link rests or waits for long: addresses have changed, or the session has no channel.
    pub(crate) fn wake(&mut self, now: Instant) {
        if self.channel.is_some() || self.has_answered {
            return;
        }
        self.tries = 0;
        self.backoff = RETRY_MIN;
        let soon = now + self.backoff;
        self.dial_at = Some(self.dial_at.map_or(soon, |at| at.min(soon)));
    }

    /// The local socket became usable or unusable.
    pub(crate) fn set_up(&mut self, now: Instant, up: bool) {
        self.up = up;
        self.down_since = match self.down_since {
            _ if up => None,
            known => known.or(Some(now)),
        };
        if up && self.channel.is_none() {
            self.backoff = RETRY_MIN;
            self.tries = 0;
            self.dial_at = Some(now);
        }
    }
}
