//! Arrival periods of promised streams: live media and instruments send a frame at regular times.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anabranch_base::{Instant, StreamId};

/// ADUs nearer to each other than this belong to one frame.
const TOGETHER: Duration = Duration::from_millis(2);
/// Longest period: frames that come less often, or irregularly, are not predicted.
const PERIOD_MAX: Duration = Duration::from_secs(1);
/// A time between frames that differs from the previous one by more than this share of it ends the period.
const TOLERANCE: f64 = 0.1;
/// Number of times between frames that must have been alike.
const ALIKE_MIN: u32 = 3;

/// Arrival period of one stream.
#[derive(Clone, Copy, Debug)]
struct ArrivalPeriod {
    /// Beginning of its last frame.
    at: Instant,
    period: Duration,
    /// Number of consecutive periods that were alike.
    alike: u32,
}

impl ArrivalPeriod {
    /// Time at which the next frame is expected.
    fn next(&self) -> Option<Instant> {
        (self.alike >= ALIKE_MIN).then(|| self.at + self.period)
    }

    /// Notes the beginning of a frame.
    fn beat(&mut self, now: Instant) {
        let period = now.since(self.at);
        let off = period.abs_diff(self.period);
        let is_alike = off <= self.period.mul_f64(TOLERANCE) && period <= PERIOD_MAX;
        self.alike = if is_alike { self.alike + 1 } else { 0 };
        self.period = period;
        self.at = now;
    }
}

/// Arrival periods of promised streams. Key: session.
#[derive(Debug, Default)]
pub(super) struct ArrivalPeriods {
    streams: BTreeMap<StreamId, ArrivalPeriod>,
    /// Frames that are expected, in order of time.
    expected: BTreeSet<(Instant, StreamId)>,
}

impl ArrivalPeriods {
    /// Notes that an ADU was handed over to the stream. O(log streams).
    pub(super) fn note(&mut self, now: Instant, stream: StreamId) {
        let first = ArrivalPeriod {
            at: now,
            period: Duration::ZERO,
            alike: 0,
        };
        let arrival_period = self.streams.entry(stream).or_insert(first);
        if now.since(arrival_period.at) < TOGETHER {
            return;
        }
        if let Some(next) = arrival_period.next() {
            self.expected.remove(&(next, stream));
        }
        arrival_period.beat(now);
        if let Some(next) = arrival_period.next() {
            self.expected.insert((next, stream));
        }
    }

    pub(super) fn forget(&mut self, stream: StreamId) {
        if let Some(next) = self.streams.remove(&stream).and_then(|old| old.next()) {
            self.expected.remove(&(next, stream));
        }
    }

    /// Time at which the next frame is expected. Frames overdue by more than `tolerance` are given up.
    /// O(log streams), amortised over frames.
    pub(super) fn next(&mut self, now: Instant, tolerance: Duration) -> Option<Instant> {
        while let Some(&(at, _)) = self.expected.first() {
            if at + tolerance > now {
                return Some(at);
            }
            self.expected.pop_first();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn noted(times_ms: &[u64]) -> ArrivalPeriods {
        let mut arrival_periods = ArrivalPeriods::default();
        for &ms in times_ms {
            arrival_periods.note(at(ms), StreamId(4));
        }
        arrival_periods
    }

    #[test]
    fn a_regular_stream_is_expected_once_it_has_shown_to_be_one() {
        assert_eq!(noted(&[0, 40, 80, 120]).next(at(121), TOLERANCE), None);
        // Two ADUs are one frame.
        let mut arrival_periods = noted(&[0, 40, 41, 80, 120, 160]);
        assert_eq!(arrival_periods.next(at(161), TOLERANCE), Some(at(200)));
        arrival_periods.note(at(202), StreamId(4));
        assert_eq!(arrival_periods.next(at(203), TOLERANCE), Some(at(244)));
        assert_eq!(
            arrival_periods.next(at(246), TOLERANCE),
            None,
            "it did not come"
        );
    }

    #[test]
    fn an_irregular_one_is_not() {
        assert_eq!(
            noted(&[0, 40, 80, 120, 160, 210]).next(at(211), TOLERANCE),
            None
        );
        assert_eq!(
            noted(&[0, 2000, 4000, 6000, 8000]).next(at(8001), TOLERANCE),
            None
        );
        let mut arrival_periods = noted(&[0, 40, 80, 120, 160]);
        arrival_periods.forget(StreamId(4));
        assert_eq!(arrival_periods.next(at(161), TOLERANCE), None);
    }
}
