//! Account of the components while a set is watched: what arrived, second by second, and what was promised.

use std::time::{Duration, Instant};

use anabranch::base::{Rate, text::printable};
use anabranch_records::wire::Promised;
use serde_json::{Value, json};

use super::set::{PROMISES, RATE, Set};

/// Age from which a record counts as late: the queue of a path, a retransmission, and the steps of the measurement.
const LATE: Duration = Duration::from_millis(250);
/// Characters of the cause why there is no promise.
const CAUSE_CHARS: usize = 100;

/// A component.
#[derive(Clone, Debug)]
pub(super) struct Row {
    name: &'static str,
    asked_bps: u64,
    part_bytes: u64,
    share: Option<f64>,
    /// Rate that is promised, or was at last; `None`: none was.
    promised_bps: Option<u64>,
    is_promised: bool,
    /// Time of the first promise.
    promised_at: Option<Duration>,
    /// Times a promise was taken back, or warned.
    warnings: u64,
    /// Arrival of the first record.
    begin: Option<Instant>,
    last: Option<Instant>,
    bytes: u64,
    records: u64,
    /// Greatest age of a record when it arrived, beyond that of the first.
    delay_max: Duration,
    /// Bytes and time at the last end of a second.
    before: (u64, Option<Instant>),
    seconds: u64,
    seconds_kept: u64,
}

/// All components.
#[derive(Clone, Debug)]
pub(super) struct Account {
    begin: Instant,
    records: u64,
    pub(super) rows: Vec<Row>,
}

impl Account {
    pub(super) fn new(set: &Set, begin: Instant) -> Self {
        let row = |index: usize| Row {
            name: set.names[index],
            asked_bps: set.rate_bps(index),
            part_bytes: set.sizes[index],
            share: PROMISES[index],
            promised_bps: None,
            is_promised: false,
            promised_at: None,
            warnings: 0,
            begin: None,
            last: None,
            bytes: 0,
            records: 0,
            delay_max: Duration::ZERO,
            before: (0, None),
            seconds: 0,
            seconds_kept: 0,
        };
        Self {
            begin,
            records: set.records,
            rows: (0..set.names.len()).map(row).collect(),
        }
    }

    /// A part has arrived.
    pub(super) fn arrived(&mut self, component: u16, record: u64, now: Instant) {
        let row = &mut self.rows[usize::from(component)];
        let begin = *row.begin.get_or_insert(now);
        row.before.1.get_or_insert(now);
        row.last = Some(now);
        row.bytes += row.part_bytes;
        row.records += 1;
        let due = Duration::from_secs_f64(record as f64 / RATE as f64);
        row.delay_max = row.delay_max.max((now - begin).saturating_sub(due));
    }

    /// A promise was given, or cannot be kept. Returns a line about it.
    pub(super) fn promise(&mut self, component: u16, promise: &Promised, now: Instant) -> String {
        let row = &mut self.rows[usize::from(component)];
        let at = now - self.begin;
        let words = match promise {
            Promised::Promised { rate_bps } => {
                (row.promised_bps, row.is_promised) = (Some(*rate_bps), true);
                row.promised_at.get_or_insert(at);
                format!("is promised {}", Rate::from_bps(*rate_bps))
            }
            Promised::Waiting { why } => {
                row.warnings += u64::from(row.is_promised);
                row.is_promised = false;
                // The rest is what to do about it.
                let cause = why.split([':', ';']).next().unwrap_or_default();
                format!("waits for its promise: {}", printable(cause, CAUSE_CHARS))
            }
        };
        format!("{:>4.1} s  {} {words}", at.as_secs_f64(), row.name)
    }

    /// Ends a second. Returns the rates since the last one.
    pub(super) fn second(&mut self, now: Instant) -> Vec<(&'static str, Rate)> {
        let records = self.records;
        let rates = self.rows.iter_mut().map(|row| {
            let rate = row.second(now, records).unwrap_or(Rate::from_bps(0));
            (row.name, rate)
        });
        rates.collect()
    }

    /// Rows of the report.
    pub(super) fn report(&self) -> Vec<Value> {
        self.rows.iter().map(Row::report).collect()
    }
}

impl Row {
    /// A second counts as served if it carried the rate, or if nothing that was due in it was late.
    fn second(&mut self, now: Instant, records: u64) -> Option<Rate> {
        let (bytes, Some(since)) = self.before else {
            return None;
        };
        let elapsed = now - since;
        if elapsed.is_zero() {
            return None;
        }
        let rate = Rate::from_bytes_per(self.bytes - bytes, elapsed);
        let is_over = bytes == records * self.part_bytes;
        if !is_over {
            let begin = self.begin.unwrap_or(since);
            let due = (now - begin).saturating_sub(LATE).as_secs_f64() * RATE as f64;
            let is_current = self.records >= records.min(due as u64);
            self.seconds += 1;
            self.seconds_kept += u64::from(is_current || rate.as_bps() >= self.asked_bps);
        }
        self.before = (self.bytes, Some(now));
        Some(rate)
    }

    fn report(&self) -> Value {
        let time = match (self.begin, self.last) {
            (Some(begin), Some(last)) => last - begin,
            _ => Duration::ZERO,
        };
        // The first record's time is not in `time`.
        let bytes = self.bytes.saturating_sub(self.part_bytes);
        let mean = bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9);
        json!({
            "name": self.name,
            "asked_bps": self.asked_bps,
            "asked_share": self.share,
            "promised_bps": self.promised_bps,
            "is_promised_at_end": self.is_promised,
            "promised_after_s": self.promised_at.map(|at| at.as_secs_f64()),
            "warnings": self.warnings,
            "mean_bps": mean.round() as u64,
            "seconds": self.seconds,
            "seconds_kept": self.seconds_kept,
            "delay_max_ms": self.delay_max.as_secs_f64() * 1e3,
            "records": self.records,
        })
    }
}

/// The rows of a report as a table, after an empty line.
pub(super) fn table(rows: &Value, records: u64) -> Vec<String> {
    let mbps = |value: &Value| {
        let bps = value.as_f64();
        bps.map_or_else(|| "-".to_owned(), |bps| format!("{:.2}", bps * 1e-6))
    };
    let percent = |value: f64| format!("{:.0} %", 100.0 * value);
    let mut lines = vec![
        String::new(),
        format!(
            "{:<10} {:>12} {:>10} {:>24} {:>12} {:>16} {:>12} {:>10}",
            "component",
            "asked Mbit/s",
            "of seconds",
            "promised Mbit/s",
            "mean Mbit/s",
            "got the rate",
            "latest",
            "complete",
        ),
    ];
    for row in rows.as_array().into_iter().flatten() {
        let promised = match row["promised_after_s"].as_f64() {
            Some(at) => {
                let warnings = match row["warnings"].as_u64() {
                    Some(0) | None => String::new(),
                    Some(count) => format!(", warned {count}x"),
                };
                format!("{} from {at:.1} s{warnings}", mbps(&row["promised_bps"]))
            }
            None => "-".to_owned(),
        };
        let share = row["asked_share"]
            .as_f64()
            .map_or_else(|| "-".to_owned(), percent);
        let (kept, seconds) = (
            row["seconds_kept"].as_f64().unwrap_or_default(),
            row["seconds"].as_f64().unwrap_or_default(),
        );
        lines.push(format!(
            "{:<10} {:>12} {:>10} {:>24} {:>12} {:>16} {:>12} {:>10}",
            row["name"].as_str().unwrap_or_default(),
            mbps(&row["asked_bps"]),
            share,
            promised,
            mbps(&row["mean_bps"]),
            format!(
                "{kept} of {seconds} s, {}",
                percent(kept / seconds.max(1.0))
            ),
            format!(
                "{:.2} s late",
                row["delay_max_ms"].as_f64().unwrap_or_default() * 1e-3
            ),
            format!("{}/{records}", row["records"]),
        ));
    }
    lines
}

#[cfg(test)]
mod tests;
