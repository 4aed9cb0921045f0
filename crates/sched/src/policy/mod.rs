//! Scheduling policies, one per file, each behind [`Scheduler`](crate::Scheduler).
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

use std::{fmt, str::FromStr};

use anabranch_base::{Seed, text::nearest};

pub use callback::{Callback, by_callback};
pub use opt::{Opt, Oracle};
pub use planned::Walk;

use crate::{
    objective::{Assign, RandomWalk},
    pick::Picker,
    scheduler::{AnyScheduler, Decision},
    view::View,
};
use anabranch_spec::ChannelMask;

/// A policy, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// Promised streams first, by predictive guarantee scheduling [IQ-Paths §V-B.2] (`pgos` names it, too); the rest by
    /// earliest arrival, with urgent streams kept off slow channels.
    #[default]
    Default,
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
    /// Every packet on every channel with a slot.
    Redundant,
    /// Every stream on one channel: its own, or the first.
    Pinned,
    /// Weighted fair queueing on one path, that with the largest mean rate; no priorities.
    Wfq,
    /// Multi-server fair queueing [Blanquer & Özden, SIGCOMM 2001] by mean rates; no priorities.
    Msfq,
    /// Promised streams in order of precedence, then the others; paths by mean rates.
    PriorityMean,
    /// Ours: ADUs go into the slots in which they are worth most by the objectives; without objectives, as the
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
    "'{0}' is not a scheduling policy; {meant}choose one of {names}; random_walk may be followed by such as \
     ':length=25,look_ahead_ms=300,period_ms=100'",
    meant = meant(.0),
    names = Policy::names()
)]
pub struct ParsePolicyError(String);

fn meant(wrong: &str) -> String {
    let near = nearest(wrong, Policy::ALL.map(Policy::name));
    near.map_or(String::new(), |near| format!("did you mean '{near}'? or "))
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 14] = [
        Self::Default,
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

    /// A new scheduler of this policy; its random decisions follow from `seed`.
    pub fn build(self, seed: Seed) -> AnyScheduler {
        let walk = |length: u16| RandomWalk::new(usize::from(length), seed.stream("random_walk"));
        let cycles = |length: u16, walk_of: Walk| {
            let planner = Box::new(walk(length));
            AnyScheduler::Plans(Box::new(planned::Planned::by_cycles(planner, walk_of)))
        };
        AnyScheduler::Plain(match self {
            Self::Default => return AnyScheduler::Promises(Box::<pgos::Pgos>::default()),
            Self::Assign => {
                let planned = planned::Planned::by_assignment(Assign::default());
                return AnyScheduler::Plans(Box::new(planned));
            }
            Self::RandomWalk(settings) => return cycles(settings.length, settings),
            Self::RandomRoundRobin => return cycles(1, Walk::AT_ONCE),
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
        })
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
        // The scheduler of the default policy by its name in the papers.
        let name = if name == "pgos" { "default" } else { name };
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
    one_channel(picker.pick_with(view, &mut choose))
}

/// Sends on the channel that was picked with a stream, or waits if none was.
fn one_channel(picked: Option<(usize, usize)>) -> Decision {
    match picked {
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
