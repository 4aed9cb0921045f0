//! Calibrator: the quantile to ask for, so that the share of broken promises is the one promised.

use super::error_sum::ErrorSum;

/// Reaction of the logarithm of the level to the sum of errors, and the sum at which it turns steep.
const INTEGRAL_GAIN: f64 = 0.3;
const INTEGRAL_KNEE: f64 = 3.0;
/// tan(1.4) = 5.8: the most that the integral term gives, in units of gain times knee.
const ANGLE_MAX: f64 = 1.4;
/// Reaction to the newest errors, which lose `1 − RECENT_DECAY` of their weight with each outcome.
const RECENT_GAIN: f64 = 0.3;
const RECENT_DECAY: f64 = 0.8;
/// An error of a promise that stands for H samples counts H to this power.
const HOLD_POWER: f64 = -0.7;
/// The levels that may be asked for.
const LEVEL_MIN: f64 = 1e-4;
const LEVEL_MAX: f64 = 0.9;
/// Place where the sum of errors stops while nothing can be promised; the rest waits in reserve.
const TRIVIAL_SUM: f64 = 5.0;

/// The level of one promise.
///
/// Conformal control on the logarithm of the level: with eₜ = 1{broken} − α for each outcome,
///
/// ```text
/// Sₜ = Σ e,   Dₜ = 0.8·Dₜ₋₁ + eₜ,   ln αₜ₊₁ = ln α − g·K·tan(Sₜ/K) − h·Dₜ
/// ```
///
/// The sum is the integrator of adaptive conformal inference (Gibbs and Candès, 2021), in the saturating form
/// of conformal PID control (Angelopoulos, Candès and Tibshirani, 2023, §2.3): as long as |S| ≤ B, the share
/// broken over any T outcomes is within 2B/T of α, whatever the series. On the logarithm one step means the
/// same at 0.9 and 0.99, and no level leaves (0, 1). The second term reacts to a broken promise at once and
/// forgets it in some ten outcomes: broken promises come in clusters, and this parts them.
///
/// A promise of 0 is always kept. While a path is dead, S would fall without end, and afterwards promises
/// would be broken on purpose to make up for it. So S stops at −5 there; the rest goes into a reserve that is
/// spent at one point and a little more when it is large, so that no block of outcomes is bad. A path that is
/// dead half of the time fills it: its promises are kept more often than promised.
#[derive(Debug, Clone)]
pub(super) struct Calibrator {
    /// The share of promises that may be broken.
    target: f64,
    error_sum: ErrorSum,
    recent: f64,
    /// Weight of an error. Outcomes of promises that stand together are largely one event, so it falls with
    /// the hold; with its power −0.7, between full and single counting (docs/results/statistics.md).
    share: f64,
}

impl Calibrator {
    pub(super) fn new(target: f64, hold: usize) -> Self {
        Self {
            target,
            error_sum: ErrorSum::new(TRIVIAL_SUM),
            recent: 0.0,
            share: (hold as f64).powf(HOLD_POWER),
        }
    }

    /// The level of the quantile to ask for.
    pub(super) fn level(&self) -> f64 {
        let angle = (self.error_sum.sum() / INTEGRAL_KNEE).clamp(-ANGLE_MAX, ANGLE_MAX);
        let exponent = -INTEGRAL_GAIN * INTEGRAL_KNEE * angle.tan() - RECENT_GAIN * self.recent;
        (self.target * exponent.exp()).clamp(LEVEL_MIN, LEVEL_MAX)
    }

    /// A promise was broken or kept; `is_trivial` when it was 0 and could only be kept.
    pub(super) fn learn(&mut self, is_broken: bool, is_trivial: bool) {
        let error = (f64::from(u8::from(is_broken)) - self.target) * self.share;
        self.recent = self.recent * RECENT_DECAY.powf(self.share) + error;
        self.error_sum.enter(error, self.share, is_trivial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_promise_lowers_the_level_and_kept_ones_raise_it() {
        let mut calibrator = Calibrator::new(0.05, 1);
        let start = calibrator.level();
        assert!((start - 0.05).abs() < 1e-12);
        calibrator.learn(true, false);
        let after = calibrator.level();
        assert!(after < 0.6 * start, "{after}");
        for _ in 0..60 {
            calibrator.learn(false, false);
        }
        assert!(calibrator.level() > start);
    }

    #[test]
    fn whatever_the_series_the_share_broken_is_the_one_promised() {
        // Promises at level a are broken with probability a·k, where k jumps between 0.7 and 8.
        let mut random = anabranch_base::Seed(3).stream("calibrator");
        for target in [0.5, 0.1, 0.05, 0.01] {
            let mut calibrator = Calibrator::new(target, 1);
            let mut broken = 0u32;
            let rounds = 5000u32;
            for round in 0..rounds {
                let k = if round / 97 % 3 == 0 { 8.0 } else { 0.7 };
                let is_broken = random.chance(calibrator.level() * k);
                broken += u32::from(is_broken);
                calibrator.learn(is_broken, false);
            }
            let share = f64::from(broken) / f64::from(rounds);
            assert!((share - target).abs() < 0.003, "{target}: {share}");
        }
    }

    #[test]
    fn a_dead_path_leaves_no_debt_that_is_spent_at_once() {
        let mut calibrator = Calibrator::new(0.1, 1);
        for _ in 0..2000 {
            calibrator.learn(false, true);
        }
        // Alive again, and at the level L every promise breaks with probability L.
        let mut random = anabranch_base::Seed(4).stream("reserve");
        let broken = (0..500)
            .filter(|_| {
                let is_broken = random.chance(calibrator.level());
                calibrator.learn(is_broken, false);
                is_broken
            })
            .count();
        // 10 % of 500, 6 points at first from a full reserve, and the sum of errors itself.
        assert!((50..=50 + 30 + 10).contains(&broken), "{broken}");
    }
}
