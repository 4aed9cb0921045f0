//! Slots held back for promised data that are expected.
//!
//! A path that elastic streams keep full has a queue, and a frame that arrives at the sender waits behind it. While
//! that queue lasts, the path is busy whether or not anything is added: so nothing elastic is, from so long before the
//! frame is expected as the queue lasts. The path sends as much as before, in another order: the frame meets
//! an empty queue, and what is elastic goes after it.
//!
//! Data in flight during the *usual* round trip is no queue: with jitter of a few milliseconds, it exceeds that of the shortest one. If
//! it were taken for a queue, the path would idle before every frame, be measured to be slower, and its queue would seem the longer.

use std::time::Duration;

use anabranch_base::Instant;

use crate::view::{ChannelView, View};

/// No channel is held back for longer.
const LEAD_MAX: Duration = Duration::from_millis(12);
/// Part of a queue that is not believed: acknowledgements come in batches, and the rate may rise.
const MARGIN: Duration = Duration::from_millis(3);

/// Channels that are held back, and the time until which they are.
#[derive(Debug, Default)]
pub(super) struct Hold {
    expected: Option<Instant>,
    /// Time at which what some channel is held back for is expected, as of the last look.
    pub(super) until: Option<Instant>,
    /// The channels as elastic streams see them meanwhile.
    channels: Vec<ChannelView>,
}

impl Hold {
    /// Promised data are expected then.
    pub(super) fn expect(&mut self, promised: Option<Instant>) {
        self.expected = promised;
        self.until = None;
    }

    /// The channels as elastic streams see them: without slots where they are held back. O(channels).
    pub(super) fn channels<'a>(&'a mut self, view: &View<'a>) -> &'a [ChannelView] {
        self.until = None;
        let Some(at) = self.expected else {
            return view.channels;
        };
        let soon = at.since(view.now);
        let is_held = |channel: &ChannelView| channel.slots > 0 && lead(channel) >= soon;
        if soon > LEAD_MAX || !view.channels.iter().any(is_held) {
            return view.channels;
        }
        self.until = Some(at);
        self.channels.clear();
        self.channels.extend_from_slice(view.channels);
        for channel in self.channels.iter_mut().filter(|channel| is_held(channel)) {
            channel.slots = 0;
        }
        &self.channels
    }
}

/// Time for which the channel's queue will certainly keep it busy: for what is in flight beyond the path itself, its jitter included. The packet
/// that is being sent is no queue: on a slow path, each would be held back for by the next, and a path that idles is
/// measured to be slower still.
fn lead(channel: &ChannelView) -> Duration {
    let queued = channel
        .in_flight_bytes
        .saturating_sub(channel.packet_bytes as u64);
    let all_s = queued as f64 / channel.rate_bytes_per_s.max(1.0);
    let unqueued = channel.rtt_usual.max(channel.rtt_min);
    let lead_s = all_s - (unqueued + MARGIN).as_secs_f64();
    Duration::from_secs_f64(lead_s.clamp(0.0, LEAD_MAX.as_secs_f64()))
}
