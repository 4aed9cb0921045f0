//! Errors of estimators that give no number.
//!
//! An estimator that knows too little reports how much it has and how much it needs; it does not return
//! zero, NaN or a guess. Input that is no measurement (NaN, infinities, a negative rate) is refused where
//! it enters, so that one bad sample never spoils a window.

/// Reason why there is no estimate, or why a sample or a parameter was refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EstimateError {
    /// Not enough samples yet; measure longer.
    #[error("{what}: {have} samples, needs at least {need}; measure longer")]
    TooFew {
        /// The estimate that was asked for.
        what: &'static str,
        /// Samples (rows, pairs, packets, intervals) there are.
        have: usize,
        /// Samples it needs.
        need: usize,
    },
    /// The samples do not vary, so the estimate is not defined.
    #[error("{what}: all samples are equal, so it is not defined")]
    Constant {
        /// The estimate that was asked for.
        what: &'static str,
    },
    /// No parameters of the model explain the samples.
    #[error("{what}: the samples do not fit the model: {why}")]
    NoFit {
        /// The estimate that was asked for.
        what: &'static str,
        /// The error with the fit.
        why: &'static str,
    },
    /// A sample or parameter outside its range (NaN included).
    #[error("{name} is {value}; it must be {range}")]
    OutOfRange {
        /// The sample or parameter.
        name: &'static str,
        /// The value given.
        value: f64,
        /// The values accepted.
        range: &'static str,
    },
    /// Two things that belong together have different lengths.
    #[error("{name} has {have} entries, expected {need}")]
    Length {
        /// The value given.
        name: &'static str,
        /// Its length.
        have: usize,
        /// The length it must have.
        need: usize,
    },
}

/// `value` if it is finite.
pub(crate) fn finite(name: &'static str, value: f64) -> Result<f64, EstimateError> {
    within(name, value, "a finite number", value.is_finite())
}

/// `value` if it is finite and at least 0.
pub(crate) fn non_negative(name: &'static str, value: f64) -> Result<f64, EstimateError> {
    let range = "a finite number of at least 0";
    within(name, value, range, value.is_finite() && value >= 0.0)
}

/// `value` if it lies strictly between 0 and 1.
pub(crate) fn level(name: &'static str, value: f64) -> Result<f64, EstimateError> {
    within(
        name,
        value,
        "above 0 and below 1",
        value > 0.0 && value < 1.0,
    )
}

/// `value` if `holds`. Conditions must be written so that NaN fails them.
pub(crate) fn within(
    name: &'static str,
    value: f64,
    range: &'static str,
    holds: bool,
) -> Result<f64, EstimateError> {
    if holds {
        Ok(value)
    } else {
        Err(EstimateError::OutOfRange { name, value, range })
    }
}

/// An error unless `have` is at least `need`.
pub(crate) fn enough(what: &'static str, have: usize, need: usize) -> Result<(), EstimateError> {
    if have >= need {
        Ok(())
    } else {
        Err(EstimateError::TooFew { what, have, need })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_state_cause_and_remedy() {
        let error = enough("median of the sum", 3, 20).unwrap_err();
        assert_eq!(
            error.to_string(),
            "median of the sum: 3 samples, needs at least 20; measure longer"
        );
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            let error = non_negative("rate_bps", value).unwrap_err();
            assert!(error.to_string().contains("rate_bps is"), "{error}");
        }
        assert!(level("p", 1.0).is_err() && level("p", f64::NAN).is_err());
        assert_eq!(finite("x", -2.0), Ok(-2.0));
    }
}
