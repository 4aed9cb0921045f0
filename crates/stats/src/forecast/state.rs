//! State of a path between two samples, and the part of it that a forecast starts from.

use crate::mean::Ewma;

/// Half-lives in samples. Chosen once for all traces (docs/results/statistics.md, what was tried).
const FAST: f64 = 0.3;
const SHORT: f64 = 2.0;
const LONG: f64 = 10.0;
const LOG_LEVEL: f64 = 8.0;
const LOG_SPREAD: f64 = 6.0;
const SPREAD: f64 = 5.0;
const SCALE: f64 = 200.0;
const MOMENTS: f64 = 300.0;
/// Of the path's usual rate: added to rates before logarithms and ratios, so that zero has a place.
const OFFSET: f64 = 0.01;
/// Spread of logarithms below which nothing is distinguished.
const SPREAD_MIN: f64 = 0.02;

/// Number of numbers that describe a situation.
pub(super) const FEATURES: usize = 4;

/// The situation in which a promise is made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Situation {
    /// Added to rates before logarithms and ratios, bits per second.
    pub(super) offset: f64,
    /// The newest sample, little smoothed, plus `offset`.
    pub(super) fast: f64,
    /// The average over some samples, plus `offset`.
    pub(super) short: f64,
    /// Mean logarithm of rate plus `offset`, and the mean distance of the samples from it.
    pub(super) log_level: f64,
    pub(super) log_spread: f64,
    /// Logarithms of the newest sample, of two averages, and of the recent spread: what makes two
    /// situations alike.
    pub(super) features: [f64; FEATURES],
}

impl Situation {
    /// False before the first sample, and after lower bounds alone: there is nothing to relate an outcome to.
    pub(super) fn is_known(&self) -> bool {
        self.short > 0.0
    }

    /// `bps` in units of the spread around the level, on the logarithmic scale.
    pub(super) fn residual(&self, bps: f64) -> f64 {
        ((bps + self.offset).ln() - self.log_level) / self.log_spread
    }

    /// The rate of a residual: the inverse of [`residual`](Self::residual).
    pub(super) fn rate_at(&self, residual: f64) -> f64 {
        (self.log_level + residual * self.log_spread).exp() - self.offset
    }
}

/// Averages of one path's samples.
#[derive(Debug, Clone)]
pub(super) struct State {
    fast: Ewma,
    short: Ewma,
    long: Ewma,
    log_level: Ewma,
    log_spread: Ewma,
    spread: Ewma,
    scale: Ewma,
    /// Mean and mean square of each feature.
    moments: [[Ewma; 2]; FEATURES],
    situation: Situation,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            fast: Ewma::with_half_life(FAST),
            short: Ewma::with_half_life(SHORT),
            long: Ewma::with_half_life(LONG),
            log_level: Ewma::with_half_life(LOG_LEVEL),
            log_spread: Ewma::with_half_life(LOG_SPREAD),
            spread: Ewma::with_half_life(SPREAD),
            scale: Ewma::with_half_life(SCALE),
            moments: [[Ewma::with_half_life(MOMENTS); 2]; FEATURES],
            situation: Situation::default(),
        }
    }

    /// The situation after the newest sample.
    pub(super) fn situation(&self) -> &Situation {
        &self.situation
    }

    /// The path's usual rate in bits per second: the mean over some hundred samples.
    pub(super) fn scale(&self) -> f64 {
        self.scale.or_zero()
    }

    /// One over the standard deviation of each feature.
    pub(super) fn precision(&self) -> [f64; FEATURES] {
        self.moments.map(|[mean, square]| {
            let mean = mean.or_zero();
            let variance = square.or_zero() - mean * mean;
            1.0 / variance.max(1e-4).sqrt()
        })
    }

    pub(super) fn observe(&mut self, bps: f64) {
        let is_first = self.scale.get().is_none();
        let before = self.situation;
        if !is_first {
            let log = (bps + before.offset).ln();
            self.log_spread.push((log - before.log_level).abs());
            self.spread.push((log - before.short.ln()).abs());
        }
        self.fast.push(bps);
        self.short.push(bps);
        self.long.push(bps);
        self.scale.push(bps);
        let offset = OFFSET * self.scale() + 1.0;
        self.log_level.push((bps + offset).ln());
        let short = self.short.or_zero() + offset;
        self.situation = Situation {
            offset,
            fast: self.fast.or_zero() + offset,
            short,
            log_level: self.log_level.or_zero(),
            log_spread: self.log_spread.or_zero().max(SPREAD_MIN),
            features: [
                (bps + offset).ln(),
                short.ln(),
                (self.long.or_zero() + offset).ln(),
                (self.spread.or_zero() + SPREAD_MIN).ln(),
            ],
        };
        for (moments, feature) in self.moments.iter_mut().zip(self.situation.features) {
            moments[0].push(feature);
            moments[1].push(feature * feature);
        }
    }
}
