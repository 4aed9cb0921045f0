//! Which stream goes next: strict priority, then weighted fair shares.
//!
//! Every policy that decides only about channels uses this picker, so that they are compared on equal
//! terms. Fairness among equals is start-time fair queueing: each stream has a virtual finish time that
//! advances by bytes over weight, and the smallest goes first.

use std::collections::BTreeMap;

use anabranch_base::StreamId;

use crate::view::{StreamView, View};

/// Remembers what each stream has been given. One per session; O(streams with a backlog) per pick.
#[derive(Clone, Debug, Default)]
pub struct Picker {
    served: BTreeMap<StreamId, f64>,
    /// Virtual time: the smallest finish time among streams served lately. A stream that was idle
    /// starts from here, so that silence is not saved up.
    clock: f64,
}

impl Picker {
    /// The next stream among those `eligible`, as an index into `view.streams`.
    pub fn pick(&self, view: &View<'_>, eligible: impl Fn(&StreamView) -> bool) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for (index, stream) in view.streams.iter().enumerate() {
            if !eligible(stream) {
                continue;
            }
            let finish = self.finish_time(stream.id);
            let better = best.is_none_or(|(current, current_finish)| {
                let other = &view.streams[current];
                stream.priority > other.priority
                    || (stream.priority == other.priority && finish < current_finish)
            });
            if better {
                best = Some((index, finish));
            }
        }
        best.map(|(index, _)| index)
    }

    /// The stream has been given `bytes`.
    pub fn charge(&mut self, stream: &StreamView, bytes: usize) {
        let start = self.finish_time(stream.id);
        self.clock = start;
        self.served
            .insert(stream.id, start + bytes as f64 / f64::from(stream.weight));
    }

    /// The stream is closed.
    pub fn forget(&mut self, stream: StreamId) {
        self.served.remove(&stream);
    }

    fn finish_time(&self, stream: StreamId) -> f64 {
        self.served
            .get(&stream)
            .map_or(self.clock, |finish| finish.max(self.clock))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::spec::Priority;
    use anabranch_base::Instant;

    pub(crate) fn stream(id: u64, priority: Priority, weight: u32, backlog: u64) -> StreamView {
        StreamView {
            id: StreamId(id),
            priority,
            weight,
            is_urgent: priority >= Priority::URGENT,
            backlog_bytes: backlog,
            deadline: None,
            pinned: None,
        }
    }

    fn shares(streams: &[StreamView], packets: usize) -> Vec<usize> {
        let view = View {
            now: Instant::EPOCH,
            channels: &[],
            streams,
        };
        let mut picker = Picker::default();
        let mut counts = vec![0; streams.len()];
        for _ in 0..packets {
            let index = picker.pick(&view, |_| true).expect("a backlog");
            counts[index] += 1;
            picker.charge(&streams[index], 1400);
        }
        counts
    }

    #[test]
    fn equals_share_by_weight() {
        let streams = [
            stream(0, Priority::NORMAL, 100, 1),
            stream(2, Priority::NORMAL, 300, 1),
        ];
        assert_eq!(shares(&streams, 400), [100, 300]);
    }

    #[test]
    fn priority_goes_first() {
        let streams = [
            stream(0, Priority::BULK, 10_000, 1),
            stream(2, Priority::URGENT, 1, 1),
        ];
        assert_eq!(shares(&streams, 50), [0, 50]);
    }

    #[test]
    fn silence_is_not_saved_up() {
        let both = [
            stream(0, Priority::NORMAL, 100, 1),
            stream(2, Priority::NORMAL, 100, 1),
        ];
        let view = |streams| View {
            now: Instant::EPOCH,
            channels: &[],
            streams,
        };
        let mut picker = Picker::default();
        for _ in 0..1000 {
            let index = picker.pick(&view(&both[..1]), |_| true).expect("a backlog");
            picker.charge(&both[index], 1400);
        }
        let mut counts = [0, 0];
        for _ in 0..100 {
            let index = picker.pick(&view(&both), |_| true).expect("a backlog");
            counts[index] += 1;
            picker.charge(&both[index], 1400);
        }
        assert!(counts[0] >= 49, "{counts:?}");
    }
}
