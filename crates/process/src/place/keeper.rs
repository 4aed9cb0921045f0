//! Hysteresis of a place.

use std::time::Duration;

use anabranch_base::Instant;

use super::{
    choice::{best, compare},
    estimate::{Demand, Estimate},
};

/// Rules for moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Fraction by which the time at the place in use has to exceed that at another one, if both keep the demand.
    pub gain: f64,
    /// Share of windows that another place has to keep more, if the one in use does not keep the demand.
    pub share: f64,
    /// Time for which the same other place has to be better, and least time between two moves.
    pub hold: Duration,
}

impl Default for Rules {
    /// A quarter, a twentieth, and 15 s: a move costs a reliable stream about half a second.
    fn default() -> Self {
        Self {
            gain: 0.25,
            share: 0.05,
            hold: Duration::from_secs(15),
        }
    }
}

/// Keeps an operator at its place until another one has been better for a while.
#[derive(Clone, Debug)]
pub struct Keeper {
    rules: Rules,
    current: usize,
    moved: Option<Instant>,
    /// The place that is better, and since when.
    better: Option<(usize, Instant)>,
}

impl Keeper {
    /// The operator is at the candidate `current`.
    pub fn new(rules: Rules, current: usize) -> Self {
        Self {
            rules,
            current,
            moved: None,
            better: None,
        }
    }

    /// The candidate at which the operator is.
    pub fn current(&self) -> usize {
        self.current
    }

    /// The operator is at another candidate now, for a reason that is not an estimate.
    pub fn set(&mut self, current: usize, now: Instant) {
        if self.current != current {
            (self.current, self.moved, self.better) = (current, Some(now), None);
        }
    }

    /// Looks at the estimates for all candidates, of which some may be unknown; returns the candidate to which the operator moves. It stays where
    /// it is while that place is unknown.
    pub fn look(
        &mut self,
        estimates: &[Option<Estimate>],
        demand: &Demand,
        now: Instant,
    ) -> Option<usize> {
        let Some(better) = self.better_one(estimates, demand) else {
            self.better = None;
            return None;
        };
        let since = match self.better {
            Some((same, since)) if same == better => since,
            _ => {
                self.better = Some((better, now));
                now
            }
        };
        let has_held = now.since(since) >= self.rules.hold;
        let has_stayed = (self.moved).is_none_or(|at| now.since(at) >= self.rules.hold);
        if !(has_held && has_stayed) {
            return None;
        }
        self.set(better, now);
        Some(better)
    }

    /// Another candidate that is so much better that a move is worth it.
    fn better_one(&self, estimates: &[Option<Estimate>], demand: &Demand) -> Option<usize> {
        let current = estimates.get(self.current)?.as_ref()?;
        let at = best(estimates, demand).filter(|at| *at != self.current)?;
        let other = estimates[at].as_ref()?;
        let is_worth_it = match (current.keeps(demand), other.keeps(demand)) {
            (true, true) => current.time_s > other.time_s * (1.0 + self.rules.gain),
            (true, false) => false,
            (false, _) => {
                other.share >= current.share + self.rules.share
                    || other.share == current.share && is_relieved(current, other)
            }
        };
        (is_worth_it && compare(other, current, demand).is_lt()).then_some(at)
    }
}

/// True if neither keeps up, and the tightest part of the other is used by half or less.
fn is_relieved(current: &Estimate, other: &Estimate) -> bool {
    current.share == 0.0 && other.use_share <= 0.5 * current.use_share
}
