//! Candidates from the members, links and loads of an overlay.

use std::time::Duration;

use anabranch::base::Rate;
use anabranch_processing::process::place::{Candidate, Last, Leg, Processor};
use serde_json::Value;

use crate::overlay::table::{of, text};

/// Name of the running node in the rows of its overlay.
pub(in crate::process) const HERE: &str = "here";
/// Deviation of a link whose error is unknown: a link is published anew when its rate moves by more.
const DEVIATION_UNKNOWN: f64 = 0.25;
/// Least share of a processor that an operator gets on a busy machine.
const FREE_MIN: f64 = 0.05;

/// Rows of an overlay.
pub(in crate::process) struct View<'a>(&'a [Value]);

impl<'a> View<'a> {
    pub(in crate::process) fn new(rows: &'a [Value]) -> Self {
        Self(rows)
    }

    /// The candidate of a name, between a source and subscribers with the bytes that are derived for each from a message. A node that has published
    /// no time of a unit of work takes `unit_ps` for it, in picoseconds.
    ///
    /// # Errors
    /// The reason for which nothing is known of it.
    pub(in crate::process) fn candidate(
        &self,
        name: &str,
        (source, subscribers): (&str, &[(String, f64)]),
        unit_ps: f64,
    ) -> Result<Candidate, String> {
        let last = |(subscriber, bytes): &(String, f64)| {
            Ok(Last {
                leg: self.leg(name, subscriber)?,
                bytes: *bytes,
            })
        };
        Ok(Candidate {
            first: self.leg(source, name)?,
            processor: self.processor(name, unit_ps)?,
            last: subscribers
                .iter()
                .map(last)
                .collect::<Result<_, String>>()?,
        })
    }

    /// Name of a member by its ID.
    ///
    /// # Errors
    /// It is none.
    pub(in crate::process) fn name_of(&self, node: &str) -> Result<&'a str, String> {
        let mut members = of(self.0, "member");
        let found = members.find(|row| text(row, "node") == node);
        let missing = || format!("{node} is no member of the overlay");
        found.map(|row| text(row, "name")).ok_or_else(missing)
    }

    fn member(&self, name: &str) -> Result<&'a Value, String> {
        let mut members = of(self.0, "member");
        let found = members.find(|row| text(row, "name") == name);
        let found = found.ok_or_else(|| format!("'{name}' is no member of the overlay"))?;
        match text(found, "state") {
            "alive" | "suspect" => Ok(found),
            state => Err(format!("{name} is {state}")),
        }
    }

    /// The link between two members; `None`: they are the same.
    fn leg(&self, from: &str, to: &str) -> Result<Option<Leg>, String> {
        self.member(from)?;
        self.member(to)?;
        if from == to {
            return Ok(None);
        }
        let mut links = of(self.0, "link");
        let found = links.find(|row| text(row, "from") == from && text(row, "to") == to);
        let number = |row: &Value, key: &str| row[key].as_f64();
        let measured = found.and_then(|row| {
            let trust = number(row, "trust").unwrap_or(1.0);
            let rate = number(row, "bandwidth_bps")? * trust;
            let delay = number(row, "delay_min_ms")?;
            let deviation = number(row, "deviation_fraction").unwrap_or(DEVIATION_UNKNOWN);
            let delay = Duration::try_from_secs_f64(delay / 1e3).ok()?;
            Some(Leg::of_mean(Rate::from_bps(rate as u64), deviation, delay))
        });
        let missing = || format!("no link from {from} to {to} is measured");
        measured.map(Some).ok_or_else(missing)
    }

    /// The processor of a member.
    fn processor(&self, name: &str, unit_ps: f64) -> Result<Processor, String> {
        let load = &self.member(name)?["load"];
        if load.is_null() && name != HERE {
            return Err(format!(
                "{name} publishes no load; does it run 'anabranch process serve'?"
            ));
        }
        let number = |key: &str| load[key].as_f64();
        let idle = number("machine_share").map_or(1.0, |share| 1.0 - share);
        let free = number("cores").unwrap_or(1.0) * idle;
        Ok(Processor {
            unit_ps: number("unit_ps").unwrap_or(unit_ps),
            free: free.clamp(FREE_MIN, 1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use anabranch_processing::process::place::{Demand, Estimate, best};
    use serde_json::json;

    use super::{super::sample::Sample, *};

    fn member(name: &str, load: &Value) -> Value {
        json!({"kind": "member", "name": name, "state": "alive", "load": load})
    }

    fn link(from: &str, to: &str, mbps: u64) -> Value {
        json!({"kind": "link", "from": from, "to": to, "bandwidth_bps": 1_000_000 * mbps, "delay_min_ms": 10.0,
            "deviation_fraction": 0.05, "trust": 1.0})
    }

    #[test]
    fn candidates_are_made_of_links_and_loads() {
        let load = |share: f64| json!({"machine_share": share, "cores": 2, "unit_ps": 1_000});
        let rows = [
            member("here", &Value::Null),
            member("desk", &Value::Null),
            member("hub", &load(0.1)),
            member("spare", &load(0.99)),
            member("bare", &Value::Null),
            json!({"kind": "member", "name": "gone", "state": "down", "load": null}),
            link("here", "hub", 50),
            link("hub", "desk", 5),
            link("here", "spare", 50),
            link("spare", "desk", 2),
            link("here", "bare", 50),
            link("bare", "desk", 50),
            link("here", "desk", 1),
        ];
        let view = View::new(&rows);
        let sample = Sample::of(40_000, 10_000, 500_000);
        let ends = ("here", &[("desk".to_owned(), sample.derived())][..]);
        let flow = sample.flow(25.0);
        let demand = Demand {
            share: 0.9,
            deadline: None,
        };
        let names = ["hub", "spare", "here"];
        let of = |name: &str| view.candidate(name, ends, sample.unit_ps()).unwrap();
        assert_eq!(of("hub").processor.free, 1.0);
        assert_eq!(of("spare").processor.free, FREE_MIN);
        assert_eq!(of("here").first, None);
        assert!(of("here").processor.unit_ps > 0.0);
        let estimates: Vec<_> = names
            .iter()
            .map(|name| Some(Estimate::of(&of(name), &flow, &demand)))
            .collect();
        // 2 Mbit/s are derived: spare's leg is just too narrow, and the direct one by far.
        assert_eq!(best(&estimates, &demand), Some(0));
        assert_eq!(estimates[2].unwrap().share, 0.0);
        let why = |name: &str| view.candidate(name, ends, 1_000.0).unwrap_err();
        assert!(why("bare").contains("publishes no load"), "{}", why("bare"));
        assert_eq!(why("gone"), "gone is down");
        assert_eq!(why("nobody"), "'nobody' is no member of the overlay");
        let backwards = ("desk", &[("here".to_owned(), 0.0)][..]);
        let why = view.candidate("hub", backwards, 1_000.0).unwrap_err();
        assert_eq!(why, "no link from desk to hub is measured");
    }
}
