//! Distribution of samples: quantiles, shares, partial means, and promises that stand until the distribution moves.

use anabranch_stats::{durable::Durable, order::Window};
use pyo3::{prelude::*, types::PyDict};

use super::{array::Array, check, compute, refused};
use crate::{failure::Failed, report::fields};

const ANY: f64 = f64::NEG_INFINITY;

/// A window of all samples.
fn whole(samples: &[f64]) -> Result<Window, Failed> {
    if samples.is_empty() {
        return Err(refused("samples: there are none"));
    }
    check("samples", samples, ANY)?;
    let mut sorted = samples.to_vec();
    // In order, each is put at the end.
    sorted.sort_unstable_by(f64::total_cmp);
    let mut window = Window::new(sorted.len());
    for sample in sorted {
        window.push(sample).map_err(refused)?;
    }
    Ok(window)
}

/// Answer of a window that is not empty.
fn answer(value: Option<f64>) -> Result<f64, Failed> {
    value.ok_or_else(|| refused("a level or bound is not a number"))
}

fn quantile(window: &Window, level: f64, of_next: bool) -> Option<f64> {
    match of_next {
        true => window.quantile_of_next(level),
        false => window.quantile(level),
    }
}

/// Quantiles of `samples` at `levels`; those of the next sample if `of_next`.
#[pyfunction]
pub(crate) fn quantiles(
    py: Python<'_>,
    samples: Array<f64>,
    levels: Array<f64>,
    of_next: bool,
    out: Array<f64>,
) -> PyResult<()> {
    let (samples, levels) = (samples.items(), levels.items());
    let found = compute(py, || {
        let window = whole(samples)?;
        if of_next {
            check("samples", samples, 0.0)?;
        }
        let one = |&level: &f64| answer(quantile(&window, level, of_next));
        levels.iter().map(one).collect::<Result<Vec<_>, _>>()
    })?;
    out.fill(py, &found)
}

/// At each sample, the quantile at `level` of the last `count` samples; NaN before there are so many.
#[pyfunction]
pub(crate) fn rolling_quantile(
    py: Python<'_>,
    samples: Array<f64>,
    count: usize,
    level: f64,
    of_next: bool,
    out: Array<f64>,
) -> PyResult<()> {
    let samples = samples.items();
    let found = compute(py, || {
        check("samples", samples, if of_next { 0.0 } else { ANY })?;
        let mut window = Window::new(count);
        samples
            .iter()
            .map(|&sample| {
                window.push(sample).map_err(refused)?;
                match window.is_full() {
                    true => answer(quantile(&window, level, of_next)),
                    false => Ok(f64::NAN),
                }
            })
            .collect::<Result<Vec<_>, _>>()
    })?;
    out.fill(py, &found)
}

/// Share of `samples` that is at most each of `bounds`.
#[pyfunction]
pub(crate) fn shares(
    py: Python<'_>,
    samples: Array<f64>,
    bounds: Array<f64>,
    out: Array<f64>,
) -> PyResult<()> {
    of_bounds(py, &samples, &bounds, &out, Window::cdf)
}

/// Sum of the samples that are at most each of `bounds`, over the number of all.
#[pyfunction]
pub(crate) fn partial_means(
    py: Python<'_>,
    samples: Array<f64>,
    bounds: Array<f64>,
    out: Array<f64>,
) -> PyResult<()> {
    of_bounds(py, &samples, &bounds, &out, Window::partial_mean)
}

fn of_bounds(
    py: Python<'_>,
    samples: &Array<f64>,
    bounds: &Array<f64>,
    out: &Array<f64>,
    value: fn(&Window, f64) -> Option<f64>,
) -> PyResult<()> {
    let (samples, bounds) = (samples.items(), bounds.items());
    let found = compute(py, || {
        let window = whole(samples)?;
        let one = |&bound: &f64| answer(value(&window, bound));
        bounds.iter().map(one).collect::<Result<Vec<_>, _>>()
    })?;
    out.fill(py, &found)
}

/// Promise that stands while the distribution of `history` drifts less than a quarter.
#[pyfunction]
pub(crate) fn durable<'py>(
    py: Python<'py>,
    history: Array<f64>,
    p: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let history = history.items();
    let promise = compute(py, || {
        check("history", history, 0.0)?;
        Ok(Durable::of(history, p)?)
    })?;
    Ok(fields!(py,
        "probability": promise.p,
        "rate": promise.rate,
        "kept_rate": promise.kept_rate,
        "drift": promise.drift,
        "broken_over_allowed": promise.broken_over_allowed,
        "is_steady": promise.is_steady(),
    ))
}

/// Drift from a rate that was kept with probability `p` to `samples`.
#[pyfunction]
pub(crate) fn drift(py: Python<'_>, kept_rate: f64, p: f64, samples: Array<f64>) -> PyResult<f64> {
    let samples = samples.items();
    compute(py, || {
        check("samples", samples, 0.0)?;
        let mut since = samples.to_vec();
        let after = anabranch_stats::durable::kept_rate(&mut since, p);
        let after = after.ok_or_else(|| refused("samples: there are none"))?;
        Ok(anabranch_stats::durable::drift(kept_rate, after))
    })
}
