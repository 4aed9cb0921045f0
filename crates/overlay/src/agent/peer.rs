//! State of the session with one member.

use std::time::Duration;

use anabranch_base::Instant;

use crate::wire::{MESSAGE_BYTES_MAX, frame};

/// Time after which a session that ended, and is not back, counts as lost.
const LOST_AFTER: Duration = Duration::from_millis(1_500);

/// State of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Session {
    #[default]
    Down,
    /// Requested from the host.
    Connecting {
        since: Instant,
    },
    Up,
}

/// State of this node toward one member.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) session: Session,
    /// True if this node requested the session.
    pub(super) is_ours: bool,
    /// True if heartbeats and records are exchanged with it.
    pub(super) is_gossip: bool,
    /// True if new records are pushed to it at once.
    pub(super) is_eager: bool,
    pub(super) last_received_at: Option<Instant>,
    /// Time since which this node has monitored it.
    pub(super) monitored_since: Option<Instant>,
    /// Earliest time of the next dial, after a failure.
    pub(super) retry_at: Instant,
    pub(super) failures: u32,
    /// Time at which the session ended for a reason other than being unused here.
    pub(super) lost_at: Option<Instant>,
    /// Time since which the session has been unused here.
    pub(super) idle_since: Option<Instant>,
    pub(super) digests: Digests,
    /// Time at which it was last sent a heartbeat.
    pub(super) beat_at: Instant,
    /// Earliest time at which this node's destinations are reported to it again.
    pub(super) interest_at: Instant,
    /// Signatures of this member's messages that may still be checked; refills with time.
    pub(super) credit: Credit,
    /// Allowance of requests that it has left.
    pub(super) served: Credit,
    /// Time at which this node last requested the member's record or claim, from any node.
    pub(super) wanted_at: Option<Instant>,
    /// Claims of this member that were refuted at once.
    pub(super) false_claims: FalseClaims,
    /// This node's own accusation against the member.
    pub(super) accusation: Accusation,
    /// Frames to send at the next flush.
    pub(super) pending: Vec<Vec<u8>>,
    /// Frames that wait until others are pending.
    pub(super) lazy: Vec<Vec<u8>>,
}

/// Digests exchanged with the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digests {
    /// Heartbeats in a row whose summary differed from ours.
    pub(super) mismatches: u32,
    /// Earliest time of the next digest; the gap grows while digests do not help.
    pub(super) next_at: Instant,
    pub(super) gap: Duration,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            session: Session::Down,
            is_ours: false,
            is_gossip: false,
            is_eager: false,
            last_received_at: None,
            monitored_since: None,
            retry_at: Instant::EPOCH,
            failures: 0,
            lost_at: None,
            idle_since: None,
            digests: Digests {
                mismatches: 0,
                next_at: Instant::EPOCH,
                gap: Duration::ZERO,
            },
            beat_at: Instant::EPOCH,
            interest_at: Instant::EPOCH,
            credit: Credit::new(1_000.0, 100.0),
            served: Credit::new(200.0, 100.0),
            wanted_at: None,
            false_claims: FalseClaims::default(),
            accusation: Accusation::default(),
            pending: Vec::new(),
            lazy: Vec::new(),
        }
    }
}

impl Peer {
    pub(super) fn is_up(&self) -> bool {
        self.session == Session::Up
    }

    /// True if the session ended and did not come back soon: the link is not to be used.
    pub(super) fn is_lost(&self, now: Instant) -> bool {
        self.lost_at.is_some_and(|at| now.since(at) >= LOST_AFTER)
    }

    /// Clears the session and all state that belongs to it.
    pub(super) fn forget_session(&mut self) {
        self.session = Session::Down;
        self.is_ours = false;
        self.is_gossip = false;
        self.is_eager = false;
        self.idle_since = None;
        self.digests.mismatches = 0;
        self.digests.gap = Duration::ZERO;
        self.digests.next_at = Instant::EPOCH;
        self.beat_at = Instant::EPOCH;
        self.interest_at = Instant::EPOCH;
        self.pending.clear();
        self.lazy.clear();
    }

    /// Data to be sent, in as few messages as possible. Data that can wait are coalesced with data that cannot.
    pub(super) fn messages(&mut self) -> Vec<Vec<u8>> {
        if self.pending.is_empty() {
            return Vec::new();
        }
        let mut frames = std::mem::take(&mut self.pending);
        frames.append(&mut self.lazy);
        // A node that does not know a frame drops the rest of the message.
        frames.sort_by_key(|written| frame::is_last(written));
        let mut messages: Vec<Vec<u8>> = Vec::new();
        for frame in frames {
            match messages.last_mut() {
                Some(last) if last.len() + frame.len() <= MESSAGE_BYTES_MAX => {
                    last.extend_from_slice(&frame);
                }
                _ => messages.push(frame),
            }
        }
        messages
    }
}

/// Token bucket: a burst of `most`, refilled by `per_second`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credit {
    most: f64,
    per_second: f64,
    have: f64,
    at: Instant,
}

impl Credit {
    pub(super) fn new(most: f64, per_second: f64) -> Self {
        Self {
            most,
            per_second,
            have: most,
            at: Instant::EPOCH,
        }
    }

    pub(super) fn take(&mut self, now: Instant) -> bool {
        let gained = now.since(self.at).as_secs_f64() * self.per_second;
        self.have = (self.have + gained).min(self.most);
        self.at = now;
        let has = self.have >= 1.0;
        if has {
            self.have -= 1.0;
        }
        has
    }
}

/// Number of times that an accuser's target proved at once that it lives. An accuser that is wrong too often is not
/// believed for a while.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FalseClaims {
    /// Decays with a half-life of [`FalseClaims::HALF`].
    score: f64,
    at: Instant,
}

impl FalseClaims {
    const HALF: Duration = Duration::from_secs(120);
    const MOST: f64 = 6.0;

    fn faded(&self, now: Instant) -> f64 {
        self.score * (-now.since(self.at).as_secs_f64() / Self::HALF.as_secs_f64()).exp2()
    }

    pub(super) fn add(&mut self, now: Instant) {
        self.score = self.faded(now) + 1.0;
        self.at = now;
    }

    pub(super) fn is_too_many(&self, now: Instant) -> bool {
        self.faded(now) > Self::MOST
    }
}

/// Time at which this node may accuse a member again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Accusation {
    pub(super) refuted: u32,
    pub(super) not_before: Instant,
}

impl Accusation {
    /// The member answered: a node that does not receive its messages should not keep accusing it.
    pub(super) fn was_refuted(&mut self, now: Instant) {
        self.refuted = (self.refuted + 1).min(6);
        self.not_before = now + Duration::from_secs(15) * (1 << (self.refuted - 1));
    }
}
