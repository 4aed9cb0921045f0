//! Recordings as series of bandwidth samples, for experiments that predict the next one.

use std::collections::BTreeMap;

use anabranch_base::Rate;
use anabranch_stats::{
    bandwidth::Sample,
    forecast::{Config, Forecaster},
};
use serde_json::json;

use crate::{Options, Row, kit::recording::Recording};

/// Sampling intervals, in seconds, over which figures are summed up: 0.1 to 1 s [IQ-Paths §VI-A], within the precision of
/// clocks.
const STEPS_S: std::ops::RangeInclusive<f64> = 0.09..=1.15;
/// Number of omitted recordings that are named; the others are only counted.
const NAMED: usize = 5;

/// Bandwidth samples of one recording over windows of one length.
pub(crate) struct Series<'a> {
    pub(crate) recording: &'a Recording,
    /// Length of a window: one of those requested, or the recording's own sampling interval.
    pub(crate) window_s: f64,
    /// True if these are the rows as recorded, not means of several.
    pub(crate) is_own_step: bool,
    /// Time between the recording's rows, in seconds.
    step_s: f64,
    /// Whole bits per second, as a forecaster sees them.
    pub(crate) bps: Vec<f64>,
}

impl<'a> Series<'a> {
    /// Series of a recording for each of `windows_s` that its sampling interval permits, and for its own interval if that is
    /// none of them; those with fewer than `samples_min` samples are left out.
    fn of(recording: &'a Recording, windows_s: &[f64], samples_min: usize) -> Vec<Self> {
        let Some(step_s) = recording.step_s() else {
            return Vec::new();
        };
        let series = |window_s: f64, is_own_step: bool, bps: &[f64]| Self {
            recording,
            window_s,
            is_own_step,
            step_s,
            bps: bps.iter().map(|bps| bps.floor()).collect(),
        };
        let mut all: Vec<Self> = windows_s
            .iter()
            .filter_map(|&window_s| {
                // True where `bandwidths_over` does not combine rows.
                let is_own_step = step_s > window_s / 1.5;
                let bps = recording.bandwidths_over(window_s)?;
                Some(series(window_s, is_own_step, &bps))
            })
            .collect();
        if !all.iter().any(|series| series.is_own_step) {
            let step_s = (step_s * 1e3).round() / 1e3;
            all.push(series(step_s, true, &recording.bandwidths_bps()));
        }
        all.retain(|series| series.bps.len() >= samples_min);
        all
    }

    /// Fields at the beginning of every row about this series.
    pub(crate) fn header(&self) -> Row {
        let mut row = Row::new();
        row.insert("kind".into(), json!("trace"));
        row.insert("trace".into(), json!(self.recording.name));
        row.insert("network".into(), json!(self.recording.network));
        row.insert("window_s".into(), json!(self.window_s));
        row.insert("is_own_step".into(), json!(self.is_own_step));
        row.insert("samples".into(), json!(self.bps.len()));
        row
    }

    /// True if it is included in figures over all recordings.
    pub(crate) fn is_summed_up(&self) -> bool {
        self.is_own_step && STEPS_S.contains(&self.step_s)
    }
}

/// True if a row about one trace is about a series for which [`Series::is_summed_up`] holds.
pub(crate) fn is_summed_up(row: &Row) -> bool {
    row["kind"] == "trace"
        && row["is_own_step"] == true
        && row["window_s"]
            .as_f64()
            .is_some_and(|step| STEPS_S.contains(&step))
}

/// Series of all recordings of a run that `wants` accepts; reports the number of recordings left out.
pub(crate) fn all<'a>(
    options: &Options<'a>,
    windows_s: &[f64],
    samples_min: usize,
    wants: impl Fn(&str) -> bool,
) -> Vec<Series<'a>> {
    let mut all = Vec::new();
    let mut short = Vec::new();
    for recording in &options.corpus.recordings {
        if !wants(&recording.name) {
            continue;
        }
        let series = Series::of(recording, windows_s, samples_min);
        if series.is_empty() {
            short.push(recording.name.as_str());
        }
        all.extend(series);
    }
    if !short.is_empty() {
        let more = if short.len() > NAMED { ", …" } else { "" };
        let named = &short[..short.len().min(NAMED)];
        (options.progress)(&format!(
            "{} recordings left out, with fewer than {samples_min} samples of bandwidth: {}{more}",
            short.len(),
            named.join(", ")
        ));
    }
    all
}

/// Series that are summed up together: all at their own sampling interval between 0.1 and 1 s, all over windows of one length,
/// and each kind of network at its own intervals. Returns the header of the row, and the indices.
pub(crate) fn groups(all: &[Series<'_>], windows_s: &[f64]) -> Vec<(Row, Vec<usize>)> {
    let indices = |holds: &dyn Fn(&Series<'_>) -> bool| -> Vec<usize> {
        (0..all.len()).filter(|&index| holds(&all[index])).collect()
    };
    let header = |kind: &str, network: &str, window_s: Option<f64>| {
        let mut row = Row::new();
        row.insert("kind".into(), json!(kind));
        row.insert("network".into(), json!(network));
        if let Some(window_s) = window_s {
            row.insert("window_s".into(), json!(window_s));
        }
        row.insert("is_own_step".into(), json!(window_s.is_none()));
        row
    };
    let mut groups = vec![(
        header("all", "all", None),
        indices(&|series| series.is_summed_up()),
    )];
    for &window_s in windows_s {
        groups.push((
            header("all", "all", Some(window_s)),
            indices(&|series| series.window_s == window_s),
        ));
    }
    let mut networks: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for index in indices(&|series| series.is_own_step) {
        let network = all[index].recording.network.as_str();
        networks.entry(network).or_default().push(index);
    }
    for (network, members) in networks {
        groups.push((header("network", network, None), members));
    }
    groups.retain(|(_, members)| !members.is_empty());
    groups
}

/// True if a row sums up all recordings at their own sampling intervals.
pub(crate) fn is_total(row: &Row) -> bool {
    row["kind"] == "all" && row["is_own_step"] == true
}

/// Promises of a forecaster for each sample before it came, for each level: 0 without one.
pub(crate) fn promises(bps: &[f64], config: &Config) -> Vec<Vec<f64>> {
    let Ok(mut forecaster) = Forecaster::new(config) else {
        return Vec::new();
    };
    let mut promises = vec![Vec::with_capacity(bps.len()); config.levels.len()];
    for &bps in bps {
        for (promises, &level) in promises.iter_mut().zip(&config.levels) {
            let promise = forecaster.promise(level).unwrap_or(Rate::ZERO);
            promises.push(promise.as_bps() as f64);
        }
        forecaster.observe(Sample::exact(Rate::from_bps(bps as u64)));
    }
    promises
}

/// Value that a share `p` of the others lies below; `None` if no value is a number.
pub(crate) fn quantile(values: impl IntoIterator<Item = f64>, p: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    let index = (values.len() as f64 * p) as usize;
    values
        .get(index.min(values.len().saturating_sub(1)))
        .copied()
}

/// Median.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    quantile(values, 0.5)
}

/// Ratio of two figures; 1 if both are 0.
pub(crate) fn ratio(ours: f64, theirs: f64) -> f64 {
    if ours == theirs { 1.0 } else { ours / theirs }
}

/// Adds a figure to a row, with rates in whole bits per second and the rest with five decimals; one that is not finite is left
/// out.
pub(crate) fn insert(row: &mut Row, field: &str, value: f64) {
    if value.is_finite() {
        let scale = if field.ends_with("_bps") { 1.0 } else { 1e5 };
        row.insert(field.to_owned(), json!((value * scale).round() / scale));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(step_s: f64, rows: u32) -> Recording {
        let rows: String = (0..rows)
            .map(|i| format!("{},{}\n", f64::from(i) * step_s, 1e6 + f64::from(i)))
            .collect();
        Recording::parse("r", &format!("t_s,bandwidth_bps\n{rows}")).unwrap()
    }

    #[test]
    fn windows_are_those_that_the_step_permits() {
        let windows = |step_s: f64| -> Vec<(f64, bool, usize)> {
            Series::of(&recording(step_s, 2000), &[0.1, 0.5, 1.0], 100)
                .iter()
                .map(|series| (series.window_s, series.is_own_step, series.bps.len()))
                .collect()
        };
        assert_eq!(
            windows(0.1),
            [(0.1, true, 2000), (0.5, false, 400), (1.0, false, 200)]
        );
        assert_eq!(windows(1.0), [(1.0, true, 2000)]);
        assert_eq!(windows(5.0), [(5.0, true, 2000)]);
        assert_eq!(
            windows(0.2),
            [(0.5, false, 800), (1.0, false, 400), (0.2, true, 2000)]
        );
    }

    #[test]
    fn figures_over_all_are_about_steps_of_a_tenth_to_one_second() {
        let recordings = [0.1, 1.0, 5.0].map(|step_s| recording(step_s, 2000));
        let all: Vec<Series<'_>> = recordings
            .iter()
            .flat_map(|recording| Series::of(recording, &[0.1, 1.0], 100))
            .collect();
        let groups = groups(&all, &[0.1, 1.0]);
        let sizes: Vec<usize> = groups.iter().map(|(_, members)| members.len()).collect();
        // Own interval; windows of 0.1 and 1 s; the one network, at any interval.
        assert_eq!(sizes, [2, 1, 2, 3]);
        assert!(is_total(&groups[0].0) && !is_total(&groups[1].0));
        for series in &all {
            assert_eq!(is_summed_up(&series.header()), series.is_summed_up());
        }
    }

    #[test]
    fn the_middle_of_numbers() {
        assert_eq!(median([3.0, f64::NAN, 1.0, f64::INFINITY]), Some(3.0));
        assert_eq!(median([]), None);
        assert_eq!(quantile([1.0, 2.0], 1.0), Some(2.0));
    }
}
