//! Records of promises: kept, broken, withdrawn.

use anabranch_session::Term;

use super::{
    levels::LevelsRecord,
    warnings::{Kind, Warning},
};

/// Share of the bytes needed in a window that must arrive for the promise to be kept.
pub(super) const KEPT: f64 = 0.999;
/// Windows between a broken window and a warning within which the warning came too late.
const BITTEN: usize = 5;

/// Windows in which a promise was in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) windows: u64,
    pub(super) kept: u64,
    /// Broken windows that began after the owner had been warned.
    pub(super) broken_warned: u64,
    /// Broken windows in which the paths held what the mapping counts on.
    pub(super) broken_by_moves: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.windows += other.windows;
        self.kept += other.kept;
        self.broken_warned += other.broken_warned;
        self.broken_by_moves += other.broken_by_moves;
    }

    pub(super) fn broken(&self) -> u64 {
        self.windows - self.kept
    }

    /// `None` without any.
    pub(super) fn kept_share(&self) -> Option<f64> {
        (self.windows > 0).then(|| self.kept as f64 / self.windows as f64)
    }
}

/// Outcome of a refused customer's acceptance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asked {
    /// Admitted at once.
    #[default]
    Admitted,
    /// Refused without an offer, or with an offer that was not taken.
    Refused { had_offer: bool },
    /// Refused; an offer was taken and then promised, or not.
    Took { is_promised: bool },
}

/// Outcome of one customer.
#[derive(Clone, Debug, Default)]
pub(super) struct CustomerRecord {
    /// Probability of the final demand: the first one, or the accepted offer.
    pub(super) probability: f64,
    pub(super) asked: Asked,
    pub(super) renewable: Tally,
    pub(super) durable: Tally,
    /// Drop in the capacity of its paths while a durable promise was in force; `None`: none was, or not measured.
    pub(super) drift: Option<f64>,
    pub(super) withdrawals: u64,
    /// Those with a warning at least two windows before.
    pub(super) announced: u64,
    /// Those without a broken window in the five before the warning, nor in the one in which it came.
    pub(super) before_it_bit: u64,
    /// Those without a broken window in the five before the warning, ignoring the one in which it came.
    pub(super) by_its_end: u64,
    /// Those without more broken windows in the five before the warning than the promise allows.
    pub(super) as_allowed: u64,
    /// The session's own account: kept, broken.
    pub(super) account: (u64, u64),
    is_warned: bool,
    /// Window after which the warning came, and whether the next one was running by then.
    warned_at: Option<(usize, bool)>,
    /// Windows in which a promise was in force, and those of them that were broken.
    pub(super) in_force_at: Vec<usize>,
    pub(super) broken_at: Vec<usize>,
    /// Windows after which a promise was withdrawn.
    pub(super) withdrawn_at: Vec<usize>,
    pub(super) warnings: Vec<Warning>,
    /// Window before which it was last observed.
    pub(super) ends_at: usize,
}

impl CustomerRecord {
    pub(super) fn new(probability: f64) -> Self {
        Self {
            probability,
            ..Self::default()
        }
    }

    /// Judges window `at`, in which a promise of this grade was in force.
    pub(super) fn judge(&mut self, at: usize, term: Term, is_kept: bool, is_moved: bool) {
        let tally = match term {
            Term::Durable => &mut self.durable,
            Term::Renewable => &mut self.renewable,
        };
        tally.windows += 1;
        self.in_force_at.push(at);
        if is_kept {
            tally.kept += 1;
            return;
        }
        tally.broken_warned += u64::from(self.is_warned);
        tally.broken_by_moves += u64::from(is_moved);
        self.broken_at.push(at);
    }

    /// Records that after window `at`, or well into the next one, its owner was warned that the promise will lapse. `is_own`: it was
    /// judged with more than its probability.
    pub(super) fn warn(&mut self, at: usize, kind: Kind, is_own: bool) {
        self.is_warned = true;
        self.warned_at = Some((at, kind == Kind::During));
        self.warnings.push(Warning { at, kind, is_own });
    }

    /// Updates whether the session's warning persists.
    pub(super) fn is_warned(&mut self, is_warned: bool) {
        self.is_warned = is_warned;
    }

    /// Records that the promise was withdrawn after window `at`.
    pub(super) fn withdraw(&mut self, at: usize) {
        self.withdrawals += 1;
        self.withdrawn_at.push(at);
        self.is_warned = false;
        if let Some((warned_at, is_during)) = self.warned_at.take()
            && warned_at + 2 <= at
        {
            self.announced += 1;
            let from = warned_at.saturating_sub(BITTEN);
            let broken_in = |windows: std::ops::RangeInclusive<usize>| {
                let broken = self.broken_at.iter().filter(|at| windows.contains(at));
                broken.count()
            };
            let before = broken_in(from..=warned_at);
            let until = warned_at + usize::from(is_during);
            self.before_it_bit += u64::from(broken_in(from..=until) == 0);
            self.by_its_end += u64::from(before == 0);
            let allowed = (1.0 - self.probability) * (BITTEN + 1) as f64;
            self.as_allowed += u64::from(before as f64 <= allowed + 1e-9);
        }
    }

    /// True if it had a promise at some time.
    pub(super) fn is_promised(&self) -> bool {
        self.renewable.windows + self.durable.windows > 0
    }
}

/// Rates in force and rates possible, summed over the moments of comparison, in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) moments: u64,
    /// Moments left out, because the exact mapping was not found.
    pub(super) given_up: u64,
    pub(super) asked: f64,
    pub(super) in_force: f64,
    /// The mapping, from nothing, in the same order.
    pub(super) mapped: f64,
    /// The exact mapping in the same order.
    pub(super) exact: f64,
    /// The exact mapping of the best subset.
    pub(super) best: f64,
    /// The exact mapping in the same order, knowing the windows to come.
    pub(super) clairvoyant: f64,
}

impl Rates {
    pub(super) fn add(&mut self, other: &Self) {
        self.moments += other.moments;
        self.given_up += other.given_up;
        self.asked += other.asked;
        self.in_force += other.in_force;
        self.mapped += other.mapped;
        self.exact += other.exact;
        self.best += other.best;
        self.clairvoyant += other.clairvoyant;
    }
}

/// Outcome of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) records: Vec<CustomerRecord>,
    pub(super) rates: Rates,
    /// Of sources with levels.
    pub(super) levels: Vec<LevelsRecord>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_withdrawal_is_announced_by_a_warning_long_enough_before() {
        let mut record = CustomerRecord::default();
        record.judge(3, Term::Renewable, true, false);
        record.warn(10, Kind::Early, false);
        record.judge(11, Term::Renewable, false, false);
        record.withdraw(12);
        assert_eq!(
            (record.withdrawals, record.announced, record.before_it_bit),
            (1, 1, 1)
        );
        assert_eq!(
            (record.renewable.broken(), record.renewable.broken_warned),
            (1, 1)
        );
        record.judge(20, Term::Renewable, false, true);
        record.warn(24, Kind::Early, false);
        record.withdraw(30);
        assert_eq!(
            (record.withdrawals, record.announced, record.before_it_bit),
            (2, 2, 1)
        );
        record.warn(40, Kind::Early, false);
        record.withdraw(41);
        record.withdraw(50);
        assert_eq!(
            (record.withdrawals, record.announced, record.before_it_bit),
            (4, 2, 1)
        );
        assert_eq!(record.renewable.broken_by_moves, 1);
        assert!(record.is_promised());
    }

    #[test]
    fn a_warning_in_the_window_that_breaks_comes_by_its_end() {
        let mut record = CustomerRecord::new(0.75);
        record.warn(10, Kind::During, false);
        record.judge(11, Term::Renewable, false, false);
        record.withdraw(14);
        assert_eq!(
            (record.before_it_bit, record.by_its_end, record.as_allowed),
            (0, 1, 1)
        );
        // One of five is within one quarter, two are not.
        record.judge(20, Term::Renewable, false, false);
        record.warn(22, Kind::Early, false);
        record.withdraw(25);
        assert_eq!((record.by_its_end, record.as_allowed), (1, 2));
        record.judge(30, Term::Renewable, false, false);
        record.judge(31, Term::Renewable, false, false);
        record.warn(32, Kind::Early, false);
        record.withdraw(35);
        assert_eq!((record.announced, record.as_allowed), (3, 2));
    }
}
