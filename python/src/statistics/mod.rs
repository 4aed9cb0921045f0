//! Statistics of `anabranch-stats` on arrays, for `anabranch.stats`, which checks shapes and makes arrays contiguous.
//!
//! Nothing is copied but results; the interpreter's lock is free while they are computed.

mod array;
pub(crate) mod forecast;
pub(crate) mod joint;
pub(crate) mod loss;
pub(crate) mod order;

use anabranch_stats::evidence::EstimateError;
use pyo3::prelude::*;

use crate::failure::Failed;

fn refused(text: impl ToString) -> Failed {
    Failed::new("StatsError", text.to_string())
}

impl From<EstimateError> for Failed {
    fn from(error: EstimateError) -> Self {
        refused(error)
    }
}

/// Refuses values that are no numbers, by name and place.
///
/// # Errors
/// One of `values` is NaN, infinite, or below `least`.
fn check(name: &str, values: &[f64], least: f64) -> Result<(), Failed> {
    let is_wrong = |value: &f64| !value.is_finite() || *value < least;
    let Some(index) = values.iter().position(is_wrong) else {
        return Ok(());
    };
    let value = values[index];
    let needed = match least.is_finite() {
        true => format!("finite and at least {least}"),
        false => "finite".to_owned(),
    };
    let remedy = match value.is_nan() {
        true => "; leave out what was not measured",
        false => "",
    };
    Err(refused(format!(
        "{name}: item {index} is {value}; it must be {needed}{remedy}"
    )))
}

/// Computes without the interpreter's lock.
fn compute<T, F>(py: Python<'_>, work: F) -> PyResult<T>
where
    T: Send,
    F: FnOnce() -> Result<T, Failed> + Send,
{
    Ok(py.detach(work)?)
}
