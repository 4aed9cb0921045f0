//! The best that a fixed quantile of a fixed window could have done.

use crate::order::Window;

use super::pinball;

/// Levels tried: `LEVELS` of them from `LEVEL_MIN` to `LEVEL_MAX`, in equal ratios.
const LEVELS: usize = 60;
const LEVEL_MIN: f64 = 1e-4;
const LEVEL_MAX: f64 = 0.9;

/// Promises that are the quantile at a fixed level of the last N outcomes, for many levels at once.
///
/// With it one asks afterwards what level would have been kept as often as some other promises were,
/// and what it would have promised: a baseline that knows the future in this one number.
#[derive(Debug, Clone)]
pub struct Hindsight {
    /// Kept share and mean of promise·1{kept}, by increasing level.
    curve: Vec<(f64, f64)>,
    pinball: f64,
}

impl Hindsight {
    /// Runs the quantiles of the last `window` outcomes over `outcomes` and judges them from index `from`
    /// on. `hold` is for how many samples each outcome stands: a promise at t knows the outcomes up to
    /// t − hold. `level` is the one whose pinball loss is kept. `None` when nothing is left to judge.
    ///
    /// # Panics
    /// When `window` or `hold` is 0.
    pub fn of(
        outcomes: &[f64],
        window: usize,
        hold: usize,
        from: usize,
        level: f64,
    ) -> Option<Self> {
        assert!(hold > 0, "a promise must stand for a sample");
        let known = |t: usize| (t >= hold).then(|| outcomes[t - hold]);
        Self::run(outcomes, known, window, 1, from, level)
    }

    /// The same for promises that stand for the next `hold` samples, each judged on its own: at the
    /// quantiles of the last `window` samples, all of which a promise knows.
    ///
    /// # Panics
    /// When `window` or `hold` is 0.
    pub fn of_terms(
        samples: &[f64],
        window: usize,
        hold: usize,
        from: usize,
        level: f64,
    ) -> Option<Self> {
        assert!(hold > 0, "a promise must stand for a sample");
        let known = |t: usize| (t >= 1).then(|| samples[t - 1]);
        Self::run(samples, known, window, hold, from, level)
    }

    /// Promises at t, after `known(t)` was learnt, against each of `outcomes[t..t + term]`.
    fn run(
        outcomes: &[f64],
        known: impl Fn(usize) -> Option<f64>,
        window: usize,
        term: usize,
        from: usize,
        level: f64,
    ) -> Option<Self> {
        let terms = (outcomes.len() + 1).checked_sub(term)?;
        if from >= terms {
            return None;
        }
        let ratio = (LEVEL_MAX / LEVEL_MIN).powf(1.0 / (LEVELS - 1) as f64);
        let levels: Vec<f64> = (0..LEVELS)
            .map(|k| LEVEL_MIN * ratio.powi(k as i32))
            .collect();
        let mut seen = Window::new(window);
        let mut curve = vec![(0.0, 0.0); LEVELS];
        let mut loss = 0.0;
        for t in 0..terms {
            if let Some(outcome) = known(t) {
                // An outcome that is no number is no baseline's business.
                let _ = seen.push(outcome);
            }
            if t < from {
                continue;
            }
            let judging = &outcomes[t..t + term];
            for (&level, (kept, useful)) in levels.iter().zip(&mut curve) {
                let promise = seen.quantile_of_next(level).unwrap_or(0.0);
                let count = judging.iter().filter(|&&o| o >= promise).count() as f64;
                *kept += count;
                *useful += promise * count;
            }
            let promise = seen.quantile_of_next(level).unwrap_or(0.0);
            for &outcome in judging {
                loss += pinball(promise, outcome, level);
            }
        }
        let count = ((terms - from) * term) as f64;
        for (kept, useful) in &mut curve {
            *kept /= count;
            *useful /= count;
        }
        Some(Self {
            curve,
            pinball: loss / count,
        })
    }

    /// The mean of the promises kept at the level whose kept share is `kept`; between two levels, as often
    /// one as the other as it takes. 0 when nothing was kept.
    pub fn useful_at(&self, kept: f64) -> f64 {
        if kept <= 0.0 {
            return 0.0;
        }
        let sum = match self.curve.iter().position(|point| point.0 <= kept) {
            Some(0) => self.curve[0].1,
            Some(index) => {
                let ((k0, u0), (k1, u1)) = (self.curve[index - 1], self.curve[index]);
                let share = if k0 > k1 {
                    (k0 - kept) / (k0 - k1)
                } else {
                    0.0
                };
                u0 + (u1 - u0) * share
            }
            None => self.curve[self.curve.len() - 1].1,
        };
        sum / kept
    }

    /// Mean pinball loss of the quantile at the level given.
    pub fn pinball(&self) -> f64 {
        self.pinball
    }
}
