//! Promises that stand until they are given back: how much, and when they hold.
//!
//! A durable promise is made once, from the samples so far, and judged by all that follow. No margin holds on a
//! path whose distribution moves at will, so the promise comes with its condition. Let r(X) be the
//! [`kept_rate`] of samples X: the largest rate that a share P of them reaches. The promise made of a history X is
//!
//! ```text
//! q = min( rate reached with probability 1 − (1 − P)/2 ,  ¾·r(X) )
//! ```
//!
//! half the allowed failure rate, and no more than three quarters of the whole one's. The [`drift`] from X to
//! what follows, Y, is the share by which the rate kept falls, 1 − r(Y)/r(X). If it is less than a quarter, then
//! r(Y) > ¾·r(X) ≥ q, and at least the share P of Y reaches q: **kept on every path that drifts less than a
//! quarter**, whatever its distribution. Half the failure rate alone does not do that: where the rates of a path
//! lie close together, a fall of a few percent breaks the promise.
//!
//! The history of a path hardly shows whether it *will* drift: neither the drift between its parts, nor their
//! Kolmogorov–Smirnov distance, nor the performance of promises made of one part in another (`docs/results/statistics.md`). So
//! the drift is to be watched while the promise stands: [`Durable::drift_to`] with the samples since.

use crate::{
    evidence::{EstimateError, enough, level, non_negative},
    order::Window,
};

/// The drift from which on a durable promise may break.
pub const DRIFT_MAX: f64 = 0.25;
/// A history shorter than this is none.
const HISTORY_MIN: usize = 40;
/// Parts of a history that are compared with all of it.
const PARTS: [usize; 2] = [2, 4];

/// The largest rate that at least the share `p` of `samples` reaches; `None` when there are none. Sorts them:
/// O(n log n).
///
/// Samples are rates in one unit; NaN counts as above all of them.
pub fn kept_rate(samples: &mut [f64], p: f64) -> Option<f64> {
    samples.sort_unstable_by(f64::total_cmp);
    // The tolerance takes 0.05·100 for 5, although 1 − 0.95 is more than 0.05.
    let may_fail = ((1.0 - p) * samples.len() as f64 + 1e-9) as usize;
    samples.get(may_fail).copied()
}

/// The drift from a time at which the rate kept was `before` to one at which it is `after`: the share by which it
/// fell, at most 1. 0 or less when it did not fall, and when there was nothing to fall from.
pub fn drift(before: f64, after: f64) -> f64 {
    if before > 0.0 {
        1.0 - after / before
    } else {
        0.0
    }
}

/// Rate that can be promised for as long as a path drifts less than a quarter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Durable {
    /// The probability promised.
    pub p: f64,
    /// The rate promised, in the unit of the samples; 0 when nothing can be.
    pub rate: f64,
    /// Rate that the share `p` of the history reached.
    pub kept_rate: f64,
    /// The largest [`drift`] from the whole history to one of its halves or quarters.
    pub drift: f64,
    /// The largest share of the history that a promise made of one of its halves would have broken in the
    /// other half, and the promise itself in one of its quarters; over the share that may be broken.
    pub broken_over_allowed: f64,
}

impl Durable {
    /// A promise with probability `p` from a history of exact samples in the order of time. O(n log n).
    ///
    /// # Errors
    /// `p` outside (0, 1), a sample that is negative or not finite, or fewer than 40 samples.
    pub fn of(history: &[f64], p: f64) -> Result<Self, EstimateError> {
        level("probability", p)?;
        enough("durable promise", history.len(), HISTORY_MIN)?;
        for &sample in history {
            non_negative("sample", sample)?;
        }
        let (rate, kept_rate) = promise(history, p);
        let allowed = 1.0 - p;
        let mut drift_most = 0.0f64;
        let mut broken_most = 0.0f64;
        for parts in PARTS {
            let part = history.len().div_ceil(parts);
            for chunk in history.chunks(part) {
                let mut sorted = chunk.to_vec();
                let here = self::kept_rate(&mut sorted, p).unwrap_or(0.0);
                drift_most = drift_most.max(drift(kept_rate, here));
                broken_most = broken_most.max(broken_share(chunk, rate));
            }
        }
        let (first, second) = history.split_at(history.len() / 2);
        for (made, judged) in [(first, second), (second, first)] {
            broken_most = broken_most.max(broken_share(judged, promise(made, p).0));
        }
        Ok(Self {
            p,
            rate,
            kept_rate,
            drift: drift_most,
            broken_over_allowed: broken_most / allowed,
        })
    }

    /// True if the history itself would have kept such promises: a condition for making one, and no assurance
    /// (see the module). It predicts the samples that follow better than any other property of a history that was tried,
    /// which is little.
    pub fn is_steady(&self) -> bool {
        self.broken_over_allowed <= 1.0 + 1e-9
    }

    /// The drift from the history to the samples `since`; `None` when there are none. As long as it is below
    /// [`DRIFT_MAX`], at least the share P of them reaches the promise. Sorts them: O(n log n).
    pub fn drift_to(&self, since: &mut [f64]) -> Option<f64> {
        Some(drift(self.kept_rate, kept_rate(since, self.p)?))
    }
}

/// The durable promise of `history`, and the rate that the share `p` of it reached.
fn promise(history: &[f64], p: f64) -> (f64, f64) {
    let mut sorted = history.to_vec();
    let kept = kept_rate(&mut sorted, p).unwrap_or(0.0);
    let mut window = Window::new(sorted.len().max(1));
    for &sample in &sorted {
        // Checked by the caller: all are finite.
        let _ = window.push(sample);
    }
    let half = window.quantile_of_next((1.0 - p) / 2.0).unwrap_or(0.0);
    (half.min((1.0 - DRIFT_MAX) * kept), kept)
}

fn broken_share(samples: &[f64], rate: f64) -> f64 {
    let broken = samples.iter().filter(|&&sample| sample < rate).count();
    broken as f64 / samples.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_rate_kept_is_the_largest_that_the_share_reaches() {
        let mut samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(kept_rate(&mut samples, 0.95), Some(6.0), "five are below");
        assert_eq!(kept_rate(&mut samples, 0.999), Some(1.0));
        assert_eq!(kept_rate(&mut [], 0.9), None);
        assert_eq!(drift(4.0, 3.0), 0.25);
        assert!(drift(4.0, 5.0) < 0.0 && drift(0.0, 5.0) == 0.0);
    }

    #[test]
    fn a_path_that_stays_is_steady_and_keeps_and_one_that_falls_does_not() {
        let mut random = Seed(1).stream("durable");
        let mut lognormal = |count: usize, level: f64| -> Vec<f64> {
            (0..count)
                .map(|_| level * random.normal(0.0, 0.2).exp())
                .collect()
        };
        let durable = Durable::of(&lognormal(1000, 1e7), 0.95).unwrap();
        assert!(durable.is_steady(), "{durable:?}");
        assert!(durable.rate > 4e6 && durable.rate < 7e6);
        let mut same = lognormal(2000, 1e7);
        assert!(durable.drift_to(&mut same).unwrap() < 0.1);
        assert!(broken_share(&same, durable.rate) <= 0.05);
        let mut less = lognormal(2000, 5e6);
        assert!(durable.drift_to(&mut less).unwrap() > 0.4);
        assert!(broken_share(&less, durable.rate) > 0.05);
        // The fall within the history is seen.
        let mut falling = lognormal(500, 1e7);
        falling.extend(lognormal(500, 5e6));
        assert!(!Durable::of(&falling, 0.95).unwrap().is_steady());
    }

    #[test]
    fn bad_and_little_input() {
        let fine = vec![1e6; 100];
        assert_eq!(Durable::of(&fine, 0.9).unwrap().rate, 0.75e6);
        assert_eq!(Durable::of(&[0.0; 100], 0.9).unwrap().rate, 0.0);
        assert!(matches!(
            Durable::of(&fine[..39], 0.9),
            Err(EstimateError::TooFew {
                have: 39,
                need: 40,
                ..
            })
        ));
        for p in [0.0, 1.0, f64::NAN] {
            assert!(Durable::of(&fine, p).is_err());
        }
        for bad in [f64::NAN, -1.0, f64::INFINITY] {
            let mut samples = fine.clone();
            samples[50] = bad;
            assert!(Durable::of(&samples, 0.9).is_err());
        }
        let durable = Durable::of(&fine, 0.9).unwrap();
        assert_eq!(durable.drift_to(&mut []), None);
    }

    proptest! {
        /// The promise of the module, on anything.
        #[test]
        fn kept_on_every_path_that_drifts_less_than_a_quarter(
            history in prop::collection::vec(0u32..1000, 40..200),
            since in prop::collection::vec(0u32..1000, 1..200),
            lift in 0u32..2000,
            p in 0.5..0.999f64,
        ) {
            let rates = |values: &[u32]| -> Vec<f64> {
                values.iter().map(|value| f64::from(value + lift)).collect()
            };
            let durable = Durable::of(&rates(&history), p).unwrap();
            let mut since = rates(&since);
            let drift = durable.drift_to(&mut since).unwrap();
            if drift < DRIFT_MAX {
                prop_assert!(broken_share(&since, durable.rate) <= 1.0 - p + 1e-9);
            }
        }
    }
}
