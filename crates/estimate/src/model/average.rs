//! A mean over many round trips.

use super::spread::Guess;

/// An average whose memory is 1/`WEIGHT` samples, and exact until then; with the mean distance of samples from it.
/// Where round trips scatter without memory, it is closer than the smoothed round trip with its 8 samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    mean_ms: f64,
    distance_ms: f64,
    samples: u32,
}

const WEIGHT: f64 = 1.0 / 64.0;

impl Average {
    pub(super) fn observe(&mut self, rtt_ms: f64) {
        self.samples = self.samples.saturating_add(1);
        let weight = WEIGHT.max(1.0 / f64::from(self.samples));
        let error = rtt_ms - self.mean_ms;
        self.mean_ms += weight * error;
        if self.samples > 1 {
            self.distance_ms += weight * (error.abs() - self.distance_ms);
        }
    }

    /// Begins anew; the distance is kept.
    pub(super) fn restart(&mut self) {
        self.samples = 0;
    }

    /// `None` below `samples_min` samples.
    pub(super) fn guess(&self, samples_min: u32) -> Guess {
        if self.samples < samples_min.max(1) {
            return Guess::NONE;
        }
        Guess::new(self.mean_ms, self.distance_ms)
    }
}
