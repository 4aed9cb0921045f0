//! The largest or smallest of the recent samples, without storing all of them.
//!
//! Kathleen Nichols' windowed filter: the best, second best and third best sample of three parts of
//! the window, so that a better sample takes effect at once and an old one is forgotten in time.

/// A windowed maximum; feed negated values for a minimum. O(1) per sample, no allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MaxFilter {
    best: [Sample; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    value: f64,
    at: u64,
}

impl MaxFilter {
    /// The largest value of the window; 0 before the first sample.
    pub(crate) fn get(&self) -> f64 {
        self.best[0].value
    }

    /// Takes a sample at position `at` (a round number, or a time) into a window of `length`.
    pub(crate) fn update(&mut self, value: f64, at: u64, length: u64) {
        let sample = Sample { value, at };
        if self.best[0].value == 0.0
            || value >= self.best[0].value
            || at.saturating_sub(self.best[2].at) > length
        {
            self.best = [sample; 3];
            return;
        }
        if value >= self.best[1].value {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value >= self.best[2].value {
            self.best[2] = sample;
        }
        self.expire(sample, length);
    }

    fn expire(&mut self, sample: Sample, length: u64) {
        let age = sample.at.saturating_sub(self.best[0].at);
        if age > length {
            self.best = [self.best[1], self.best[2], sample];
            if sample.at.saturating_sub(self.best[0].at) > length {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].at == self.best[0].at && age > length / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].at == self.best[1].at && age > length / 2 {
            self.best[2] = sample;
        }
    }

    /// Forgets everything but `value`.
    pub(crate) fn reset(&mut self, value: f64, at: u64) {
        self.best = [Sample { value, at }; 3];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_larger_sample_counts_at_once_and_an_old_one_is_forgotten() {
        let mut filter = MaxFilter::default();
        filter.update(5.0, 0, 8);
        filter.update(9.0, 1, 8);
        assert_eq!(filter.get(), 9.0);
        for at in 2..=12 {
            filter.update(4.0, at, 8);
        }
        assert_eq!(filter.get(), 4.0);
    }

    proptest! {
        /// Never below the newest sample, never above the largest of the last two windows.
        #[test]
        fn stays_between_newest_and_largest(values in prop::collection::vec(0.1f64..100.0, 1..200)) {
            let mut filter = MaxFilter::default();
            for (at, &value) in values.iter().enumerate() {
                filter.update(value, at as u64, 10);
                let from = at.saturating_sub(20);
                let largest = values[from..=at].iter().copied().fold(0.0, f64::max);
                prop_assert!(filter.get() >= value);
                prop_assert!(filter.get() <= largest);
            }
        }
    }
}
