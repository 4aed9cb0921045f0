//! Routes of one destination.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, Rate};
use anabranch_route::{
    decline::{self, Decline},
    hysteresis::{self, Cost, Health, Keeper, Reason},
    partition::{Leg, Partition, partition},
    quickest::Finder,
};

use super::{
    map::{Map, NodeRoutes},
    trust::Pair,
};
use crate::{config::Routing, members::Moves};

/// The paths of a message to one destination, and its division among them.
#[derive(Debug, Clone, PartialEq)]
pub struct Routes {
    /// The destination.
    pub to: NodeId,
    /// Size of the message that is divided.
    pub bytes: u64,
    /// The direct link first, which sessions use beside relays, then the others, the quickest first; no path carries
    /// bytes that another would deliver sooner.
    pub paths: Vec<Path>,
    /// Time after the start at which the whole message is expected to have arrived.
    pub finish: Duration,
}

/// One path to a destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Relays in order; none: the direct link.
    pub relays: Vec<NodeId>,
    /// Bandwidth that it offers in addition to the paths before it.
    pub bandwidth: Rate,
    /// Sum of the least delays of its links.
    pub delay_min: Duration,
    /// Relative standard error of its bandwidth; 0: unknown.
    pub deviation: f64,
    /// Bytes of the message that it carries.
    pub bytes: u64,
}

/// State of the routes to one destination.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Size of a typical message.
    pub(crate) bytes: u64,
    keeper: Keeper<NodeRoutes>,
    /// Decline of each path in use: the decline of one path of four hardly shows in the total.
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

    /// The same for other places of the members. Paths over members that are gone are forgotten.
    pub(crate) fn moved(self, moves: &Moves) -> Self {
        let count = |kept: &Self| kept.current().map_or(0, Vec::len);
        let before = count(&self);
        let stays = |path: Vec<usize>| moves.all(&path);
        let keeper = self.keeper.map(|routes| {
            let left: NodeRoutes = routes.into_iter().filter_map(stays).collect();
            (!left.is_empty()).then_some(left)
        });
        let mut moved = Self { keeper, ..self };
        if count(&moved) != before {
            moved.declines.clear();
        }
        moved
    }

    pub(crate) fn current(&self) -> Option<&NodeRoutes> {
        self.keeper.current()
    }

    /// Reviews the routes by the present map. Returns the reason for a change, if they changed.
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
                // The fold observes every path.
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

    /// Keeps the observations of the paths that there were `before` others joined them.
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

    /// Time that a message takes on the quickest of the `best` paths that are not in use.
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

/// A decline follows from one estimate, because estimates have their own guard against noise: a tracker changes
/// markedly after two odd messages.
fn new_decline() -> Decline {
    Decline::new(decline::Config {
        estimates: 1,
        ..decline::Config::default()
    })
}

/// The paths by the present estimates, and the division of a message among them.
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
