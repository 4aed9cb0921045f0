//! The default policy: earliest arrival, by the deadline where there is one.
//!
//! For each stream in turn, the channel on which its next packet would arrive first, waiting for a
//! slot included:
//!
//! - If that channel is free, it is used.
//! - If not, another free channel is used only when that helps: when this packet arrives there before
//!   the other channels together could have delivered what the stream has waiting. This ends a
//!   transfer without stragglers, keeps a lone message off a slow channel, and is why adding a slow
//!   channel does no harm. The others count from when a packet would arrive on each: channels that
//!   would arrive later still are not counted on, so that no two leave a packet to one another.
//! - A stream with a deadline and more than this packet uses it whenever the packet is expected there in time, and not behind a long queue:
//!   waiting for a better channel gains nothing, and the channel may be worse by then. It does not use it when the packet would miss the
//!   deadline there but not by waiting.
//!
//! A stream with path preferences uses the first class of channels, preferred, neutral, avoided, that has a free one; a redundant one
//! uses all that are free, and avoided ones only where there is no other; if it has a deadline, it waits a moment for the channel on which
//! its packet arrives first. The order of streams is that of [`pick`](crate::pick): priority, fair share, earliest deadline.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::StreamId;

use super::{free_channels, one_channel};
use crate::Decision;
use crate::{
    arrival::Outlook,
    pick::{Answer, FairQueue},
    view::{Changes, StreamView, View},
};
use anabranch_spec::ChannelMask;

/// Longest wait of a redundant packet for the channel on which it arrives first. Longer ones are those for a channel that has failed, which
/// is not known at once.
const REDUNDANT_WAIT: Duration = Duration::from_millis(15);
/// Gain for which it waits.
const REDUNDANT_GAIN: Duration = Duration::from_millis(5);

/// Longest queue that a packet with a deadline joins while it may wait for another channel. Behind a longer one its arrival is a guess: rates of
/// paths change within that time (docs/results/clinic.md).
const QUEUE_MAX: Duration = Duration::from_millis(250);

/// Verdict on a stream before its channel is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It takes part.
    Open,
    /// Not until it is [`touched`](EarliestArrival::touch).
    Closed,
}

/// See the module. O(channels + log streams) a decision, and as much for each stream that waits for a better
/// channel, once in a run.
#[derive(Debug, Default)]
pub(super) struct EarliestArrival {
    queue: FairQueue,
    outlook: Outlook,
    /// Longest time that packets of each redundant stream had left when they were sent: that of a new one.
    redundant_left: BTreeMap<StreamId, Duration>,
}

impl EarliestArrival {
    /// A run of decisions begins.
    pub(super) fn begin(&mut self, view: &View<'_>, changes: Changes<'_>) {
        self.queue.begin(view, changes);
        self.outlook.begin();
    }

    /// A decision is due: brings the outlook up to date.
    pub(super) fn look(&mut self, view: &View<'_>) {
        self.outlook.look(view);
    }

    /// The channels are not those of the last decision.
    pub(super) fn look_anew(&mut self) {
        self.outlook.begin();
    }

    /// Expectations of the channels.
    pub(super) fn outlook(&self) -> &Outlook {
        &self.outlook
    }

    /// The next decision about the streams that are `eligible` in this run, and whose turn is open. [`look`](Self::look)
    /// goes before it.
    pub(super) fn next(
        &mut self,
        view: &View<'_>,
        eligible: impl Fn(&StreamView) -> bool,
        turn: impl Fn(&StreamView) -> Turn,
    ) -> Decision {
        let outlook = &self.outlook;
        let new_left = &self.redundant_left;
        let picked = self.queue.next(view, |place| {
            let stream = &view.streams[place];
            if !eligible(stream) {
                return Answer::NotNow;
            }
            if turn(stream) == Turn::Closed {
                return Answer::NotYet;
            }
            if let Some(deadline) = stream.deadline
                && stream.redundant
            {
                let new_left = new_left.get(&stream.id).copied().unwrap_or_default();
                let waited = new_left.saturating_sub(deadline.since(view.now));
                let chosen = choose_redundant(view, outlook, stream, waited);
                return chosen.map_or(Answer::NotNow, Answer::Take);
            }
            choose(view, outlook, place, stream).map_or(Answer::NotNow, Answer::Take)
        });
        if let Some((place, _)) = picked {
            let stream = &view.streams[place];
            if let Some(deadline) = stream.deadline.filter(|_| stream.redundant) {
                let longest = self.redundant_left.entry(stream.id).or_default();
                *longest = (*longest).max(deadline.since(view.now));
            }
        }
        decision(view, picked)
    }

    /// The next decision about the streams at these places of the view alone.
    pub(super) fn next_of(&self, view: &View<'_>, places: impl Iterator<Item = usize>) -> Decision {
        let picked = self.queue.first_of(view, places, |place| {
            choose(view, &self.outlook, place, &view.streams[place])
        });
        decision(view, picked)
    }

    pub(super) fn sent(&mut self, stream: &StreamView, bytes: usize) {
        self.queue.charge(stream, bytes);
    }

    /// The turn of a stream may have opened.
    pub(super) fn touch(&mut self, stream: StreamId) {
        self.queue.touch(stream);
    }

    pub(super) fn forget(&mut self, stream: StreamId) {
        self.redundant_left.remove(&stream);
        self.queue.forget(stream);
    }
}

fn decision(view: &View<'_>, picked: Option<(usize, usize)>) -> Decision {
    match picked {
        Some((stream, _)) if view.streams[stream].redundant => Decision::Send {
            stream,
            channels: for_copies(view, stream),
        },
        picked => one_channel(picked),
    }
}

/// The best of the free channels for a packet of a redundant stream that has waited for so long; `None`: it waits a moment for a full
/// one on which it would arrive clearly earlier. O(channels).
fn choose_redundant(
    view: &View<'_>,
    outlook: &Outlook,
    stream: &StreamView,
    waited: Duration,
) -> Option<usize> {
    let usable = || (0..view.channels.len()).filter(|&channel| stream.may_use(channel));
    let free = usable().filter(|&channel| view.channels[channel].slots > 0);
    let best = free.min_by_key(|&channel| outlook.one_way(channel))?;
    let first = usable()
        .map(|channel| outlook.next_arrival(channel))
        .min()?;
    let waits = waited < REDUNDANT_WAIT && first + REDUNDANT_GAIN < outlook.one_way(best);
    (!waits).then_some(best)
}

/// Free channels for a packet of a redundant stream; those that it avoids only where there is no other.
fn for_copies(view: &View<'_>, stream: usize) -> ChannelMask {
    let free = free_channels(view, stream).fold(ChannelMask::NONE, ChannelMask::with);
    let choice = &view.streams[stream].choice;
    let liked = free.and(choice.preferred.or(choice.neutral));
    if liked.is_empty() { free } else { liked }
}

/// The channel for the stream's next packet; `None`: it waits. O(channels).
pub(super) fn choose(
    view: &View<'_>,
    outlook: &Outlook,
    index: usize,
    stream: &StreamView,
) -> Option<usize> {
    let choice = &stream.choice;
    let all = choice.all();
    if choice.neutral == all {
        return choose_within(view, outlook, stream, all);
    }
    // The first class with a free channel decides. Its stream may still wait for a channel of a better class.
    let mut within = ChannelMask::NONE;
    for class in [choice.preferred, choice.neutral, choice.avoided] {
        within = within.or(class);
        if free_channels(view, index).any(|channel| within.contains(channel)) {
            return choose_within(view, outlook, stream, within);
        }
    }
    None
}

/// The channel for the stream's next packet among those of `within`; `None`: it waits. O(channels).
fn choose_within(
    view: &View<'_>,
    outlook: &Outlook,
    stream: &StreamView,
    within: ChannelMask,
) -> Option<usize> {
    let usable = || {
        (0..view.channels.len())
            .filter(|&channel| within.contains(channel) && stream.may_use(channel))
    };
    let best = usable().min_by_key(|&channel| outlook.next_arrival(channel))?;
    if view.channels[best].slots > 0 {
        return Some(best);
    }
    let free = usable().filter(|&channel| view.channels[channel].slots > 0);
    let other = free.min_by_key(|&channel| outlook.one_way(channel))?;
    let here = outlook.one_way(other);
    let here_s = here.as_secs_f64();
    // What has to be on its way before the last packet of the backlog leaves.
    let packet = view.channels[other].packet_bytes as u64;
    let before_last = stream.backlog_bytes.saturating_sub(packet);
    if let Some(deadline) = stream.deadline {
        let left = deadline.since(view.now);
        let queue = here.saturating_sub(view.channels[other].rtt_min / 2);
        if here <= left && queue <= QUEUE_MAX && before_last > 0 {
            return Some(other);
        }
        if here > left && outlook.next_arrival(best) <= left {
            return None;
        }
    }
    let others = usable().filter(|&channel| channel != other);
    let delivered: f64 = others
        .map(|channel| outlook.delivered_within(channel, here_s))
        .sum();
    (delivered <= before_last as f64).then_some(other)
}
