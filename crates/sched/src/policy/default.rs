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
//! - Nor is it used by a stream with a deadline, when the packet would miss it there but not by
//!   waiting.
//!
//! Which stream is next is the [`Picker`]'s matter: priority, fair share, earliest deadline.

use anabranch_base::StreamId;

use super::{Decision, Scheduler, free_channels, stream_then_channel};
use crate::{
    arrival::{delivered_within, next_arrival, one_way},
    pick::Picker,
    view::{ChannelMask, StreamView, View},
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EarliestArrival {
    picker: Picker,
}

impl EarliestArrival {
    /// The next decision about the streams that are `eligible`.
    pub(super) fn next_of(
        &self,
        view: &View<'_>,
        eligible: impl Fn(&StreamView) -> bool,
    ) -> Decision {
        stream_then_channel(&self.picker, view, |index| {
            let stream = &view.streams[index];
            eligible(stream)
                .then(|| choose(view, index, stream))
                .flatten()
        })
    }
}

impl Scheduler for EarliestArrival {
    fn next(&mut self, view: &View<'_>) -> Decision {
        self.next_of(view, |_| true)
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, _channels: ChannelMask, bytes: usize) {
        self.picker.charge(&view.streams[stream], bytes);
    }

    fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
    }
}

/// The channel for the stream's next packet; `None`: it waits. O(channels).
pub(super) fn choose(view: &View<'_>, index: usize, stream: &StreamView) -> Option<usize> {
    let usable = || (0..view.channels.len()).filter(|&channel| stream.may_use(channel));
    let best = usable().min_by_key(|&channel| next_arrival(&view.channels[channel]))?;
    if view.channels[best].slots > 0 {
        return Some(best);
    }
    let other =
        free_channels(view, index).min_by_key(|&channel| one_way(&view.channels[channel]))?;
    let here = one_way(&view.channels[other]);
    if let Some(deadline) = stream.deadline {
        let left = deadline.since(view.now);
        if here > left && next_arrival(&view.channels[best]) <= left {
            return None;
        }
    }
    // What has to be on its way before the last packet of the backlog leaves.
    let packet = view.channels[other].packet_bytes as u64;
    let before_last = stream.backlog_bytes.saturating_sub(packet) as f64;
    let others = usable().filter(|&channel| channel != other);
    let delivered: f64 = others
        .map(|channel| delivered_within(&view.channels[channel], here))
        .sum();
    (delivered <= before_last).then_some(other)
}
