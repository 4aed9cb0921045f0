//! Age of evidence: a path that was not full for a while may carry something else by now.
//!
//! On recorded paths, a forecast that fails in a share f of the windows right after its evidence fails in about f^b of those some time later:
//! b is 0.87 after ten seconds, 0.75 after a minute, 0.60 after eight (`anabranch-lab run first-admission --only ages`). So an old
//! forecast is asked for more than the probability that is promised. Where each of the last four windows reached what was promised, it holds as often
//! as a new one, however old it is; so probes, or the stream's own data, renew it.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_spec::ChannelMask;
use anabranch_stats::joint::Cell;

use super::history::WINDOWS_MIN;

/// Age up to which evidence is as good as new.
const FRESH: Duration = Duration::from_secs(4);
/// Growth of the exponent 1/b with the logarithm of the age.
const GROWTH: f64 = 0.15;
/// Windows by which it is seen that a path still carries as much.
pub(super) const SEEN: usize = 4;
/// Age from which on measurements of the last seconds count beside it.
pub(super) const STALE: Duration = Duration::from_secs(20);

/// The probability with which a forecast holds at the time of its evidence, if it is to hold with `probability` an `age` later.
pub(super) fn aged(probability: f64, age: Duration) -> f64 {
    if age <= FRESH {
        return probability;
    }
    let later = age.as_secs_f64() / FRESH.as_secs_f64();
    1.0 - (1.0 - probability).powf(1.0 + GROWTH * later.ln())
}

/// Times at which a path was measured last.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    /// Full for a whole window.
    full_at: Option<Instant>,
    /// At all.
    at: Option<Instant>,
    /// Windows in which it was full.
    full: usize,
}

/// Ages of the windows of a sample history, by path.
#[derive(Clone, Debug, Default)]
pub(super) struct Ages(Vec<Measured>);

impl Ages {
    /// Adds a window that ends now: its samples, and the paths that were full in all of it.
    pub(super) fn end_window(&mut self, now: Instant, row: &[Cell], full: &[bool]) {
        self.0
            .resize(row.len().max(self.0.len()), Measured::default());
        for ((measured, cell), &is_full) in self.0.iter_mut().zip(row).zip(full) {
            if *cell != Cell::Missing {
                measured.at = Some(now);
            }
            if is_full {
                measured.full_at = Some(now);
                measured.full += 1;
            }
        }
    }

    /// Forgets a path but for its last `keep` windows: its samples are those of another one from now on.
    pub(super) fn forget(&mut self, path: usize, keep: usize) {
        match self.0.get_mut(path) {
            Some(measured) if keep == 0 => *measured = Measured::default(),
            Some(measured) => measured.full = keep.min(measured.full),
            None => {}
        }
    }

    /// True if every path of the set was full for as many windows as a forecast needs.
    pub(super) fn are_enough(&self, set: ChannelMask) -> bool {
        let is_known = |path| {
            let measured: Option<&Measured> = self.0.get(path);
            measured.is_some_and(|measured| measured.full >= WINDOWS_MIN)
        };
        set.iter().all(is_known)
    }

    /// Time since the paths of `set` were full, the longest of all; since they carried anything for those that never were.
    pub(super) fn of(&self, set: ChannelMask, now: Instant) -> Duration {
        let known = set.iter().filter_map(|path| self.0.get(path));
        let ages = known.filter_map(|measured| Some(now.since(measured.full_at.or(measured.at)?)));
        ages.max().unwrap_or_default()
    }

    /// True if one of the paths of `set` carries something now.
    pub(super) fn is_in_use(&self, set: ChannelMask, now: Instant) -> bool {
        let known = set.iter().filter_map(|path| self.0.get(path)?.at);
        known.max().is_some_and(|at| now.since(at) <= FRESH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_evidence_is_asked_for_more_as_recordings_demand() {
        let s = Duration::from_secs;
        assert_eq!(aged(0.9, s(4)), 0.9);
        // (age, exponent by which forecasts failed)
        for (age, fails) in [(10, 0.87), (60, 0.75), (120, 0.66), (480, 0.6), (900, 0.54)] {
            for probability in [0.75, 0.9, 0.95] {
                let asked = aged(probability, s(age));
                let holds = 1.0 - (1.0 - asked).powf(fails);
                assert!(
                    (holds - probability).abs() < 0.03,
                    "{age} {probability} {holds}"
                );
            }
        }
    }

    #[test]
    fn the_age_of_a_set_is_that_of_the_path_that_was_full_longest_ago() {
        let at = Instant::from_secs;
        let mut ages = Ages::default();
        let set = ChannelMask::only(0).with(1);
        assert_eq!(ages.of(set, at(9)), Duration::ZERO, "nothing is known");
        ages.end_window(
            at(10),
            &[Cell::Exact(1e6), Cell::AtLeast(1e6)],
            &[true, false],
        );
        ages.end_window(
            at(20),
            &[Cell::AtLeast(1e6), Cell::Missing],
            &[false, false],
        );
        assert_eq!(ages.of(ChannelMask::only(0), at(30)).as_secs(), 20);
        assert_eq!(ages.of(ChannelMask::only(1), at(30)).as_secs(), 20);
        assert!(ages.is_in_use(set, at(24)) && !ages.is_in_use(set, at(25)));
        ages.end_window(at(40), &[Cell::Exact(1e6), Cell::Missing], &[true, false]);
        assert_eq!(ages.of(set, at(40)).as_secs(), 30, "the second");
        ages.forget(1, 0);
        assert_eq!(ages.of(set, at(40)), Duration::ZERO);
    }
}
