//! Exponentially weighted moving average.

use super::Predictor;

/// Weights fall by half every `half_life` samples; the first samples are not pulled towards zero, because
/// the sum is divided by the weights given so far.
#[derive(Debug, Clone, Copy)]
pub struct Ewma {
    decay: f64,
    sum: f64,
    weight: f64,
}

impl Ewma {
    /// An average whose weights fall by half every `half_life` samples, which must be above 0.
    ///
    /// # Panics
    /// When `half_life` is not above 0.
    pub fn with_half_life(half_life: f64) -> Self {
        assert!(half_life > 0.0, "a half-life of {half_life} samples");
        Self::with_decay(0.5f64.powf(1.0 / half_life))
    }

    /// The average of the textbooks, in which the newest sample has the weight `newest`, in (0, 1].
    ///
    /// # Panics
    /// When `newest` is outside of (0, 1].
    pub fn with_weight(newest: f64) -> Self {
        assert!(newest > 0.0 && newest <= 1.0, "a weight of {newest}");
        Self::with_decay(1.0 - newest)
    }

    fn with_decay(decay: f64) -> Self {
        Self {
            decay,
            sum: 0.0,
            weight: 0.0,
        }
    }

    /// Takes a sample in; one that is not finite is passed over.
    pub fn push(&mut self, value: f64) {
        if value.is_finite() {
            self.sum = self.sum * self.decay + value * (1.0 - self.decay);
            self.weight = self.weight * self.decay + (1.0 - self.decay);
        }
    }

    /// The average; `None` before the first sample.
    pub fn get(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }

    /// The average, or 0 before the first sample.
    pub(crate) fn or_zero(&self) -> f64 {
        self.get().unwrap_or(0.0)
    }
}

impl Predictor for Ewma {
    fn observe(&mut self, value: f64) {
        self.push(value);
    }

    fn predict(&self) -> Option<f64> {
        self.get()
    }
}
