//! Routes of one destination.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, Rate};
use anabranch_route::{
    decline::{self, Decline},
    hysteresis::{self, Cost, Health, Keeper, Reason},
    partition::{Leg, Partition, partition},
    quickest::Finder,
};

use super::{map::Map, trust::Pair};
use crate::config::Routing;

/// The ways of a message to one destination, with how it is divided among them.
#[derive(Debug, Clone, PartialEq)]
pub struct Routes {
    /// The destination.
    pub to: NodeId,
    /// The message that the division is for.
    pub bytes: u64,
    /// The direct link first, which sessions use beside relays, then the quickest first; none has bytes that others should carry.
    pub paths: Vec<Path>,
    /// When the whole message is expected to have arrived, after the start.
    pub finish: Duration,
}

/// One way to a destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// In order; none: the direct link.
    pub relays: Vec<NodeId>,
    /// What it carries beside the ways before it.
    pub bandwidth: Rate,
    /// Sum of its links' least delays.
    pub delay_min: Duration,
    /// Relative standard error of its bandwidth; 0: unknown.
    pub deviation: f64,
    /// Its part of the message.
    pub bytes: u64,
}

/// Paths as the nodes that they visit, by places in the roster.
pub(crate) type NodeRoutes = Vec<Vec<usize>>;

/// Everything in it belongs to one destination.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Typical message.
    pub(crate) bytes: u64,
    keeper: Keeper<NodeRoutes>,
    /// Of each way in use: that one of four ways has declined hardly shows in all of them together.
    declines: Vec<Decline>,
}

impl Kept {
    pub(crate) fn new(bytes: u64, config: &Routing) -> Self {
        let settings = hysteresis::Config {
            gain_min: config.gain,
            hold: config.hold,
            ..hysteresis::Config::default()
        };
        Self {
            bytes,
            keeper: Keeper::new(settings),
            declines: Vec::new(),
        }
    }

    pub(crate) fn current(&self) -> Option<&NodeRoutes> {
        self.keeper.current()
    }

    /// Looks again by the present map; why routes changed, if they did.
    pub(crate) fn look(
        &mut self,
        map: &Map,
        finder: &mut Finder,
        pair: Pair,
        config: &Routing,
        now: Instant,
    ) -> Option<Reason> {
        let best = map.best(finder, pair, self.bytes, config, true);
        let used = self
            .keeper
            .current()
            .map(|paths| divided(map, finder, pair, self.bytes, config, paths));
        let health = match used {
            None => Health::Fine,
            Some(None) => Health::Failed,
            Some(Some((paths, _))) => {
                self.declines.resize_with(paths.len(), new_decline);
                let observed = self.declines.iter_mut().zip(&paths);
                let declined = observed.filter_map(|(decline, path)| {
                    let time = path.time(self.bytes);
                    decline.observe(now, time).then_some(time)
                });
                // All are observed.
                match declined.fold(None, |worst, time| worst.max(Some(time))) {
                    None => Health::Fine,
                    Some(worst) => {
                        let new = self.newcomer(map, finder, pair, config, &best);
                        let part = new.map_or(1.0, |time| {
                            worst.as_secs_f64() / time.as_secs_f64().max(1e-9)
                        });
                        Health::Degraded { part }
                    }
                }
            }
        };
        let before = self.current().cloned();
        let bytes = self.bytes;
        let cost = |finder: &mut Finder, paths: &NodeRoutes| {
            let (paths, division) = divided(map, finder, pair, bytes, config, paths)?;
            let widest = paths.iter().max_by_key(|path| path.bandwidth)?;
            Some(Cost {
                time: division.finish,
                error: widest.error(&map.graph),
            })
        };
        let keeper = &mut self.keeper;
        let changed = keeper.consider(now, health, &best, |paths| cost(finder, paths));
        if changed.is_some() {
            self.declines.clear();
            return changed;
        }
        let before = before?;
        let wider = map.wider(finder, pair, bytes, config, &before);
        let joined = keeper.widen(now, wider.as_ref(), |paths| cost(finder, paths));
        if joined.is_some() {
            self.keep_declines(&before);
        }
        joined
    }

    /// Others have joined the ways that there were `before`: of these, what was observed is still true.
    fn keep_declines(&mut self, before: &NodeRoutes) {
        let mut known: Vec<Option<Decline>> = self.declines.drain(..).map(Some).collect();
        let paths = self.keeper.current().into_iter().flatten();
        let declines = paths.map(|path| {
            let place = before.iter().position(|other| other == path);
            let known = place.and_then(|place| known.get_mut(place)?.take());
            known.unwrap_or_else(new_decline)
        });
        self.declines = declines.collect();
    }

    /// Time that a message takes on the quickest of the `best` ways that is not in use.
    fn newcomer(
        &self,
        map: &Map,
        finder: &mut Finder,
        pair: Pair,
        config: &Routing,
        best: &NodeRoutes,
    ) -> Option<Duration> {
        let (paths, _) = divided(map, finder, pair, self.bytes, config, best)?;
        let current = self.current()?;
        let new = best.iter().zip(&paths);
        new.filter(|(path, _)| !current.contains(path))
            .map(|(_, path)| path.time(self.bytes))
            .min()
    }
}

/// Estimates have their own guard against noise: a tracker changes markedly after two odd messages.
fn new_decline() -> Decline {
    Decline::new(decline::Config {
        estimates: 1,
        ..decline::Config::default()
    })
}

/// The ways by the present estimates, and how a message is divided among them.
pub(crate) fn divided(
    map: &Map,
    finder: &mut Finder,
    pair: Pair,
    bytes: u64,
    config: &Routing,
    paths: &NodeRoutes,
) -> Option<(Vec<anabranch_route::Path>, Partition)> {
    let paths = map.judge(finder, pair, bytes, config, paths)?;
    let legs: Vec<Leg> = paths.iter().map(Leg::from).collect();
    let division = partition(&legs, bytes)?;
    Some((paths, division))
}
