//! Multi-server fair queueing with a mean predictor.

use anabranch_base::StreamId;

use super::{fair::FairQueue, free_channels, one_channel, servers::Servers};
use crate::view::View;
use crate::{Decision, Scheduler};
use anabranch_spec::ChannelMask;

/// Fair queueing over an aggregate of servers [Blanquer & Özden, SIGCOMM 2001]: packets go in the order in
/// which a single fluid server with the rate of all would finish them, each to the server that is idle
/// next. The second row of [IQ-Paths] Table III.
///
/// The source has servers of one constant rate. Here the rate of each is an EWMA of what it delivered, and a
/// server is idle when it would be done with what it was given at that rate. Streams get shares by weight
/// and what these come to; it knows no priorities and no promises.
#[derive(Debug, Default)]
pub(super) struct Msfq {
    queue: FairQueue,
    servers: Servers,
}

impl Scheduler for Msfq {
    fn next(&mut self, view: &View<'_>) -> Decision {
        self.servers.look(view);
        let servers = &self.servers;
        let picked = self.queue.pick(view, servers.rate_total(), |stream| {
            servers.next_idle(free_channels(view, stream))
        });
        one_channel(picked)
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize) {
        self.queue.charge(&view.streams[stream], bytes);
        self.servers.charge(view.now, channels, bytes);
    }

    fn forget(&mut self, stream: StreamId) {
        self.queue.forget(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{arrival::tests::channel, pick::tests::stream};
    use anabranch_base::Instant;
    use anabranch_spec::Priority;

    /// Streams by weight, channels by rate, both at once.
    #[test]
    fn the_aggregate_is_shared_by_weight() {
        let channels = [channel(3, 9, 20, 30.0), channel(5, 9, 90, 10.0)];
        let streams = [
            stream(0, Priority::BULK, 300, 1 << 30),
            stream(2, Priority::URGENT, 100, 1 << 30),
        ];
        let mut msfq = Msfq::default();
        let (mut by_stream, mut by_channel) = ([0; 2], [0; 2]);
        for packet in 0..400 {
            let view = View {
                // 1400 bytes at 40 Mbit/s take 0.28 ms.
                now: Instant::from_micros(280 * packet),
                channels: &channels,
                streams: &streams,
            };
            let Decision::Send { stream, channels } = msfq.next(&view) else {
                panic!("both channels are free");
            };
            msfq.sent(&view, stream, channels, 1400);
            by_stream[stream] += 1;
            for channel in channels.iter() {
                by_channel[channel] += 1;
            }
        }
        assert_eq!(by_stream, [300, 100]);
        assert!((299..=301).contains(&by_channel[0]), "{by_channel:?}");
    }
}
