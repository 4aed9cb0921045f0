//! Autoregression with moving-average terms, fitted as the samples come.

use super::Predictor;

/// Coefficients at most: p + q + 1.
const SIZE_MAX: usize = 9;
/// Weight of the past lost with each sample: an effective memory of 500 samples, the N of [IQ-Paths §IV].
const FORGET: f64 = 0.998;
/// Uncertainty of the coefficients at the start, and the most that it may grow to while nothing varies.
const COVARIANCE_START: f64 = 1e2;
const COVARIANCE_MAX: f64 = 1e6;

/// The orders are too large, or both are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("orders ({autoregressive}, {moving_average}) are not within 1 to 8 terms together")]
pub struct BadOrder {
    autoregressive: usize,
    moving_average: usize,
}

/// ARMA(p, q): x_t = c + Σ aᵢ·x_{t−i} + Σ bⱼ·e_{t−j} + e_t, with q = 0 an AR(p).
///
/// Fitted by recursive extended least squares with forgetting (Ljung, *System Identification*, §11.3):
/// after each sample θ ← θ + K·e with K = P·φ/(λ + φᵀ·P·φ), where the unknown innovations in φ are the
/// fit's own residuals. Samples are divided by the first one that is not zero, so that the start does not
/// depend on the unit. O((p+q)²) a sample, no allocation.
#[derive(Debug, Clone)]
pub struct Arma {
    p: usize,
    size: usize,
    unit: f64,
    seen: usize,
    pub(super) coefficients: [f64; SIZE_MAX],
    covariance: [[f64; SIZE_MAX]; SIZE_MAX],
    /// 1, the last p samples, the last q residuals, newest first.
    regressors: [f64; SIZE_MAX],
}

impl Arma {
    /// With `p` autoregressive and `q` moving-average terms.
    ///
    /// # Errors
    /// [`BadOrder`] when p + q is 0 or above 8.
    pub fn new(p: usize, q: usize) -> Result<Self, BadOrder> {
        if !(1..SIZE_MAX).contains(&(p + q)) {
            return Err(BadOrder {
                autoregressive: p,
                moving_average: q,
            });
        }
        let mut covariance = [[0.0; SIZE_MAX]; SIZE_MAX];
        for (index, row) in covariance.iter_mut().enumerate() {
            row[index] = COVARIANCE_START;
        }
        let mut regressors = [0.0; SIZE_MAX];
        regressors[0] = 1.0;
        Ok(Self {
            p,
            size: p + q + 1,
            unit: 0.0,
            seen: 0,
            coefficients: [0.0; SIZE_MAX],
            covariance,
            regressors,
        })
    }

    fn fitted(&self) -> f64 {
        (0..self.size)
            .map(|i| self.coefficients[i] * self.regressors[i])
            .sum()
    }

    /// Corrects the coefficients by the error of the last prediction.
    fn learn(&mut self, error: f64) {
        let n = self.size;
        let mut gain = [0.0; SIZE_MAX];
        for (row, gain) in self.covariance.iter().zip(&mut gain).take(n) {
            *gain = (0..n).map(|j| row[j] * self.regressors[j]).sum();
        }
        let spread: f64 = (0..n).map(|i| self.regressors[i] * gain[i]).sum();
        let scale = 1.0 / (FORGET + spread);
        for (coefficient, gain) in self.coefficients.iter_mut().zip(&gain) {
            *coefficient += gain * scale * error;
        }
        let trace: f64 = (0..n).map(|i| self.covariance[i][i]).sum();
        // Without new samples the covariance would grow without end; then nothing is forgotten.
        let forget = if trace > COVARIANCE_MAX { 1.0 } else { FORGET };
        for (row, g) in self.covariance.iter_mut().zip(&gain).take(n) {
            for (entry, h) in row.iter_mut().zip(&gain) {
                *entry = (*entry - g * h * scale) / forget;
            }
        }
    }
}

impl Predictor for Arma {
    fn observe(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        if self.unit == 0.0 && value != 0.0 {
            self.unit = value.abs();
        }
        let x = if self.unit > 0.0 {
            value / self.unit
        } else {
            0.0
        };
        if self.seen >= self.p {
            self.learn(x - self.fitted());
        }
        let residual = if self.seen >= self.p {
            // After the correction, as extended least squares wants it.
            (x - self.fitted()).clamp(-1e3, 1e3)
        } else {
            0.0
        };
        let first_residual = self.p + 1;
        for i in (first_residual + 1..self.size).rev() {
            self.regressors[i] = self.regressors[i - 1];
        }
        if first_residual < self.size {
            self.regressors[first_residual] = residual;
        }
        for i in (2..=self.p).rev() {
            self.regressors[i] = self.regressors[i - 1];
        }
        if self.p > 0 {
            self.regressors[1] = x;
        }
        self.seen += 1;
    }

    /// `None` until there have been three samples for each coefficient.
    fn predict(&self) -> Option<f64> {
        (self.seen >= 3 * self.size).then(|| self.fitted() * self.unit)
    }
}
