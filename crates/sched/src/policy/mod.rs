//! Scheduling policies behind one trait, one policy a file.
//!
//! A policy is asked for one decision at a time and asked again until it waits. It decides late:
//! nothing is bound to a channel before a slot for it exists, so no stream waits behind another's
//! packet and a change of the network takes effect with the next packet.

mod blest;
mod claims;
mod default;
mod ecf;
mod fair;
mod min_rtt;
mod msfq;
mod opt;
mod pgos;
mod pinned;
mod priority_mean;
mod redundant;
mod round_robin;
mod servers;
mod weighted_round_robin;
mod wfq;

use std::{fmt, str::FromStr};

use anabranch_base::{Instant, StreamId};

pub use opt::{Opt, Oracle};

use crate::{
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
    /// Leave the remaining slots unused for now. The policy is asked again when anything changes.
    Wait,
}

/// A scheduling policy.
///
/// The session calls [`begin`](Self::begin), then [`next`](Self::next) until it answers [`Decision::Wait`], and after each `Send`
/// calls [`sent`](Self::sent) with what went out; the view is up to date before every call. The state
/// of a policy belongs to one session.
pub trait Scheduler: Send + fmt::Debug {
    /// A run of decisions begins; until the next one, no stream begins to wait, streams and channels keep their places in
    /// the view, and of channels only slots and bytes in flight change. O(streams that changed · log streams).
    fn begin(&mut self, view: &View<'_>, changes: Changes<'_>) {
        let _ = (view, changes);
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
}

/// The text names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a scheduling policy; choose one of {names}", names = Policy::names())]
pub struct ParsePolicyError(String);

impl Policy {
    /// All policies.
    pub const ALL: [Self; 12] = [
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
        }
    }

    fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// A fresh scheduler of this policy.
    pub fn build(self) -> Box<dyn Scheduler> {
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
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == text.trim())
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
