//! Losses and times of each path.

use serde_json::json;

use super::Reply;
use crate::{
    exit::{Outcome, print_line},
    show::{millis, percent},
    table::{self, Column, Table},
};

/// Times that are kept of a path; of more, the oldest are forgotten.
const TIMES_MAX: usize = 100_000;

/// Replies of one path.
#[derive(Debug)]
struct Line {
    /// One of its replies.
    of: Reply,
    sent: u64,
    received: u64,
    times_ms: std::collections::VecDeque<f64>,
}

/// Replies of all paths, in the order in which they were seen first.
#[derive(Debug, Default)]
pub(super) struct Statistics(Vec<Line>);

/// Smallest value that so many of the sorted values do not exceed, by nearest rank.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

impl Line {
    /// Shortest, median, 99th percentile, longest.
    fn times(&self) -> [Option<f64>; 4] {
        let mut sorted: Vec<f64> = self.times_ms.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        [0.0, 0.5, 0.99, 1.0].map(|part| quantile(&sorted, part))
    }

    fn loss(&self) -> f64 {
        (self.sent - self.received) as f64 / self.sent.max(1) as f64
    }
}

impl Statistics {
    pub(super) fn add(&mut self, reply: &Reply) {
        let known = self.0.iter().position(|line| line.of.path == reply.path);
        let at = known.unwrap_or_else(|| {
            self.0.push(Line {
                of: reply.clone(),
                sent: 0,
                received: 0,
                times_ms: Default::default(),
            });
            self.0.len() - 1
        });
        let line = &mut self.0[at];
        line.sent += 1;
        if let Some(ms) = reply.round_trip_ms {
            line.received += 1;
            line.times_ms.push_back(ms);
            if line.times_ms.len() > TIMES_MAX {
                line.times_ms.pop_front();
            }
        }
    }

    pub(super) fn has_replies(&self) -> bool {
        self.0.iter().any(|line| line.received > 0)
    }

    /// Prints a line for each path.
    pub(super) fn print(&self, is_json: bool) -> Outcome {
        if self.0.is_empty() {
            return Ok(());
        }
        if is_json {
            for line in &self.0 {
                let [min, median, p99, max] = line.times();
                let event = json!({
                    "kind": "statistics",
                    "interface": line.of.interface,
                    "remote": line.of.remote,
                    "sent": line.sent,
                    "received": line.received,
                    "loss_fraction": line.loss(),
                    "round_trip_min_ms": min,
                    "round_trip_median_ms": median,
                    "round_trip_p99_ms": p99,
                    "round_trip_max_ms": max,
                });
                print_line(&event.to_string())?;
            }
            return Ok(());
        }
        print_line("")?;
        for line in self.table().lines(table::width()) {
            print_line(&line)?;
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut columns = vec![Column::text("PATH")];
        let heads = ["SENT", "REPLIES", "LOSS", "MIN", "MEDIAN", "P99", "MAX"];
        columns.extend(heads.map(Column::number));
        let cells = |line: &Line| {
            let mut cells = vec![
                line.of.path.clone(),
                line.sent.to_string(),
                line.received.to_string(),
                percent(Some(line.loss())),
            ];
            let time = |ms: Option<f64>| ms.map_or("-".to_owned(), millis);
            cells.extend(line.times().map(time));
            cells
        };
        Table::new(columns, self.0.iter().map(cells))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(path: &str, ms: Option<f64>) -> Reply {
        Reply {
            path: path.to_owned(),
            interface: None,
            remote: path.to_owned(),
            round_trip_ms: ms,
        }
    }

    #[test]
    fn each_path_has_its_losses_and_times() {
        let mut statistics = Statistics::default();
        for ms in 1..=100 {
            statistics.add(&reply("a", Some(f64::from(ms))));
        }
        for _ in 0..3 {
            statistics.add(&reply("b", None));
        }
        statistics.add(&reply("b", Some(0.25)));
        let lines = statistics.table().lines(crate::table::COLUMNS_MAX);
        assert_eq!(
            lines,
            [
                "PATH  SENT  REPLIES  LOSS      MIN   MEDIAN      P99      MAX",
                "a      100      100   0 %  1.00 ms  50.0 ms  99.0 ms   100 ms",
                "b        4        1  75 %  0.25 ms  0.25 ms  0.25 ms  0.25 ms",
            ]
        );
        assert!(statistics.has_replies());
    }

    #[test]
    fn a_path_without_replies_has_no_times() {
        let mut statistics = Statistics::default();
        statistics.add(&reply("a", None));
        assert!(!statistics.has_replies());
        let line = statistics
            .table()
            .lines(crate::table::COLUMNS_MAX)
            .remove(1);
        assert_eq!(line, "a        1        0  100 %    -       -    -    -");
    }
}
