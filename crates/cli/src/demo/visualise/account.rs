//! Account of the streams: the rates that they had in windows of a second, as in Table III of IQ-Paths.

use std::time::Duration;

use anabranch_visualise::smartpointer::{frame::Part, viewer::Arrived};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::stage::percentile;

/// Names of the streams in the paper.
const NAMES: [&str; 3] = ["Atom", "Bond1", "Bond2"];

/// Account of all streams.
#[derive(Debug)]
pub(super) struct Account {
    begin: Instant,
    seconds: u64,
    per_second: u32,
    streams: [Stream; 3],
}

#[derive(Debug, Default)]
struct Stream {
    /// Number and arrival of each frame that counts, in seconds from the beginning.
    arrivals: Vec<(u64, f64)>,
    bytes: u64,
    skipped: u64,
    last: Option<u64>,
    ages_ms: Vec<f64>,
}

impl Stream {
    /// Frames in each of so many windows of a second. These begin half a frame before a frame of the median delay arrives: a delay that
    /// is always the same is left out, and a change of it remains (`own_phase_met_fraction` in the experiment `smartpointer`).
    fn windows(&self, seconds: u64, per_second: u32) -> Vec<u64> {
        let period = 1.0 / f64::from(per_second);
        let delays: Vec<f64> = (self.arrivals.iter())
            .map(|(frame, at)| at - *frame as f64 * period)
            .collect();
        let mut windows = vec![0; seconds as usize];
        let Some(median) = percentile(&delays, 0.5) else {
            return windows;
        };
        let begin = (median - period / 2.0).rem_euclid(period);
        for (_, at) in &self.arrivals {
            let window = (at - begin).floor();
            if window >= 0.0
                && let Some(count) = windows.get_mut(window as usize)
            {
                *count += 1;
            }
        }
        windows
    }

    /// Mean of the difference between the time from one frame to the next and the period, in ms. A frame that was skipped leaves a gap
    /// that is no jitter.
    fn jitter_ms(&self, per_second: u32) -> Option<f64> {
        let period = 1.0 / f64::from(per_second);
        let off: Vec<f64> = (self.arrivals.windows(2))
            .filter(|pair| pair[0].0 + 1 == pair[1].0)
            .map(|pair| (pair[1].1 - pair[0].1 - period).abs())
            .collect();
        (!off.is_empty()).then(|| off.iter().sum::<f64>() / off.len() as f64 * 1e3)
    }
}

impl Account {
    /// So many windows of a second from `begin` on.
    pub(super) fn new(begin: Instant, seconds: u64, per_second: u32) -> Self {
        Self {
            begin,
            seconds,
            per_second,
            streams: Default::default(),
        }
    }

    /// Beginning of the first window, or up to a period before it.
    pub(super) fn begin(&self) -> Instant {
        self.begin
    }

    /// A part of a frame has arrived.
    pub(super) fn arrived(&mut self, arrived: &Arrived) {
        let stream = &mut self.streams[arrived.part.index()];
        let last = stream.last.replace(arrived.frame);
        let Some(since) = arrived.at.checked_duration_since(self.begin) else {
            return;
        };
        stream.arrivals.push((arrived.frame, since.as_secs_f64()));
        stream.bytes += arrived.bytes as u64;
        stream.skipped += last.map_or(0, |last| arrived.frame.saturating_sub(last + 1));
        let age = arrived.age.map(|age| age.age);
        stream.ages_ms.extend(age.map(millis));
    }

    /// The rows of the table.
    pub(super) fn report(&self) -> Vec<Value> {
        let row = |part: &Part| {
            let stream = &self.streams[part.index()];
            let frames = stream.arrivals.len();
            // Rate of the application: what the frames that came have on average, as often as they are made.
            let target = match frames {
                0 => 0.0,
                frames => stream.bytes as f64 / frames as f64 * f64::from(self.per_second) * 8e-6,
            };
            // Whole frames, in the window of their arrival.
            let full = f64::from(self.per_second);
            let windows = stream.windows(self.seconds, self.per_second);
            let rates: Vec<f64> = windows
                .iter()
                .map(|count| target * *count as f64 / full)
                .collect();
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            let squares = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
            let met = windows
                .iter()
                .filter(|count| **count >= u64::from(self.per_second));
            // Reached in a share of the windows.
            let reached = |share: f64| {
                let missed: Vec<f64> = rates.iter().map(|rate| -rate).collect();
                percentile(&missed, share).map(|rate| -rate)
            };
            json!({
                "stream": NAMES[part.index()],
                "target_mbps": target,
                "p95_mbps": reached(0.95),
                "p99_mbps": reached(0.99),
                "mean_mbps": mean,
                "std_mbps": (squares / rates.len() as f64).sqrt(),
                "met_fraction": met.count() as f64 / windows.len() as f64,
                "jitter_ms": stream.jitter_ms(self.per_second),
                "skipped": stream.skipped,
                "age_ms_p50": percentile(&stream.ages_ms, 0.5),
                "age_ms_p99": percentile(&stream.ages_ms, 0.99),
            })
        };
        Part::ALL.iter().map(row).collect()
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The rows as a table, after an empty line.
pub(super) fn table(rows: &Value) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!(
            "{:<7} {:>8} {:>8} {:>8} {:>8} {:>9} {:>6} {:>8} {:>8} {:>8}",
            "stream",
            "target",
            "in 95 %",
            "in 99 %",
            "mean",
            "deviation",
            "jitter",
            "skipped",
            "age 50 %",
            "99 %"
        ),
        format!(
            "{:<7} {:>8} {:>8} {:>8} {:>8} {:>9} {:>6} {:>8} {:>8} {:>8}",
            "", "Mbit/s", "Mbit/s", "Mbit/s", "Mbit/s", "Mbit/s", "ms", "frames", "ms", "ms"
        ),
    ];
    for row in rows.as_array().into_iter().flatten() {
        let number = |field: &str, digits: usize| match row[field].as_f64() {
            Some(number) => format!("{number:.digits$}"),
            None => "–".to_owned(),
        };
        lines.push(format!(
            "{:<7} {:>8} {:>8} {:>8} {:>8} {:>9} {:>6} {:>8} {:>8} {:>8}",
            row["stream"].as_str().unwrap_or_default(),
            number("target_mbps", 3),
            number("p95_mbps", 3),
            number("p99_mbps", 3),
            number("mean_mbps", 3),
            number("std_mbps", 3),
            number("jitter_ms", 1),
            number("skipped", 0),
            number("age_ms_p50", 0),
            number("age_ms_p99", 0),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_whole_frames_in_windows() {
        let begin = Instant::now();
        let mut account = Account::new(begin, 4, 2);
        let mut arrive = |millis: u64, frame: u64| {
            account.arrived(&Arrived {
                part: Part::Bond1,
                frame,
                view: 0,
                count: 1,
                bytes: 1_000_000,
                at: begin + Duration::from_millis(millis),
                age: None,
            });
        };
        // One frame of the third second does not come.
        // Frames are due at 100 and 600 ms. One of the third second does not come; one of the second is early.
        for (millis, frame) in [
            (100, 5),
            (600, 6),
            (1_010, 7),
            (1_600, 8),
            (2_600, 10),
            (3_100, 11),
            (3_600, 12),
            (4_100, 13),
        ] {
            arrive(millis, frame);
        }
        let rows = Value::from(account.report());
        let row = &rows[1];
        assert_eq!(row["target_mbps"], 16.0);
        assert_eq!(row["p95_mbps"], 8.0);
        assert_eq!(row["mean_mbps"], 14.0);
        assert_eq!(row["skipped"], 1);
        assert_eq!(row["met_fraction"], 0.75);
        // 0, 90, 90, 0 and 0, 0 ms: the gap of the frame that did not come is none.
        assert!((row["jitter_ms"].as_f64().unwrap() - 30.0).abs() < 1e-6);
        assert_eq!(rows[0]["mean_mbps"], 0.0);
        assert!(table(&rows)[4].starts_with("Bond1"));
    }
}
