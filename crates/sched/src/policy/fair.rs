//! Fair queueing by the finish times of a fluid server whose rate is predicted.
//!
//! The fluid (GPS) serves all backlogged streams at once, each in proportion to its weight [Demers, Keshav &
//! Shenker, SIGCOMM 1989; Parekh & Gallager 1993]; packets leave in the order in which the fluid would
//! finish them. Virtual time V advances by the predicted rate over the weights of the backlogged streams: by
//! what each of them may expect, in bytes per unit of weight. A stream that comes back starts at V.
//!
//! A prediction that is off would let V run away from what is really served, and with it the place of
//! every stream that comes and goes (a frame at a time) beside those that never pause. So V stays between the
//! earliest start of what waits and the latest finish of what was served.

use anabranch_base::{Instant, StreamId};

use crate::view::{StreamView, View};

/// Streams remembered before those that owe nothing are forgotten.
const ENTRIES_MIN: usize = 64;
/// A packet of a stream with a larger backlog, in bytes.
const PACKET_BYTES: u64 = 1200;

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: StreamId,
    /// Virtual time at which the fluid system begins with the packet that the stream sends next.
    start: f64,
    /// The last decision in which it had a backlog.
    seen: u64,
}

/// One per session. Ignores priorities: fair queueing knows weights only.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    /// By stream, ascending.
    entries: Vec<Entry>,
    /// V, in bytes per unit of weight.
    virtual_time: f64,
    /// The latest finish of what was served.
    latest: f64,
    looked_at: Option<Instant>,
    decisions: u64,
    prune_at: usize,
}

impl FairQueue {
    /// The stream that the fluid finishes first, of those for which `accept` has an answer, with the
    /// answer. `rate` is the predicted rate of all servers, in bytes per second.
    ///
    /// O(streams in the view), and O(streams) more for one that is new.
    pub(super) fn pick<T>(
        &mut self,
        view: &View<'_>,
        rate: f64,
        mut accept: impl FnMut(usize) -> Option<T>,
    ) -> Option<(usize, T)> {
        self.advance(view, rate);
        let mut best: Option<(usize, T, f64)> = None;
        let mut place = 0;
        for (index, stream) in view.streams.iter().enumerate() {
            if !stream.is_waiting() {
                continue;
            }
            place = self.touch(stream, place);
            let bytes = stream.backlog_bytes.min(PACKET_BYTES) as f64;
            let finish = self.entries[place].start + bytes / f64::from(stream.weight);
            place += 1;
            let is_first = best.as_ref().is_none_or(|(_, _, first)| finish < *first);
            if is_first && let Some(answer) = accept(index) {
                best = Some((index, answer, finish));
            }
        }
        best.map(|(index, answer, _)| (index, answer))
    }

    /// The stream has been given `bytes`.
    pub(super) fn charge(&mut self, stream: &StreamView, bytes: usize) {
        let place = self.touch(stream, 0);
        let entry = &mut self.entries[place];
        entry.start += bytes as f64 / f64::from(stream.weight);
        self.latest = self.latest.max(entry.start);
    }

    /// The stream is closed.
    pub(super) fn forget(&mut self, stream: StreamId) {
        if let Ok(place) = self.entries.binary_search_by_key(&stream, |entry| entry.id) {
            self.entries.remove(place);
        }
    }

    /// A decision begins: virtual time moves on.
    fn advance(&mut self, view: &View<'_>, rate: f64) {
        self.decisions += 1;
        let elapsed_s = self
            .looked_at
            .map_or(0.0, |at| view.now.since(at).as_secs_f64());
        self.looked_at = Some(view.now);
        let (mut weights, mut earliest, mut place) = (0.0, f64::INFINITY, 0);
        for stream in view.streams.iter().filter(|s| s.is_waiting()) {
            weights += f64::from(stream.weight);
            if let Some(at) = self.find(stream.id, place) {
                // What has just come back is not waiting since then.
                if self.entries[at].seen + 1 == self.decisions {
                    earliest = earliest.min(self.entries[at].start);
                }
                place = at + 1;
            }
        }
        if weights > 0.0 {
            self.virtual_time += elapsed_s * rate / weights;
        }
        self.virtual_time = self.virtual_time.min(self.latest);
        if earliest.is_finite() {
            self.virtual_time = self.virtual_time.max(earliest);
        }
    }

    /// The entry of a stream with a backlog; it starts at V unless it had one all along.
    fn touch(&mut self, stream: &StreamView, hint: usize) -> usize {
        let place = match self.find(stream.id, hint) {
            Some(place) => place,
            None => self.insert(stream.id),
        };
        let entry = &mut self.entries[place];
        if entry.seen + 1 < self.decisions {
            entry.start = entry.start.max(self.virtual_time);
        }
        entry.seen = self.decisions;
        place
    }

    fn find(&self, stream: StreamId, hint: usize) -> Option<usize> {
        if self
            .entries
            .get(hint)
            .is_some_and(|entry| entry.id == stream)
        {
            return Some(hint);
        }
        self.entries
            .binary_search_by_key(&stream, |entry| entry.id)
            .ok()
    }

    fn insert(&mut self, stream: StreamId) -> usize {
        if self.entries.len() >= self.prune_at.max(ENTRIES_MIN) {
            let (clock, now) = (self.virtual_time, self.decisions);
            self.entries
                .retain(|entry| entry.start > clock || entry.seen + 1 >= now);
            self.prune_at = 2 * self.entries.len();
        }
        let place = self.entries.partition_point(|entry| entry.id < stream);
        let entry = Entry {
            id: stream,
            start: self.virtual_time,
            seen: self.decisions,
        };
        self.entries.insert(place, entry);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pick::tests::stream;
    use anabranch_spec::Priority;

    fn turns(
        queue: &mut FairQueue,
        streams: &[StreamView],
        from_ms: u64,
        packets: u64,
    ) -> Vec<usize> {
        let mut counts = vec![0; streams.len()];
        for packet in 0..packets {
            let view = View {
                now: Instant::from_millis(from_ms + packet),
                channels: &[],
                streams,
            };
            // A tenth more than the packet a millisecond that is really served.
            let (index, ()) = queue.pick(&view, 1.1 * 1.2e6, |_| Some(())).unwrap();
            queue.charge(&streams[index], 1200);
            counts[index] += 1;
        }
        counts
    }

    #[test]
    fn weights_decide_and_priorities_do_not() {
        let streams = [
            stream(0, Priority::URGENT, 100, 1 << 20),
            stream(2, Priority::BULK, 300, 1 << 20),
        ];
        assert_eq!(
            turns(&mut FairQueue::default(), &streams, 0, 400),
            [100, 300]
        );
    }

    /// Whoever was silent neither has a claim on the time that passed nor waits for it.
    #[test]
    fn a_stream_that_comes_back_gets_its_share_at_once() {
        let both = [
            stream(0, Priority::NORMAL, 100, 1 << 20),
            stream(2, Priority::NORMAL, 100, 1 << 20),
        ];
        let mut queue = FairQueue::default();
        turns(&mut queue, &both, 0, 10);
        for from_ms in [1000, 3000] {
            turns(&mut queue, &both[..1], from_ms, 1000);
            let counts = turns(&mut queue, &both, from_ms + 1000, 100);
            assert!((49..=51).contains(&counts[0]), "{counts:?}");
        }
    }

    #[test]
    fn streams_that_owe_nothing_are_forgotten() {
        let mut queue = FairQueue::default();
        for id in 0..10_000 {
            turns(&mut queue, &[stream(id, Priority::NORMAL, 100, 100)], id, 1);
        }
        assert!(
            queue.entries.len() <= 2 * ENTRIES_MIN,
            "{}",
            queue.entries.len()
        );
        queue.forget(StreamId(9999));
        assert!(queue.find(StreamId(9999), 0).is_none());
    }
}
