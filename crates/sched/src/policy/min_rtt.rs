//! The free channel with the shortest round trip.

use anabranch_base::StreamId;

use super::{free_channels, stream_then_channel};
use crate::{Decision, Scheduler};
use crate::{pick::Picker, view::View};
use anabranch_spec::ChannelMask;

/// Default scheduler of the Linux kernel's MPTCP: simple, and the control of most experiments.
#[derive(Debug, Default)]
pub(super) struct MinRtt {
    picker: Picker,
}

impl Scheduler for MinRtt {
    fn next(&mut self, view: &View<'_>) -> Decision {
        stream_then_channel(&self.picker, view, |stream| {
            free_channels(view, stream).min_by_key(|&index| view.channels[index].rtt_smoothed)
        })
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, _channels: ChannelMask, bytes: usize) {
        self.picker.charge(&view.streams[stream], bytes);
    }

    fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
    }
}
