//! Blocking estimation [Ferlin et al., "BLEST: Blocking Estimation-based MPTCP Scheduler for
//! Heterogeneous Networks", IFIP Networking 2016, §IV].

use anabranch_base::StreamId;

use super::{nearest_and_free, stream_then_channel};
use crate::{Decision, Scheduler};
use crate::{pick::Picker, view::View};
use anabranch_spec::ChannelMask;

/// Step by which the correction λ follows what happens (δ of the paper).
const LAMBDA_STEP: f64 = 0.01;

/// Skips a slow channel when, during one of its round trips, the fast one could use the whole send
/// window by itself, so that the slow packet would only block it.
#[derive(Debug)]
pub(super) struct Blest {
    picker: Picker,
    lambda: f64,
}

impl Default for Blest {
    fn default() -> Self {
        Self {
            picker: Picker::default(),
            lambda: 1.0,
        }
    }
}

impl Scheduler for Blest {
    fn next(&mut self, view: &View<'_>) -> Decision {
        let lambda = &mut self.lambda;
        stream_then_channel(&self.picker, view, |index| {
            let stream = &view.streams[index];
            let (fast, best_free) = nearest_and_free(view, index)?;
            if best_free == fast {
                return Some(fast);
            }
            let (fast, slow) = (&view.channels[fast], &view.channels[best_free]);
            let rounds =
                slow.rtt_smoothed.as_secs_f64() / fast.rtt_smoothed.as_secs_f64().max(1e-6);
            // Bytes the fast channel can send during one round trip of the slow one (equation 3).
            let packets_fast = fast.window_bytes as f64 / fast.packet_bytes.max(1) as f64;
            let fast_bytes =
                fast.packet_bytes as f64 * (packets_fast + (rounds - 1.0) / 2.0) * rounds;
            // The send window here is the stream's backlog: late binding leaves nothing else.
            let left = stream.backlog_bytes as f64
                - slow.packet_bytes as f64
                    * (slow.in_flight_bytes as f64 / slow.packet_bytes.max(1) as f64 + 1.0);
            let blocks = fast_bytes * *lambda > left;
            *lambda = (*lambda + if blocks { -LAMBDA_STEP } else { LAMBDA_STEP }).clamp(0.5, 2.0);
            (!blocks).then_some(best_free)
        })
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, _channels: ChannelMask, bytes: usize) {
        self.picker.charge(&view.streams[stream], bytes);
    }

    fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
    }
}
