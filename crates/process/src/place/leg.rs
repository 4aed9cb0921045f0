//! Leg of a path.

use std::time::Duration;

use anabranch_base::Rate;

/// Most windows of a leg.
pub const RATES_MAX: usize = 256;
/// Windows that stand for a mean and its deviation.
const QUANTILES: usize = 32;

/// A leg between two nodes: the rates that it had in windows, each as probable as the others, and its delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Leg {
    /// In bit/s, ascending.
    rates: Vec<f64>,
    /// Of a message of size 0.
    delay: Duration,
}

impl Leg {
    /// A leg with the rates of these windows, the last [`RATES_MAX`] of them, and the delay of a message of size 0. `None` without a window.
    pub fn new(rates: impl IntoIterator<Item = Rate>, delay: Duration) -> Option<Self> {
        let mut rates: Vec<f64> = rates.into_iter().map(|rate| rate.as_bps() as f64).collect();
        rates.drain(..rates.len().saturating_sub(RATES_MAX));
        rates.sort_by(f64::total_cmp);
        (!rates.is_empty()).then_some(Self { rates, delay })
    }

    /// A leg of which a mean rate is known, with the standard deviation relative to it: windows at equal steps of a logistic distribution, whose
    /// quantiles have a closed form and whose tails are a little heavier than those of a normal one. Rates below 0 count as 0.
    pub fn of_mean(mean: Rate, deviation: f64, delay: Duration) -> Self {
        let mean = mean.as_bps() as f64;
        let scale = mean * deviation.max(0.0) * 3.0_f64.sqrt() / std::f64::consts::PI;
        let quantile = |step: usize| {
            let p = (step as f64 + 0.5) / QUANTILES as f64;
            (mean + scale * (p / (1.0 - p)).ln()).max(0.0)
        };
        Self {
            rates: (0..QUANTILES).map(quantile).collect(),
            delay,
        }
    }

    /// The same leg at a rate that was measured while data waited for it.
    #[must_use]
    pub fn at(mut self, rate: Rate) -> Self {
        self.rates = vec![rate.as_bps() as f64];
        self
    }

    /// Mean of its rates.
    pub fn mean(&self) -> Rate {
        Rate::from_bps((self.rates.iter().sum::<f64>() / self.rates.len() as f64) as u64)
    }

    /// Rates in bit/s, ascending.
    pub(super) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Delay of a message of size 0, in seconds.
    pub(super) fn delay(&self) -> f64 {
        self.delay.as_secs_f64()
    }
}
