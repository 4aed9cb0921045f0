//! Promises: what the next samples of a path will reach with a stated probability.
//!
//! A [`Forecaster`] takes one bandwidth sample after another and gives, for each of several probabilities P,
//! a rate that the next sample (or each of the next H) reaches with probability P: over any long run, the
//! share of kept promises is P, on series that are neither independent nor stationary, too. A promise about H
//! samples is judged as a whole, or each of its samples on its own ([`Judged`]).
//!
//! ```text
//!             ┌ recent, all: quantiles of rates ────────┐
//! samples ──► │ ratios to two averages                  │   weighted by      promise
//!   state     │ residual in units of the spread         ├─► pinball loss ──► qₜ(α) ──► kept? ┐
//!             └ what followed situations like this one ─┘      mixture                      │
//!                        ▲ asked for the level αₜ ◄──────────── calibrator ◄────────────────┘
//! ```
//!
//! | part | file |
//! |---|---|
//! | averages and the situation that a promise starts from | `state.rs` |
//! | seven experts, each with a quantile for any level | `experts.rs`, `analogue.rs` |
//! | their weights | `mixture.rs` |
//! | the level at which they are asked | `calibrator.rs`, for terms `term.rs`; `error_sum.rs` |
//! | promises that still stand | `pending.rs` |
//!
//! The percentile of a window [IQ-Paths §IV] is one of the experts; alone it is the baseline
//! [`mean::Percentile`](crate::mean::Percentile). `docs/results/statistics.md` has the figures of both and what was
//! tried and failed. A promise at time t depends on the samples before t only.
//!
//! ```
//! use anabranch_base::Rate;
//! use anabranch_stats::{bandwidth::Sample, forecast::{Config, Forecaster}};
//!
//! let mut forecaster = Forecaster::new(&Config::default())?;
//! assert_eq!(forecaster.promise(0.95), None); // nothing is known yet
//! for second in 0..200u64 {
//!     forecaster.observe(Sample::exact(Rate::from_kbps(8_000 + second * 1_117 % 4_000)));
//! }
//! let promise = forecaster.promise(0.95).expect("200 samples are enough");
//! assert!(promise >= Rate::from_mbps(7) && promise < Rate::from_mbps(12));
//! # Ok::<(), anabranch_stats::forecast::ConfigError>(())
//! ```

mod analogue;
mod calibrator;
mod config;
mod error_sum;
mod experts;
mod mixture;
mod pending;
mod state;
mod term;
#[cfg(test)]
mod tests;

use anabranch_base::Rate;

use crate::bandwidth::Sample;

use self::{
    calibrator::Calibrator,
    experts::{EXPERTS, Experts},
    mixture::Mixture,
    pending::{Pending, Verdict},
    state::State,
    term::TermCalibrator,
};

pub use config::{Config, ConfigError, Judged};

/// No promise is made before so many outcomes are known, nor before 1/(1 − P) of them.
const OUTCOMES_MIN: usize = 20;
/// A promise below this share of the path's usual rate is not worth breaking: it becomes 0.
const FLOOR: f64 = 0.03;
/// A lower bound that all but this share of the likely outcomes exceed gives no information.
const INFORMATIVE: f64 = 0.05;
/// The fractional part of the golden ratio: its multiples fill the unit interval evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// With each sample, experts about terms learn how it is seen from so many of the last H situations.
const LAGS: usize = 3;

/// Statistics of the promises of one level: counts of promises, or of their samples where each is judged on its own
/// ([`Judged::Each`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// Promises that every sample reached.
    pub kept: u64,
    /// Promises that a sample fell short of.
    pub broken: u64,
    /// Those on which a lower bound gave no information.
    pub unknown: u64,
}

impl Account {
    /// The share kept of those known; `None` when none is known.
    pub fn kept_share(&self) -> Option<f64> {
        let known = self.kept + self.broken;
        (known > 0).then(|| self.kept as f64 / known as f64)
    }
}

/// Everything about one level.
#[derive(Debug, Clone)]
struct Level {
    /// The probability promised.
    kept: f64,
    mixture: Mixture,
    account: Account,
}

/// In the order of the levels.
#[derive(Debug, Clone)]
enum Calibrators {
    Whole(Vec<Calibrator>),
    Each(Vec<TermCalibrator>),
}

/// Promises about one channel's bandwidth.
///
/// It allocates when it is made and never again; [`observe`](Self::observe) costs O(N) for the nearest
/// neighbours among N = 500 situations and little for the rest, in all some ten microseconds
/// (`benches/statistics.rs`). Equal samples give equal promises, on every machine with the same `libm`.
#[derive(Debug, Clone)]
pub struct Forecaster {
    /// By increasing probability.
    levels: Vec<Level>,
    calibrators: Calibrators,
    state: State,
    experts: Experts,
    pending: Pending,
    /// The levels of the quantiles asked for, in increasing order, with the index of who asks.
    order: Vec<(f64, usize)>,
    /// The same levels alone, and the experts' answers to them: one row for each expert.
    asked: Vec<f64>,
    sorted_answers: Vec<f64>,
    /// The experts' answers in the order of `levels`: one row for each expert.
    answers: Vec<f64>,
    /// In bits per second, in the order of `levels`.
    promises: Vec<f64>,
    /// Position in the tail at which the next lower bound is taken to be, in [0, 1).
    golden: f64,
    /// From how far back the next sample is seen, as a share of H, in [0, 1).
    lag: f64,
}

impl Forecaster {
    /// A forecaster that has seen nothing.
    ///
    /// # Errors
    /// [`ConfigError`] when a level or the hold is out of range.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        config.check()?;
        let count = config.levels.len();
        let levels = config
            .levels
            .iter()
            .map(|&kept| Level {
                kept,
                mixture: Mixture::new(),
                account: Account::default(),
            })
            .collect();
        let targets = config.levels.iter().map(|kept| 1.0 - kept);
        let (calibrators, lags) = match config.judged {
            Judged::Whole => {
                let one = |target| Calibrator::new(target, config.hold);
                (Calibrators::Whole(targets.map(one).collect()), 1)
            }
            Judged::Each => {
                let one = |target| TermCalibrator::new(target, config.hold);
                (Calibrators::Each(targets.map(one).collect()), LAGS)
            }
        };
        Ok(Self {
            levels,
            calibrators,
            state: State::new(),
            experts: Experts::new(lags),
            pending: Pending::new(config.hold, count),
            order: vec![(0.0, 0); count],
            asked: vec![0.0; count],
            sorted_answers: vec![0.0; count * EXPERTS],
            answers: vec![0.0; count * EXPERTS],
            promises: vec![0.0; count],
            golden: 0.0,
            lag: 0.0,
        })
    }

    /// The rate that each of the next H samples reaches with probability `p`, where H is the configured
    /// hold. It is the promise of the lowest configured level that is at least `p`.
    ///
    /// `None` when too little is known: fewer than 20 outcomes, or than 1/(1 − level); and when `p` is
    /// above every level, or NaN. Rate 0 means that nothing can be promised.
    pub fn promise(&self, p: f64) -> Option<Rate> {
        let index = self.level(p)?;
        let known = self.experts.len();
        // 1/(1 − 0.99) is 99.999… in floating point; the tolerance keeps the whole number.
        let needed = 1.0 / (1.0 - self.levels[index].kept) - 1e-6;
        if known < OUTCOMES_MIN || (known as f64) < needed {
            return None;
        }
        Some(Rate::from_bps(self.promises[index] as u64))
    }

    /// Statistics of the promises of the lowest configured level that is at least `p`, those
    /// included that [`promise`](Self::promise) did not return yet; `None` when there is no such level.
    pub fn account(&self, p: f64) -> Option<Account> {
        Some(self.levels[self.level(p)?].account)
    }

    /// The configured levels.
    pub fn levels(&self) -> impl Iterator<Item = f64> + '_ {
        self.levels.iter().map(|level| level.kept)
    }

    /// For how many samples a promise stands.
    pub fn hold(&self) -> usize {
        self.pending.hold()
    }

    /// Takes in the newest sample, judges the promises that it completes, and promises anew.
    ///
    /// A sample that is a lower bound never breaks a promise. For what follows it is replaced by a point
    /// of the tail above it of the likely outcomes; points of successive bounds fill the tail evenly, which
    /// shares the bound's weight among the outcomes above it as Kaplan and Meier do (Efron, 1967). A bound
    /// that nearly all likely outcomes exceed is passed over.
    pub fn observe(&mut self, sample: Sample) {
        let value = if sample.is_censored() {
            self.impute(sample.bps())
        } else {
            Some(sample.bps())
        };
        match &self.calibrators {
            Calibrators::Whole(_) => self.judge_whole(&sample, value),
            Calibrators::Each(_) => self.judge_each(&sample, value),
        }
        if let Some(bps) = value {
            self.state.observe(bps);
        }
        self.promise_anew();
    }

    fn level(&self, p: f64) -> Option<usize> {
        // The tolerance lets 1 − 0.05 find 0.95.
        self.levels.iter().position(|level| p <= level.kept + 1e-9)
    }

    /// Value that a sample of at least `bps` is taken for; `None` when it gives no information.
    fn impute(&mut self, bps: f64) -> Option<f64> {
        let situation = *self.state.situation();
        let ratios = self.experts.short_ratios();
        let ratio = (bps + situation.offset) / situation.short;
        let below = ratios.cdf_below(ratio)?;
        if below < INFORMATIVE {
            return None;
        }
        self.golden = (self.golden + GOLDEN).fract();
        let drawn = ratios.quantile(below + self.golden * (1.0 - below))?;
        Some((drawn * situation.short - situation.offset).max(bps))
    }

    /// Learns from the promises that `sample` breaks, and from those whose time has come.
    fn judge_whole(&mut self, sample: &Sample, value: Option<f64>) {
        let Calibrators::Whole(calibrators) = &mut self.calibrators else {
            return;
        };
        let levels = &mut self.levels;
        self.pending.observe(sample, value, |level| {
            levels[level].account.broken += 1;
            calibrators[level].learn(true, false);
        });
        let Some(done) = self.pending.completed() else {
            return;
        };
        for (index, level) in self.levels.iter_mut().enumerate() {
            if !done.is_promised {
                break;
            }
            match done.verdict(index) {
                Verdict::Broken => {} // learnt when it broke
                Verdict::Unknown => level.account.unknown += 1,
                Verdict::Kept => {
                    level.account.kept += 1;
                    calibrators[index].learn(false, done.promises[index] <= 0.0);
                }
            }
            if let Some(outcome) = done.outcome {
                let answers = of_level(done.answers, done.promises.len(), index);
                level.mixture.learn(&answers, &[outcome], 1.0 - level.kept);
            }
        }
        if let Some(outcome) = done.outcome {
            self.experts.learn(done.situation, outcome);
        }
    }

    /// Learns from `sample`, and from the terms that it completes.
    fn judge_each(&mut self, sample: &Sample, value: Option<f64>) {
        let Calibrators::Each(calibrators) = &mut self.calibrators else {
            return;
        };
        let hold = self.pending.hold();
        self.pending.record(sample, value);
        if !sample.is_censored() {
            for (index, calibrator) in calibrators.iter_mut().enumerate() {
                if let Some(broken) = self.pending.broken_share(index, sample.bps()) {
                    calibrator.notice(broken);
                }
            }
        }
        if let Some(bps) = value {
            // A promise is about samples at all distances from 1 to H, so each of them is learnt from.
            let (pending, lag) = (&self.pending, &mut self.lag);
            let situations = (0..LAGS).filter_map(|_| {
                *lag = (*lag + GOLDEN).fract();
                pending.situation(*lag)
            });
            self.experts.learn_sample(situations, bps);
        }
        let Some(done) = self.pending.completed() else {
            return;
        };
        if !done.is_promised {
            return;
        }
        for (index, level) in self.levels.iter_mut().enumerate() {
            let tally = done.tally(index);
            level.account.kept += tally.kept as u64;
            level.account.broken += tally.broken as u64;
            level.account.unknown += tally.unknown as u64;
            let known = (tally.kept + tally.broken) as f64 / hold as f64;
            let broken = tally.broken as f64 / hold as f64;
            let is_trivial = done.promises[index] <= 0.0;
            calibrators[index].learn(done.phase, known, broken, is_trivial);
            let answers = of_level(done.answers, done.promises.len(), index);
            level
                .mixture
                .learn(&answers, done.outcomes, 1.0 - level.kept);
        }
    }

    fn promise_anew(&mut self) {
        let is_promised = self.experts.len() >= OUTCOMES_MIN;
        if is_promised {
            self.ask();
            let floor = FLOOR * self.state.scale();
            let count = self.levels.len();
            let mut least = f64::INFINITY;
            for (index, level) in self.levels.iter().enumerate() {
                let mixed = level.mixture.mix(&of_level(&self.answers, count, index));
                // A higher probability never promises more. Whole bits per second, rounded down: what is
                // judged are the answers given.
                least = least.min(if mixed < floor { 0.0 } else { mixed.floor() });
                self.promises[index] = least;
            }
        }
        self.pending.promise(
            is_promised,
            self.state.situation(),
            &self.promises,
            &self.answers,
        );
    }

    /// Asks the experts for the quantiles that the calibrators want.
    fn ask(&mut self) {
        let count = self.levels.len();
        for (index, order) in self.order.iter_mut().enumerate() {
            let level = match &self.calibrators {
                Calibrators::Whole(calibrators) => calibrators[index].level(),
                Calibrators::Each(calibrators) => calibrators[index].level(self.pending.phase()),
            };
            *order = (level, index);
        }
        // Calibration may make levels cross, and the experts answer increasing ones.
        self.order
            .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (asked, (level, _)) in self.asked.iter_mut().zip(&self.order) {
            *asked = *level;
        }
        self.experts.quantiles(
            self.state.situation(),
            &self.state.precision(),
            &self.asked,
            &mut self.sorted_answers,
        );
        let rows = self.answers.chunks_exact_mut(count);
        for (row, sorted) in rows.zip(self.sorted_answers.chunks_exact(count)) {
            for ((_, index), answer) in self.order.iter().zip(sorted) {
                row[*index] = *answer;
            }
        }
    }
}

/// Answers of all experts for one level.
fn of_level(answers: &[f64], count: usize, index: usize) -> [f64; EXPERTS] {
    std::array::from_fn(|expert| answers[expert * count + index])
}
