//! Analogues: what followed situations like this one, as weighted quantiles over the nearest neighbours.

use crate::{growing, order::Window};

use super::state::{FEATURES, Situation};

/// Situations remembered.
pub(super) const MEMORY: usize = 500;
/// The share of the situations remembered whose distance sets the width of the kernel, and the fewest.
const NEAR_SHARE: f64 = 0.08;
const NEAR_MIN: usize = 10;
/// The kernel (1 − d²/w)² ends at this multiple of the squared distance to the last near neighbour.
const REACH: f64 = 3.0;

/// Situations and their outcomes, both as rates and as ratios to the short average.
///
/// Slots are those of both windows, which fill and turn over together.
#[derive(Debug, Clone)]
pub(super) struct Analogues {
    situations: Vec<[f64; FEATURES]>,
    rates: Window,
    ratios: Window,
    weights: Vec<f64>,
    scratch: Vec<f64>,
}

impl Analogues {
    pub(super) fn new() -> Self {
        Self {
            situations: Vec::new(),
            rates: Window::new(MEMORY),
            ratios: Window::new(MEMORY),
            weights: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub(super) fn learn(&mut self, situation: &Situation, outcome_bps: f64) {
        let slot = self.rates.next_slot();
        let ratio = (outcome_bps + situation.offset) / situation.short;
        // Both are finite, as the situation is known; so both windows have the same slots.
        if self.rates.push(outcome_bps).is_err() {
            return;
        }
        if slot == self.situations.len() {
            growing::push(&mut self.situations, [0.0; FEATURES], MEMORY);
            growing::push(&mut self.weights, 0.0, MEMORY);
            growing::push(&mut self.scratch, 0.0, MEMORY);
        }
        if self.ratios.push(ratio).is_ok() {
            self.situations[slot] = situation.features;
        }
    }

    /// Weighs what is remembered by its likeness to `situation`. Call before the quantiles.
    pub(super) fn weigh(&mut self, situation: &Situation, precision: &[f64; FEATURES]) {
        let n = self.rates.len();
        for (weight, remembered) in self.weights[..n].iter_mut().zip(&self.situations) {
            *weight = (0..FEATURES)
                .map(|k| ((remembered[k] - situation.features[k]) * precision[k]).powi(2))
                .sum();
        }
        if n == 0 {
            return;
        }
        let near = ((NEAR_SHARE * n as f64) as usize).max(NEAR_MIN).min(n - 1);
        let scratch = &mut self.scratch[..n];
        scratch.copy_from_slice(&self.weights[..n]);
        let (_, reach, _) = scratch.select_nth_unstable_by(near, f64::total_cmp);
        let scale = 1.0 / (REACH * reach.max(1e-9));
        for weight in &mut self.weights[..n] {
            *weight = (1.0 - *weight * scale).max(0.0).powi(2);
        }
    }

    /// Quantiles of the outcomes as rates, at increasing `levels`.
    pub(super) fn rate_quantiles(&self, levels: &[f64], out: &mut [f64]) {
        weighted_quantiles(&self.rates, &self.weights, levels, out);
    }

    /// Quantiles of the outcomes as ratios, at increasing `levels`.
    pub(super) fn ratio_quantiles(&self, levels: &[f64], out: &mut [f64]) {
        weighted_quantiles(&self.ratios, &self.weights, levels, out);
    }
}

/// Quantiles at increasing `levels` of the values in `window`, weighted by slot; 0 without any weight.
///
/// The i-th value stands at (W_{<i} + wᵢ/2 + w̄/2)/(W + w̄), where w̄ = Σw²/Σw is the weight of one
/// effective sample, with straight lines between and down to 0: with equal weights this is
/// [`Window::quantile_of_next`].
fn weighted_quantiles(window: &Window, weights: &[f64], levels: &[f64], out: &mut [f64]) {
    let n = window.len();
    let total: f64 = weights[..n].iter().sum();
    let squares: f64 = weights[..n].iter().map(|w| w * w).sum();
    out.fill(0.0);
    if total <= 0.0 {
        return;
    }
    let single = squares / total;
    let all = total + single;
    let (mut below, mut value_before, mut mass_before) = (0.0, 0.0, 0.0);
    let mut next = 0;
    for (&value, &slot) in window.values().iter().zip(window.slots()) {
        let weight = weights[slot as usize];
        if weight <= 1e-9 * single {
            continue;
        }
        let mass = below + 0.5 * (weight + single);
        while next < levels.len() && levels[next] * all <= mass {
            let share = (levels[next] * all - mass_before) / (mass - mass_before);
            out[next] = value_before + (value - value_before) * share;
            next += 1;
        }
        if next == levels.len() {
            break;
        }
        (value_before, mass_before) = (value, mass);
        below += weight;
    }
    out[next..].fill(value_before);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_give_the_plain_quantile() {
        let mut window = Window::new(40);
        for k in 0..40u32 {
            window.push(f64::from(k * 17 % 41)).unwrap();
        }
        let levels = [0.01, 0.1, 0.5, 0.9, 0.999];
        let mut out = [0.0; 5];
        weighted_quantiles(&window, &[0.3; 40], &levels, &mut out);
        for (level, found) in levels.iter().zip(out) {
            let plain = window.quantile_of_next(*level).unwrap();
            assert!((found - plain).abs() < 1e-9, "{level}: {found} {plain}");
        }
    }

    #[test]
    fn outcomes_of_like_situations_count() {
        let mut analogues = Analogues::new();
        let situation = |x: f64| Situation {
            offset: 1.0,
            short: 10.0,
            features: [x, 0.0, 0.0, 0.0],
            ..Situation::default()
        };
        for k in 0..400 {
            let side = f64::from(k % 2);
            analogues.learn(&situation(side), 100.0 + 900.0 * side + f64::from(k % 7));
        }
        let mut out = [0.0; 2];
        for (side, range) in [(0.0, 100.0..=106.0), (1.0, 1000.0..=1006.0)] {
            analogues.weigh(&situation(side), &[1.0; FEATURES]);
            analogues.rate_quantiles(&[0.1, 0.9], &mut out);
            assert!(
                range.contains(&out[0]) && range.contains(&out[1]),
                "{out:?}"
            );
        }
    }

    #[test]
    fn nothing_is_known_of_nothing() {
        let mut analogues = Analogues::new();
        analogues.weigh(&Situation::default(), &[1.0; FEATURES]);
        let mut out = [1.0];
        analogues.rate_quantiles(&[0.5], &mut out);
        assert_eq!(out, [0.0]);
    }
}
