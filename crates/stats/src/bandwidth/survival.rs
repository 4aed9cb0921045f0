//! The distribution behind samples some of which are only lower bounds.

use std::collections::VecDeque;

use anabranch_base::Rate;

use super::Sample;
use crate::growing;

/// One rate at which samples ended, with the share of the probability above it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    bps: f64,
    /// S(bps): the estimated probability of more than `bps`.
    above: f64,
    /// ∫ b dF up to and including this step.
    partial: f64,
}

/// The product-limit estimate (Kaplan and Meier, *JASA* 53, 1958) over the last N samples.
///
/// With d exact samples at rate b, and n samples (exact or not) of at least b,
/// S(b) = Π_{bᵢ ≤ b} (1 − dᵢ/nᵢ) and F = 1 − S. A censored sample counts among those at risk up to its
/// rate and nowhere beyond. When the largest sample is censored, S does not reach 0, and quantiles above
/// what was seen are unknown.
///
/// [`push`](Self::push) is O(1); the estimate is made by [`refresh`](Self::refresh), O(N log N), and then
/// queries are O(log N). Nothing is allocated once the window was full.
#[derive(Debug, Clone)]
pub struct Survival {
    samples: VecDeque<Sample>,
    capacity: usize,
    /// Scratch space of `refresh`.
    sorted: Vec<Sample>,
    /// In increasing order of rate.
    steps: Vec<Step>,
}

impl Survival {
    /// Over the last `capacity` samples, at least 1.
    ///
    /// # Panics
    /// When `capacity` is 0.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a window of no samples");
        Self {
            samples: VecDeque::new(),
            capacity,
            sorted: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Adds a sample; the oldest leaves when the window is full.
    pub fn push(&mut self, sample: Sample) {
        if self.samples.len() == self.capacity {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Samples held, censored ones included.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// True if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Makes the estimate anew from the samples held.
    pub fn refresh(&mut self) {
        self.sorted.clear();
        growing::reserve(&mut self.sorted, self.samples.len(), self.capacity);
        self.sorted.extend(&self.samples);
        // Of equal rates, the exact come first: a censored sample is still at risk at its own rate.
        self.sorted
            .sort_unstable_by_key(|sample| (sample.rate, sample.is_censored()));
        self.steps.clear();
        let (mut above, mut partial) = (1.0, 0.0);
        let mut index = 0;
        while index < self.sorted.len() {
            let rate = self.sorted[index].rate;
            let at_risk = self.sorted.len() - index;
            let same = self.sorted[index..].iter().take_while(|s| s.rate == rate);
            let (mut all, mut ended) = (0, 0);
            for sample in same {
                all += 1;
                ended += usize::from(!sample.is_censored());
            }
            if ended > 0 {
                let bps = rate.as_bps() as f64;
                let mass = above * ended as f64 / at_risk as f64;
                // The last of them takes all that is left, without a rounding error.
                above = if ended == at_risk { 0.0 } else { above - mass };
                partial += mass * bps;
                let step = Step {
                    bps,
                    above,
                    partial,
                };
                growing::push(&mut self.steps, step, self.capacity);
            }
            index += all;
        }
    }

    /// The largest sample, exact or not, at the last [`refresh`](Self::refresh); the estimate gives no information on
    /// rates above it.
    pub fn largest(&self) -> Option<Rate> {
        self.sorted.last().map(|sample| sample.rate)
    }

    /// F(b), the probability of at most `rate`; `None` before a `refresh` that found an exact sample.
    pub fn cdf(&self, rate: Rate) -> Option<f64> {
        if self.steps.is_empty() {
            return None;
        }
        Some(self.step(rate).map_or(0.0, |step| 1.0 - step.above))
    }

    /// M\[b₀\] = E\[b·1{b ≤ b₀}\] in bits per second [IQ-Paths §V-B]; `None` as for [`cdf`](Self::cdf).
    pub fn partial_mean(&self, rate: Rate) -> Option<f64> {
        if self.steps.is_empty() {
            return None;
        }
        Some(self.step(rate).map_or(0.0, |step| step.partial))
    }

    /// The smallest rate b with F(b) ≥ `p`, for `p` in (0, 1]; `None` when it lies beyond what the samples
    /// say, and outside of that range.
    pub fn quantile(&self, p: f64) -> Option<Rate> {
        if !(p > 0.0 && p <= 1.0) {
            return None;
        }
        let index = self
            .steps
            .partition_point(|step| 1.0 - step.above < p - 1e-12);
        self.steps
            .get(index)
            .map(|step| Rate::from_bps(step.bps as u64))
    }

    /// The last step at or below `rate`.
    fn step(&self, rate: Rate) -> Option<&Step> {
        let bps = rate.as_bps() as f64;
        let index = self.steps.partition_point(|step| step.bps <= bps);
        index.checked_sub(1).map(|index| &self.steps[index])
    }
}
