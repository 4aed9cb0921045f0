//! Figures of a stream, computed from its windows and frames.

use std::time::Duration;

use anabranch_base::Instant;

use super::apps::{Arrival, Feed};

/// Lateness up to which a frame still counts in its own window, as a share of the time between frames. At a whole one the next
/// frame can arrive; rounding needs some margin.
pub const LATE: f64 = 0.875;
/// Share of the target from which on it counts as met; by rounding, a millionth of a second's frames may be in the next window.
const MET: f64 = 0.999;

/// Windows that count, of one second each.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Time at which the first window begins.
    pub first: Instant,
    /// Number of windows.
    pub count: usize,
    /// Time from a frame's production to its arrival without queueing, which determines the window in which it is due.
    pub delay: Duration,
}

impl Windows {
    /// Window of a time at the receiver; `None` outside all windows.
    pub fn index(&self, at: Instant) -> Option<usize> {
        if at < self.first {
            return None;
        }
        let index = at.since(self.first).as_secs() as usize;
        (index < self.count).then_some(index)
    }
}

/// All records of the frames of a stream.
pub(super) struct FrameRecord<'a> {
    pub(super) feed: &'a Feed,
    pub(super) arrivals: &'a [Arrival],
    pub(super) frame_at: &'a dyn Fn(u64) -> Instant,
    pub(super) period: Duration,
}

/// Statistics of a stream. Rates are those of windows of one second, in bits per second.
#[derive(Clone, Debug)]
pub struct StreamFigures {
    /// The stream.
    pub name: &'static str,
    /// Rate that windows need.
    pub target_bps: f64,
    /// Rate that its application produced.
    pub made_bps: f64,
    /// The same, counting data due in each window.
    pub due_bps: Vec<f64>,
    /// Whole frames, by window of arrival.
    pub frames: Rates,
    /// Share of windows with 99.9 % of the target in whole frames, if windows begin half a frame after the arrival of a frame
    /// with this stream's median delay: a constant delay does not count here.
    pub own_phase_met: f64,
    /// Bytes, by window of arrival, of any frame.
    pub bytes: Rates,
    /// Mean of |time between two consecutive frames − period|, in milliseconds.
    pub jitter_ms: f64,
    /// Standard deviation of the same.
    pub jitter_std_ms: f64,
    /// Mean and standard deviation of the time between frames, in milliseconds.
    pub interval_ms: (f64, f64),
    /// Delay from a frame's production to its arrival: median, 95th and 99th percentile, in milliseconds.
    pub delay_ms: [f64; 3],
    /// Frames that never left the application, of those produced in the windows that count, and before.
    pub skipped: u64,
}

/// A stream's rate, window by window.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Rates in order of time, in bits per second.
    pub series_bps: Vec<f64>,
    /// Rate exceeded, or equalled, in 95 % of windows.
    pub p95_bps: f64,
    /// Rate exceeded, or equalled, in 99 % of windows.
    pub p99_bps: f64,
    /// Mean.
    pub mean_bps: f64,
    /// Standard deviation.
    pub std_bps: f64,
    /// Share of windows with 99.9 % of the target or more.
    pub met: f64,
    /// Share of windows with 99.9 % of the data due, which is the target, or less if less was produced.
    pub served: f64,
}

impl Rates {
    /// Figures of a series of windows, of which each needs `target_bps`, or `due_bps` if that is less.
    pub fn new(series_bps: Vec<f64>, target_bps: f64, due_bps: &[f64]) -> Self {
        let mut sorted = series_bps.clone();
        sorted.sort_by(f64::total_cmp);
        let (mean_bps, std_bps) = mean_and_deviation(&series_bps);
        let share = |least: &dyn Fn(usize) -> f64| {
            let windows = series_bps.iter().enumerate();
            let met = windows.filter(|&(index, &rate)| rate >= MET * least(index));
            met.count() as f64 / series_bps.len().max(1) as f64
        };
        Self {
            p95_bps: exceeded(&sorted, 0.95),
            p99_bps: exceeded(&sorted, 0.99),
            mean_bps,
            std_bps,
            met: share(&|_| target_bps),
            served: share(&|index| target_bps.min(due_bps[index])),
            series_bps,
        }
    }
}

/// Value that the share `share` of values reaches; they are in ascending order.
pub fn exceeded(sorted: &[f64], share: f64) -> f64 {
    // Rounding must not move the rank: 0.05 · 300 is 15.
    let rank = ((1.0 - share) * sorted.len() as f64 + 1e-9) as usize;
    sorted.get(rank).copied().unwrap_or(f64::NAN)
}

/// Mean and standard deviation, of the values themselves; zero for none.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean).powi(2));
    (mean, (square.sum::<f64>() / count).sqrt())
}

impl StreamFigures {
    pub(super) fn new(windows: &Windows, record: &FrameRecord<'_>, bytes: &[f64]) -> Self {
        let offer = &record.feed.offer;
        let target_bps = offer.target().as_bps() as f64;
        let mut due = vec![0.0; windows.count];
        for (number, &made) in record.feed.made_bytes.iter().enumerate() {
            let at = (record.frame_at)(number as u64) + windows.delay;
            if let Some(index) = windows.index(at) {
                due[index] += f64::from(made) * 8.0;
            }
        }
        let mut whole = vec![0.0; windows.count];
        let mut delays = Vec::new();
        let mut intervals = Vec::new();
        let mut before: Option<(Instant, u64)> = None;
        for arrival in record.arrivals {
            let frame = record.feed.accepted.get(arrival.sequence as usize).copied();
            if let (Some(index), Some(frame)) = (windows.index(arrival.at), frame) {
                whole[index] += f64::from(arrival.bytes) * 8.0;
                let delay = arrival.at.since((record.frame_at)(frame));
                delays.push(delay.as_secs_f64() * 1e3);
                // A frame left out on purpose leaves a gap that is not jitter.
                if let Some((at, number)) = before
                    && number + 1 == frame
                {
                    intervals.push(arrival.at.since(at).as_secs_f64() * 1e3);
                }
            }
            before = frame.map(|frame| (arrival.at, frame));
        }
        let period_ms = record.period.as_secs_f64() * 1e3;
        let off: Vec<f64> = intervals.iter().map(|ms| (ms - period_ms).abs()).collect();
        let (jitter_ms, jitter_std_ms) = mean_and_deviation(&off);
        delays.sort_by(f64::total_cmp);
        let delay = |share: f64| {
            let rank = (share * delays.len() as f64) as usize;
            delays.get(rank).copied().unwrap_or(f64::NAN)
        };
        let median_s = delay(0.5).max(0.0) / 1e3;
        let extra = Duration::from_secs_f64(median_s).saturating_sub(windows.delay);
        let mut own = vec![0.0; windows.count];
        for arrival in record.arrivals {
            // Half a frame late is the same as half a frame early here.
            let at = arrival.at - extra + record.period.mul_f64(LATE - 0.5);
            if let Some(index) = windows.index(at) {
                own[index] += f64::from(arrival.bytes) * 8.0;
            }
        }
        // The run ends with the last window: later frames are not known.
        own.truncate(
            windows
                .count
                .saturating_sub(extra.as_secs_f64().ceil() as usize),
        );
        let own_met = own.iter().filter(|rate| **rate >= MET * target_bps).count();
        let bits: Vec<f64> = bytes.iter().map(|bytes| bytes * 8.0).collect();
        Self {
            name: offer.name,
            target_bps,
            made_bps: due.iter().sum::<f64>() / windows.count.max(1) as f64,
            frames: Rates::new(whole, target_bps, &due),
            own_phase_met: own_met as f64 / own.len().max(1) as f64,
            bytes: Rates::new(bits, target_bps, &due),
            jitter_ms,
            jitter_std_ms,
            interval_ms: mean_and_deviation(&intervals),
            delay_ms: [delay(0.5), delay(0.95), delay(0.99)],
            skipped: record.feed.skipped,
            due_bps: due,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_reached_by_its_share() {
        let sorted: Vec<f64> = (0..300).map(f64::from).collect();
        assert_eq!(exceeded(&sorted, 0.95), 15.0);
        assert_eq!(exceeded(&sorted, 0.99), 3.0);
        assert_eq!(sorted.iter().filter(|&&x| x >= 15.0).count(), 285);
        assert!(exceeded(&[], 0.5).is_nan());
    }

    #[test]
    fn frames_never_produced_need_not_arrive() {
        let rates = Rates::new(vec![10.0, 4.0, 9.0, 5.0], 8.0, &[10.0, 4.0, 9.0, 8.0]);
        assert_eq!((rates.met, rates.served), (0.5, 0.75));
        assert_eq!(rates.mean_bps, 7.0);
        assert_eq!(rates.p95_bps, 4.0);
    }

    #[test]
    fn windows_hold_the_frames_within_them() {
        let windows = Windows {
            first: Instant::from_millis(500),
            count: 2,
            delay: Duration::ZERO,
        };
        let index = |ms| windows.index(Instant::from_millis(ms));
        assert_eq!(index(499), None);
        assert_eq!(index(500), Some(0));
        assert_eq!(index(1_500), Some(1));
        assert_eq!(index(2_500), None);
    }
}
