//! Do the delays of two channels move together? Cross-correlation of detrended delay series.

use super::own_load::OwnLoad;
use crate::evidence::{EstimateError, enough, within};

/// Deviations beyond this many mean absolute deviations, of the last moments, are cut before they teach
/// anything: a lone spike.
const CLIP: f64 = 6.0;
/// The compared values are cut at this many of its median size around that time.
const CLIP_SCALED: f64 = 4.0;
/// By this part the estimate of the median size rises or falls with each bin: e-fold in twenty.
const SCALE_STEP: f64 = 0.05;

/// The compared values, in bins of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Channels, 2 to 64.
    pub channels: usize,
    /// Largest lag between two channels that is tried, either way.
    pub lag_max: usize,
    /// Largest lag of a channel with itself that is taken into account for the variance; above `lag_max`.
    pub memory_lags: usize,
    /// Time constant of the detrending: slower movements are removed.
    pub trend: f64,
    /// Time constant of forgetting.
    pub memory: f64,
}

/// Likeness of two channels, at the lag at which they are most alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coherence {
    /// The correlation coefficient, in [−1, 1].
    pub coefficient: f64,
    /// The lag in bins; positive: the second channel follows the first.
    pub lag: isize,
    /// Standard deviation of the coefficient if the channels were independent.
    pub deviation: f64,
    /// Bins in which both were measured, faded.
    pub bins: f64,
}

impl Coherence {
    /// The coefficient in standard deviations of independent channels.
    pub fn score(&self) -> f64 {
        self.coefficient / self.deviation
    }
}

#[derive(Debug, Clone)]
struct Channel {
    trend: Option<f64>,
    deviation: f64,
    own: OwnLoad,
    /// Running median of the size of what is compared, before it is scaled; 0 before it moved.
    scale: f64,
    /// Σ of its squares; its weights are `weights[0]`.
    power: f64,
    /// Scaled values of the last bins; `None` when nothing was measured.
    recent: Box<[Option<f64>]>,
    /// Σ x(t)·x(t − j) and Σ weights for lags j = 0 to `memory_lags`.
    products: Box<[f64]>,
    weights: Box<[f64]>,
}

/// Keeps the auto- and cross-covariances of all channels.
///
/// `observe`: O(channels·memory_lags + channels²·lag_max), once a bin; no allocation.
#[derive(Debug, Clone)]
pub struct CoherenceMatrix {
    config: Config,
    keep: f64,
    trend_gain: f64,
    channels: Box<[Channel]>,
    /// Shape (pair, lag): Σ x(t)·y(t + lag), and the sum of weights.
    products: Box<[f64]>,
    weights: Box<[f64]>,
    bins: usize,
}

impl CoherenceMatrix {
    /// Empty, with all its memory.
    ///
    /// # Errors
    /// A parameter outside its range.
    pub fn new(config: Config) -> Result<Self, EstimateError> {
        let Config {
            channels,
            lag_max,
            memory_lags,
            trend,
            memory,
        } = config;
        within(
            "channels",
            channels as f64,
            "2 to 64",
            (2..=64).contains(&channels),
        )?;
        within(
            "lag_max",
            lag_max as f64,
            "at most 1000 bins",
            lag_max <= 1000,
        )?;
        let sane = memory_lags > lag_max && memory_lags <= 10_000;
        within(
            "memory_lags",
            memory_lags as f64,
            "above lag_max, at most 10,000 bins",
            sane,
        )?;
        within(
            "trend",
            trend,
            "at least 2 bins",
            trend.is_finite() && trend >= 2.0,
        )?;
        within(
            "memory",
            memory,
            "at least 10 bins",
            memory.is_finite() && memory >= 10.0,
        )?;
        let channel = Channel::new(memory_lags);
        let entries = channels * (channels - 1) / 2 * (2 * lag_max + 1);
        Ok(Self {
            config,
            keep: (-1.0 / memory).exp(),
            trend_gain: 1.0 - (-1.0 / trend).exp(),
            channels: vec![channel; channels].into(),
            products: vec![0.0; entries].into(),
            weights: vec![0.0; entries].into(),
            bins: 0,
        })
    }

    /// Takes the next bin of time: the mean delay of each channel in it, finite, in any unit; `None`
    /// when the channel carried nothing.
    ///
    /// # Errors
    /// A wrong number of channels or a value that is not finite; nothing is taken then.
    pub fn observe(&mut self, delays: &[Option<f64>]) -> Result<(), EstimateError> {
        self.observe_loaded(delays, &[])
    }

    /// The same with what each channel sent itself in the bin, in any unit; empty when that is not
    /// known.
    ///
    /// The part of a channel's delay that its own traffic explains is removed by regression on the last 6 bins,
    /// because an application that bursts over two channels at once fills two separate queues together.
    ///
    /// # Errors
    /// As [`CoherenceMatrix::observe`].
    pub fn observe_loaded(
        &mut self,
        delays: &[Option<f64>],
        loads: &[f64],
    ) -> Result<(), EstimateError> {
        let need = self.channels.len();
        if !loads.is_empty() && loads.len() != need {
            return Err(EstimateError::Length {
                name: "loads",
                have: loads.len(),
                need,
            });
        }
        for &load in loads {
            crate::evidence::non_negative("load", load)?;
        }
        if delays.len() != need {
            return Err(EstimateError::Length {
                name: "delays",
                have: delays.len(),
                need,
            });
        }
        for delay in delays.iter().flatten() {
            crate::evidence::finite("delay", *delay)?;
        }
        let length = self.config.memory_lags + 1;
        let now = self.bins % length;
        let known_loads = loads.iter().copied().chain(std::iter::repeat(0.0));
        for ((channel, &delay), load) in self.channels.iter_mut().zip(delays).zip(known_loads) {
            channel.own.load(load, self.trend_gain);
            channel.products.iter_mut().for_each(|p| *p *= self.keep);
            channel.weights.iter_mut().for_each(|w| *w *= self.keep);
            channel.power *= self.keep;
            channel.recent[now] = delay.map(|delay| {
                let detrended = channel.detrend(delay, self.trend_gain);
                let left = channel.own.residual(detrended, self.keep);
                channel.power += left * left;
                channel.scaled(left)
            });
            let Some(value) = channel.recent[now] else {
                continue;
            };
            for lag in 0..length.min(self.bins + 1) {
                if let Some(before) = channel.recent[(self.bins - lag) % length] {
                    channel.products[lag] += value * before;
                    channel.weights[lag] += 1.0;
                }
            }
        }
        self.products.iter_mut().for_each(|p| *p *= self.keep);
        self.weights.iter_mut().for_each(|w| *w *= self.keep);
        let reach = self.config.lag_max;
        let width = 2 * reach + 1;
        let mut start = 0;
        for first in 0..need {
            for second in first + 1..need {
                let (x, y) = (&self.channels[first].recent, &self.channels[second].recent);
                for back in 0..=reach.min(self.bins) {
                    let before = (self.bins - back) % length;
                    if let (Some(earlier), Some(value)) = (x[before], y[now]) {
                        self.products[start + reach + back] += earlier * value;
                        self.weights[start + reach + back] += 1.0;
                    }
                    if back > 0
                        && let (Some(value), Some(earlier)) = (x[now], y[before])
                    {
                        self.products[start + reach - back] += value * earlier;
                        self.weights[start + reach - back] += 1.0;
                    }
                }
                start += width;
            }
        }
        self.bins += 1;
        Ok(())
    }

    /// Adds one more channel, the last; what is known of the others stays.
    ///
    /// # Errors
    /// It would be the 65th; nothing changes then.
    pub fn add_channel(&mut self) -> Result<(), EstimateError> {
        let known = self.channels.len();
        let config = Config {
            channels: known + 1,
            ..self.config
        };
        let mut wider = Self::new(config)?;
        wider.bins = self.bins;
        let width = 2 * self.config.lag_max + 1;
        let channels = std::mem::take(&mut self.channels);
        for (to, from) in wider.channels.iter_mut().zip(channels) {
            *to = from;
        }
        for first in 0..known {
            for second in first + 1..known {
                let from = pair_index(known, first, second) * width;
                let to = pair_index(known + 1, first, second) * width;
                wider.products[to..to + width].copy_from_slice(&self.products[from..from + width]);
                wider.weights[to..to + width].copy_from_slice(&self.weights[from..from + width]);
            }
        }
        *self = wider;
        Ok(())
    }

    /// Forgets one channel, which from now on stands for another path. What is known of the others stays.
    ///
    /// # Panics
    /// There is no such channel.
    pub fn forget(&mut self, channel: usize) {
        let channels = self.channels.len();
        self.channels[channel] = Channel::new(self.config.memory_lags);
        let width = 2 * self.config.lag_max + 1;
        for other in (0..channels).filter(|&other| other != channel) {
            let at = pair_index(channels, other.min(channel), other.max(channel)) * width;
            self.products[at..at + width].fill(0.0);
            self.weights[at..at + width].fill(0.0);
        }
    }

    /// Standard deviation of what is compared of a channel's delay, before it is scaled; 0 before the
    /// first bin.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn deviation(&self, channel: usize) -> f64 {
        let Channel { power, weights, .. } = &self.channels[channel];
        if weights[0] > 0.0 {
            (power / weights[0]).sqrt()
        } else {
            0.0
        }
    }

    /// Likeness of channels `first` < `second`.
    ///
    /// The variance under independence is (1/n)·Σ_j ρ_x(j)·ρ_y(j) over all lags j [Bartlett 1935], so
    /// slow queues, whose delays repeat themselves, need more time.
    ///
    /// # Errors
    /// No such pair; fewer than four trend constants of bins measured on both; a channel whose delay
    /// does not vary.
    pub fn pair(&self, first: usize, second: usize) -> Result<Coherence, EstimateError> {
        let channels = self.channels.len();
        within(
            "pair",
            second as f64,
            "first < second < channels",
            first < second && second < channels,
        )?;
        let reach = self.config.lag_max;
        let width = 2 * reach + 1;
        let row = pair_index(channels, first, second);
        let (products, weights) = (
            &self.products[row * width..][..width],
            &self.weights[row * width..][..width],
        );
        let need = (4.0 * self.config.trend).ceil() as usize;
        enough("coherence of delays, bins", weights[reach] as usize, need)?;
        let (x, y) = (&self.channels[first], &self.channels[second]);
        let scale = (x.variance() * y.variance()).sqrt();
        if scale <= 0.0 {
            return Err(EstimateError::Constant {
                what: "coherence of delays",
            });
        }
        let (mut coefficient, mut lag) = (f64::NEG_INFINITY, 0);
        for at in 0..width {
            if weights[at] > 0.0 {
                let here = products[at] / weights[at] / scale;
                if here > coefficient {
                    (coefficient, lag) = (here, at as isize - reach as isize);
                }
            }
        }
        // Exponential weights of sum w are worth up to 2·w equal ones; none before they have faded.
        let bins = weights[reach];
        let saturation = bins * (1.0 - self.keep);
        let worth = bins * (1.0 + saturation.clamp(0.0, 1.0));
        let sum = 1.0
            + 2.0
                * (1..=self.config.memory_lags)
                    .map(|j| {
                        let taper = 1.0 - j as f64 / (self.config.memory_lags + 1) as f64;
                        taper * x.correlation(j) * y.correlation(j)
                    })
                    .sum::<f64>();
        Ok(Coherence {
            coefficient: coefficient.clamp(-1.0, 1.0),
            lag,
            deviation: (sum.max(1.0) / worth).sqrt(),
            bins,
        })
    }
}

/// The place of a pair, `first` < `second`, among those of all channels.
pub(super) fn pair_index(channels: usize, first: usize, second: usize) -> usize {
    first * (2 * channels - first - 1) / 2 + second - first - 1
}

impl Channel {
    fn new(memory_lags: usize) -> Self {
        Self {
            trend: None,
            deviation: 0.0,
            own: OwnLoad::new(),
            scale: 0.0,
            power: 0.0,
            recent: vec![None; memory_lags + 1].into(),
            products: vec![0.0; memory_lags + 1].into(),
            weights: vec![0.0; memory_lags + 1].into(),
        }
    }

    /// `value` in median sizes of the time around it, cut.
    ///
    /// Every moment counts alike then. Otherwise the largest would make the answer: all channels of a
    /// session start at one time, and the queues that they fill then outweigh a minute of what follows.
    fn scaled(&mut self, value: f64) -> f64 {
        let size = value.abs();
        if self.scale > 0.0 {
            // As often up as down at the median.
            let step = 1.0 + SCALE_STEP;
            self.scale *= if size > self.scale { step } else { 1.0 / step };
        } else {
            self.scale = size;
        }
        if self.scale > 0.0 {
            (value / self.scale).clamp(-CLIP_SCALED, CLIP_SCALED)
        } else {
            0.0
        }
    }

    fn detrend(&mut self, delay: f64, gain: f64) -> f64 {
        let Some(trend) = &mut self.trend else {
            self.trend = Some(delay);
            return 0.0;
        };
        let away = delay - *trend;
        *trend += gain * away;
        let limit = CLIP * self.deviation;
        self.deviation += gain * (away.abs() - self.deviation);
        if limit > 0.0 {
            away.clamp(-limit, limit)
        } else {
            away
        }
    }

    fn variance(&self) -> f64 {
        if self.weights[0] > 0.0 {
            self.products[0] / self.weights[0]
        } else {
            0.0
        }
    }

    fn correlation(&self, lag: usize) -> f64 {
        if self.weights[lag] > 0.0 {
            (self.products[lag] / self.weights[lag] / self.variance()).clamp(-1.0, 1.0)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::joint::effective::tests::autoregressive;
    use anabranch_base::Seed;

    fn config() -> Config {
        Config {
            channels: 2,
            lag_max: 5,
            memory_lags: 40,
            trend: 10.0,
            memory: 1e9,
        }
    }

    /// The covariances of the detrended series, summed naively, when every bin is measured.
    #[test]
    fn agrees_with_the_definition() {
        let mut random = Seed(1).stream("coherence");
        let xs = autoregressive(&mut random, 0.7, 400);
        let noise = autoregressive(&mut random, 0.2, 400);
        let ys: Vec<f64> = (0..400)
            .map(|i| noise[i] + if i >= 3 { xs[i - 3] } else { 0.0 })
            .collect();
        let mut matrix = CoherenceMatrix::new(config()).unwrap();
        let mut detrended = [Vec::new(), Vec::new()];
        for (x, y) in xs.iter().zip(&ys) {
            matrix.observe(&[Some(*x), Some(*y)]).unwrap();
            for (series, channel) in detrended.iter_mut().zip(&matrix.channels) {
                let now = (matrix.bins - 1) % channel.recent.len();
                series.push(channel.recent[now].unwrap());
            }
        }
        let covariance = |a: &[f64], b: &[f64]| {
            let n = a.len().min(b.len());
            a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>() / n as f64
        };
        let [x, y] = &detrended;
        let naive = covariance(x, &y[3..]) / (covariance(x, x) * covariance(y, y)).sqrt();
        let found = matrix.pair(0, 1).unwrap();
        assert_eq!(found.lag, 3);
        assert!(
            (found.coefficient - naive).abs() < 1e-5,
            "{found:?} {naive}"
        );
    }

    /// Of independent series the score is that of a standard normal variable, whatever their
    /// autocorrelation; the largest over eleven lags is a little more.
    #[test]
    fn scores_of_independent_series() {
        let mut random = Seed(2).stream("coherence");
        for phi in [0.0, 0.9, 0.98] {
            let (mut above_2, mut above_5) = (0, 0);
            for _ in 0..200 {
                let (xs, ys) = (
                    autoregressive(&mut random, phi, 1000),
                    autoregressive(&mut random, phi, 1000),
                );
                let mut matrix = CoherenceMatrix::new(config()).unwrap();
                for (x, y) in xs.into_iter().zip(ys) {
                    matrix.observe(&[Some(x), Some(y)]).unwrap();
                }
                let score = matrix.pair(0, 1).unwrap().score();
                above_2 += u32::from(score > 2.0);
                above_5 += u32::from(score > 5.0);
            }
            assert!(
                above_2 < 100 && above_5 == 0,
                "phi {phi}: {above_2}, {above_5} of 200"
            );
        }
    }

    #[test]
    fn bad_and_little_input() {
        let mut matrix = CoherenceMatrix::new(config()).unwrap();
        assert!(matrix.observe(&[Some(1.0)]).is_err());
        assert!(matrix.observe(&[Some(f64::NAN), None]).is_err());
        for _ in 0..100 {
            matrix.observe(&[Some(1.0), None]).unwrap();
        }
        assert!(matches!(
            matrix.pair(0, 1),
            Err(EstimateError::TooFew { have: 0, .. })
        ));
        for _ in 0..100 {
            matrix.observe(&[Some(1.0), Some(2.0)]).unwrap();
        }
        assert!(matches!(
            matrix.pair(0, 1),
            Err(EstimateError::Constant { .. })
        ));
        assert!(matrix.pair(1, 0).is_err() && matrix.pair(0, 2).is_err());
        for bad in [
            Config {
                channels: 1,
                ..config()
            },
            Config {
                memory_lags: 5,
                ..config()
            },
            Config {
                trend: f64::NAN,
                ..config()
            },
            Config {
                memory: 0.0,
                ..config()
            },
        ] {
            assert!(CoherenceMatrix::new(bad).is_err());
        }
    }
}
