//! Bytes in proportion to the channels' delivery rates.

use std::collections::BTreeMap;

use anabranch_base::{ChannelId, StreamId};

use super::{free_channels, stream_then_channel};
use crate::{Decision, Scheduler};
use crate::{arrival, pick::Picker, view::View};
use anabranch_spec::ChannelMask;

/// Deficit round-robin over channels: the free channel that is furthest behind its share goes next.
///
/// A channel's share is its delivery rate; what it is behind is kept as the virtual time at which it
/// would have sent its bytes, so a change of rates takes effect at once.
#[derive(Debug, Default)]
pub(super) struct WeightedRoundRobin {
    picker: Picker,
    served: BTreeMap<ChannelId, f64>,
    clock: f64,
}

impl WeightedRoundRobin {
    fn finish_time(&self, channel: ChannelId) -> f64 {
        self.served
            .get(&channel)
            .map_or(self.clock, |served| served.max(self.clock))
    }
}

impl Scheduler for WeightedRoundRobin {
    fn next(&mut self, view: &View<'_>) -> Decision {
        stream_then_channel(&self.picker, view, |stream| {
            free_channels(view, stream).min_by(|&a, &b| {
                self.finish_time(view.channels[a].id)
                    .total_cmp(&self.finish_time(view.channels[b].id))
            })
        })
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize) {
        self.picker.charge(&view.streams[stream], bytes);
        for index in channels.iter() {
            let channel = &view.channels[index];
            let start = self.finish_time(channel.id);
            // The furthest behind was served: virtual time has come this far.
            self.clock = start;
            self.served.insert(
                channel.id,
                start + bytes as f64 / arrival::rate(channel).max(1.0),
            );
        }
    }

    fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
    }
}
