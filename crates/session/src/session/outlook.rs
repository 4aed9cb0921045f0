//! Outlook of a stream: the times at which its channels will have delivered waiting data.

use std::time::Duration;

use anabranch_sched::{ChannelView, StreamView, arrival};

use super::shares::capacity_bytes_per_s;
use crate::send::Outlook;

/// Prediction of arrival over the channels that a stream may use, at the rates that they deliver; for what fits a channel's window at once,
/// at the rate that the window allows, if that is more: where the application has been the limit, what was delivered is no measure.
pub(super) struct ChannelsOutlook<'a> {
    pub(super) channels: &'a [ChannelView],
    pub(super) stream: &'a StreamView,
}

impl<'a> ChannelsOutlook<'a> {
    fn usable(&self) -> impl Iterator<Item = &'a ChannelView> + Clone {
        let (channels, stream) = (self.channels, self.stream);
        (0..channels.len())
            .filter(|&index| stream.may_use(index))
            .map(|index| &channels[index])
    }

    /// Bytes that may be sent now.
    pub(super) fn slots_bytes(&self) -> usize {
        self.usable()
            .map(|channel| channel.slots * channel.packet_bytes)
            .sum()
    }
}

impl Outlook for ChannelsOutlook<'_> {
    fn arrival(&self, bytes: usize) -> Option<Duration> {
        let expected = |channel: &ChannelView| {
            let mut channel = channel.clone();
            if channel.in_flight_bytes + bytes as u64 <= channel.window_bytes {
                channel.rate_bytes_per_s = capacity_bytes_per_s(&channel);
            }
            channel
        };
        arrival::completion(self.usable().map(expected), bytes as u64)
    }

    /// Variation of the round-trip time of the channel that the next packet would take.
    fn error(&self) -> Duration {
        self.usable()
            .min_by_key(|&channel| arrival::next_arrival(channel))
            .map_or(Duration::ZERO, |channel| channel.rtt_variation)
    }
}
