//! Rates of counters, from two answers of a node.

use std::{collections::HashMap, time::Instant};

use anabranch::base::Rate;
use serde_json::Value;

/// Counters of a row: what was sent and what was received, in bytes.
type Counters = [u64; 2];

/// Counters of the last answer, and the rates since the one before.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    at: Option<Instant>,
    counters: HashMap<String, Counters>,
    rates: HashMap<String, [Rate; 2]>,
}

/// Name of the thing that a row is about.
fn name(row: &Value) -> Option<String> {
    let of = row["channel"].as_str().or(row["stream"].as_str())?;
    Some(format!("{} {of}", row["session"].as_str()?))
}

impl Rates {
    /// Takes note of an answer.
    pub(crate) fn note(&mut self, rows: &[Value]) {
        self.note_at(Instant::now(), rows);
    }

    fn note_at(&mut self, now: Instant, rows: &[Value]) {
        let passed = self.at.replace(now).map(|at| now.duration_since(at));
        let before = std::mem::take(&mut self.counters);
        self.rates.clear();
        for row in rows {
            let Some(name) = name(row) else {
                continue;
            };
            let now =
                ["sent_bytes", "received_bytes"].map(|key| row[key].as_u64().unwrap_or_default());
            if let (Some(passed), Some(before)) = (passed, before.get(&name)) {
                let rate = |index: usize| {
                    Rate::from_bytes_per(now[index].saturating_sub(before[index]), passed)
                };
                self.rates.insert(name.clone(), [rate(0), rate(1)]);
            }
            self.counters.insert(name, now);
        }
    }

    /// Rates at which the thing of a row sends and receives; `None`: it was seen once only.
    pub(crate) fn of(&self, row: &Value) -> Option<[Rate; 2]> {
        self.rates.get(&name(row)?).copied()
    }

    /// The same as text.
    pub(crate) fn texts(&self, row: &Value) -> [String; 2] {
        match self.of(row) {
            Some(rates) => rates.map(|rate| rate.to_string()),
            None => ["-".to_owned(), "-".to_owned()],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn rates_are_those_between_two_answers() {
        let mut rates = Rates::default();
        let row = |sent: u64| json!({"session": "session-0", "channel": "channel-1", "sent_bytes": sent, "received_bytes": 7});
        let start = Instant::now();
        rates.note_at(start, &[row(1_000)]);
        assert_eq!(rates.texts(&row(1_000)), ["-", "-"]);
        rates.note_at(start + Duration::from_secs(2), &[row(251_000)]);
        assert_eq!(rates.texts(&row(0)), ["1.00 Mbit/s", "0 bit/s"]);
        // A channel with the number of one that is gone.
        rates.note_at(start + Duration::from_secs(3), &[row(0)]);
        assert_eq!(rates.texts(&row(0))[0], "0 bit/s");
        rates.note_at(start + Duration::from_secs(4), &[]);
        assert_eq!(rates.of(&row(0)), None);
    }
}
