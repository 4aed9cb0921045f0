//! Probabilities for which rates are known, and rates at those between.

/// Probabilities for which rates and shares are known, ascending.
pub const PROBABILITIES: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];

/// Value at `probability`, from those at [`PROBABILITIES`] by index: interpolated on the logarithm of the failure probability, that of the
/// first below it, extrapolated beyond the last, but not below 0. `None` where a value that is needed is not known.
pub(super) fn value_at(probability: f64, value: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let above = (PROBABILITIES.iter()).position(|known| probability <= known + 1e-9);
    let above = above.unwrap_or(PROBABILITIES.len() - 1);
    if above == 0 || (probability - PROBABILITIES[above]).abs() <= 1e-9 {
        return value(above);
    }
    let (low, high) = (PROBABILITIES[above - 1], PROBABILITIES[above]);
    let place = ((1.0 - low) / (1.0 - probability)).ln() / ((1.0 - low) / (1.0 - high)).ln();
    let (low, high) = (value(above - 1)?, value(above)?);
    Some((low + (high - low) * place).max(0.0))
}
