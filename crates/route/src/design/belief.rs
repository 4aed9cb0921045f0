//! Belief about the delay line of a link.

use std::{
    ops::{Add, Mul},
    time::Duration,
};

use anabranch_stats::regression::Scatter;

/// A symmetric 2×2 matrix over intercept (s) and slope (s per byte).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Symmetric {
    /// Intercept with itself.
    pub intercept: f64,
    /// Intercept with slope.
    pub both: f64,
    /// Slope with itself.
    pub slope: f64,
}

impl Symmetric {
    /// All zero.
    pub const ZERO: Self = Self {
        intercept: 0.0,
        both: 0.0,
        slope: 0.0,
    };

    /// x xᵀ for x = (1, bytes).
    pub fn of_size(bytes: u64) -> Self {
        let x = bytes as f64;
        Self {
            intercept: 1.0,
            both: x,
            slope: x * x,
        }
    }

    /// The determinant.
    pub fn determinant(&self) -> f64 {
        self.intercept * self.slope - self.both * self.both
    }

    /// The inverse of a positive definite matrix.
    pub fn inverse(&self) -> Self {
        let scale = 1.0 / self.determinant();
        Self {
            intercept: self.slope * scale,
            both: -self.both * scale,
            slope: self.intercept * scale,
        }
    }

    /// xᵀ M x for x = (1, bytes).
    pub fn at_size(&self, bytes: u64) -> f64 {
        let x = bytes as f64;
        self.intercept + x * (2.0 * self.both + x * self.slope)
    }

    /// tr(M·N).
    pub fn product_trace(&self, other: &Self) -> f64 {
        self.intercept * other.intercept + 2.0 * self.both * other.both + self.slope * other.slope
    }

    /// xᵀ M N M x for x = (1, bytes).
    pub(super) fn sandwich_at(&self, middle: &Self, bytes: u64) -> f64 {
        let x = bytes as f64;
        let (a, b) = (self.intercept + self.both * x, self.both + self.slope * x);
        a * (middle.intercept * a + 2.0 * middle.both * b) + b * b * middle.slope
    }
}

impl Add for Symmetric {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self {
            intercept: self.intercept + rhs.intercept,
            both: self.both + rhs.both,
            slope: self.slope + rhs.slope,
        }
    }
}

impl Mul<f64> for Symmetric {
    type Output = Self;
    fn mul(self, rhs: f64) -> Self {
        Self {
            intercept: self.intercept * rhs,
            both: self.both * rhs,
            slope: self.slope * rhs,
        }
    }
}

/// Error of a measured delay: the standard deviation √(fixed² + (per byte · size)²).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Of any message (jitter, queues), in seconds; above 0.
    pub fixed_s: f64,
    /// Part that grows with the size (a varying rate), in seconds per byte.
    pub per_byte_s: f64,
}

impl Noise {
    /// Standard deviation for a message of `bytes`, in seconds.
    pub fn deviation_s(&self, bytes: u64) -> f64 {
        self.fixed_s.hypot(self.per_byte_s * bytes as f64).max(1e-9)
    }
}

/// Drift: rate at which a link changes, so that knowledge of it grows stale, as variances that a random walk adds per
/// second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Added to d_min, in s² per second.
    pub intercept_per_s: f64,
    /// Added to 1/EBW, in (s/byte)² per second.
    pub slope_per_s: f64,
}

/// State of a link: the covariance of the errors of d_min and 1/EBW.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Belief {
    /// Positive definite.
    pub covariance: Symmetric,
}

impl Belief {
    /// Belief with independent standard errors; a guess before anything was measured.
    ///
    /// # Panics
    /// One is not above zero and finite.
    pub fn guess(intercept_s: f64, slope_s_per_byte: f64) -> Self {
        let is_sane = |error: f64| error > 0.0 && error.is_finite();
        assert!(
            is_sane(intercept_s) && is_sane(slope_s_per_byte),
            "errors of a guess are above zero"
        );
        Self {
            covariance: Symmetric {
                intercept: intercept_s * intercept_s,
                both: 0.0,
                slope: slope_s_per_byte * slope_s_per_byte,
            },
        }
    }

    /// Belief from a fit's own estimate of its errors ([`anabranch_stats::regression::LinkEstimator::scatter`]), combined
    /// with a guess that counts where the fit has no information.
    pub fn fitted(scatter: &Scatter, guess: &Self) -> Self {
        let [intercept, both, slope] = scatter.covariance;
        let covariance = Symmetric {
            intercept,
            both,
            slope,
        };
        if !(covariance.determinant() > 0.0 && covariance.determinant().is_finite()) {
            // A perfect fit of three points carries no information about errors.
            return *guess;
        }
        let information = covariance.inverse() + guess.covariance.inverse();
        Self {
            covariance: information.inverse(),
        }
    }

    /// The belief after some time has passed.
    #[must_use]
    pub fn after(&self, elapsed: Duration, drift: &Drift) -> Self {
        let seconds = elapsed.as_secs_f64();
        let mut covariance = self.covariance;
        covariance.intercept += drift.intercept_per_s * seconds;
        covariance.slope += drift.slope_per_s * seconds;
        Self { covariance }
    }

    /// Adds the timing of one message of `bytes`.
    pub fn observe(&mut self, bytes: u64, noise_s: f64) {
        self.observe_many(bytes, noise_s, 1.0);
    }

    /// Adds `count` such timings: the update of a Kalman filter, which stays positive definite.
    pub(super) fn observe_many(&mut self, bytes: u64, noise_s: f64, count: f64) {
        if count > 0.0 {
            self.covariance = shrunk(&self.covariance, bytes, noise_s * noise_s / count);
        }
    }

    /// Standard error of the predicted delay of a message of `bytes`, in seconds.
    pub fn error_s(&self, bytes: u64) -> f64 {
        self.covariance.at_size(bytes).max(0.0).sqrt()
    }
}

/// Covariance after the mean of measurements at this size with this variance: K − K x xᵀ K/(xᵀ K x + variance).
fn shrunk(covariance: &Symmetric, bytes: u64, variance: f64) -> Symmetric {
    let x = bytes as f64;
    let k = covariance;
    let (a, b) = (k.intercept + k.both * x, k.both + k.slope * x);
    let total = k.at_size(bytes) + variance;
    let share = 1.0 / total;
    Symmetric {
        intercept: (k.intercept - a * a * share).max(f64::MIN_POSITIVE),
        both: k.both - a * b * share,
        slope: (k.slope - b * b * share).max(f64::MIN_POSITIVE),
    }
}
