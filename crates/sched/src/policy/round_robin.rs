//! One packet each, in turn.

use anabranch_base::{ChannelId, StreamId};

use super::{free_channels, stream_then_channel};
use crate::{Decision, Scheduler};
use crate::{pick::Picker, view::View};
use anabranch_spec::ChannelMask;

/// Goes round the channels that have a slot.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    picker: Picker,
    last: Option<ChannelId>,
}

impl Scheduler for RoundRobin {
    fn next(&mut self, view: &View<'_>) -> Decision {
        let last = self.last;
        stream_then_channel(&self.picker, view, |stream| {
            let after = |&index: &usize| last.is_none_or(|last| view.channels[index].id > last);
            free_channels(view, stream)
                .find(after)
                .or_else(|| free_channels(view, stream).next())
        })
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize) {
        self.picker.charge(&view.streams[stream], bytes);
        self.last = channels.iter().next().map(|index| view.channels[index].id);
    }

    fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
    }
}
