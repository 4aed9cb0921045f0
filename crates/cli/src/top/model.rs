//! State of the node as far as it is shown, with what was seen over the last two minutes.

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::feed::{Events, News, State};
use crate::show::rates::Rates;

/// Time that the curve of a path spans.
pub(super) const SPAN: Duration = Duration::from_secs(120);
/// Events of promises that are kept.
const EVENTS_MAX: usize = 1_000;
/// Points of a curve, more than a state a second makes.
const POINTS_MAX: usize = 4 * SPAN.as_secs() as usize;

/// All that the views show.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) place: String,
    pub(super) state: State,
    /// Time of the last state; `None` before the first.
    pub(super) at: Option<Instant>,
    /// Reason for which there is no newer state, and its begin.
    pub(super) fault: Option<(String, Instant)>,
    pub(super) rates: Rates,
    curves: HashMap<String, VecDeque<(Instant, f64)>>,
    /// Newest first, with the time at which each was received.
    pub(super) events: VecDeque<(Value, Instant)>,
    pub(super) events_missed: u64,
    pub(super) without_record: Option<String>,
}

/// Name of a path among all of a node.
fn key(path: &Value) -> Option<String> {
    Some(format!(
        "{} {}",
        path["session"].as_str()?,
        path["channel"].as_str()?
    ))
}

impl Model {
    pub(super) fn new(place: &Path) -> Self {
        Self {
            place: place.display().to_string(),
            state: State::default(),
            at: None,
            fault: None,
            rates: Rates::default(),
            curves: HashMap::new(),
            events: VecDeque::new(),
            events_missed: 0,
            without_record: None,
        }
    }

    /// Takes note of what the node answered, or that it did not.
    pub(super) fn note(&mut self, now: Instant, news: News) {
        let state = match news.state {
            Ok(state) => state,
            Err(fault) => {
                let since = self.fault.as_ref().map_or(now, |(_, since)| *since);
                self.fault = Some((fault, since));
                return;
            }
        };
        if state.is_another {
            self.curves.clear();
            self.events.clear();
            self.events_missed = 0;
            self.rates = Rates::default();
            self.without_record = None;
        }
        self.fault = None;
        self.at = Some(now);
        self.rates.note(&state.streams);
        self.add_points(now, &state.paths);
        self.add_events(now, news.events);
        self.state = state;
    }

    fn add_points(&mut self, now: Instant, paths: &[Value]) {
        let names: Vec<_> = paths.iter().filter_map(key).collect();
        self.curves.retain(|name, _| names.contains(name));
        for path in paths {
            let (Some(name), Some(rate)) = (key(path), path["rate_delivered_bps"].as_f64()) else {
                continue;
            };
            let points = self.curves.entry(name).or_default();
            points.push_back((now, rate));
            while points.len() > POINTS_MAX
                || points
                    .front()
                    .is_some_and(|(at, _)| now.duration_since(*at) > SPAN)
            {
                points.pop_front();
            }
        }
    }

    fn add_events(&mut self, now: Instant, events: Events) {
        self.events_missed += events.missed;
        if events.without_record.is_some() {
            self.without_record = events.without_record;
        }
        let same = |one: &Value, other: &Value| {
            ["unix_ms", "session", "stream", "event", "text"]
                .iter()
                .all(|field| one[field] == other[field])
        };
        for row in events.rows {
            if row["kind"] == "promise_event"
                && !self.events.iter().any(|(known, _)| same(known, &row))
            {
                self.events.push_front((row, now));
            }
        }
        self.events.truncate(EVENTS_MAX);
    }

    /// Mean rates of a path in bit/s in equal parts of the last [`SPAN`], the newest at the end; `None` where nothing was seen.
    pub(super) fn curve(&self, path: &Value, now: Instant, parts: usize) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0_u32); parts];
        let points = key(path).and_then(|name| self.curves.get(&name));
        for (at, rate) in points.into_iter().flatten() {
            let age = now.saturating_duration_since(*at).as_secs_f64();
            let from_end = (age / SPAN.as_secs_f64() * parts as f64) as usize;
            if let Some(index) = parts.checked_sub(1 + from_end) {
                sums[index].0 += rate;
                sums[index].1 += 1;
            }
        }
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        sums.into_iter().map(mean).collect()
    }
}
