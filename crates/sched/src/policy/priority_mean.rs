//! Strict priority with a mean predictor: the rival that fair queueing is not.

use anabranch_base::StreamId;

use super::{claims::Claims, default, one_channel, servers::Servers};
use crate::{Decision, Scheduler};
use crate::{
    arrival::Outlook,
    pick::Picker,
    view::{ChannelView, View},
};
use anabranch_spec::ChannelMask;

/// Promised streams first, in order of precedence and each up to what it was promised; then everything by
/// the [`Picker`]. Each packet goes where it arrives first by the *mean* rates of the channels (EWMA), under
/// the rules of the default policy. No distribution, no mapping to paths: what it lacks of PGOS is exactly
/// that. What gets stuck, the session sends again as for every policy.
#[derive(Debug, Default)]
pub(super) struct PriorityMean {
    claims: Claims,
    picker: Picker,
    servers: Servers,
    /// The view's channels with their mean rates; kept between decisions.
    channels: Vec<ChannelView>,
    outlook: Outlook,
}

impl Scheduler for PriorityMean {
    fn next(&mut self, view: &View<'_>) -> Decision {
        if view.channels.iter().all(|channel| channel.slots == 0) {
            return Decision::Wait;
        }
        self.servers.look(view);
        self.channels.clear();
        let servers = &self.servers;
        let mean = |(index, channel): (usize, &ChannelView)| ChannelView {
            rate_bytes_per_s: servers.rate(index),
            ..channel.clone()
        };
        self.channels
            .extend(view.channels.iter().enumerate().map(mean));
        let by_mean = View {
            channels: &self.channels,
            ..*view
        };
        self.outlook.begin();
        self.outlook.look(&by_mean);
        let outlook = &self.outlook;
        let choose =
            |stream: usize| default::choose(&by_mean, outlook, stream, &view.streams[stream]);
        let promised = self.claims.pick(&by_mean, choose);
        let picked = promised.or_else(|| self.picker.pick_with(&by_mean, choose));
        one_channel(picked)
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, _channels: ChannelMask, bytes: usize) {
        let stream = &view.streams[stream];
        // What came first by right does not move the clock by which the others share.
        if !self.claims.charge(view.now, stream, bytes) {
            self.picker.charge(stream, bytes);
        }
    }

    fn forget(&mut self, stream: StreamId) {
        self.claims.forget(stream);
        self.picker.forget(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::claims::tests::promised, *};
    use crate::{arrival::tests::channel, pick::tests::stream};
    use anabranch_base::Instant;
    use anabranch_spec::Priority;

    #[test]
    fn claims_by_rank_then_the_rest_by_priority_and_weight() {
        let channels = [channel(0, 9, 20, 100.0)];
        let streams = [
            stream(0, Priority::NORMAL, 100, 1 << 30),
            stream(2, Priority::NORMAL, 300, 1 << 30),
            promised(4, 1, 0.8),
            promised(6, 0, 0.8),
        ];
        let view = View {
            now: Instant::EPOCH,
            channels: &channels,
            streams: &streams,
        };
        let mut scheduler = PriorityMean::default();
        let mut order = Vec::new();
        for _ in 0..600 {
            let Decision::Send { stream, channels } = scheduler.next(&view) else {
                panic!("the channel is free");
            };
            scheduler.sent(&view, stream, channels, 1000);
            order.push(stream);
        }
        assert_eq!(order[..200], [[3; 100], [2; 100]].concat());
        // Beyond their claims, promised streams are like any other of their weight.
        let count = |index| order[200..].iter().filter(|&&at| at == index).count();
        let counts = [count(0), count(1), count(2), count(3)];
        for (count, share) in counts.into_iter().zip([400 / 6, 400 / 2, 400 / 6, 400 / 6]) {
            assert!(count.abs_diff(share) <= 1, "{counts:?}");
        }
    }

    /// The channel that carries most at this moment is not the one that carries most on average.
    #[test]
    fn the_mean_decides() {
        let streams = [stream(0, Priority::NORMAL, 100, 1400)];
        let mut scheduler = PriorityMean::default();
        let decide = |scheduler: &mut PriorityMean, now_ms, first_mbps| {
            // 50 kB in flight on each, of which 100 Mbit/s make 4 ms and 10 Mbit/s 40 ms.
            let channels = [(0, first_mbps), (1, 20.0)].map(|(id, mbps)| {
                let mut channel = channel(id, 9, 2, mbps);
                channel.in_flight_bytes = 50_000;
                channel
            });
            scheduler.next(&View {
                now: Instant::from_millis(now_ms),
                channels: &channels,
                streams: &streams,
            })
        };
        let on = |channel| Decision::Send {
            stream: 0,
            channels: ChannelMask::only(channel),
        };
        assert_eq!(decide(&mut scheduler, 0, 10.0), on(1));
        assert_eq!(
            decide(&mut scheduler, 200, 100.0),
            on(1),
            "10 + 0.1·90 = 19"
        );
        assert_eq!(decide(&mut scheduler, 400, 100.0), on(0));
    }
}
