//! Report of the demo, as text or JSON.

use std::time::Duration;

use serde_json::{Value, json};

/// Result of one stream: its requirement and the service that it received.
pub(super) struct StreamRow {
    pub(super) name: String,
    pub(super) asked: String,
    /// Messages that the application produced.
    pub(super) sent: u64,
    /// Messages that the engine refused because they would have been late; counted in `sent`, too.
    pub(super) refused: u64,
    pub(super) arrived: u64,
    pub(super) in_time: u64,
    pub(super) bytes: u64,
    /// Time in which the bytes arrived.
    pub(super) time: Duration,
    /// Delays of the messages, in ascending order.
    pub(super) delays: Vec<Duration>,
}

/// Result of one path: its traffic and losses, in packets unless stated otherwise.
pub(super) struct PathRow {
    pub(super) name: String,
    /// Application bytes.
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) queue_full: u64,
    pub(super) lost: u64,
    pub(super) cut: u64,
}

pub(super) struct Report {
    pub(super) streams: Vec<StreamRow>,
    pub(super) paths: Vec<PathRow>,
    pub(super) events: Vec<String>,
    pub(super) file_is_intact: bool,
    pub(super) seed: u64,
}

/// The smallest value that at least this fraction does not exceed, in milliseconds.
fn percentile_ms(sorted: &[Duration], fraction: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * fraction).ceil() as usize;
    let value = sorted.get(rank.saturating_sub(1))?;
    Some(value.as_secs_f64() * 1e3)
}

impl StreamRow {
    fn lost(&self) -> u64 {
        self.sent - self.arrived.min(self.sent)
    }

    fn mbps(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.time.as_secs_f64().max(1e-9)
    }
}

impl Report {
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![String::new(), "events of the paths".to_owned()];
        lines.extend(self.events.iter().map(|event| format!("  {event}")));
        lines.push(String::new());
        lines.push(format!(
            "{:<9} {:<28} {:>6} {:>8} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
            "stream",
            "asked",
            "sent",
            "in time",
            "lost",
            "Mbit/s",
            "p50 ms",
            "p95 ms",
            "p99 ms",
            "max ms"
        ));
        for row in &self.streams {
            let delay = |fraction| {
                let value = percentile_ms(&row.delays, fraction);
                value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
            };
            lines.push(format!(
                "{:<9} {:<28} {:>6} {:>8} {:>6} {:>8.2} {:>8} {:>8} {:>8} {:>8}",
                row.name,
                row.asked,
                row.sent,
                row.in_time,
                row.lost(),
                row.mbps(),
                delay(0.5),
                delay(0.95),
                delay(0.99),
                delay(1.0),
            ));
        }
        lines.push(String::new());
        let total: u64 = self.paths.iter().map(|row| row.bytes).sum();
        for row in &self.paths {
            lines.push(format!(
                "path {:<10} {:>5.1} % of the bytes ({:.1} MB); dropped of {} packets: {} queue full, {} lost, {} while cut",
                row.name,
                100.0 * row.bytes as f64 / total.max(1) as f64,
                row.bytes as f64 / 1e6,
                row.packets,
                row.queue_full,
                row.lost,
                row.cut,
            ));
        }
        let verdict = if self.file_is_intact {
            "the file arrived as it was sent (BLAKE3)"
        } else {
            "THE FILE IS DAMAGED"
        };
        lines.push(verdict.to_owned());
        lines
    }

    /// The report as JSON, in the format of all results of this program: flat rows, units in the names.
    pub(super) fn json(&self) -> String {
        let mut rows: Vec<Value> = Vec::new();
        for row in &self.streams {
            rows.push(json!({
                "kind": "stream",
                "name": row.name,
                "asked": row.asked,
                "sent": row.sent,
                "refused": row.refused,
                "arrived": row.arrived,
                "in_time": row.in_time,
                "lost": row.lost(),
                "rate_mbps": row.mbps(),
                "p50_ms": percentile_ms(&row.delays, 0.5),
                "p95_ms": percentile_ms(&row.delays, 0.95),
                "p99_ms": percentile_ms(&row.delays, 0.99),
                "max_ms": percentile_ms(&row.delays, 1.0),
            }));
        }
        for row in &self.paths {
            rows.push(json!({
                "kind": "path",
                "name": row.name,
                "carried_bytes": row.bytes,
                "packets": row.packets,
                "queue_full_packets": row.queue_full,
                "lost_packets": row.lost,
                "cut_packets": row.cut,
            }));
        }
        rows.push(json!({ "kind": "file", "is_intact": self.file_is_intact }));
        json!({
            "experiment": "demo",
            "version": env!("CARGO_PKG_VERSION"),
            "seed": self.seed,
            "rows": rows,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_hand() {
        let delays: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile_ms(&delays, 0.5), Some(50.0));
        assert_eq!(percentile_ms(&delays, 0.99), Some(99.0));
        assert_eq!(percentile_ms(&delays, 1.0), Some(100.0));
        assert_eq!(percentile_ms(&[], 0.5), None);
    }
}
