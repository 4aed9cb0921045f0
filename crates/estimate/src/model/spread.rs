//! Spread of truths around guesses, in units of what was expected.

use super::distribution::{Distribution, LEVELS};

/// Bins over asinh(z): fine around 0, coarse far out, and wide enough for z = −27 … 1490.
const BINS: usize = 96;
const LOW: f64 = -4.0;
const STEP: f64 = 12.0 / BINS as f64;
/// Errors after which the weight of one has fallen to 1/e.
const MEMORY: f64 = 1000.0;
/// Weight of a new error at which all are scaled down.
const GAIN_MAX: f64 = 1e12;
/// Errors that a fresh one pretends to have seen: normal ones, of a mean absolute deviation of 1.
const PRIOR: [f64; 10] = [
    -2.06, -1.3, -0.84, -0.48, -0.16, 0.16, 0.48, 0.84, 1.3, 2.06,
];

/// A guess of a round trip: where it lies, and how far off it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Guess {
    pub centre_ms: f64,
    /// Above 0; what it means exactly does not matter, as the truth's distance is measured in it.
    pub scale_ms: f64,
}

impl Guess {
    /// A guess whose scale is no less than half a percent of its centre and 10 µs, so that a channel without any jitter
    /// has a scale, too.
    pub(super) fn new(centre_ms: f64, scale_ms: f64) -> Self {
        Self {
            centre_ms,
            scale_ms: scale_ms.max(0.005 * centre_ms).max(0.01),
        }
    }

    /// Nothing is known.
    pub(super) const NONE: Self = Self {
        centre_ms: f64::NAN,
        scale_ms: f64::NAN,
    };

    pub(super) fn is_some(&self) -> bool {
        !self.centre_ms.is_nan()
    }
}

/// The distribution of (truth − centre)/scale, with forgetting: what turns guesses into calibrated
/// distributions, however their scale was made. `observe` O(1); a distribution O(bins); no allocation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    weights: [f64; BINS],
    total: f64,
    gain: f64,
}

impl Spread {
    pub(super) fn new() -> Self {
        let mut spread = Self {
            weights: [0.0; BINS],
            total: 0.0,
            gain: 1.0,
        };
        PRIOR.into_iter().for_each(|z| spread.add(z));
        spread
    }

    /// The truth about a guess.
    pub(super) fn observe(&mut self, guess: Guess, truth_ms: f64) {
        let z = (truth_ms - guess.centre_ms) / guess.scale_ms;
        if z.is_finite() {
            self.add(z);
        }
    }

    fn add(&mut self, z: f64) {
        let bin = ((z.asinh() - LOW) / STEP).max(0.0) as usize;
        self.gain *= 1.0 + 1.0 / MEMORY;
        if self.gain > GAIN_MAX {
            self.weights
                .iter_mut()
                .for_each(|weight| *weight /= self.gain);
            self.total /= self.gain;
            self.gain = 1.0;
        }
        self.weights[bin.min(BINS - 1)] += self.gain;
        self.total += self.gain;
    }

    /// Distribution that a guess stands for.
    pub(super) fn around(&self, guess: Guess) -> Distribution {
        let mut knots = [0.0; LEVELS.len()];
        let (mut bin, mut below) = (0, 0.0);
        for (knot, level) in knots.iter_mut().zip(LEVELS) {
            let target = level * self.total;
            while bin < BINS - 1 && below + self.weights[bin] < target {
                below += self.weights[bin];
                bin += 1;
            }
            let inside = ((target - below) / self.weights[bin].max(f64::MIN_POSITIVE)).min(1.0);
            let z = (LOW + (bin as f64 + inside) * STEP).sinh();
            *knot = guess.centre_ms + z * guess.scale_ms;
        }
        Distribution::new(knots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;

    #[test]
    fn a_wrong_scale_is_repaired() {
        let mut random = Seed(1).stream("errors");
        for scale in [1.0, 5.0, 60.0] {
            let mut spread = Spread::new();
            let guess = Guess::new(100.0, scale);
            for _ in 0..4000 {
                spread.observe(guess, random.normal(110.0, 10.0));
            }
            let around = spread.around(guess);
            for (p, ms) in [(0.05, 93.6), (0.5, 110.0), (0.95, 126.4)] {
                let ours = around.quantile(p);
                assert!((ours - ms).abs() < 2.5, "scale {scale}, {p}: {ours}");
            }
        }
    }

    #[test]
    fn nothing_known_is_a_normal_distribution() {
        let around = Spread::new().around(Guess::new(100.0, 10.0));
        assert!((around.quantile(0.5) - 100.0).abs() < 1.5);
        let deviation = around.deviation_ms();
        assert!((8.0..16.0).contains(&deviation), "{deviation}");
    }

    #[test]
    fn what_is_no_number_is_passed_over() {
        let mut spread = Spread::new();
        let before = spread.clone();
        spread.observe(Guess::NONE, 5.0);
        spread.observe(Guess::new(1.0, 1.0), f64::NAN);
        assert_eq!(spread, before);
        spread.observe(Guess::new(1.0, 1.0), 1e300);
        assert!(
            spread
                .around(Guess::new(1.0, 1.0))
                .quantile(0.99)
                .is_finite()
        );
    }
}
