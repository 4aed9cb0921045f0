//! Every packet on every channel with a slot.

use anabranch_base::StreamId;

use super::free_channels;
use crate::{Decision, Scheduler};
use crate::{pick::Picker, view::View};
use anabranch_spec::ChannelMask;

/// Delay and loss of the best channel at the cost of all of them; for small streams that matter.
#[derive(Debug, Default)]
pub(super) struct Redundant {
    picker: Picker,
}

impl Scheduler for Redundant {
    fn next(&mut self, view: &View<'_>) -> Decision {
        let free = |stream: &crate::view::StreamView| {
            view.channels
                .iter()
                .enumerate()
                .any(|(index, channel)| channel.slots > 0 && stream.may_use(index))
        };
        let Some(stream) = self.picker.pick(view, free) else {
            return Decision::Wait;
        };
        let channels = free_channels(view, stream).fold(ChannelMask::NONE, ChannelMask::with);
        Decision::Send { stream, channels }
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, _channels: ChannelMask, bytes: usize) {
        self.picker.charge(&view.streams[stream], bytes);
    }

    fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
    }
}
