//! Earliest completion first [Lim et al., "ECF: An MPTCP Path Scheduler to Manage Heterogeneous
//! Paths", CoNEXT 2017, Algorithm 1].

use anabranch_base::StreamId;

use super::{nearest_and_free, stream_then_channel};
use crate::{Decision, Scheduler};
use crate::{
    pick::Picker,
    view::{ChannelView, View},
};
use anabranch_spec::ChannelMask;

/// Hysteresis that keeps a decision to wait stable (β of the paper).
const BETA: f64 = 0.25;

/// Waits for the fastest channel when that finishes the backlog earlier than the next best would.
#[derive(Debug, Default)]
pub(super) struct Ecf {
    picker: Picker,
    waiting: bool,
}

/// True to wait for `fast` rather than use `slow` for a backlog of `bytes`.
fn waits(waiting: bool, fast: &ChannelView, slow: &ChannelView, bytes: u64) -> bool {
    let seconds = |channel: &ChannelView| channel.rtt_smoothed.as_secs_f64();
    let packets = |channel: &ChannelView| {
        (channel.window_bytes as f64 / channel.packet_bytes.max(1) as f64).max(1.0)
    };
    let backlog = bytes as f64 / fast.packet_bytes.max(1) as f64;
    let margin = fast.rtt_variation.max(slow.rtt_variation).as_secs_f64();
    let rounds_fast = 1.0 + backlog / packets(fast);
    let beta = if waiting { BETA } else { 0.0 };
    rounds_fast * seconds(fast) < (1.0 + beta) * (seconds(slow) + margin)
        && (backlog / packets(slow)) * seconds(slow) >= 2.0 * seconds(fast) + margin
}

impl Scheduler for Ecf {
    fn next(&mut self, view: &View<'_>) -> Decision {
        let mut waiting = self.waiting;
        let decision = stream_then_channel(&self.picker, view, |index| {
            let stream = &view.streams[index];
            let (fast, best_free) = nearest_and_free(view, index)?;
            if best_free == fast {
                return Some(fast);
            }
            waiting = waits(
                waiting,
                &view.channels[fast],
                &view.channels[best_free],
                stream.backlog_bytes,
            );
            (!waiting).then_some(best_free)
        });
        self.waiting = waiting;
        decision
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, _channels: ChannelMask, bytes: usize) {
        self.picker.charge(&view.streams[stream], bytes);
    }

    fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
    }
}
