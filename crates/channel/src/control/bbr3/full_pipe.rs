//! Full pipe: sending faster no longer delivers more [draft-ietf-ccwg-bbr, Exiting Acceleration
//! Based on Bandwidth Plateau].

/// Growth of the delivery rate that indicates that the pipe was not full.
const GROWTH: f64 = 1.25;
/// Rounds without it after which the pipe is full.
const ROUNDS: u32 = 3;

/// Detector of a full pipe: checks the delivery rate once per round while the controller sends faster than it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    baseline: f64,
    rounds: u32,
    /// The pipe is full, as far as the running probe can determine.
    pub(super) now: bool,
    /// It has been full once: Startup is over.
    pub(super) reached: bool,
}

impl FullPipe {
    /// Begins a probe at a delivery rate of `baseline` bytes per second; 0 takes the first sample.
    pub(super) fn reset(&mut self, baseline: f64) {
        self.baseline = baseline;
        self.rounds = 0;
        self.now = false;
    }

    /// Processes the sample that ended a round.
    pub(super) fn on_round(&mut self, rate: f64) {
        if self.now {
            return;
        }
        if rate >= self.baseline * GROWTH {
            self.reset(rate);
            return;
        }
        self.rounds += 1;
        if self.rounds >= ROUNDS {
            self.now = true;
            self.reached = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_without_growth_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        for rate in [100.0, 200.0, 400.0, 410.0, 420.0] {
            pipe.on_round(rate);
            assert!(!pipe.now, "at {rate}");
        }
        pipe.on_round(430.0);
        assert!(pipe.now && pipe.reached);
        pipe.reset(430.0);
        assert!(!pipe.now && pipe.reached);
    }

    #[test]
    fn growth_starts_the_count_again() {
        let mut pipe = FullPipe::default();
        for rate in [100.0, 101.0, 102.0, 130.0, 131.0, 132.0] {
            pipe.on_round(rate);
        }
        assert!(!pipe.now);
    }
}
