//! Statistics of a session's flows over an interval, from the session's counters.

use std::{collections::BTreeMap, time::Duration};

use anabranch::{
    base::{Rate, ids::StreamId},
    net::session::StreamStats,
};

use crate::wire::{FETCH_LABEL, Flow};

/// All plays together, over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FlowStats {
    /// Rate at which essential data has left.
    pub(super) essential: Rate,
    /// Rate at which enhanced data has arrived.
    pub(super) enhanced: Rate,
    /// Share of the enhanced ADUs with a known outcome that was not sent for lack of capacity, or came too late.
    pub(super) dropped: f64,
    /// Share that was lost in the network.
    pub(super) lost: f64,
    /// Number of ADUs that these are shares of.
    pub(super) outcomes: u64,
    /// Bytes of essential flows that wait to be sent.
    pub(super) backlog_bytes: u64,
}

/// Counters of a stream at the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    sent_bytes: u64,
    left_bytes: u64,
    acked: u64,
    lost: u64,
    dropped: u64,
}

/// The counters of all streams at the last look.
#[derive(Debug, Default)]
pub(super) struct FlowCounters {
    before: BTreeMap<StreamId, Counted>,
    /// Bytes of plays that wait to be sent.
    pub(super) backlog_bytes: u64,
    /// Bytes of fetched data that wait to be sent.
    pub(super) fetched_backlog_bytes: u64,
}

impl FlowCounters {
    /// Takes the statistics of the interval `passed` since the last look. O(streams).
    pub(super) fn look(&mut self, streams: &[StreamStats], passed: Duration) -> FlowStats {
        let mut now = BTreeMap::new();
        let mut essential_bytes = 0;
        let mut backlog_bytes = 0;
        let mut enhanced = Counted::default();
        self.fetched_backlog_bytes = 0;
        self.backlog_bytes = 0;
        for stream in streams {
            if stream.spec.label == FETCH_LABEL {
                self.fetched_backlog_bytes += stream.backlog_bytes;
            }
            let Some((flow, _)) = Flow::of_label(&stream.spec.label) else {
                continue;
            };
            let counted = Counted {
                sent_bytes: stream.sent_bytes,
                left_bytes: stream.sent_bytes.saturating_sub(stream.backlog_bytes),
                acked: stream.acked_adus,
                lost: stream.lost_adus,
                dropped: stream.shed_adus + stream.expired_adus,
            };
            let before = self.before.get(&stream.stream).copied().unwrap_or_default();
            match flow {
                Flow::Essential => {
                    essential_bytes += counted.left_bytes.saturating_sub(before.left_bytes);
                    backlog_bytes += stream.backlog_bytes;
                }
                Flow::Enhanced => {
                    enhanced.sent_bytes += counted.sent_bytes - before.sent_bytes;
                    enhanced.acked += counted.acked - before.acked;
                    enhanced.lost += counted.lost - before.lost;
                    enhanced.dropped += counted.dropped.saturating_sub(before.dropped);
                }
            }
            self.backlog_bytes += stream.backlog_bytes;
            now.insert(stream.stream, counted);
        }
        self.before = now;
        let outcomes = enhanced.acked + enhanced.lost + enhanced.dropped;
        let share = |count: u64| count as f64 / outcomes.max(1) as f64;
        let passed = passed.max(Duration::from_millis(1));
        FlowStats {
            essential: Rate::from_bytes_per(essential_bytes, passed),
            enhanced: Rate::from_bytes_per(enhanced.sent_bytes, passed) * share(enhanced.acked),
            dropped: share(enhanced.dropped),
            lost: share(enhanced.lost),
            outcomes,
            backlog_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::StreamSpec;

    use super::*;

    fn stream(number: u64, label: &str) -> StreamStats {
        let spec = StreamSpec {
            label: label.to_owned(),
            ..StreamSpec::default()
        };
        StreamStats::new(StreamId(number), spec)
    }

    #[test]
    fn what_counts_is_what_has_happened_since_the_last_look() {
        let second = Duration::from_secs(1);
        let mut counters = FlowCounters::default();
        let mut essential = stream(1, &Flow::Essential.label(7));
        let mut enhanced = stream(2, &Flow::Enhanced.label(7));
        let mut fetch = stream(3, FETCH_LABEL);
        let other = StreamStats {
            sent_bytes: 9_000,
            backlog_bytes: 9_000,
            ..stream(4, "telemetry")
        };
        assert_eq!(counters.look(&[], second), FlowStats::default());
        essential.sent_bytes = 40_000;
        essential.backlog_bytes = 10_000;
        enhanced.sent_bytes = 100_000;
        (enhanced.acked_adus, enhanced.lost_adus) = (60, 10);
        (enhanced.shed_adus, enhanced.expired_adus) = (20, 10);
        enhanced.backlog_bytes = 1_000;
        fetch.backlog_bytes = 500;
        let all = [essential.clone(), enhanced.clone(), fetch, other];
        let flow_stats = counters.look(&all, 2 * second);
        assert_eq!(flow_stats.essential, Rate::from_kbps(120));
        assert_eq!(flow_stats.enhanced, Rate::from_kbps(240));
        assert_eq!((flow_stats.dropped, flow_stats.lost), (0.3, 0.1));
        assert_eq!(flow_stats.backlog_bytes, 10_000);
        assert_eq!(
            (counters.backlog_bytes, counters.fetched_backlog_bytes),
            (11_000, 500)
        );
        // What waited has left, and nothing is new.
        essential.backlog_bytes = 0;
        enhanced.backlog_bytes = 0;
        enhanced.acked_adus += 5;
        let flow_stats = counters.look(&[essential.clone(), enhanced], second);
        assert_eq!(flow_stats.essential, Rate::from_kbps(80));
        assert_eq!((flow_stats.dropped, flow_stats.lost), (0.0, 0.0));
        assert_eq!(counters.fetched_backlog_bytes, 0);
        // A stream that has gone takes its counters along.
        assert_eq!(counters.look(&[essential], second), FlowStats::default());
    }
}
