//! Bytes of each component that have arrived, at many times, and the seconds in which they did.

use anabranch_lab::{
    experiments::gridftp::live::Live,
    kit::{sources::records::PERIOD, streams::figures::LATE},
};
use tokio::time::Instant;

/// Bytes of each component that have arrived at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// The time.
    pub(super) at: Instant,
    /// Bytes that have arrived, those of incomplete records included.
    pub(super) arrived: [u64; 3],
    /// Bytes that were written to the copy, record by record.
    pub(super) written: [u64; 3],
}

/// Looks at what has arrived, in order of time.
#[derive(Debug)]
pub(super) struct Samples {
    sizes: [u64; 3],
    /// Records of each component that were written.
    records: [u64; 3],
    /// Time at which the first record would have been written, had it been as quick as the quickest.
    earliest: Option<Instant>,
    looks: Vec<Look>,
}

impl Samples {
    /// None, of components of these sizes.
    pub(super) fn new(sizes: [usize; 3]) -> Self {
        Self {
            sizes: sizes.map(|size| size as u64),
            records: [0; 3],
            earliest: None,
            looks: Vec::new(),
        }
    }

    /// Notes a look. A stream that is over has no bytes any more; what it had still counts.
    pub(super) fn note(&mut self, mut look: Look) {
        if let Some(last) = self.looks.last() {
            for (bytes, before) in look.arrived.iter_mut().zip(last.arrived) {
                *bytes = before.max(*bytes);
            }
        }
        let each = self.sizes.iter().zip(&mut self.records).zip(look.written);
        for ((size, records), bytes) in each {
            let complete = bytes / size;
            if complete <= *records {
                continue;
            }
            *records = complete;
            let first = look.at.checked_sub(PERIOD * (complete - 1) as u32);
            self.earliest = first.into_iter().chain(self.earliest).min();
        }
        self.looks.push(look);
    }

    /// Beginning of the first second: [`LATE`] of the time between two records after the first one would have been written, had it been as quick as
    /// the quickest so far. In virtual time it is the same after the arrival of a record that meets no queue. `None` before the first record.
    pub(super) fn begin(&self) -> Option<Instant> {
        Some(self.earliest? + PERIOD.mul_f64(LATE))
    }

    /// Bytes of each component in each whole second. They count at the time of the look that finds them.
    pub(super) fn seconds(&self, bytes: impl Fn(&Look) -> [u64; 3]) -> Vec<[f64; 3]> {
        let Some(begin) = self.begin() else {
            return Vec::new();
        };
        let ends = (0..).map_while(|second| {
            let end = begin + Live::window() * second;
            let before = self.looks.partition_point(|look| look.at < end);
            let last = before.checked_sub(1).and_then(|last| self.looks.get(last));
            (before < self.looks.len()).then(|| last.map_or([0; 3], &bytes))
        });
        let ends: Vec<[u64; 3]> = ends.collect();
        let second =
            |pair: &[[u64; 3]]| [0, 1, 2].map(|index| (pair[1][index] - pair[0][index]) as f64);
        ends.windows(2).map(second).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STEP: Duration = Duration::from_millis(5);

    fn look(at: Instant, written: [u64; 3]) -> Look {
        let arrived = written.map(|bytes| bytes + 1);
        Look {
            at,
            arrived,
            written,
        }
    }

    /// A record of each component every eighth step, the third one of which is late by twenty steps. There is no look from the step `missing` on for
    /// twenty steps.
    fn samples(missing: u32) -> (Instant, Samples) {
        let begin = Instant::now();
        let mut samples = Samples::new([10, 20, 30]);
        for step in 0..=700_u32 {
            if step.checked_sub(missing).is_some_and(|step| step < 20) {
                continue;
            }
            let complete =
                |behind: u32| u64::from(step.checked_sub(behind).map_or(0, |s| s / 8 + 1));
            let bytes = [10 * complete(0), 20 * complete(0), 30 * complete(20)];
            samples.note(look(begin + STEP * step, bytes));
        }
        (begin, samples)
    }

    #[test]
    fn seconds_begin_after_the_quickest_record() {
        let (begin, all) = samples(u32::MAX);
        assert_eq!(all.begin(), Some(begin + PERIOD.mul_f64(LATE)));
        for seconds in [
            all.seconds(|look| look.written),
            all.seconds(|look| look.arrived),
        ] {
            // The third component begins late.
            let whole = [250.0, 500.0, 750.0];
            assert_eq!(seconds, [[250.0, 500.0, 720.0], whole, whole]);
        }
        // Although the first records of all components were late.
        let mut slow = Samples::new([10, 20, 30]);
        assert_eq!(slow.seconds(|look| look.written).len(), 0);
        slow.note(look(begin + STEP * 30, [10, 20, 30]));
        slow.note(look(begin + STEP * 31, [40, 60, 60]));
        let first = begin + STEP * 31 - PERIOD * 3;
        assert_eq!(slow.begin(), Some(first + PERIOD.mul_f64(LATE)));
    }

    #[test]
    fn what_a_stream_had_counts_when_it_is_over() {
        let (begin, mut samples) = samples(u32::MAX);
        for step in 701..900 {
            samples.note(Look {
                at: begin + STEP * step,
                arrived: [0; 3],
                written: [880, 1_760, 2_580],
            });
        }
        let seconds = samples.seconds(|look| look.arrived);
        assert_eq!(seconds[3][0], 120.0, "{seconds:?}");
    }

    #[test]
    fn what_a_late_look_finds_is_late() {
        // The first second ends 207 steps after the beginning, and the record of step 200 is found in the next one.
        let (_, late) = samples(200);
        let seconds = late.seconds(|look| look.written);
        assert_eq!([seconds[0][0], seconds[1][0]], [240.0, 260.0]);
    }
}
