//! Of which streams the ADUs of a cycle are.

use std::{cmp::Ordering, collections::BinaryHeap};

use anabranch_base::{Instant, StreamId};

use crate::{
    pick::Picker,
    view::{StreamView, View},
};
use anabranch_spec::Priority;

/// Collects the ADUs of a cycle: as many as there are slots, from the heads of the streams' queues, by priority and
/// weighted fair shares [Horde §6.4: "the constraints imposed by the bandwidth allocator"]. What was collected and
/// not sent does not count: a stream whose ADUs wait for better slots has more in the next cycle. So that
/// a stream whose ADUs take no slot does not hide the others, each stream that waits has at least one.
///
/// One per session.
#[derive(Debug, Default)]
pub struct Turns {
    picker: Picker,
    heap: BinaryHeap<Turn>,
}

/// The greatest goes first.
#[derive(Debug)]
struct Turn {
    priority: Priority,
    finish: f64,
    deadline: Option<Instant>,
    /// Index in the view.
    stream: usize,
    has_any: bool,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        let soonest = |deadline: Option<Instant>| (deadline.is_none(), deadline);
        (self.priority.cmp(&other.priority))
            .then_with(|| other.finish.total_cmp(&self.finish))
            .then_with(|| soonest(other.deadline).cmp(&soonest(self.deadline)))
            .then_with(|| other.stream.cmp(&self.stream))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Turn {}

impl Turns {
    /// Calls `take` with the index of a stream in the view for `count` ADUs in turn, then once for each stream that
    /// has none yet, `most` times in all. It answers with the bytes taken, or with `None` when the
    /// stream has no more.
    ///
    /// O((streams + count) · log streams); no allocation once as many streams have waited.
    pub fn collect(
        &mut self,
        view: &View<'_>,
        count: usize,
        most: usize,
        mut take: impl FnMut(usize) -> Option<u32>,
    ) {
        let mut heap = std::mem::take(&mut self.heap);
        heap.clear();
        for (index, stream) in view.streams.iter().enumerate() {
            if stream.is_waiting() {
                heap.push(Turn {
                    priority: stream.priority,
                    finish: self.picker.finish_of(stream.id),
                    deadline: stream.deadline,
                    stream: index,
                    has_any: false,
                });
            }
        }
        let mut taken = 0;
        while taken < most
            && let Some(mut turn) = heap.pop()
        {
            if taken >= count && turn.has_any {
                continue;
            }
            if let Some(bytes) = take(turn.stream) {
                taken += 1;
                turn.has_any = true;
                turn.finish += f64::from(bytes) / f64::from(view.streams[turn.stream].weight);
                heap.push(turn);
            }
        }
        self.heap = heap;
    }

    /// The stream has been given `bytes`.
    pub fn charge(&mut self, stream: &StreamView, bytes: usize) {
        self.picker.charge(stream, bytes);
    }

    /// The stream is closed.
    pub fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pick::tests::stream;

    fn counts(
        turns: &mut Turns,
        streams: &[StreamView],
        queued: &[usize],
        count: usize,
    ) -> Vec<usize> {
        let view = View {
            now: Instant::EPOCH,
            channels: &[],
            streams,
        };
        let mut taken = vec![0; streams.len()];
        turns.collect(&view, count, 64, |index| {
            (taken[index] < queued[index]).then(|| {
                taken[index] += 1;
                1_000
            })
        });
        taken
    }

    #[test]
    fn adus_are_collected_by_weight_and_as_far_as_there_are_any() {
        let streams = [
            stream(0, Priority::NORMAL, 100, 1),
            stream(2, Priority::NORMAL, 300, 1),
            stream(4, Priority::NORMAL, 300, 1),
        ];
        let mut turns = Turns::default();
        assert_eq!(counts(&mut turns, &streams, &[9, 9, 2], 8), [2, 4, 2]);
        assert_eq!(counts(&mut turns, &streams, &[1, 1, 1], 8), [1, 1, 1]);
        // What was sent counts, what was only collected does not.
        turns.charge(&streams[0], 6_000);
        turns.charge(&streams[1], 1);
        turns.charge(&streams[2], 1);
        assert_eq!(counts(&mut turns, &streams, &[9, 9, 9], 4), [1, 2, 2]);
    }

    #[test]
    fn a_stream_that_is_forgotten_begins_anew() {
        let streams = [0, 2].map(|id| stream(id, Priority::NORMAL, 100, 1));
        let mut turns = Turns::default();
        turns.charge(&streams[0], 6_000);
        turns.charge(&streams[1], 1);
        assert_eq!(counts(&mut turns, &streams, &[9, 9], 4), [1, 4]);
        turns.forget(streams[0].id);
        assert_eq!(counts(&mut turns, &streams, &[9, 9], 4), [2, 2]);
    }

    #[test]
    fn a_stream_of_low_priority_is_looked_at_though_it_has_no_turn() {
        let streams = [
            stream(0, Priority::URGENT, 100, 1),
            stream(2, Priority::BULK, 100, 1),
        ];
        let mut turns = Turns::default();
        assert_eq!(counts(&mut turns, &streams, &[9, 9], 4), [4, 1]);
        assert_eq!(counts(&mut turns, &streams, &[0, 9], 4), [0, 4]);
    }
}
