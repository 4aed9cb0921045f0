//! The sum of a calibrator's errors, and what is owed to a path that was dead.

const RESERVE_MAX: f64 = 1000.0;
/// Part of the reserve that each outcome takes: so many broken promises more than promised.
const RESERVE_RATE: f64 = 0.01;
/// This share of the reserve is spent on top, so that a large one does not wait for ever.
const RESERVE_SHARE: f64 = 0.00025;
/// The sum of errors stays within this, whatever comes.
const SUM_MAX: f64 = 50.0;

/// Errors of promises of one kind, added up: above 0 when more were broken than promised.
#[derive(Debug, Clone, Copy)]
pub(super) struct ErrorSum {
    sum: f64,
    reserve: f64,
    /// The sum goes no further below 0 than this while nothing can be promised; the rest waits in reserve.
    trivial_sum: f64,
}

impl ErrorSum {
    pub(super) fn new(trivial_sum: f64) -> Self {
        Self {
            sum: 0.0,
            reserve: 0.0,
            trivial_sum,
        }
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum
    }

    /// An outcome that counts `share` had this `error`; `is_trivial` when the promise was 0 and could only
    /// be kept.
    pub(super) fn enter(&mut self, error: f64, share: f64, is_trivial: bool) {
        self.sum += error;
        if is_trivial {
            if self.sum < -self.trivial_sum {
                self.reserve = (self.reserve - self.trivial_sum - self.sum).min(RESERVE_MAX);
                self.sum = -self.trivial_sum;
            }
        } else if self.sum > -self.trivial_sum {
            let rate = RESERVE_RATE + RESERVE_SHARE * self.reserve;
            let spent = (rate * share).min(self.reserve);
            self.reserve -= spent;
            self.sum -= spent;
        }
        self.sum = self.sum.clamp(-SUM_MAX, SUM_MAX);
    }
}
