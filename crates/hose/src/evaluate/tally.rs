//! Tally of an objective: the contexts of what was sent within the last minute, their utility and faults.
//!
//! Time is divided into intervals; the sums of the last twelve are kept. A tally therefore covers 55 to 60 seconds.

use std::time::Duration;

use anabranch_base::Instant;
use serde::Serialize;

use super::faults::Faults;

/// Time that a tally covers at most.
pub const TALLY_WINDOW: Duration = Duration::from_secs(60);
/// Number of intervals of a tally.
const INTERVALS: usize = 12;
const INTERVAL_NANOS: u64 = TALLY_WINDOW.as_nanos() as u64 / INTERVALS as u64;

/// Contexts, utility and faults of one objective within the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Contexts that were tried: bindings of its variables to ADUs that were sent.
    pub contexts: u64,
    /// Contexts in which its goal was true and everything known.
    pub contexts_met: u64,
    /// Sum of the gains in these.
    pub utility: f64,
    /// Contexts whose evaluation had a fault.
    pub contexts_faulty: u64,
    /// Kinds of faults, those included that appeared in planning alone.
    #[serde(skip)]
    pub faults: Faults,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.contexts += other.contexts;
        self.contexts_met += other.contexts_met;
        self.utility += other.utility;
        self.contexts_faulty += other.contexts_faulty;
        self.faults = self.faults.union(other.faults);
    }
}

/// Tallies of the last intervals of time. Key: objective.
#[derive(Clone, Debug, Default)]
pub(super) struct Intervals {
    /// In rotation: that of interval `n` is at `n` modulo their number.
    sums: [Tally; INTERVALS],
    /// Number of the last interval to which something was added.
    last: u64,
}

impl Intervals {
    /// Adds to the interval of `now`. O(intervals that have passed since the last call, 12 at most).
    pub(super) fn add(&mut self, now: Instant, tally: &Tally) {
        let number = now.as_nanos() / INTERVAL_NANOS;
        let passed = number.saturating_sub(self.last);
        for back in 0..passed.min(INTERVALS as u64) {
            self.sums[((number - back) % INTERVALS as u64) as usize] = Tally::default();
        }
        self.last = self.last.max(number);
        self.sums[(self.last % INTERVALS as u64) as usize].add(tally);
    }

    /// Sum over the intervals that lie in the last minute.
    pub(super) fn sum(&self, now: Instant) -> Tally {
        let number = now.as_nanos() / INTERVAL_NANOS;
        let mut sum = Tally::default();
        for back in 0..INTERVALS as u64 {
            let of = self.last.checked_sub(back);
            let is_recent = |of: &u64| number.saturating_sub(*of) < INTERVALS as u64;
            if let Some(of) = of.filter(is_recent) {
                sum.add(&self.sums[(of % INTERVALS as u64) as usize]);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one() -> Tally {
        Tally {
            contexts: 1,
            utility: 0.5,
            ..Tally::default()
        }
    }

    #[test]
    fn what_is_older_than_a_minute_is_forgotten() {
        let mut intervals = Intervals::default();
        let at = |seconds| Instant::from_secs(seconds);
        intervals.add(at(3), &one());
        intervals.add(at(4), &one());
        intervals.add(at(31), &one());
        assert_eq!(intervals.sum(at(31)).contexts, 3);
        assert_eq!(intervals.sum(at(59)).utility, 1.5);
        assert_eq!(intervals.sum(at(60)).contexts, 1);
        assert_eq!(intervals.sum(at(90)).contexts, 0);
        intervals.add(at(10_000), &one());
        assert_eq!(intervals.sum(at(10_000)).contexts, 1);
    }

    proptest! {
        /// Additions at growing times: none of the last 55 seconds is missing, and none is older than a minute.
        #[test]
        fn the_window_is_a_minute(steps in prop::collection::vec(0_u64..9_000, 1..80), wait in 0_u64..70_000) {
            let mut intervals = Intervals::default();
            let mut now = 0;
            let mut times = Vec::new();
            for step in steps {
                now += step;
                times.push(now);
                intervals.add(Instant::from_millis(now), &one());
            }
            now += wait;
            let within = |ms: u64| times.iter().filter(|&&at| now - at < ms).count() as u64;
            let sum = intervals.sum(Instant::from_millis(now)).contexts;
            prop_assert!((within(55_000)..=within(60_000)).contains(&sum), "{sum}");
        }
    }
}
