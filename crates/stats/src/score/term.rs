//! Promises that stand for a term, sample by sample.

/// Promises and outcomes sample by sample for somebody who renews every `hold` samples: the promise made
/// at `first` stands for `hold` samples, then the one made at `first + hold`, and so on. Samples after the
/// last whole term are left out; nothing is left when `hold` is 0.
pub fn renewed(
    promises: &[f64],
    samples: &[f64],
    hold: usize,
    first: usize,
) -> (Vec<f64>, Vec<f64>) {
    terms(promises, samples, hold, first, hold)
}

/// Promises and outcomes sample by sample when a promise that stands for `hold` samples is made before
/// each sample from `first` on: each promise `hold` times, beside each of its samples.
pub fn rolling(
    promises: &[f64],
    samples: &[f64],
    hold: usize,
    first: usize,
) -> (Vec<f64>, Vec<f64>) {
    terms(promises, samples, hold, first, 1)
}

fn terms(
    promises: &[f64],
    samples: &[f64],
    hold: usize,
    first: usize,
    step: usize,
) -> (Vec<f64>, Vec<f64>) {
    let (mut said, mut came) = (Vec::new(), Vec::new());
    if hold == 0 {
        return (said, came);
    }
    let starts = (first..promises.len()).step_by(step);
    for start in starts.take_while(|start| start + hold <= samples.len()) {
        said.extend(std::iter::repeat_n(promises[start], hold));
        came.extend_from_slice(&samples[start..start + hold]);
    }
    (said, came)
}
