//! Every stream on one channel: its own, or the first.

use anabranch_base::StreamId;

use super::{free_channels, stream_then_channel};
use crate::{Decision, Scheduler};
use crate::{pick::Picker, view::View};
use anabranch_spec::ChannelMask;

/// No striping at all: what a single path would do, as the control of experiments.
#[derive(Debug, Default)]
pub(super) struct Pinned {
    picker: Picker,
}

impl Scheduler for Pinned {
    fn next(&mut self, view: &View<'_>) -> Decision {
        stream_then_channel(&self.picker, view, |stream| {
            let only = view.streams[stream].pinned.unwrap_or(Some(0))?;
            free_channels(view, stream).find(|&index| index == only)
        })
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, _channels: ChannelMask, bytes: usize) {
        self.picker.charge(&view.streams[stream], bytes);
    }

    fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
    }
}
