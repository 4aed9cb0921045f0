//! Links to keep open, and the times to dial them again.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{ChannelId, Instant, SocketId};

/// First pause after a channel could not be opened or was lost.
const RETRY_MIN: Duration = Duration::from_millis(200);
/// Longest pause.
const RETRY_MAX: Duration = Duration::from_secs(10);
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
    /// Time to dial, if no channel is open.
    pub dial_at: Option<Instant>,
    backoff: Duration,
    /// The local socket is usable.
    pub up: bool,
    /// Time since which it is not.
    down_since: Option<Instant>,
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

    pub(crate) fn on_dialled(&mut self, channel: ChannelId) {
        self.channel = Some(channel);
        self.dial_at = None;
    }

    pub(crate) fn on_connected(&mut self) {
        self.backoff = RETRY_MIN;
    }

    pub(crate) fn on_closed(&mut self, now: Instant) {
        self.channel = None;
        self.dial_at = Some(now + self.backoff);
        self.backoff = (self.backoff * 2).min(RETRY_MAX);
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
            self.dial_at = Some(now);
        }
    }
}
