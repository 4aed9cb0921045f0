//! Calibrator of terms: the quantile to ask for, so that of all samples of all terms the share broken is the one promised.

use super::error_sum::ErrorSum;

/// Terms after which the level evens out the error sums, at a target of 0.1; they grow as the target
/// falls, to this power.
const TERMS: f64 = 3.0;
const TERMS_POWER: f64 = -0.3;
/// Weight of the mean of all error sums beside those of one phase.
const COMMON: f64 = 0.4;
/// Reaction to the newest samples, which lose `1 − RECENT_DECAY` of their weight with each.
const RECENT_GAIN: f64 = 0.3;
const RECENT_DECAY: f64 = 0.8;
/// The levels that may be asked for: this share of the target, and from it this share of the distance to 1.
const LOW: f64 = 0.05;
const HIGH: f64 = 0.4;
/// Place where the sum of a phase's errors stops while nothing can be promised, in terms.
const TRIVIAL_SUM: f64 = 1.5;

/// The level of promises that stand for terms of H samples, each sample judged on its own.
///
/// Promises made H samples apart do not overlap: there are H such sequences, or phases, and whoever renews
/// every H samples lives in one of them. So each phase has error sums of its own, in which a term counts
/// eᵩ = (broken − α·known)/H; what its last term brought is known in time for its next. With S = 0.6·Sᵩ +
/// 0.4·S̄, where S̄ is the mean of all phases,
///
/// ```text
/// α′ = (α − S/M)·exp(−0.3·D),   M = 3·(α/0.1)^−0.3
/// ```
///
/// within bounds: whatever was broken too much or too little is to be made good within M terms. As a term may
/// break as a whole, a trace of a few dozen terms is off by several points unless errors are answered
/// in proportion; on the logarithm of the level, as for promises that are judged as a whole, the answer to a
/// negative sum is too weak (docs/results/statistics.md). D is that of [`Calibrator`](super::calibrator::Calibrator),
/// over samples: at each, the share of the durable promises that it broke less α.
#[derive(Debug, Clone)]
pub(super) struct TermCalibrator {
    /// The share of samples that may be broken.
    target: f64,
    phases: Vec<ErrorSum>,
    /// The mean of their sums.
    mean: f64,
    recent: f64,
}

impl TermCalibrator {
    /// For terms of `hold` samples.
    pub(super) fn new(target: f64, hold: usize) -> Self {
        Self {
            target,
            phases: vec![ErrorSum::new(TRIVIAL_SUM); hold],
            mean: 0.0,
            recent: 0.0,
        }
    }

    /// The level of the quantile to ask for, for a promise of `phase`.
    pub(super) fn level(&self, phase: usize) -> f64 {
        let sum = (1.0 - COMMON) * self.phases[phase].sum() + COMMON * self.mean;
        let terms = TERMS * (self.target / 0.1).powf(TERMS_POWER);
        let level = (self.target - sum / terms) * (-RECENT_GAIN * self.recent).exp();
        let high = self.target + HIGH * (1.0 - self.target);
        level.clamp(LOW * self.target, high)
    }

    /// The newest sample broke this share of the promises that stand.
    pub(super) fn notice(&mut self, broken: f64) {
        self.recent = self.recent * RECENT_DECAY + broken - self.target;
    }

    /// A term of `phase` is over. The share `known` of its samples showed whether they reached the promise,
    /// and the share `broken` of all did not; `is_trivial` when the promise was 0.
    pub(super) fn learn(&mut self, phase: usize, known: f64, broken: f64, is_trivial: bool) {
        let error_sum = &mut self.phases[phase];
        error_sum.enter(broken - self.target * known, known, is_trivial);
        // Made anew, so that it does not drift.
        self.mean = self.phases.iter().map(ErrorSum::sum).sum::<f64>() / self.phases.len() as f64;
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;

    #[test]
    fn a_broken_term_lowers_the_level_of_its_phase_most() {
        let mut calibrator = TermCalibrator::new(0.1, 10);
        assert!((calibrator.level(3) - 0.1).abs() < 1e-12);
        calibrator.learn(3, 1.0, 0.3, false);
        assert!(calibrator.level(3) < 0.7 * calibrator.level(4));
        assert!(calibrator.level(4) < 0.1, "the others learn of it");
        calibrator.learn(3, 1.0, 0.0, false);
        calibrator.learn(3, 1.0, 0.0, false);
        assert!(
            (calibrator.level(3) - 0.1).abs() < 1e-9,
            "and it is made good"
        );
        calibrator.notice(1.0);
        assert!(calibrator.level(3) < 0.1);
    }

    #[test]
    fn whatever_the_series_the_share_broken_is_the_one_promised_in_every_phase() {
        // A promise at level a breaks all of its term with probability a·k/2, and else each sample with half of
        // that, where k jumps between 0.7 and 4.
        const HOLD: usize = 10;
        let mut random = Seed(3).stream("term");
        for target in [0.1, 0.05, 0.01] {
            let mut calibrator = TermCalibrator::new(target, HOLD);
            let mut broken = [0u32; HOLD];
            let terms = 600;
            for term in 0..terms {
                let k = if term / 37 % 3 == 0 { 4.0 } else { 0.7 };
                for (phase, sum) in broken.iter_mut().enumerate() {
                    let chance = calibrator.level(phase) * k / 2.0;
                    let count = if random.chance(chance) {
                        HOLD as u32
                    } else {
                        (0..HOLD).map(|_| u32::from(random.chance(chance))).sum()
                    };
                    *sum += count;
                    calibrator.learn(phase, 1.0, f64::from(count) / HOLD as f64, false);
                }
            }
            for sum in broken {
                let share = f64::from(sum) / f64::from(terms) / HOLD as f64;
                assert!((share - target).abs() < 0.004, "{target}: {share}");
            }
        }
    }

    #[test]
    fn what_is_unknown_teaches_nothing() {
        let mut calibrator = TermCalibrator::new(0.05, 4);
        calibrator.learn(0, 0.0, 0.0, false);
        assert!((calibrator.level(0) - 0.05).abs() < 1e-12);
    }
}
