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
        if from >= outcomes.len() {
            return None;
        }
        let ratio = (LEVEL_MAX / LEVEL_MIN).powf(1.0 / (LEVELS - 1) as f64);
        let levels: Vec<f64> = (0..LEVELS)
            .map(|k| LEVEL_MIN * ratio.powi(k as i32))
            .collect();
        let mut seen = Window::new(window);
        let mut curve = vec![(0.0, 0.0); LEVELS];
        let mut loss = 0.0;
        for (t, &outcome) in outcomes.iter().enumerate() {
            if t >= hold {
                // An outcome that is no number is no baseline's business.
                let _ = seen.push(outcomes[t - hold]);
            }
            if t < from {
                continue;
            }
            for (&level, (kept, useful)) in levels.iter().zip(&mut curve) {
                let promise = seen.quantile_of_next(level).unwrap_or(0.0);
                if outcome >= promise {
                    *kept += 1.0;
                    *useful += promise;
                }
            }
            loss += pinball(seen.quantile_of_next(level).unwrap_or(0.0), outcome, level);
        }
        let count = (outcomes.len() - from) as f64;
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
