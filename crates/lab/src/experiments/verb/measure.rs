//! Rows of results.

use serde_json::json;

use super::channel::Channel;
use super::driver::Look;
use crate::Row;

/// Samples in a second.
const PER_SECOND: usize = 10;
/// Controllers whose progress is shown second by second.
const SHOWN: [&str; 2] = ["verb", "aimd"];

/// Value that the fraction `q` of `sorted` does not exceed; NaN if there is none.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (q * last as f64).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Goodput of consecutive windows, in bits per second.
fn goodputs(looks: &[Look], window_looks: usize) -> impl Iterator<Item = f64> + '_ {
    let seconds = window_looks as f64 / PER_SECOND as f64;
    let ends = (window_looks..=looks.len()).step_by(window_looks);
    ends.map(move |end| {
        let before = match end - window_looks {
            0 => 0,
            begin => looks[begin - 1].bytes_acked,
        };
        // A reopened channel counts from zero.
        let bytes = looks[end - 1].bytes_acked.saturating_sub(before);
        bytes as f64 * 8.0 / seconds
    })
}

pub(super) fn row(channel: &Channel, looks: &[Look]) -> Row {
    let window_looks = (channel.window.as_secs() as usize * PER_SECOND).max(1);
    let last = looks.last().copied().unwrap_or_default();
    let goodput_bps = goodputs(looks, PER_SECOND).sum::<f64>() / channel.run.as_secs_f64();
    let windows = sorted(goodputs(looks, window_looks));
    let rtts = sorted(looks.iter().filter_map(|look| look.rtt_ms));
    let known = (last.packets_acked + last.packets_lost).max(1);
    let capacity_bps = channel.capacity_bits() / channel.run.as_secs_f64();
    let mut row = Row::new();
    row.insert("kind".into(), json!("channel"));
    row.insert("channel".into(), json!(channel.name));
    row.insert("technology".into(), json!(channel.kind.name()));
    for (name, value) in [
        ("capacity_bps", capacity_bps.round()),
        ("goodput_bps", goodput_bps.round()),
        ("goodput_fraction", digits(goodput_bps / capacity_bps, 4)),
        ("goodput_p10_bps", quantile(&windows, 0.1).round()),
        ("goodput_p50_bps", quantile(&windows, 0.5).round()),
        ("goodput_p90_bps", quantile(&windows, 0.9).round()),
        ("rtt_p50_ms", digits(quantile(&rtts, 0.5), 1)),
        ("rtt_p95_ms", digits(quantile(&rtts, 0.95), 1)),
        (
            "loss_fraction",
            digits(last.packets_lost as f64 / known as f64, 5),
        ),
    ] {
        row.insert(name.into(), json!(value));
    }
    row
}

fn digits(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// Time series of goodput, losses and round trips, for controllers that a figure shows.
pub(super) fn series(channel: &Channel, controller: &str, looks: &[Look]) -> Vec<Row> {
    if channel.window.as_secs() < 10 || !SHOWN.contains(&controller) {
        return Vec::new();
    }
    let mut lost_before = 0;
    let seconds = looks
        .chunks_exact(PER_SECOND)
        .zip(goodputs(looks, PER_SECOND));
    let rows = seconds.enumerate().map(|(second, (part, goodput_bps))| {
        let lost = part[PER_SECOND - 1].packets_lost;
        let mut row = Row::new();
        row.insert("kind".into(), json!("series"));
        row.insert("channel".into(), json!(channel.name));
        row.insert("controller".into(), json!(controller));
        row.insert("t_s".into(), json!(second));
        row.insert("goodput_bps".into(), json!(goodput_bps));
        row.insert(
            "lost_packets".into(),
            json!(lost.saturating_sub(lost_before)),
        );
        let rtt = part.iter().rev().find_map(|look| look.rtt_ms);
        row.insert("rtt_ms".into(), json!(rtt.map(|rtt| digits(rtt, 1))));
        lost_before = lost;
        row
    });
    rows.collect()
}

/// Medians over the channels of a technology, by controller.
pub(super) fn summaries(rows: &[Row]) -> Vec<Row> {
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let text = |field: &str| row.get(field).and_then(|value| value.as_str());
        if let (Some(technology), Some(controller)) = (text("technology"), text("controller"))
            && technology != "cdma2000"
            && !groups.contains(&(technology, controller))
        {
            groups.push((technology, controller));
        }
    }
    let summaries = groups.into_iter().map(|(technology, controller)| {
        let members = || {
            let of =
                |row: &&Row| row["technology"] == technology && row["controller"] == controller;
            rows.iter().filter(of)
        };
        let mut summary = Row::new();
        summary.insert("kind".into(), json!("summary"));
        summary.insert("technology".into(), json!(technology));
        summary.insert("controller".into(), json!(controller));
        summary.insert("channels".into(), json!(members().count()));
        for field in [
            "goodput_fraction",
            "rtt_p50_ms",
            "rtt_p95_ms",
            "loss_fraction",
        ] {
            let values = sorted(members().filter_map(|row| row[field].as_f64()));
            summary.insert(field.into(), json!(quantile(&values, 0.5)));
        }
        summary
    });
    summaries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_is_counted_window_by_window() {
        let looks: Vec<Look> = (1..=30)
            .map(|look| Look {
                bytes_acked: 1_000 * look,
                ..Look::default()
            })
            .collect();
        let windows: Vec<f64> = goodputs(&looks, 10).collect();
        assert_eq!(windows, [80_000.0; 3]);
    }

    #[test]
    fn quantiles_of_few_values() {
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(quantile(&[3.0], 0.95), 3.0);
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
    }
}
