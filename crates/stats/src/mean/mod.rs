//! Predictors of the next sample's value, for comparison with promises [IQ-Paths §IV, §VI-A, Figure 7].
//!
//! | predictor | of the next sample |
//! |---|---|
//! | [`MovingAverage`] | the mean of all samples so far (MA) |
//! | [`SlidingAverage`] | the mean of the last N (SMA) |
//! | [`Ewma`] | the exponentially weighted mean |
//! | [`Arma`] | autoregression of small order, with or without moving-average terms |
//! | [`Percentile`] | a quantile of the last N: the simplest promise, and no mean at all |
//!
//! None of them answers before it has seen enough.

mod arma;
mod ewma;
#[cfg(test)]
mod tests;

pub use arma::{Arma, BadOrder};
pub use ewma::Ewma;

use crate::order::Window;

/// Predictor of the next sample.
///
/// The order of calls is `predict`, then `observe` of what came, again and again. Values that are not
/// finite are passed over.
pub trait Predictor {
    /// Takes in the newest sample.
    fn observe(&mut self, value: f64);

    /// The next sample; `None` while too few have been seen.
    fn predict(&self) -> Option<f64>;
}

/// The mean of all samples so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct MovingAverage {
    mean: f64,
    count: u64,
}

impl Predictor for MovingAverage {
    fn observe(&mut self, value: f64) {
        if value.is_finite() {
            self.count += 1;
            self.mean += (value - self.mean) / self.count as f64;
        }
    }

    fn predict(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }
}

/// The mean of the last N samples.
#[derive(Debug, Clone)]
pub struct SlidingAverage(Window);

impl SlidingAverage {
    /// Over the last `count` samples, at least 1.
    ///
    /// # Panics
    /// When `count` is 0.
    pub fn new(count: usize) -> Self {
        Self(Window::new(count))
    }
}

impl Predictor for SlidingAverage {
    fn observe(&mut self, value: f64) {
        // A value that is not finite is refused, which is what the trait asks for.
        let _ = self.0.push(value);
    }

    fn predict(&self) -> Option<f64> {
        self.0.mean()
    }
}

/// The quantile at `level` of the last N samples: what [IQ-Paths §VI-A] promises.
#[derive(Debug, Clone)]
pub struct Percentile {
    window: Window,
    level: f64,
}

impl Percentile {
    /// Over the last `count` samples, at `level` in (0, 1): 0.1 for the 10th percentile.
    ///
    /// # Panics
    /// When `count` is 0 or `level` is not inside of (0, 1).
    pub fn new(count: usize, level: f64) -> Self {
        assert!(level > 0.0 && level < 1.0, "a level of {level}");
        Self {
            window: Window::new(count),
            level,
        }
    }
}

impl Predictor for Percentile {
    fn observe(&mut self, value: f64) {
        let _ = self.window.push(value);
    }

    /// `None` until one sample would be expected below the quantile: below that, the smallest of them
    /// would be passed off for it.
    fn predict(&self) -> Option<f64> {
        if (self.window.len() as f64) < 1.0 / self.level {
            return None;
        }
        self.window.quantile(self.level)
    }
}
