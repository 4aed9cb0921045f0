//! Simultaneous samples of several paths: shares, quantiles and correlations.

use anabranch_stats::joint::{
    correlation::{Correlator, Kind},
    rows::{Cell, JointWindow, Level, Share},
};
use pyo3::{prelude::*, types::PyDict};

use super::{array::Array, check, compute, refused};
use crate::{failure::Failed, report::fields};

/// Rows of samples, and for each whether it was measured (0), is a lower bound (1), or is missing (2); without states, all were
/// measured.
#[derive(FromPyObject)]
pub(crate) struct Rows {
    #[pyo3(item)]
    samples: Array<f64>,
    #[pyo3(item)]
    states: Option<Array<u8>>,
    #[pyo3(item)]
    paths: usize,
}

impl Rows {
    fn slices(&self) -> (&[f64], Option<&[u8]>, usize) {
        let states = self.states.as_ref().map(Array::items);
        (self.samples.items(), states, self.paths)
    }
}

fn window((samples, states, paths): (&[f64], Option<&[u8]>, usize)) -> Result<JointWindow, Failed> {
    let rows = samples.len() / paths.max(1);
    let mut window = JointWindow::new(paths, rows)?;
    let cell = |index: usize| match states.map_or(0, |states| states[index]) {
        0 => Cell::Exact(samples[index]),
        1 => Cell::AtLeast(samples[index]),
        _ => Cell::Missing,
    };
    let mut cells = Vec::with_capacity(paths);
    for row in 0..rows {
        cells.clear();
        cells.extend((row * paths..(row + 1) * paths).map(cell));
        window.push(&cells).map_err(|error| match error {
            anabranch_stats::evidence::EstimateError::OutOfRange { value, range, .. } => {
                refused(format!(
                    "samples: row {row} has {value}; a sample must be {range}, or marked as missing"
                ))
            }
            other => other.into(),
        })?;
    }
    Ok(window)
}

fn share<'py>(py: Python<'py>, share: &Share) -> PyResult<Bound<'py, PyDict>> {
    Ok(fields!(py, "low": share.low, "high": share.high, "rows": share.rows))
}

fn level<'py>(py: Python<'py>, level: &Level) -> PyResult<Bound<'py, PyDict>> {
    Ok(fields!(py, "value": level.value, "rows": level.rows, "censored": level.censored))
}

/// Share of rows in which each path reaches its threshold.
#[pyfunction]
pub(crate) fn joint_share<'py>(
    py: Python<'py>,
    rows: Rows,
    thresholds: Array<f64>,
) -> PyResult<Bound<'py, PyDict>> {
    let (rows, thresholds) = (rows.slices(), thresholds.items());
    let found = compute(py, || Ok(window(rows)?.all_at_least(thresholds)?))?;
    share(py, &found)
}

/// Share of rows in which the members reach a total together.
#[pyfunction]
pub(crate) fn total_share<'py>(
    py: Python<'py>,
    rows: Rows,
    members: Vec<bool>,
    total: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let rows = rows.slices();
    let found = compute(py, || Ok(window(rows)?.sum_at_least(&members, total)?))?;
    share(py, &found)
}

/// Total that the members reach together in a share `p` of the rows.
#[pyfunction]
pub(crate) fn total_quantile<'py>(
    py: Python<'py>,
    rows: Rows,
    members: Vec<bool>,
    p: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let rows = rows.slices();
    let found = compute(py, || Ok(window(rows)?.sum_level(&members, p)?))?;
    level(py, &found)
}

/// Largest rate whose split by `shares` is carried in a share `p` of the rows.
#[pyfunction]
pub(crate) fn split_quantile<'py>(
    py: Python<'py>,
    rows: Rows,
    shares: Array<f64>,
    p: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let (rows, shares) = (rows.slices(), shares.items());
    let found = compute(py, || Ok(window(rows)?.split_level(shares, p)?))?;
    level(py, &found)
}

/// Correlation of two series, of their ranks if `ranks`.
#[pyfunction]
pub(crate) fn correlation<'py>(
    py: Python<'py>,
    first: Array<f64>,
    second: Array<f64>,
    ranks: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let (first, second) = (first.items(), second.items());
    let kind = if ranks { Kind::Spearman } else { Kind::Pearson };
    let found = compute(py, || {
        check("first", first, f64::NEG_INFINITY)?;
        check("second", second, f64::NEG_INFINITY)?;
        Ok(Correlator::new(first.len()).between(first, second, kind)?)
    })?;
    Ok(fields!(py,
        "coefficient": found.coefficient,
        "pairs": found.pairs,
        "pairs_effective": found.pairs_effective,
        "p_value": found.p_value,
    ))
}
