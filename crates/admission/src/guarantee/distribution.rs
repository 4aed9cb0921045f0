//! Distribution of a path's available bandwidth, as the guarantees need it.

use anabranch_base::Rate;
use anabranch_stats::{bandwidth::Survival, order::Window};

/// The distribution of a path's available bandwidth over a window, in bits per second.
///
/// Every answer is `None` while nothing is known. Rates below 0 do not occur.
pub trait Distribution {
    /// F(b) = P(B ≤ b).
    fn cdf(&self, bps: f64) -> Option<f64>;

    /// P(B < b), the probability that a need of `bps` is not met: a bandwidth equal to the need meets it.
    fn below(&self, bps: f64) -> Option<f64>;

    /// M\[b\] = E\[B·1{B ≤ b}\], the partial mean (`deviation: lemma-2-partial-mean`).
    fn partial_mean(&self, bps: f64) -> Option<f64>;

    /// The largest b with P(B ≥ b) ≥ `probability`, for `probability` in (0, 1]; `None` outside of that.
    fn kept(&self, probability: f64) -> Option<f64>;
}

/// The samples themselves, each with the same weight.
impl Distribution for Window {
    fn cdf(&self, bps: f64) -> Option<f64> {
        Self::cdf(self, bps)
    }

    fn below(&self, bps: f64) -> Option<f64> {
        self.cdf_below(bps)
    }

    fn partial_mean(&self, bps: f64) -> Option<f64> {
        Self::partial_mean(self, bps)
    }

    fn kept(&self, probability: f64) -> Option<f64> {
        if !(probability > 0.0 && probability <= 1.0) {
            return None;
        }
        // As many as may fail stand below it.
        let below = ((1.0 - probability) * self.len() as f64 + 1e-9) as usize;
        self.values().get(below).copied()
    }
}

/// The product-limit estimate. What it leaves open, the share above the largest sample when that is only
/// a lower bound, counts as if the path carried no more than that sample (Efron, *Proc. 5th Berkeley
/// Symposium* 4, 1967): nothing is promised beyond what was seen.
impl Distribution for Survival {
    fn cdf(&self, bps: f64) -> Option<f64> {
        let largest = self.largest()?.as_bps() as f64;
        if bps >= largest {
            return Some(1.0);
        }
        if bps < 0.0 {
            return Some(0.0);
        }
        Some(Self::cdf(self, Rate::from_bps(bps as u64)).unwrap_or(0.0))
    }

    fn below(&self, bps: f64) -> Option<f64> {
        // Samples are whole numbers of bits per second.
        Distribution::cdf(self, bps.ceil() - 1.0)
    }

    fn partial_mean(&self, bps: f64) -> Option<f64> {
        let largest = self.largest()?;
        let at = |rate| Self::partial_mean(self, rate).unwrap_or(0.0);
        if bps >= largest.as_bps() as f64 {
            let open = 1.0 - Self::cdf(self, largest).unwrap_or(0.0);
            return Some(at(largest) + open * largest.as_bps() as f64);
        }
        Some(if bps < 0.0 {
            0.0
        } else {
            at(Rate::from_bps(bps as u64))
        })
    }

    fn kept(&self, probability: f64) -> Option<f64> {
        if !(probability > 0.0 && probability <= 1.0) {
            return None;
        }
        // The first rate with more below or at it than may fail; the quantile itself allows for 1e-12.
        let rate = self.quantile((1.0 - probability + 2e-12).min(1.0));
        rate.or(self.largest()).map(|rate| rate.as_bps() as f64)
    }
}

/// Capacity that a path has left after streams that go first have taken `taken_bps` of it: (B − c)⁺.
///
/// With strict precedence on a path this is the distribution that the next stream meets.
#[derive(Debug)]
pub struct Residual<'a, D: ?Sized> {
    /// The whole path.
    pub path: &'a D,
    /// c, at least 0.
    pub taken_bps: f64,
}

impl<D: Distribution + ?Sized> Distribution for Residual<'_, D> {
    fn cdf(&self, bps: f64) -> Option<f64> {
        let whole = self.path.cdf(bps + self.taken_bps)?;
        Some(if bps < 0.0 { 0.0 } else { whole })
    }

    fn below(&self, bps: f64) -> Option<f64> {
        let whole = self.path.below(bps + self.taken_bps)?;
        Some(if bps <= 0.0 { 0.0 } else { whole })
    }

    fn partial_mean(&self, bps: f64) -> Option<f64> {
        let (low, high) = (self.taken_bps, bps.max(0.0) + self.taken_bps);
        let mean = self.path.partial_mean(high)? - self.path.partial_mean(low)?;
        let share = self.path.cdf(high)? - self.path.cdf(low)?;
        Some((mean - self.taken_bps * share).max(0.0))
    }

    fn kept(&self, probability: f64) -> Option<f64> {
        Some((self.path.kept(probability)? - self.taken_bps).max(0.0))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use anabranch_stats::bandwidth::{Bound, Sample};
    use proptest::prelude::*;

    pub(crate) fn window(values: &[f64]) -> Window {
        let mut window = Window::new(values.len().max(1));
        for &value in values {
            window.push(value).unwrap();
        }
        window
    }

    fn survival(samples: &[(u64, bool)]) -> Survival {
        let mut survival = Survival::new(samples.len().max(1));
        for &(bps, is_exact) in samples {
            survival.push(Sample {
                rate: Rate::from_bps(bps),
                bound: if is_exact {
                    Bound::Exact
                } else {
                    Bound::AtLeast
                },
            });
        }
        survival.refresh();
        survival
    }

    #[test]
    fn nothing_is_promised_beyond_the_largest_sample() {
        // One dip to 5 and nine windows in which the path carried at least 10.
        let mut samples = vec![(10, false); 9];
        samples.push((5, true));
        let path = survival(&samples);
        assert!((path.below(10.0).unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(path.below(10.5), Some(1.0));
        assert_eq!(path.kept(0.9), Some(10.0));
        assert_eq!(path.kept(0.95), Some(5.0));
        // E[B] = 0.1·5 + 0.9·10.
        let mean = Distribution::partial_mean(&path, 10.0).unwrap();
        assert!((mean - 9.5).abs() < 1e-12, "{mean}");
    }

    #[test]
    fn lower_bounds_alone_promise_the_largest_of_them() {
        let path = survival(&[(10, false), (20, false)]);
        assert_eq!(path.kept(0.99), Some(20.0));
        assert_eq!(path.below(20.0), Some(0.0));
        assert_eq!(Distribution::cdf(&survival(&[]), 1.0), None);
    }

    proptest! {
        /// Without lower bounds, the product-limit estimate and counting agree.
        #[test]
        fn both_agree_on_exact_samples(
            values in prop::collection::vec(0u64..20, 1..60), b in -1.0..22.0f64, p in 0.01..1.0f64,
        ) {
            let counted = window(&values.iter().map(|&v| v as f64).collect::<Vec<_>>());
            let estimated = survival(&values.iter().map(|&v| (v, true)).collect::<Vec<_>>());
            for at in [b, b.floor()] {
                let near = |x: Option<f64>, y: Option<f64>| (x.unwrap() - y.unwrap()).abs() < 1e-9;
                prop_assert!(near(Distribution::cdf(&counted, at), Distribution::cdf(&estimated, at)));
                prop_assert!(near(counted.below(at), estimated.below(at)));
                prop_assert!(near(
                    Distribution::partial_mean(&counted, at),
                    Distribution::partial_mean(&estimated, at),
                ));
            }
            prop_assert_eq!(counted.kept(p), estimated.kept(p));
        }

        /// The rate that is kept with p is the largest such rate.
        #[test]
        fn kept_is_the_largest(values in prop::collection::vec(0u8..20, 1..60), p in 0.01..1.0f64) {
            let path = window(&values.iter().copied().map(f64::from).collect::<Vec<_>>());
            let kept = path.kept(p).unwrap();
            prop_assert!(1.0 - path.below(kept).unwrap() >= p - 1e-9);
            prop_assert!(1.0 - path.below(kept + 1e-6).unwrap() < p);
        }

        /// The residual is the distribution of (B − c)⁺.
        #[test]
        fn residual_agrees_with_counting(
            values in prop::collection::vec(0u8..20, 1..60), c in 0u8..25, b in -1i8..20, p in 0.01..1.0f64,
        ) {
            let path = window(&values.iter().copied().map(f64::from).collect::<Vec<_>>());
            let left: Vec<f64> = values
                .iter()
                .map(|&value| f64::from(value.saturating_sub(c)))
                .collect();
            let counted = window(&left);
            let residual = Residual { path: &path, taken_bps: f64::from(c) };
            let b = f64::from(b);
            prop_assert_eq!(residual.cdf(b), Distribution::cdf(&counted, b));
            prop_assert_eq!(residual.below(b), counted.below(b));
            let means = (residual.partial_mean(b).unwrap(), Distribution::partial_mean(&counted, b).unwrap());
            prop_assert!((means.0 - means.1).abs() < 1e-9, "{means:?}");
            prop_assert_eq!(residual.kept(p), counted.kept(p));
        }
    }
}
