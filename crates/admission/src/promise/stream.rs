//! State of one stream that demanded a promise.

use std::time::Duration;

use crate::mapping::{Hold, Placement, Request, Term};
use anabranch_base::{ChannelId, Instant, SessionId, StreamId};
use anabranch_spec::{ChannelMask, Grade, Guarantee, StreamSpec, Tenant};

use super::{
    Channels, LATE, LateAfter, NOTICE,
    answer::{Grant, Refusal},
    beside::{Kind, Standing},
    levels::Pace,
    notes::Notes,
    own::Own,
};

/// Time for which a durable promise stays in force that cannot be kept any more, as far as can be foreseen.
const DURABLE_NOTICE: Duration = Duration::from_secs(60);
/// A window is kept when this share of the bytes it needs has arrived: the missing part is less than a packet
/// that crosses its end.
const KEPT_FRACTION: f64 = 0.999;

/// State of the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for one, or has lost it.
    None,
    Durable {
        /// Time since which there has been no placement for it.
        warned_at: Option<Instant>,
    },
    Renewable {
        until: Instant,
        is_warned: bool,
    },
}

impl State {
    /// True if a promise is in force.
    pub(crate) fn is_in_force(self) -> bool {
        self != Self::None
    }
}

/// Statistics of the windows in which a promise was in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Windows in which the promised bytes arrived, or all that the application had.
    pub kept: u64,
    /// The other windows.
    pub broken: u64,
    /// Promises withdrawn.
    pub withdrawn: u64,
}

/// Progress of a stream's current window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    /// Part of the current window of capacity that has passed.
    pub(super) passed: Duration,
    /// Rate that the paths leave to the stream, in bytes per second, if they continue so.
    pub(super) bytes_per_s: f64,
}

/// A window of capacity, as far as a stream's own window is judged by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) length: Duration,
    /// True if data handed over long ago has not arrived.
    pub(super) is_behind: bool,
}

/// Outcome of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outcome {
    is_kept: bool,
    /// Bytes missing of those needed; 0 when it is kept.
    missing: f64,
}

/// Grounds for a warning.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// The stream's last window was broken.
    was_broken: bool,
    /// The last review found no placement.
    is_unplaced: bool,
}

/// Offers that take the place of a promise which is warned.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reduced {
    /// The guarantee that the stream demands and that an offer has taken the place of.
    pub(super) from: Option<Guarantee>,
    /// Time at which an offer was last sought, and there was none.
    pub(super) sought_at: Option<Instant>,
}

/// Key: stream.
#[derive(Debug)]
pub(crate) struct Promised {
    /// The guarantee that it is promised or waits for: of several levels, the one that can be had, or was tried last.
    pub(crate) guarantee: Guarantee,
    pub(super) pace: Pace,
    /// The tenant that it belongs to.
    pub(super) tenant: Option<Tenant>,
    pub(crate) is_divisible: bool,
    pinned: Option<ChannelId>,
    /// Paths that its preferences permit.
    pub(super) permitted: ChannelMask,
    pub(crate) state: State,
    /// Time at which its promise came into force.
    since: Instant,
    /// Its rate on each path.
    pub(super) placement: Placement,
    /// Place in the order of precedence.
    pub(super) rank: u32,
    pub(super) acked_bytes: u64,
    /// Windows of capacity since the stream's own window began.
    elapsed: Duration,
    was_behind: bool,
    /// Outcomes of its own windows, and the caution that follows from them.
    pub(super) own: Own,
    /// True if the current window will be broken, as far as can be foreseen.
    pub(super) is_failing: bool,
    doubt: Doubt,
    /// Its new demand, made while a promise was in force, which stays so until this can be promised.
    pub(super) wanted: Option<Box<StreamSpec>>,
    pub(super) reduced: Reduced,
    pub(crate) account: Account,
    pub(crate) notes: Notes,
}

impl Promised {
    pub(super) fn new(guarantee: Guarantee, spec: &StreamSpec, permitted: ChannelMask) -> Self {
        Self {
            guarantee,
            pace: Pace::default(),
            tenant: spec.tenant,
            is_divisible: spec.is_divisible(),
            pinned: spec.pinned,
            permitted,
            state: State::None,
            since: Instant::EPOCH,
            placement: Placement::default(),
            rank: u32::MAX,
            acked_bytes: 0,
            elapsed: Duration::ZERO,
            was_behind: false,
            own: Own::new(&guarantee),
            is_failing: false,
            doubt: Doubt::default(),
            wanted: None,
            reduced: Reduced::default(),
            account: Account::default(),
            notes: Notes::default(),
        }
    }

    pub(crate) fn is_in_force(&self) -> bool {
        self.state.is_in_force()
    }

    /// Its precedence between the sessions of a node.
    pub(super) fn standing(&self, session: SessionId) -> Standing {
        let (kind, since) = match self.state {
            State::None => (Kind::Waiting, Instant::EPOCH),
            State::Durable { .. } => (Kind::Durable, self.since),
            State::Renewable { .. } => (Kind::Renewable, self.since),
        };
        Standing {
            kind,
            since,
            session,
        }
    }

    /// The paths that it may use, of those with a channel.
    pub(super) fn usable(&self, channels: Channels<'_>) -> ChannelMask {
        let is_usable = |(path, channel): &(usize, &Option<ChannelId>)| {
            let is_it = self.pinned.is_none_or(|pinned| **channel == Some(pinned));
            channel.is_some() && is_it && self.permitted.contains(*path)
        };
        let usable = channels.iter().enumerate().take(64).filter(is_usable);
        usable.fold(ChannelMask::NONE, |set, (path, _)| set.with(path))
    }

    pub(super) fn is_warned(&self) -> bool {
        match self.state {
            State::None => false,
            State::Durable { warned_at } => warned_at.is_some(),
            State::Renewable { is_warned, .. } => is_warned,
        }
    }

    /// The term of its promise, or else of the one that it demands.
    pub(super) fn term(&self) -> Term {
        match self.state {
            State::Durable { .. } => Term::Durable,
            State::None if self.guarantee.grade == Grade::Durable => Term::Durable,
            State::None | State::Renewable { .. } => Term::Renewable,
        }
    }

    /// Its request to the mapping.
    pub(super) fn request(
        &self,
        stream: StreamId,
        channels: Channels<'_>,
        overhead: f64,
    ) -> Request {
        let request = Request::new(stream, &self.guarantee, self.term());
        Request {
            rate_bps: request.rate_bps * overhead,
            caution: if self.is_failing {
                self.own.caution_after_failure()
            } else {
                self.own.caution()
            },
            is_divisible: self.is_divisible,
            permitted: match self.pinned {
                None => self.permitted,
                Some(pinned) => {
                    let place = channels.iter().position(|channel| *channel == Some(pinned));
                    // A channel that does not exist is on no path.
                    let only = place.filter(|&place| place < 64);
                    only.map_or(ChannelMask::NONE, ChannelMask::only)
                        .and(self.permitted)
                }
            },
            before: self.placement.clone(),
            hold: match self.state {
                State::Durable { .. } => Hold::Standing,
                State::None | State::Renewable { .. } => Hold::New,
            },
            ..request
        }
    }

    pub(super) fn grant(&mut self, now: Instant, term: Term, grant: &Grant) {
        let was = self.state;
        self.doubt.is_unplaced = false;
        self.state = match term {
            Term::Durable => State::Durable { warned_at: None },
            Term::Renewable => State::Renewable {
                until: now + self.guarantee.term,
                is_warned: false,
            },
        };
        if !was.is_in_force() {
            self.since = now;
            self.acked_bytes = 0;
            self.elapsed = Duration::ZERO;
        }
        self.notes.add_grant(now, grant);
    }

    /// Changes the guarantee of the promise, whose placement is settled apart from this.
    pub(super) fn exchange_guarantee(&mut self, guarantee: Guarantee) {
        if guarantee.probability() != self.guarantee.probability() {
            self.own = Own::new(&guarantee);
        }
        self.guarantee = guarantee;
    }

    /// Inherits the statistics of the stream's earlier demand.
    pub(super) fn inherit(&mut self, before: Self) {
        if before.is_in_force() {
            self.since = before.since;
        }
        self.notes.inherit(before.notes);
        self.account = before.account;
        self.pace = before.pace;
        if self.guarantee.demand == before.guarantee.demand {
            self.own = before.own;
        }
    }

    pub(super) fn warn(&mut self, now: Instant, refusal: &Refusal) {
        match &mut self.state {
            State::None => {}
            State::Durable { warned_at } => {
                warned_at.get_or_insert(now);
            }
            State::Renewable { is_warned, .. } => *is_warned = true,
        }
        self.notes.add_refusal(now, "warned", refusal);
    }

    pub(super) fn withdraw(&mut self, now: Instant, refusal: &Refusal) {
        self.state = State::None;
        // It is mapped to no path now, and uses any, before elastic streams.
        self.placement = Placement::default();
        self.account.withdrawn += 1;
        self.notes.add_refusal(now, "withdrawn", refusal);
        self.notes.lapsed();
    }

    /// Notes that a placement was found; returns the term to grant, if the owner has to be notified.
    pub(super) fn holds(&mut self, now: Instant) -> Option<Term> {
        let term = self.term();
        self.doubt.is_unplaced = false;
        match &mut self.state {
            State::None => Some(term),
            State::Durable { warned_at } => {
                *warned_at = None;
                None
            }
            State::Renewable { until, is_warned } => {
                *is_warned = false;
                if *until <= now + NOTICE {
                    // Renewed without an event.
                    *until += self.guarantee.term;
                }
                None
            }
        }
    }

    /// Notes that a review found no placement; returns true if the warning can wait for the next one: nothing was broken yet, it is the first
    /// such review, and more of the term is left than the notice and a window. Most forecasts that dip once recover.
    pub(super) fn may_recover(&mut self, now: Instant) -> bool {
        let was_unplaced = std::mem::replace(&mut self.doubt.is_unplaced, true);
        let has_time = match self.state {
            State::Renewable { until, .. } => until > now + NOTICE + Guarantee::WINDOW,
            State::None | State::Durable { .. } => false,
        };
        has_time && !was_unplaced && !self.doubt.was_broken && !self.is_warned()
    }

    /// True if it is time to try for a durable promise: when a promise would be made anyway.
    pub(super) fn may_rise(&self, now: Instant) -> bool {
        self.guarantee.grade == Grade::Best
            && match self.state {
                State::None => true,
                State::Durable { .. } => false,
                State::Renewable { until, .. } => until <= now + NOTICE,
            }
    }

    /// Time at which the promise is over unless there is a placement for it again.
    pub(super) fn lapses_at(&self) -> Option<Instant> {
        match self.state {
            State::None => None,
            State::Durable { warned_at } => warned_at.map(|at| at + DURABLE_NOTICE),
            State::Renewable { until, .. } => Some(until),
        }
    }

    /// True if a promise that has no placement any more is over now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.lapses_at().is_some_and(|at| at <= now)
    }

    /// Ends a window of capacity; if it also ends one of the stream's own windows, that is judged.
    pub(super) fn end_window(&mut self, window: Window) {
        self.elapsed += window.length;
        self.was_behind |= window.is_behind;
        if self.elapsed < self.guarantee.window {
            return;
        }
        let outcome = self.outcome(self.acked_bytes as f64);
        self.doubt.was_broken = !outcome.is_kept;
        if self.is_in_force() {
            self.account.kept += u64::from(outcome.is_kept);
            self.account.broken += u64::from(!outcome.is_kept);
            self.own.judge(!outcome.is_kept, outcome.missing);
        } else {
            self.own.wait();
        }
        self.acked_bytes = 0;
        self.elapsed = Duration::ZERO;
        self.was_behind = false;
        self.is_failing = false;
    }

    /// Outcome of a window of the stream in which `acked_bytes` arrived.
    fn outcome(&self, acked_bytes: f64) -> Outcome {
        let needed = self.guarantee.required().bytes_in(self.guarantee.window) as f64;
        let is_kept = acked_bytes >= KEPT_FRACTION * needed || !self.was_behind;
        Outcome {
            is_kept,
            missing: if is_kept { 0.0 } else { needed - acked_bytes },
        }
    }

    /// Examines the current window; returns true when it becomes clear that it will be broken if paths continue so.
    pub(super) fn watch(&mut self, running: Running, is_behind: bool) -> bool {
        if self.is_failing || !self.is_in_force() || !is_behind {
            return false;
        }
        let left = self
            .guarantee
            .window
            .saturating_sub(self.elapsed + running.passed);
        let comes = running.bytes_per_s * left.as_secs_f64();
        let needed = self.guarantee.required().bytes_in(self.guarantee.window) as f64;
        self.is_failing = self.acked_bytes as f64 + comes < KEPT_FRACTION * needed;
        self.is_failing
    }

    /// Time after which a byte that has not arrived is late: by the slowest path of its placement; without one, by the slowest
    /// that it may use.
    pub(super) fn late_after(&self, late: LateAfter<'_>) -> Duration {
        let of = |path: usize| late.get(path).copied().flatten();
        let placed = self.placement.shares.iter().map(|&(path, _)| path);
        let permitted = || self.permitted.iter().filter_map(of).max();
        let slowest = placed.filter_map(of).max().or_else(permitted);
        slowest.unwrap_or(LATE)
    }
}
