//! Statistics of a channel's samples.

use std::time::Duration;

use anabranch_stats::{
    joint::{Correlator, Kind},
    loss::{Bursts, PairLoss},
    rtt::{ConditionalRtt, SmoothedRtt, conditional::Config},
};
use serde_json::json;

use crate::Row;

/// Samples without which a channel's column is not reported.
pub(super) const SAMPLES_MIN: usize = 20;
/// Number of losses or pairs that a conditional figure needs.
const EVIDENCE: usize = 20;

/// Mean, spread and percentiles of bandwidth samples.
pub(super) fn bandwidth(row: &mut Row, bps: &[f64]) {
    if bps.len() < SAMPLES_MIN {
        return;
    }
    row.insert("samples".into(), json!(bps.len()));
    let (mean, deviation) = moments(bps);
    row.insert("bandwidth_mean_bps".into(), json!(mean.round()));
    row.insert("bandwidth_deviation_bps".into(), json!(deviation.round()));
    for (name, p) in [("p5", 0.05), ("p50", 0.5), ("p95", 0.95)] {
        row.insert(
            format!("bandwidth_{name}_bps"),
            json!(quantile(bps, p).round()),
        );
    }
    let lag1 = Correlator::new(bps.len()).between(&bps[1..], &bps[..bps.len() - 1], Kind::Pearson);
    if let Ok(lag1) = lag1 {
        row.insert("bandwidth_lag1".into(), rounded(lag1.coefficient));
    }
}

/// Distribution of round-trip times, and prediction of the next one from the last.
pub(super) fn round_trips(row: &mut Row, ms: &[f64]) {
    if ms.len() < SAMPLES_MIN {
        return;
    }
    let (mean, deviation) = moments(ms);
    row.insert("rtt_samples".into(), json!(ms.len()));
    row.insert("rtt_mean_ms".into(), rounded(mean));
    row.insert("rtt_deviation_ms".into(), rounded(deviation));
    for (name, p) in [("p5", 0.05), ("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        row.insert(format!("rtt_{name}_ms"), rounded(quantile(ms, p)));
    }
    if let Some(gain) = conditional_gain(ms) {
        row.insert("rtt_gain".into(), rounded(gain));
    }
}

/// Mean absolute error of the smoothed round-trip time over that of the conditional forecast's median.
fn conditional_gain(ms: &[f64]) -> Option<f64> {
    let mut smoothed = SmoothedRtt::new();
    let mut conditional = ConditionalRtt::new(&Config {
        lags: vec![1],
        ..Config::default()
    })
    .ok()?;
    let (mut plain, mut informed, mut count) = (0.0, 0.0, 0_u32);
    let mut last = None;
    for (index, &ms) in ms.iter().enumerate() {
        let rtt = Duration::from_secs_f64(ms / 1e3);
        if let (Some(last), Some(guess)) = (last, smoothed.smoothed())
            && let Ok(forecast) = conditional.given(last, 1)
            && let Ok(median) = forecast.quantile(0.5)
        {
            plain += (guess.as_secs_f64() * 1e3 - ms).abs();
            informed += (median.as_secs_f64() * 1e3 - ms).abs();
            count += 1;
        }
        smoothed.observe(rtt);
        conditional.observe(index as u64, rtt);
        last = Some(rtt);
    }
    (count as usize >= SAMPLES_MIN && informed > 0.0).then(|| plain / informed)
}

/// Rate, bursts and conditional losses of packets in order of sending.
pub(super) fn losses(row: &mut Row, lost: &[bool]) {
    if lost.len() < SAMPLES_MIN {
        return;
    }
    let total = lost.iter().filter(|&&lost| lost).count();
    row.insert("packets".into(), json!(lost.len()));
    row.insert(
        "loss_fraction".into(),
        rounded(total as f64 / lost.len() as f64),
    );
    let mut bursts = Bursts::new(lost.len() as u64);
    let Ok(mut pairs) = PairLoss::new(8, lost.len() as f64 * 100.0) else {
        return;
    };
    for &lost in lost {
        bursts.observe(lost);
        pairs.observe(lost);
    }
    if let (Ok(mean), Ok(two)) = (bursts.mean(), bursts.at_least(2)) {
        row.insert("burst_mean_packets".into(), rounded(mean));
        row.insert("burst_2_fraction".into(), rounded(two));
    }
    for distance in [1, 8] {
        if let Ok(both) = pairs.both_given_either(distance, EVIDENCE) {
            row.insert(format!("both_lost_{distance}"), rounded(both));
        }
    }
}

/// Correlation of two channels' simultaneous samples.
pub(super) fn correlation(row: &mut Row, xs: &[f64], ys: &[f64]) {
    let found = Correlator::new(xs.len()).between(xs, ys, Kind::Pearson);
    if let Ok(found) = found {
        row.insert("samples".into(), json!(found.pairs));
        row.insert("samples_effective".into(), rounded(found.pairs_effective));
        row.insert("correlation".into(), rounded(found.coefficient));
        row.insert("p_value".into(), rounded(found.p_value));
    }
}

fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>();
    (mean, (squares / (count - 1.0)).sqrt())
}

fn quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * p).round() as usize]
}

fn rounded(value: f64) -> serde_json::Value {
    json!((value * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sawtooth_of_delays_is_predicted() {
        let ms: Vec<f64> = (0..2000)
            .map(|i| 100.0 + f64::from(i % 10) * 60.0)
            .collect();
        assert!(conditional_gain(&ms).unwrap() > 3.0);
    }

    #[test]
    fn bursts_are_distinguished_from_single_losses() {
        let mut bursty = Row::new();
        losses(
            &mut bursty,
            &(0..2000).map(|i| i % 100 < 4).collect::<Vec<_>>(),
        );
        let mut single = Row::new();
        losses(
            &mut single,
            &(0..2000).map(|i| i % 25 == 0).collect::<Vec<_>>(),
        );
        assert_eq!(bursty["loss_fraction"], single["loss_fraction"]);
        assert!(bursty["burst_mean_packets"].as_f64().unwrap() > 3.9);
        assert_eq!(single["burst_mean_packets"], 1.0);
        assert!(bursty["both_lost_1"].as_f64().unwrap() > 0.5);
        assert_eq!(single["both_lost_1"], 0.0);
    }

    #[test]
    fn too_few_samples_give_no_result() {
        let mut row = Row::new();
        bandwidth(&mut row, &[1.0; 5]);
        round_trips(&mut row, &[1.0; 5]);
        losses(&mut row, &[true; 5]);
        assert!(row.is_empty());
    }
}
