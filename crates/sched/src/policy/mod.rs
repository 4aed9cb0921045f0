//! Scheduling policies behind one trait, one policy a file.
//!
//! A policy is asked for one decision at a time and asked again until it waits. It decides late:
//! nothing is bound to a channel before a slot for it exists, so no stream waits behind another's
//! packet and a change of the network takes effect with the next packet.

mod blest;
mod callback;
mod claims;
mod default;
mod ecf;
mod fair;
mod min_rtt;
mod msfq;
mod opt;
mod pgos;
mod pinned;
mod planned;
mod priority_mean;
mod redundant;
mod round_robin;
mod servers;
mod weighted_round_robin;
mod wfq;

use std::{fmt, str::FromStr, time::Duration};

use anabranch_base::{Instant, Seed, StreamId};
use anabranch_hose::Objectives;

pub use callback::{Callback, by_callback};
pub use opt::{Opt, Oracle};
pub use planned::Walk;

use crate::{
    objective::{Assign, Cycle, RandomWalk},
    pick::Picker,
    plan::Plan,
    view::{Changes, ChannelMask, View},
};

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Put the next fragment of this stream into a slot of each of these channels.
    Send {
        /// Index into [`View::streams`].
        stream: usize,
        /// Indices into [`View::channels`]; not empty, each with a slot.
        channels: ChannelMask,
    },
    /// Put the next fragment of this ADU of the stream, and not of another, into a slot of each of these channels.
    /// When it has none, the policy is asked again. Of policies that [plan](Scheduler::plan) alone.
    SendAdu {
        /// Index into [`View::streams`].
        stream: usize,
        /// Its sequence.
        adu: u64,
        /// As above.
        channels: ChannelMask,
    },
    /// Leave the remaining slots unused for now. The policy is asked again when anything changes.
    Wait,
}

/// What else travels in a packet with room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesced {
    /// Index into [`View::streams`].
    pub stream: usize,
    /// Its ADU; `None`: whatever it sends next.
    pub adu: Option<u64>,
}

/// A scheduling policy.
///
/// The session calls [`prepare`](Self::prepare) and [`begin`](Self::begin), then [`next`](Self::next) until it answers
/// [`Decision::Wait`], and after each `Send` calls [`sent`](Self::sent) with what went out; the view is up to date before
/// every call. The state of a policy belongs to one session.
///
/// A policy that decides about single ADUs says so in `prepare`. It is then told of ADUs, slots and objectives
/// ([`plan`](Self::plan)) after `begin`, and again when it waits although it sent something since and slots are left.
/// What else fits a packet is its matter, too ([`coalesce`](Self::coalesce)).
pub trait Scheduler: Send + fmt::Debug {
    /// A run of decisions is to begin. `None`: by streams, no single ADU matters. Otherwise the policy plans, with the
    /// slots that are expected within this time.
    fn prepare(&mut self, objectives: &Objectives) -> Option<Duration> {
        let _ = objectives;
        None
    }

    /// What there is to decide about, when there is a slot and something waits: ADUs that may be sent now, slots that exist and those that are expected. Slots'
    /// channels are indices into [`View::channels`].
    fn plan(&mut self, view: &View<'_>, cycle: &Cycle, objectives: &mut Objectives) {
        let _ = (view, cycle, objectives);
    }

    /// Of a policy that plans: what else goes into a packet on these channels that has room for `room` bytes.
    fn coalesce(
        &mut self,
        view: &View<'_>,
        channels: ChannelMask,
        room: usize,
    ) -> Option<Coalesced> {
        let _ = (view, channels, room);
        None
    }

    /// Of a policy that plans: whether fragments in flight of this stream may be sent once more, on another channel
    /// than the one for which they were meant, where that keeps them in time.
    fn may_copy(&self, objectives: &Objectives, stream: StreamId) -> bool {
        let _ = (objectives, stream);
        false
    }

    /// Of a policy that plans: when it wants to be asked again though nothing has changed.
    fn wakes_at(&self) -> Option<Instant> {
        None
    }

    /// A run of decisions begins; until the next one, no stream begins to wait, streams and channels keep their places in
    /// the view, and of channels only slots and bytes in flight change. O(streams that changed · log streams).
    fn begin(&mut self, view: &View<'_>, changes: Changes<'_>) {
        let _ = (view, changes);
    }

    /// Promised data are expected at this time, if the application goes on as it did; to be said after
    /// [`Self::begin`].
    fn expect(&mut self, promised: Option<Instant>) {
        let _ = promised;
    }

    /// While slots are held back for promised data that is expected: until when. They are in use as far as the network
    /// is concerned.
    fn held_until(&self) -> Option<Instant> {
        None
    }

    /// Decides about one fragment. Must not answer `Send` with a channel that has no slot.
    fn next(&mut self, view: &View<'_>) -> Decision;

    /// The decision was carried out: `bytes` application bytes went out on each of its channels.
    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize);

    /// The stream is closed; forget it.
    fn forget(&mut self, stream: StreamId);

    /// Promised streams were mapped to paths anew. What was sent of the running window still counts.
    fn remap(&mut self, now: Instant, plan: &Plan) {
        let _ = (now, plan);
    }
}

/// A policy, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// Ours: promised streams first, as [`Self::Pgos`] has them; the rest by earliest arrival, with urgent
    /// streams kept off slow channels.
    #[default]
    Default,
    /// Predictive guarantee scheduling by the plan of promised streams [IQ-Paths §V-B.2]; the same as the
    /// default.
    Pgos,
    /// One packet each, in turn.
    RoundRobin,
    /// Bytes in proportion to the channels' delivery rates (deficit round-robin).
    WeightedRoundRobin,
    /// The free channel with the shortest round trip, as MPTCP's default.
    MinRtt,
    /// Earliest completion first [Lim et al., CoNEXT 2017].
    Ecf,
    /// Blocking estimation [Ferlin et al., IFIP Networking 2016].
    Blest,
    /// Every packet on every channel that has room.
    Redundant,
    /// Every stream on one channel: its own, or the first.
    Pinned,
    /// Weighted fair queueing on one path, that with the largest mean rate; no priorities.
    Wfq,
    /// Multi-server fair queueing [Blanquer & Özden, SIGCOMM 2001] by mean rates; no priorities.
    Msfq,
    /// Promised streams in order of precedence, then the others; paths by mean rates.
    PriorityMean,
    /// Ours: ADUs go into the slots in which objectives say that they are worth most; without objectives, as the
    /// default. Promised streams first.
    Assign,
    /// The published search for a schedule that is worth much: the best of some random ones [Horde §6.4].
    RandomWalk(Walk),
    /// Any ADU in any slot, with equal probability [Horde §6.4].
    RandomRoundRobin,
}

/// The text names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a scheduling policy; choose one of {names}; random_walk may be followed by such as \
     ':length=25,look_ahead_ms=300,period_ms=100'",
    names = Policy::names()
)]
pub struct ParsePolicyError(String);

impl Policy {
    /// All policies.
    pub const ALL: [Self; 15] = [
        Self::Default,
        Self::Pgos,
        Self::RoundRobin,
        Self::WeightedRoundRobin,
        Self::MinRtt,
        Self::Ecf,
        Self::Blest,
        Self::Redundant,
        Self::Pinned,
        Self::Wfq,
        Self::Msfq,
        Self::PriorityMean,
        Self::Assign,
        Self::RandomWalk(Walk::PUBLISHED),
        Self::RandomRoundRobin,
    ];

    /// The name used in commands, configuration and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Pgos => "pgos",
            Self::RoundRobin => "round_robin",
            Self::WeightedRoundRobin => "weighted_round_robin",
            Self::MinRtt => "min_rtt",
            Self::Ecf => "ecf",
            Self::Blest => "blest",
            Self::Redundant => "redundant",
            Self::Pinned => "pinned",
            Self::Wfq => "wfq",
            Self::Msfq => "msfq",
            Self::PriorityMean => "priority_mean",
            Self::Assign => "assign",
            Self::RandomWalk(_) => "random_walk",
            Self::RandomRoundRobin => "random_round_robin",
        }
    }

    /// True if it may decide about single ADUs.
    pub const fn may_plan(self) -> bool {
        matches!(
            self,
            Self::Assign | Self::RandomWalk(_) | Self::RandomRoundRobin
        )
    }

    fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// A fresh scheduler of this policy; what is random about it follows from `seed`.
    pub fn build(self, seed: Seed) -> Box<dyn Scheduler> {
        let walk = |length: u16| RandomWalk::new(usize::from(length), seed.stream("random_walk"));
        match self {
            Self::Default | Self::Pgos => Box::<pgos::Pgos>::default(),
            Self::RoundRobin => Box::<round_robin::RoundRobin>::default(),
            Self::WeightedRoundRobin => Box::<weighted_round_robin::WeightedRoundRobin>::default(),
            Self::MinRtt => Box::<min_rtt::MinRtt>::default(),
            Self::Ecf => Box::<ecf::Ecf>::default(),
            Self::Blest => Box::<blest::Blest>::default(),
            Self::Redundant => Box::<redundant::Redundant>::default(),
            Self::Pinned => Box::<pinned::Pinned>::default(),
            Self::Wfq => Box::<wfq::Wfq>::default(),
            Self::Msfq => Box::<msfq::Msfq>::default(),
            Self::PriorityMean => Box::<priority_mean::PriorityMean>::default(),
            Self::Assign => Box::new(planned::Planned::by_assignment(Assign::default())),
            Self::RandomWalk(settings) => {
                let planner = Box::new(walk(settings.length));
                Box::new(planned::Planned::by_cycles(planner, settings))
            }
            Self::RandomRoundRobin => Box::new(planned::Planned::by_cycles(
                Box::new(walk(1)),
                Walk::AT_ONCE,
            )),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RandomWalk(walk) if *walk != Walk::PUBLISHED => {
                write!(f, "{}:{walk}", self.name())
            }
            _ => f.write_str(self.name()),
        }
    }
}

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, settings) = match text.trim().split_once(':') {
            Some((name, settings)) => (name, Some(settings)),
            None => (text.trim(), None),
        };
        let known = Self::ALL.into_iter().find(|policy| policy.name() == name);
        match (known, settings) {
            (Some(Self::RandomWalk(_)), Some(settings)) => {
                settings.parse().ok().map(Self::RandomWalk)
            }
            (known, None) => known,
            (_, Some(_)) => None,
        }
        .ok_or_else(|| ParsePolicyError(text.to_owned()))
    }
}

/// Picks the stream by [`Picker`] among those that may use some free channel, and the channel by
/// `choose`; the shape of most policies. `choose` sees the stream and may decline; a stream whose choice
/// is to wait does not hold up others. O(streams × channels), no allocation.
fn stream_then_channel(
    picker: &Picker,
    view: &View<'_>,
    mut choose: impl FnMut(usize) -> Option<usize>,
) -> Decision {
    if view.channels.iter().all(|channel| channel.slots == 0) {
        return Decision::Wait;
    }
    match picker.pick_with(view, &mut choose) {
        Some((stream, channel)) => Decision::Send {
            stream,
            channels: ChannelMask::only(channel),
        },
        None => Decision::Wait,
    }
}

/// The two channels that a policy which may wait for the nearest weighs: the one with the shortest
/// round trip of all that the stream may use, and of those that are free. `None`: none is free.
fn nearest_and_free(view: &View<'_>, stream: usize) -> Option<(usize, usize)> {
    let by_rtt = |&channel: &usize| view.channels[channel].rtt_smoothed;
    let nearest = (0..view.channels.len())
        .filter(|&channel| view.streams[stream].may_use(channel))
        .min_by_key(by_rtt)?;
    let free = free_channels(view, stream).min_by_key(by_rtt)?;
    Some((nearest, free))
}

/// The free channels that the stream may use, as indices.
fn free_channels<'a>(view: &'a View<'_>, stream: usize) -> impl Iterator<Item = usize> + 'a {
    let stream = &view.streams[stream];
    (0..view.channels.len())
        .filter(move |&index| view.channels[index].slots > 0 && stream.may_use(index))
}

#[cfg(test)]
mod tests;
