//! Place of a source that chooses it itself: looks at the overlay, and moves.

mod narrow;

use std::{
    convert::Infallible,
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{base::Instant, control::Request};
use anabranch_processing::{
    offer::Source,
    process::place::{Candidate, Demand, Estimate, Keeper, Meter, Rules, Totals},
};
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{self, MissedTickBehavior, interval},
};

use self::narrow::Narrow;
use super::place::{
    Row, estimates, parse_deadline, parse_share,
    view::{HERE, View},
};
use crate::{
    control::{Node, rows},
    exit::note,
};

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Time of a unit of work at a node that has published none, in picoseconds: about that of reading and writing a byte.
const UNIT_PS: f64 = 1_000.0;

/// Choice of the place.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Place")]
pub(super) struct Flags {
    /// Move to whichever place is better, of --at, those of --fallback and, with --at-source, this one: by the links and loads that the running node
    /// knows of its overlay, for the messages and pipelines as they are. The nodes are named as members of the overlay.
    #[arg(long)]
    place: bool,
    /// Time in which messages are to come to subscribers, such as '300 ms' [default: they have to keep up only].
    #[arg(long, value_name = "DURATION", requires = "place", value_parser = parse_deadline)]
    place_deadline: Option<Duration>,
    /// Share of windows in which they are to come in that time.
    #[arg(long, value_name = "PERCENT", default_value = "95 %", value_parser = parse_share)]
    place_probability: f64,
    /// Time for which another place has to be better, and least time between two moves.
    #[arg(long, value_name = "DURATION", default_value = "15 s", value_parser = parse_deadline)]
    place_hold: Duration,
    #[command(flatten)]
    node: Node,
}

/// The places of a source, and the one in use.
#[derive(Debug)]
pub(super) struct Moves {
    names: Vec<String>,
    demand: Demand,
    begun: time::Instant,
    state: Mutex<State>,
    /// Place to go to.
    wanted: watch::Sender<Option<usize>>,
}

#[derive(Debug)]
struct State {
    keeper: Keeper,
    meter: Meter,
    /// Legs that carried less than the overlay says.
    narrow: Narrow,
}

/// A move to another place, and its reason.
struct Move {
    place: usize,
    why: String,
}

impl Flags {
    pub(super) fn is_given(&self) -> bool {
        self.place
    }

    /// The choice between nodes, and the place of the source itself; `None`: there is none.
    pub(super) fn moves(&self, nodes: &[String], has_here: bool) -> Option<Moves> {
        let here = has_here.then(|| HERE.to_owned());
        let names: Vec<String> = nodes.iter().cloned().chain(here).collect();
        let rules = Rules {
            hold: self.place_hold,
            ..Rules::default()
        };
        let state = State {
            keeper: Keeper::new(rules, 0),
            meter: Meter::default(),
            narrow: Narrow::default(),
        };
        self.place.then(|| Moves {
            names,
            demand: Demand {
                share: self.place_probability,
                deadline: self.place_deadline,
            },
            begun: time::Instant::now(),
            state: Mutex::new(state),
            wanted: watch::Sender::default(),
        })
    }

    /// Looks for a better place as long as the source is there.
    pub(super) async fn watch(&self, moves: &Moves, source: &Source) -> Infallible {
        source.measure();
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = String::new();
        loop {
            ticks.tick().await;
            let answer = match self.node.ask(&Request::Overlay {}).await {
                Ok(answer) => answer,
                Err(failure) => {
                    let words = format!("no other place is looked for: {}", failure.message());
                    if before != words {
                        note(&words);
                        before = words;
                    }
                    continue;
                }
            };
            before.clear();
            let Some(totals) = source.totals() else {
                continue;
            };
            if let Some(Move { place, why }) = moves.look(rows(&answer), totals) {
                let name = &moves.names[place];
                note(&format!("moving to {name}; {why}"));
                moves.wanted.send_replace(Some(place));
                source.leave(&why);
            }
        }
    }
}

impl Moves {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::EPOCH + self.begun.elapsed()
    }

    /// The place in use is another one now.
    pub(super) fn at(&self, place: usize) {
        self.state().keeper.set(place, self.now());
    }

    /// The place to go to, once.
    pub(super) fn take(&self) -> Option<usize> {
        self.wanted.send_replace(None)
    }

    /// Waits for a place to go to.
    pub(super) async fn wanted(&self) -> usize {
        let mut wanted = self.wanted.subscribe();
        loop {
            let place = *wanted.borrow_and_update();
            match place {
                Some(place) => return place,
                // The sender is of this value.
                None => drop(wanted.changed().await),
            }
        }
    }

    /// Looks at the overlay: the place to which the source is to move.
    fn look(&self, overlay: &[Value], totals: Totals) -> Option<Move> {
        let now = self.now();
        let mut state = self.state();
        state.meter.add(now, totals);
        let measured = state.meter.measured()?;
        let view = View::new(overlay);
        let subscribers: Result<Vec<_>, String> = (measured.derived.iter())
            .map(|(node, bytes)| Ok((view.name_of(&node.to_string())?.to_owned(), *bytes)))
            .collect();
        // One that is no member, or none at all: every place is as good as another.
        let subscribers = subscribers.ok().filter(|some| !some.is_empty())?;
        let before = state.keeper.current();
        let narrow = &mut state.narrow;
        let of = |(place, name): (usize, &String)| {
            let candidate = view.candidate(name, (HERE, &subscribers), UNIT_PS);
            let estimate = |mut candidate: Candidate| {
                let nodes = measured.derived.keys();
                for (node, last) in nodes.zip(&mut candidate.last) {
                    let Some(leg) = last.leg.take() else {
                        continue;
                    };
                    if place == before {
                        let rate = measured.full.get(node).copied();
                        narrow.measured((place, *node), rate, (leg.mean(), now));
                    }
                    last.leg = Some(narrow.leg((place, *node), leg, now));
                }
                Estimate::of(&candidate, &measured.flow, &self.demand)
            };
            Row {
                name: name.clone(),
                estimate: candidate.map(estimate),
            }
        };
        let rows: Vec<Row> = self.names.iter().enumerate().map(of).collect();
        let place = state.keeper.look(&estimates(&rows), &self.demand, now)?;
        let why = reason(&rows, place, before);
        Some(Move { place, why })
    }
}

/// Estimates of the place chosen, and of the one before.
fn reason(rows: &[Row], place: usize, before: usize) -> String {
    let mut words = String::new();
    for row in [place, before].iter().filter_map(|&at| rows.get(at)) {
        let separator = if words.is_empty() { "" } else { "; " };
        // Writing to a string does not fail.
        let _ = match &row.estimate {
            Ok(estimate) => write!(words, "{separator}{}: {estimate}", row.name),
            Err(why) => write!(words, "{separator}{} is unknown: {why}", row.name),
        };
    }
    words
}

#[cfg(test)]
mod tests {
    use anabranch_processing::process::place::Derived;
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use anabranch::base::NodeId;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn overlay(desk: &str, hub_mbps: f64) -> Vec<Value> {
        let load = json!({"machine_share": 0.1, "cores": 2, "unit_ps": 1_000});
        let member = |name: &str, node: &str| json!({"kind": "member", "name": name, "node": node, "state": "alive", "load": load});
        let link = |from: &str, to: &str, mbps: f64| {
            json!({"kind": "link", "from": from, "to": to, "bandwidth_bps": 1e6 * mbps, "delay_min_ms": 10.0,
                "deviation_fraction": 0.05, "trust": 1.0})
        };
        vec![
            member("here", "1"),
            member("hub", "2"),
            member("spare", "4"),
            member("desk", desk),
            link("here", "hub", 50.0),
            link("here", "spare", 50.0),
            link("hub", "desk", hub_mbps),
            link("spare", "desk", 8.0),
        ]
    }

    /// All of 1 Mbit/s is derived for each node, of which so many bytes are sent, and so many wait.
    fn totals<const N: usize>(second: u64, derived: [(NodeId, (u64, u64)); N]) -> Totals {
        let derived = derived.map(|(node, (sent, waiting))| {
            let bytes = 125_000 * second;
            let sent = sent * second;
            (
                node,
                Derived {
                    bytes,
                    sent,
                    waiting,
                },
            )
        });
        Totals {
            made: 25 * second,
            made_bytes: 125_000 * second,
            taken: 25 * second,
            work: 25_000 * second,
            derived: derived.into(),
        }
    }

    /// The overlay still has the rate of before, and the source does not return as long as it has.
    #[tokio::test(start_paused = true)]
    async fn a_source_moves_when_its_subscribers_do_not_get_what_is_derived() {
        let desk = anabranch::SecretKey::from_seed([3; 32]).node_id();
        let flags = Line::parse_from(["", "--place", "--place-hold", "5 s"]).flags;
        let nodes = ["hub".to_owned(), "spare".to_owned()];
        let moves = flags.moves(&nodes, false).unwrap();
        let mut rows = overlay(&desk.to_string(), 20.0);
        rows.last_mut().unwrap()["bandwidth_bps"] = json!(1.5e6);
        let mut looked: Vec<(u64, usize, String)> = Vec::new();
        let mut place = 0;
        for second in 0..480_u64 {
            // 0.3 Mbit/s are sent to it over the leg from the first place.
            let is_narrow = place == 0 && second >= 20;
            let sent = if is_narrow {
                (37_500, 400_000)
            } else {
                (125_000, 0)
            };
            // Another place counts from its own beginning.
            let begun = looked.last().map_or(0, |(begun, ..)| *begun);
            let totals = totals(second - begun, [(desk, sent)]);
            if let Some(found) = moves.look(&rows, totals) {
                place = found.place;
                moves.at(place);
                looked.push((second, place, found.why));
            }
            time::advance(Duration::from_secs(1)).await;
        }
        let (left, to, why) = &looked[0];
        assert!((25..45).contains(left) && *to == 1, "{looked:?}");
        assert!(
            why.contains("hub: never in time, because of the last leg"),
            "{why}"
        );
        // It tries again after five minutes, and leaves again.
        let places: Vec<usize> = looked.iter().map(|(_, place, _)| *place).collect();
        assert_eq!(places, [1, 0, 1], "{looked:?}");
        assert!(looked[1].0 > left + 300, "{looked:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_moves_when_the_link_behind_its_place_is_worse_for_a_while() {
        let desk = anabranch::SecretKey::from_seed([3; 32]).node_id();
        let words = ["", "--place", "--place-hold", "5 s"];
        let flags = Line::parse_from(words).flags;
        let nodes = ["hub".to_owned(), "spare".to_owned()];
        let moves = flags.moves(&nodes, false).unwrap();
        let mut looked = Vec::new();
        for second in 0..40_u64 {
            let totals = totals(second, [(desk, (125_000, 0))]);
            let mbps = if second < 20 { 8.0 } else { 0.5 };
            let rows = overlay(&desk.to_string(), mbps);
            if let Some(Move { place, why }) = moves.look(&rows, totals) {
                looked.push((second, place));
                assert!(why.starts_with("spare: in time in 100 %"), "{why}");
                assert!(
                    why.contains("hub: never in time, because of the last leg"),
                    "{why}"
                );
            }
            time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(looked, [(25, 1)]);
        moves.at(1);
        assert_eq!(moves.take(), None);
        assert!(!Line::parse_from([""]).flags.is_given());
    }
}
