//! The distribution-free bound on the error of the fitted line.

use crate::evidence::{EstimateError, level, within};

/// P(I(fit) − I(best) < ε) for a line fitted to `samples` = k delays, whatever their distribution
/// [Daemons Eq. (8)]:
///
/// 1 − 8·((64e/ε)·ln(64e/ε))²·exp(−ε²·k/512), where I is the expected squared error.
///
/// Delays must be scaled so that squared errors lie in [0, 1]; ε is in that unit, squared. The bound is
/// loose: for ε = 0.1 it gives nothing (0) below 1.07 million samples. It proves that the fit
/// converges; the standard errors of [`super::Line`] show how close it is. Eq. (10) prints the middle factor
/// without the square; (8) is the one that follows from an estimator of dimension 2 [DESIGN §11], and it is
/// the weaker claim. In [0, 1].
///
/// # Errors
/// `epsilon` not strictly between 0 and 1.
pub fn probability(epsilon: f64, samples: u64) -> Result<f64, EstimateError> {
    level("epsilon", epsilon)?;
    let log_failure = log_cover(epsilon) - epsilon * epsilon * samples as f64 / 512.0;
    Ok((-log_failure.exp_m1()).max(0.0))
}

/// The fewest samples for which [`probability`] is at least `confidence`:
/// k ≥ (512/ε²)·(ln 8 + 2·ln((64e/ε)·ln(64e/ε)) − ln(1 − confidence)).
///
/// # Errors
/// `epsilon` or `confidence` not strictly between 0 and 1; a count beyond 2⁵³.
pub fn samples(epsilon: f64, confidence: f64) -> Result<u64, EstimateError> {
    level("epsilon", epsilon)?;
    level("confidence", confidence)?;
    let count = (512.0 / (epsilon * epsilon) * (log_cover(epsilon) - (-confidence).ln_1p())).ceil();
    within(
        "samples",
        count,
        "at most 2^53",
        count <= 9_007_199_254_740_992.0,
    )?;
    Ok(count as u64)
}

/// ln(8·((64e/ε)·ln(64e/ε))²).
fn log_cover(epsilon: f64) -> f64 {
    let ratio = 64.0 * std::f64::consts::E / epsilon;
    8f64.ln() + 2.0 * (ratio * ratio.ln()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Eq. (8) as printed, where it does not overflow.
    #[test]
    fn equation_8() {
        for (epsilon, k) in [
            (0.5f64, 60_000u64),
            (0.5, 100_000),
            (0.1, 2_000_000),
            (0.9, 20_000),
        ] {
            let ratio = 64.0 * std::f64::consts::E / epsilon;
            let printed = 1.0
                - 8.0
                    * (ratio * ratio.ln()).powi(2)
                    * (-epsilon * epsilon * k as f64 / 512.0).exp();
            assert!((probability(epsilon, k).unwrap() - printed.max(0.0)).abs() < 1e-9);
        }
    }

    /// Messages that the bound asks for: 95 % within 0.1 (of squared delay) takes 1.2 million messages.
    #[test]
    fn golden() {
        assert_eq!(samples(0.1, 0.95).unwrap(), 1_229_702);
        assert_eq!(probability(0.1, 100_000).unwrap(), 0.0);
    }

    #[test]
    fn bad_parameters() {
        for bad in [0.0, 1.0, -1.0, f64::NAN] {
            assert!(
                probability(bad, 10).is_err()
                    && samples(bad, 0.5).is_err()
                    && samples(0.5, bad).is_err()
            );
        }
        assert!(samples(1e-9, 0.5).is_err());
    }

    proptest! {
        #[test]
        fn samples_inverts_probability(epsilon in 0.01..0.99f64, confidence in 0.01..0.999f64) {
            let k = samples(epsilon, confidence).unwrap();
            prop_assert!(probability(epsilon, k).unwrap() >= confidence - 1e-9);
            prop_assert!(probability(epsilon, k - 2).unwrap() < confidence + 1e-9);
            prop_assert!(probability(epsilon, k + 1000).unwrap() >= probability(epsilon, k).unwrap());
        }
    }
}
