//! Table of arrivals, in windows of one second.

use std::time::Duration;

use anabranch::base::Instant;
use anabranch_lab::kit::{
    sources::Offer,
    streams::figures::{exceeded, mean_and_deviation},
};

use super::Received;

/// Share that counts as met, as in the lab.
const MET: f64 = 0.999;

/// A stream's line.
pub(crate) struct Row {
    name: &'static str,
    target_bps: f64,
    p95_bps: f64,
    mean_bps: f64,
    met: f64,
    jitter_ms: f64,
    skipped: u64,
    windows: usize,
}

impl Row {
    /// From what arrived between two times; windows begin half a frame after the first frame in it.
    pub(crate) fn new(
        offer: &Offer,
        received: &Received,
        skipped: u64,
        period: Duration,
        (from, to): (Duration, Duration),
    ) -> Self {
        let within: Vec<(Instant, usize)> = received
            .arrivals
            .iter()
            .copied()
            .filter(|(at, _)| (from..=to).contains(&at.since_epoch()))
            .collect();
        let begin = within.first().map_or(Instant::EPOCH, |(at, _)| *at) + period / 2;
        // A window that is not over yet is none.
        let windows = to.saturating_sub(begin.since_epoch()).as_secs() as usize;
        let mut bits = vec![0.0; windows];
        for (at, bytes) in within.iter().filter(|(at, _)| *at >= begin) {
            if let Some(sum) = bits.get_mut(at.since(begin).as_secs() as usize) {
                *sum += *bytes as f64 * 8.0;
            }
        }
        let target_bps = offer.target().as_bps() as f64;
        let met = bits
            .iter()
            .filter(|rate| **rate >= MET * target_bps)
            .count();
        let met = met as f64 / windows.max(1) as f64;
        let (mean_bps, _) = mean_and_deviation(&bits);
        bits.sort_by(f64::total_cmp);
        let off: Vec<f64> = within
            .windows(2)
            .map(|pair| pair[1].0.since(pair[0].0).as_secs_f64() - period.as_secs_f64())
            .map(|off_s| off_s.abs() * 1e3)
            .collect();
        Self {
            name: offer.name,
            target_bps,
            p95_bps: exceeded(&bits, 0.95),
            mean_bps,
            met,
            jitter_ms: mean_and_deviation(&off).0,
            skipped,
            windows,
        }
    }
}

/// The table.
pub(crate) fn lines(rows: &[Row]) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<12} {:>9} {:>9} {:>9} {:>7} {:>10} {:>8} {:>8}",
        "stream", "target", "in 95 %", "mean", "met", "jitter ms", "skipped", "windows"
    )];
    lines.extend(rows.iter().map(|row| {
        format!(
            "{:<12} {:>9.3} {:>9.3} {:>9.3} {:>5.1} % {:>10.2} {:>8} {:>8}",
            row.name,
            row.target_bps / 1e6,
            row.p95_bps / 1e6,
            row.mean_bps / 1e6,
            100.0 * row.met,
            row.jitter_ms,
            row.skipped,
            row.windows,
        )
    }));
    lines.push("rates in Mbit/s; met: share of seconds with the target".to_owned());
    lines
}
