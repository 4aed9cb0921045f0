//! Models of packet losses, from outcomes in the order of sending.

use anabranch_stats::loss::{BaumWelch, GilbertElliott, Moments};
use pyo3::{prelude::*, types::PyDict};

use super::{array::Array, compute, refused};
use crate::report::fields;

/// Most iterations of the likeliest fit.
const ITERATIONS_MAX: usize = 500;

/// The Gilbert–Elliott model of outcomes, not 0 for lost: `simple` and `gilbert` by their moments, `likeliest` by Baum and Welch.
#[pyfunction]
pub(crate) fn loss_model<'py>(
    py: Python<'py>,
    lost: Array<u8>,
    method: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let lost = lost.items();
    let outcomes = || lost.iter().map(|&lost| lost != 0);
    let model: GilbertElliott = compute(py, || {
        if method == "likeliest" {
            let fit = BaumWelch::new(lost.len(), ITERATIONS_MAX).fit(outcomes(), None)?;
            return Ok(fit.model);
        }
        let mut moments = Moments::new(f64::INFINITY)?;
        outcomes().for_each(|lost| moments.observe(lost));
        match method {
            "simple" => Ok(moments.simple()?),
            "gilbert" => Ok(moments.gilbert()?),
            other => Err(refused(format!(
                "method: '{other}' is not one of simple, gilbert and likeliest"
            ))),
        }
    })?;
    Ok(fields!(py,
        "good_to_bad": model.good_to_bad,
        "bad_to_good": model.bad_to_good,
        "loss_good": model.loss_good,
        "loss_bad": model.loss_bad,
        "rate": model.rate(),
        "correlation": model.correlation(),
    ))
}
