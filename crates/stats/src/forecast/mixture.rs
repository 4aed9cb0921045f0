//! Experts weighted by how well they did.

use crate::score::pinball;

use super::experts::EXPERTS;

/// Weight of past losses lost with each outcome: an effective memory of 200.
const FORGET: f64 = 0.995;
/// Sharpness with which a loss above the best expert's costs weight.
const SHARPNESS: f64 = 1.0;

/// The weights of all experts for one level.
///
/// Exponential weights on discounted pinball losses (Vovk, 1990; Herbster and Warmuth's forgetting): wᵢ ∝
/// exp(−(Lᵢ − min L)/l̄), with l̄ the experts' mean loss for one outcome, so that rates in any unit give the
/// same weights.
#[derive(Debug, Clone)]
pub(super) struct Mixture {
    losses: [f64; EXPERTS],
    /// Sum of the discounts given so far.
    count: f64,
}

impl Mixture {
    pub(super) fn new() -> Self {
        Self {
            losses: [0.0; EXPERTS],
            count: 0.0,
        }
    }

    /// The experts gave `promises` at `level`, and all of `outcomes` came: what counts is the mean loss.
    /// Outcomes that are no number are passed over.
    pub(super) fn learn(&mut self, promises: &[f64; EXPERTS], outcomes: &[f64], level: f64) {
        let known = || outcomes.iter().filter(|outcome| !outcome.is_nan());
        let count = known().count() as f64;
        if count == 0.0 {
            return;
        }
        for (loss, &promise) in self.losses.iter_mut().zip(promises) {
            let sum: f64 = known().map(|&o| pinball(promise, o, level)).sum();
            *loss = *loss * FORGET + sum / count;
        }
        self.count = self.count * FORGET + 1.0;
    }

    /// The weighted mean of the experts' answers.
    pub(super) fn mix(&self, promises: &[f64; EXPERTS]) -> f64 {
        let least = self.losses.iter().copied().fold(f64::INFINITY, f64::min);
        let all: f64 = self.losses.iter().sum();
        // Losses of all zero: everybody is right, and nobody weighs more.
        let scale = if all > 0.0 {
            SHARPNESS * self.count * EXPERTS as f64 / all
        } else {
            0.0
        };
        let (mut sum, mut weights) = (0.0, 0.0);
        for (loss, promise) in self.losses.iter().zip(promises) {
            let weight = (-(loss - least) * scale).exp();
            sum += weight * promise;
            weights += weight;
        }
        sum / weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_expert_wins_and_the_unit_does_not_matter() {
        for unit in [1.0, 1e9] {
            let mut mixture = Mixture::new();
            let mut promises = [9.0 * unit; EXPERTS];
            promises[3] = 4.0 * unit;
            for _ in 0..300 {
                mixture.learn(&promises, &[5.0 * unit], 0.1);
            }
            let mixed = mixture.mix(&promises);
            assert!((mixed / unit - 4.0).abs() < 1e-3, "{mixed}");
        }
    }

    #[test]
    fn without_losses_all_weigh_the_same() {
        let mut promises = [2.0; EXPERTS];
        promises[0] = 2.0 + EXPERTS as f64;
        assert!((Mixture::new().mix(&promises) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn pinball_is_least_at_the_quantile() {
        let loss = |q: f64| (0..100).map(|x| pinball(q, f64::from(x), 0.1)).sum::<f64>();
        let best = (0..100).min_by(|a, b| loss(f64::from(*a)).total_cmp(&loss(f64::from(*b))));
        assert!((9..=10).contains(&best.unwrap()));
    }
}
