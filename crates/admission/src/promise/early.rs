//! Early evidence: the rate that holds on a path of which only seconds are known, or which no traffic has filled.
//!
//! Its *level* is the smallest of the rates that were measured in the last seconds, by probes or by data that filled the path. On recorded
//! paths, the share of that level which the next ten windows reach with a probability hardly depends on how much the rates differ,
//! but on the time over which they were measured; [`SHARES`] is that share, from 197 recordings (`anabranch-lab run first-admission
//! --only shares`). What is known of the path's interface from earlier sessions replaces it ([`Prior`]).

use std::collections::VecDeque;

use anabranch_base::Instant;
use anabranch_spec::ChannelMask;
use anabranch_stats::joint::Cell;

use super::{
    prior::{Prior, Steadiness},
    probabilities::{PROBABILITIES, value_at},
};

/// Full sub-windows of 200 ms at the beginning that show the sender's start.
const BEGINNING: u32 = 3;
/// Seconds kept.
const SECONDS: u64 = 20;
/// Seconds with a measured rate before anything is promised, and the time from the first to the last.
const LEAST: usize = 3;
const SPAN_MIN_S: u64 = 2;
/// Seconds with a lower bound of the rate that count instead.
const BOUNDS: usize = 5;
/// Evidence that is older is not that of the present path.
const FRESH_S: u64 = 10;
/// Once rates were measured over [`SECONDS`], they are measured again after this time.
const AGAIN_S: u64 = 4;
/// A path is steady if the smallest rate of at least so many seconds is at least this part of the largest.
const STEADY: f64 = 0.95;
const STEADY_SECONDS: usize = 4;
/// Paths seldom fall together: where none has more than this part of what they hold, the sum of what each holds fails in so much fewer
/// windows than each (`anabranch-lab run first-admission --only set/`).
const SPREAD: f64 = 0.75;
const TOGETHER: f64 = 1.5;
/// Shares of the level that hold for ten seconds: by the time from the first to the last second, of any path and of steady ones, for
/// [`PROBABILITIES`].
const SHARES: [(u64, Steadiness, Steadiness); 8] = [
    (2, [1.0, 0.89, 0.5, 0.23, 0.0], [1.0, 0.89, 0.57, 0.3, 0.0]),
    (
        3,
        [1.0, 0.94, 0.55, 0.28, 0.0],
        [1.0, 0.92, 0.64, 0.36, 0.0],
    ),
    (
        4,
        [1.0, 0.97, 0.59, 0.29, 0.0],
        [1.0, 0.96, 0.76, 0.47, 0.0],
    ),
    (5, [1.0, 0.99, 0.6, 0.3, 0.0], [1.0, 0.97, 0.81, 0.54, 0.0]),
    (8, [1.0, 1.0, 0.69, 0.36, 0.0], [1.0, 0.97, 0.86, 0.54, 0.0]),
    (10, [1.0, 1.0, 0.74, 0.4, 0.0], [1.0, 0.98, 0.88, 0.63, 0.0]),
    (
        15,
        [1.0, 1.0, 0.83, 0.47, 0.0],
        [1.0, 0.98, 0.91, 0.74, 0.0],
    ),
    (19, [1.0, 1.0, 0.9, 0.53, 0.0], [1.0, 0.99, 0.93, 0.8, 0.0]),
];

/// A rate that was measured on a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// The path was full: it carries this much, in bits per second.
    Exactly(f64),
    /// It carries at least this much.
    AtLeast(f64),
}

/// Rates of one second.
#[derive(Clone, Copy, Debug)]
struct Second {
    at_s: u64,
    /// Smallest rate of the full path; infinite: it was not full.
    least_bps: f64,
    /// Largest lower bound.
    bound_bps: f64,
}

impl Second {
    fn is_exact(&self) -> bool {
        self.least_bps.is_finite()
    }

    /// Rate of a second in which the path was full.
    fn bps(&self) -> f64 {
        self.least_bps.max(self.bound_bps)
    }
}

/// Early evidence of one path. O(1) for a rate, O(seconds) for an answer.
#[derive(Clone, Debug, Default)]
struct Early {
    seconds: VecDeque<Second>,
    /// Sub-windows in a row in which the path was full.
    full_parts: u32,
    prior: Option<Prior>,
}

impl Early {
    fn push(&mut self, now: Instant, measured: Measured) {
        let at_s = second(now);
        if self.seconds.back().is_none_or(|last| last.at_s < at_s) {
            self.seconds.push_back(Second {
                at_s,
                least_bps: f64::INFINITY,
                bound_bps: 0.0,
            });
            while (self.seconds.front()).is_some_and(|first| first.at_s + SECONDS <= at_s) {
                self.seconds.pop_front();
            }
        }
        let Some(last) = self.seconds.back_mut() else {
            return;
        };
        match measured {
            Measured::Exactly(bps) => last.least_bps = last.least_bps.min(bps),
            Measured::AtLeast(bps) => last.bound_bps = last.bound_bps.max(bps),
        }
    }

    /// Adds the rate of a sub-window. The first ones of a path that becomes full show how its sender began.
    fn push_part(&mut self, now: Instant, cell: Cell) {
        self.full_parts = match cell {
            Cell::Exact(_) => self.full_parts.saturating_add(1),
            _ => 0,
        };
        match cell {
            Cell::Exact(bps) if self.full_parts > BEGINNING => {
                self.push(now, Measured::Exactly(bps));
            }
            Cell::Exact(bps) | Cell::AtLeast(bps) => self.push(now, Measured::AtLeast(bps)),
            Cell::Missing => {}
        }
    }

    /// True if rates were measured lately.
    fn is_fresh(&self, now: Instant) -> bool {
        let last = self.seconds.back();
        last.is_some_and(|last| last.at_s + FRESH_S >= second(now))
    }

    /// True if probes would add nothing now: rates were measured for as long as is kept, and not long ago.
    fn is_complete(&self, now: Instant) -> bool {
        let now_s = second(now);
        let first = self.exact().next();
        let is_long = first.is_some_and(|first| first.at_s + SECONDS <= now_s + AGAIN_S);
        let last = self.exact().last();
        is_long && last.is_some_and(|last| last.at_s + AGAIN_S > now_s)
    }

    fn exact(&self) -> impl Iterator<Item = &Second> {
        self.seconds.iter().filter(|second| second.is_exact())
    }

    /// Rate that holds with `probability` for the next ten windows; `None` while too little is known.
    fn holds(&self, probability: f64) -> Option<f64> {
        let by_rates = self.by_rates(probability);
        let by_bounds = self.by_bounds(probability);
        by_rates.into_iter().chain(by_bounds).reduce(f64::max)
    }

    /// Number of seconds in which a rate was measured, and time from the first to the last; `None` if they are too few.
    fn measured(&self) -> Option<(usize, u64)> {
        let (first, last) = (self.exact().next()?, self.exact().last()?);
        let (count, span_s) = (self.exact().count(), last.at_s - first.at_s);
        (count >= LEAST && span_s >= SPAN_MIN_S).then_some((count, span_s))
    }

    /// The smallest rate that was measured lately.
    fn level(&self, now: Instant) -> Option<f64> {
        self.measured().filter(|_| self.is_fresh(now))?;
        self.exact().map(Second::bps).reduce(f64::min)
    }

    fn by_rates(&self, probability: f64) -> Option<f64> {
        let (count, span_s) = self.measured()?;
        let rates = || self.exact().map(Second::bps);
        let level = rates().fold(f64::INFINITY, f64::min);
        let is_steady = count >= STEADY_SECONDS && level >= STEADY * rates().fold(0.0, f64::max);
        Some(level * self.share(span_s, is_steady, probability))
    }

    fn by_bounds(&self, probability: f64) -> Option<f64> {
        let known = self.seconds.iter().rev();
        let bounds = known.filter(|second| second.bound_bps > 0.0).take(BOUNDS);
        let span_s = BOUNDS as u64 - 1;
        let (count, level) = bounds.fold((0, f64::INFINITY), |(count, least), second| {
            (count + 1, least.min(second.bound_bps))
        });
        (count == BOUNDS).then(|| level * self.share(span_s, false, probability))
    }

    fn share(&self, span_s: u64, is_steady: bool, probability: f64) -> f64 {
        let row = SHARES.iter().rfind(|(least_s, ..)| *least_s <= span_s);
        let generic = row.map_or([0.0; PROBABILITIES.len()], |&(_, any, steady)| {
            if is_steady { steady } else { any }
        });
        let (prior, weight) = match self.prior {
            Some(prior) => (prior.shares, prior.weight),
            None => (generic, 0.0),
        };
        let mixed = |at: usize| weight * prior[at] + (1.0 - weight) * generic[at];
        value_at(probability, |at| Some(mixed(at))).unwrap_or(0.0)
    }
}

/// Early evidence of all paths of a session, by path.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlyEvidence {
    paths: Vec<Early>,
    /// Time of the last question or window.
    now: Instant,
}

impl EarlyEvidence {
    /// Sets the time by which evidence is fresh.
    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// The last time that was set.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    fn path(&mut self, path: usize) -> &mut Early {
        if path >= self.paths.len() {
            self.paths.resize(path + 1, Early::default());
        }
        &mut self.paths[path]
    }

    /// Adds a rate that was measured on a path just now.
    pub(super) fn push(&mut self, now: Instant, path: usize, measured: Measured) {
        self.path(path).push(now, measured);
    }

    /// Sets what is known of a path's interface from earlier sessions.
    pub(super) fn set_prior(&mut self, path: usize, prior: Option<Prior>) {
        self.path(path).prior = prior;
    }

    /// Adds the samples of a sub-window that ends now, by path.
    pub(super) fn push_part(&mut self, now: Instant, row: &[Cell]) {
        for (path, cell) in row.iter().enumerate() {
            self.path(path).push_part(now, *cell);
        }
    }

    /// Forgets a path but for its last `keep` windows: its samples are those of another one from now on.
    pub(super) fn forget(&mut self, path: usize, keep: usize) {
        if keep == 0
            && let Some(early) = self.paths.get_mut(path)
        {
            *early = Early::default();
        }
    }

    /// True if probes of a path would add to what is known here.
    pub(super) fn may_learn(&self, now: Instant, path: usize) -> bool {
        let early = self.paths.get(path);
        early.is_none_or(|early| !early.is_complete(now))
    }

    /// The smallest rates that the paths of `set` had lately, together; `None` unless all were measured.
    pub(super) fn level(&self, set: ChannelMask) -> Option<f64> {
        let level = |path: usize| self.paths.get(path)?.level(self.now);
        set.iter().map(level).sum()
    }

    /// Rate that `set` holds with `probability` for the next ten windows; `None` while too little is known. For a stream without a
    /// promise (`is_new`), only fresh evidence counts.
    pub(super) fn holds(&self, set: ChannelMask, probability: f64, is_new: bool) -> Option<f64> {
        let together = 1.0 - (TOGETHER * (1.0 - probability)).min(0.5);
        let known = set.iter().filter_map(|path| {
            let early = self.paths.get(path)?;
            let counts = !is_new || early.is_fresh(self.now);
            let alone = counts.then(|| early.holds(probability))??;
            Some((alone, early.holds(together).unwrap_or(alone)))
        });
        let (mut alone, mut several, mut largest) = (0.0, 0.0, 0.0f64);
        for (of_one, of_several) in known {
            alone += of_one;
            several += of_several;
            largest = largest.max(of_several);
        }
        let is_spread = largest <= SPREAD * several;
        let holds = if is_spread { several.max(alone) } else { alone };
        (holds > 0.0).then_some(holds)
    }
}

fn second(at: Instant) -> u64 {
    at.since_epoch().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(rates: &[(u64, Measured)]) -> Early {
        let mut early = Early::default();
        for &(at_s, measured) in rates {
            early.push(Instant::from_secs(at_s), measured);
        }
        early
    }

    #[test]
    fn nothing_holds_before_three_seconds_have_rates() {
        let rate = |at_s| (at_s, Measured::Exactly(8e6));
        assert_eq!(known(&[rate(1), rate(2)]).holds(0.9), None);
        assert_eq!(known(&[rate(1), rate(1), rate(1)]).holds(0.9), None);
        let three = known(&[rate(1), rate(2), rate(3)]);
        assert_eq!(three.holds(0.9), Some(8e6 * 0.5));
        assert_eq!(three.holds(0.99), Some(0.0));
    }

    #[test]
    fn the_smallest_rate_counts_and_more_holds_the_longer_it_is_known() {
        let mut before = 0.0;
        for until in [3, 5, 9, 16] {
            let mut rates: Vec<_> = (1..=until)
                .map(|at_s| (at_s, Measured::Exactly(10e6)))
                .collect();
            let steady = known(&rates).holds(0.9).unwrap();
            rates[1].1 = Measured::Exactly(5e6);
            let varying = known(&rates).holds(0.9).unwrap();
            assert!(
                varying <= 5e6 && varying < 0.6 * steady,
                "{varying} {steady}"
            );
            assert!(varying > before, "{varying} {before}");
            before = varying;
        }
        // A probe beside data shows less than the path carries; the data shows how much at least.
        let both = |at_s| {
            [
                (at_s, Measured::Exactly(2e6)),
                (at_s, Measured::AtLeast(4e6)),
            ]
        };
        let rates: Vec<_> = (1..=3).flat_map(both).collect();
        assert_eq!(known(&rates).holds(0.5), Some(4e6));
    }

    #[test]
    fn bounds_count_where_nothing_else_is_known() {
        let bound = |at_s| (at_s, Measured::AtLeast(3e6));
        let four: Vec<_> = (1..=4).map(bound).collect();
        assert_eq!(known(&four).holds(0.75), None);
        let five: Vec<_> = (1..=5).map(bound).collect();
        let holds = known(&five).holds(0.75).unwrap();
        assert!((holds - 3e6 * 0.97).abs() < 1.0, "{holds}");
    }

    #[test]
    fn old_rates_are_forgotten() {
        let mut early = known(&[(1, Measured::Exactly(1e6)), (2, Measured::Exactly(1e6))]);
        assert!(early.is_fresh(Instant::from_secs(12)));
        assert!(!early.is_fresh(Instant::from_secs(13)));
        for at_s in 30..33 {
            early.push(Instant::from_secs(at_s), Measured::Exactly(9e6));
        }
        assert_eq!(early.holds(0.5), Some(9e6));
        assert!(!early.is_complete(Instant::from_secs(33)));
        for at_s in 33..50 {
            early.push(Instant::from_secs(at_s), Measured::Exactly(9e6));
        }
        assert!(early.is_complete(Instant::from_secs(50)));
    }

    #[test]
    fn what_was_known_before_replaces_what_holds_on_any_path() {
        let rates: Vec<_> = (1..=3)
            .map(|at_s| (at_s, Measured::Exactly(10e6)))
            .collect();
        let mut early = known(&rates);
        let shares = [1.0, 1.0, 0.94, 0.87, 0.6];
        early.prior = Some(Prior {
            shares,
            weight: 1.0,
        });
        assert_eq!(early.holds(0.9), Some(9.4e6));
        assert_eq!(early.holds(0.99), Some(6e6));
        early.prior = Some(Prior {
            shares,
            weight: 0.5,
        });
        let holds = early.holds(0.9).unwrap();
        assert!((holds - 10e6 * (0.94 + 0.5) / 2.0).abs() < 1.0, "{holds}");
    }
}
