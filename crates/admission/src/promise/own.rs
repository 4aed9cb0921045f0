//! Caution with which a stream's promise is judged, from the outcomes of its own windows.
//!
//! Forecasts are calibrated for a path: over all rates, terms and streams together, the promised share is kept. One
//! stream demands one rate at one time, and may be among those that fall short; then it is judged as if it had
//! demanded more. With e = 1 for a broken window and 0 for a kept one, and α the share that may be broken,
//!
//! ```text
//! S ← max(S + e − α, −K),   α′ = α·max(1 − S⁺/K, 0.05),   K = √(40·α·(1 − α))
//! ```
//!
//! K is the standard deviation of forty independent windows: failures within chance cost nothing for long, and failures
//! beyond are compensated. It is adaptive conformal inference [Gibbs and Candès 2021] for one stream, except that α′ is never
//! above α: windows kept beyond the promised share earn credit of K at most, and no looser promise.
//!
//! A bound z on late packets is controlled as in the lab (`violation-bound`, `calibrated`): the logarithm of the
//! share of z that is used moves by 0.02·(1 − Z/z) with each window.

use anabranch_spec::{Demand, Guarantee};

use super::history::{LATE_GAIN, LATE_WORST};

/// Independent windows whose spread is attributed to chance.
const CHANCE: f64 = 40.0;
/// Least share of the allowed failures that is used.
const LEAST: f64 = 0.05;
/// Factor by which a stream's failures decay in a window in which it waits: it must not wait for ever.
const FORGIVEN: f64 = 0.95;

/// Key: promised stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Own {
    /// State of a promise of a share of windows.
    Share {
        /// α.
        target: f64,
        /// S.
        sum: f64,
    },
    /// State of a promise of a mean of late packets.
    Late {
        /// z, in bytes.
        bound: f64,
        /// Logarithm of the share of it that is used, at most 0.
        log: f64,
    },
}

impl Own {
    /// State of a stream of which nothing is known.
    pub(super) fn new(guarantee: &Guarantee) -> Self {
        match guarantee.demand {
            Demand::Rate { probability, .. } | Demand::Packets { probability, .. } => Self::Share {
                target: 1.0 - probability,
                sum: 0.0,
            },
            Demand::Late {
                packet_bytes,
                late_packets,
                ..
            } => Self::Late {
                bound: late_packets * f64::from(packet_bytes),
                log: 0.0,
            },
        }
    }

    /// Share of the allowed failures that is used; 0.05 to 1.
    pub(super) fn caution(&self) -> f64 {
        match *self {
            Self::Share { target, sum } => (1.0 - sum.max(0.0) / spread(target)).clamp(LEAST, 1.0),
            Self::Late { log, .. } => log.exp().clamp(LEAST, 1.0),
        }
    }

    /// The caution if one more window fails.
    pub(super) fn caution_after_failure(mut self) -> f64 {
        if let Self::Share { .. } = self {
            self.judge(true, 0.0);
        }
        self.caution()
    }

    /// Records a window in which a promise was in force, and the bytes that were missing.
    pub(super) fn judge(&mut self, is_broken: bool, missing_bytes: f64) {
        match self {
            Self::Share { target, sum } => {
                let error = f64::from(u8::from(is_broken)) - *target;
                *sum = (*sum + error).max(-spread(*target));
            }
            Self::Late { bound, log } => {
                let late = (missing_bytes / *bound).min(LATE_WORST);
                *log = (*log + LATE_GAIN * (1.0 - late)).clamp(LEAST.ln(), 0.0);
            }
        }
    }

    /// Records a window in which the stream waited.
    pub(super) fn wait(&mut self) {
        match self {
            Self::Share { sum, .. } => *sum *= FORGIVEN,
            Self::Late { log, .. } => *log *= FORGIVEN,
        }
    }
}

/// Spread of broken windows by chance: K.
fn spread(target: f64) -> f64 {
    (CHANCE * target * (1.0 - target)).sqrt()
}

#[cfg(test)]
mod tests {
    use anabranch_base::{Rate, Seed};

    use super::*;

    fn own(probability: f64) -> Own {
        Own::new(&Guarantee::rate(Rate::from_mbps(1), probability))
    }

    #[test]
    fn what_breaks_too_often_is_judged_with_care_and_what_is_kept_is_not() {
        let mut own = own(0.95);
        assert_eq!(own.caution(), 1.0);
        for _ in 0..200 {
            own.judge(false, 0.0);
        }
        assert_eq!(own.caution(), 1.0);
        // Credit for one.
        own.judge(true, 0.0);
        assert_eq!(own.caution(), 1.0);
        assert!(own.caution_after_failure() < 1.0);
        own.judge(true, 0.0);
        own.judge(true, 0.0);
        own.judge(true, 0.0);
        assert_eq!(own.caution(), LEAST);
        for _ in 0..60 {
            own.wait();
        }
        assert!(own.caution() > 0.8, "{own:?}");
    }

    /// At caution c, a share k·α·c of windows breaks, with k = 3: in the long run the promised share is kept nevertheless.
    #[test]
    fn in_the_long_run_the_promised_share_is_kept() {
        let mut random = Seed(5).stream("own");
        for probability in [0.5, 0.75, 0.9, 0.95, 0.99] {
            let mut own = own(probability);
            let target = 1.0 - probability;
            let mut broken = 0.0;
            let windows = 4_000;
            for _ in 0..windows {
                let is_broken = random.chance((3.0 * target * own.caution()).min(1.0));
                broken += f64::from(u8::from(is_broken));
                own.judge(is_broken, 0.0);
            }
            let share = broken / f64::from(windows);
            assert!(share < target + 0.003, "{probability}: {share}");
            assert!(share > 0.9 * target, "{probability}: {share}");
        }
    }

    #[test]
    fn a_bound_on_late_packets_is_tightened_by_late_packets() {
        let mut own = Own::new(&Guarantee::new(Demand::Late {
            rate: Rate::from_mbps(1),
            packet_bytes: 1_000,
            late_packets: 2.0,
        }));
        own.judge(false, 0.0);
        assert_eq!(own.caution(), 1.0);
        for _ in 0..10 {
            own.judge(true, 6_000.0);
        }
        // (1 − 3) ten times.
        assert!((own.caution() - (-0.4f64).exp()).abs() < 1e-9, "{own:?}");
    }
}
