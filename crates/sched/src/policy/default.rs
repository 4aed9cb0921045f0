//! The default policy: earliest arrival.
//!
//! For each stream in turn, the channel on which its next packet would arrive first, waiting for a
//! slot included:
//!
//! - If that channel is free, it is used.
//! - If not, another free channel is used only when that helps: for an urgent stream, when the packet
//!   arrives there no later than it would after the wait; for the others, when the whole backlog
//!   takes longer, over the remaining channels, than this packet would on the other one. The second half is
//!   what ends a transfer without stragglers, and why adding a slow channel does no harm.

use std::time::Duration;

use anabranch_base::StreamId;

use super::{Decision, Scheduler, free_channels, stream_then_channel};
use crate::{
    arrival::{self, next_arrival, one_way},
    pick::Picker,
    view::{ChannelMask, View},
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EarliestArrival {
    picker: Picker,
}

impl Scheduler for EarliestArrival {
    fn next(&mut self, view: &View<'_>) -> Decision {
        stream_then_channel(&self.picker, view, |index| {
            let stream = &view.streams[index];
            let best = (0..view.channels.len())
                .filter(|&channel| stream.may_use(channel))
                .min_by_key(|&channel| next_arrival(&view.channels[channel]))?;
            if view.channels[best].slots > 0 {
                return Some(best);
            }
            let other = free_channels(view, index)
                .min_by_key(|&channel| one_way(&view.channels[channel]))?;
            let here = one_way(&view.channels[other]);
            let there = if stream.is_urgent {
                next_arrival(&view.channels[best])
            } else {
                drain_time(view, index, best, other)
            };
            (here <= there).then_some(other)
        })
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, _channels: ChannelMask, bytes: usize) {
        self.picker.charge(&view.streams[stream], bytes);
    }

    fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
    }
}

/// When the last byte of a backlog would arrive if all channels but `other` carried it at their
/// rates, ending on `best`. A packet that arrives later than that on `other` only delays the end.
fn drain_time(view: &View<'_>, stream: usize, best: usize, other: usize) -> Duration {
    let stream = &view.streams[stream];
    let rate: f64 = (0..view.channels.len())
        .filter(|&channel| channel != other && stream.may_use(channel))
        .map(|channel| arrival::rate(&view.channels[channel]))
        .sum();
    let drain_s = if rate > 0.0 {
        (stream.backlog_bytes as f64 / rate).min(3600.0)
    } else {
        0.0
    };
    next_arrival(&view.channels[best]) + Duration::from_secs_f64(drain_s)
}
