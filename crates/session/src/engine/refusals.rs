//! Channels of peers that were refused, counted by cause.

use super::{CODE_BUSY, CODE_FORGOTTEN, CODE_LATE, CODE_NOT_ALLOWED, Engine};

/// Cause for which the channel of a peer was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Its key is not on the allow-list, or no longer.
    NotListed,
    /// There were too many channels or sessions of this peer, or of peers like it.
    Busy,
    /// Its handshake or its introduction took too long.
    Late,
    /// It asked for a session that this node does not have.
    NoSession,
    /// It broke the rules before it belonged to a session.
    Protocol,
}

impl Refused {
    /// All causes.
    pub const ALL: [Self; 5] = [
        Self::NotListed,
        Self::Busy,
        Self::Late,
        Self::NoSession,
        Self::Protocol,
    ];

    /// Name in JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotListed => "not_listed",
            Self::Busy => "busy",
            Self::Late => "late",
            Self::NoSession => "no_session",
            Self::Protocol => "protocol",
        }
    }

    /// The cause for which a channel is closed with a code; `None`: that is no refusal.
    pub(super) const fn by_code(code: u32) -> Option<Self> {
        match code {
            CODE_NOT_ALLOWED => Some(Self::NotListed),
            CODE_BUSY => Some(Self::Busy),
            CODE_LATE => Some(Self::Late),
            CODE_FORGOTTEN => Some(Self::NoSession),
            _ => None,
        }
    }
}

/// Channels refused since the engine was made, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refused::ALL.len()]);

impl Refusals {
    /// Channels refused for this cause.
    pub const fn by(&self, cause: Refused) -> u64 {
        self.0[cause as usize]
    }

    pub(super) fn add(&mut self, cause: Refused) {
        self.0[cause as usize] += 1;
    }
}

impl Engine {
    /// Channels of peers that were refused so far.
    pub fn refusals(&self) -> Refusals {
        self.guests.refusals
    }
}
