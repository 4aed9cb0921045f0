//! Promises about the next samples of a path, made along a series, and their scores.

use anabranch::base::Rate;
use anabranch_stats::{
    bandwidth::Sample,
    forecast::{Config, Forecaster, Judged},
    score::Score,
};
use pyo3::{prelude::*, types::PyDict};

use super::{array::Array, check, compute, refused};
use crate::report::fields;

/// Largest rate of which a number of 64 bits holds every whole bit/s.
const RATE_MAX: f64 = 9_007_199_254_740_992.0;

/// Promises along `samples`: row t of `out`, with a column for each level, is what was promised before sample t, NaN where too
/// little was known; the last row is about the samples to come. Returns, for each level, promises kept, broken, and of unknown
/// outcome.
#[pyfunction]
pub(crate) fn forecast(
    py: Python<'_>,
    samples: Array<f64>,
    at_least: Option<Array<u8>>,
    levels: Array<f64>,
    hold: usize,
    each: bool,
    out: Array<f64>,
) -> PyResult<Vec<(u64, u64, u64)>> {
    let (samples, levels) = (samples.items(), levels.items());
    let bounds = at_least.as_ref().map(Array::items);
    let config = Config {
        levels: levels.to_vec(),
        hold,
        judged: if each { Judged::Each } else { Judged::Whole },
    };
    let (rows, accounts) = compute(py, || {
        check("samples", samples, 0.0)?;
        if let Some(index) = samples.iter().position(|sample| *sample > RATE_MAX) {
            let text = format!(
                "samples: item {index} is {}; a rate is in bit/s, at most {RATE_MAX}",
                samples[index]
            );
            return Err(refused(text));
        }
        let mut forecaster = Forecaster::new(&config).map_err(refused)?;
        let mut rows = Vec::with_capacity((samples.len() + 1) * levels.len());
        let note = |forecaster: &Forecaster, rows: &mut Vec<f64>| {
            rows.extend(levels.iter().map(|&level| {
                let promise = forecaster.promise(level);
                promise.map_or(f64::NAN, |rate| rate.as_bps() as f64)
            }));
        };
        note(&forecaster, &mut rows);
        for (index, sample) in samples.iter().enumerate() {
            let rate = Rate::from_bps(sample.round() as u64);
            forecaster.observe(match bounds {
                Some(bounds) if bounds[index] != 0 => Sample::at_least(rate),
                _ => Sample::exact(rate),
            });
            note(&forecaster, &mut rows);
        }
        let account = |&level: &f64| {
            let account = forecaster.account(level).unwrap_or_default();
            (account.kept, account.broken, account.unknown)
        };
        Ok((rows, levels.iter().map(account).collect()))
    })?;
    out.fill(py, &rows)?;
    Ok(accounts)
}

/// Figures of promises made with probability `p`, beside their outcomes.
#[pyfunction]
pub(crate) fn score<'py>(
    py: Python<'py>,
    promises: Array<f64>,
    outcomes: Array<f64>,
    p: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let (promises, outcomes) = (promises.items(), outcomes.items());
    let score = compute(py, || {
        check("promises", promises, f64::NEG_INFINITY)?;
        check("outcomes", outcomes, f64::NEG_INFINITY)?;
        Score::of(promises, outcomes, p).ok_or_else(|| refused("promises: there are none"))
    })?;
    Ok(fields!(py,
        "count": score.count,
        "broken": score.broken,
        "kept_share": score.kept(),
        "repeat_share": score.repeat(),
        "block_kept_least": score.block_kept_least,
        "useful": score.useful,
        "pinball": score.pinball,
    ))
}
