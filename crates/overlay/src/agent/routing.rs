//! Routing: the choice of paths, and the state of those in use.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, NodeId, Rate};
use anabranch_route::{Estimate, quickest::Finder};

use super::{Agent, Event, LinkView, Output, UnknownMember, refresh_interval};
use crate::{
    measure::Source,
    members::{Moves, State},
    paths::{
        Path, Routes,
        keep::{Kept, divided},
        map::{Known, Map, NodeRoutes},
        trust::{Pair, Trust},
    },
    wire::Record,
};

/// Interval at which routes are reviewed, while any are wanted.
const LOOK: Duration = Duration::from_millis(500);
/// Time in which a suspect can answer before no path leads over it. A member that one node cannot reach may work all
/// the same, and paths in use that fail are reported separately.
const DOUBT: Duration = Duration::from_secs(1);
/// Most destinations at a time.
pub(super) const WANTS_MAX: usize = 256;

/// This node's knowledge of paths.
#[derive(Debug, Default)]
pub(super) struct Paths {
    pub(super) map: Map,
    is_stale: bool,
    is_urgent: bool,
    next_look: Instant,
    finder: Finder,
    /// By relay: rate granted to this node's circuits there.
    held: BTreeMap<usize, Rate>,
    /// Consecutive shortfalls of routes in use.
    pub(super) strikes: BTreeMap<Vec<usize>, u32>,
}

impl Paths {
    /// Follows the members to other places; the map is made anew.
    pub(super) fn follow(&mut self, moves: &Moves) {
        self.map = Map::default();
        moves.rekey(&mut self.held, Moves::of);
        let strikes = std::mem::take(&mut self.strikes).into_iter();
        self.strikes = strikes
            .filter_map(|(path, count)| Some((moves.all(&path)?, count)))
            .collect();
        (self.is_stale, self.is_urgent) = (true, true);
    }
}

impl Agent {
    /// Keeps routes to `to` for messages of about `bytes` from now on. [`Event::RoutesChanged`] reports changes.
    ///
    /// # Errors
    /// [`UnknownMember`] when `to` is not on the list, or is this node, or 256 destinations are wanted
    /// already.
    pub fn want(&mut self, to: NodeId, bytes: u64, now: Instant) -> Result<(), UnknownMember> {
        let at = self
            .member_table
            .find(&to)
            .filter(|&at| at != self.member_table.me)
            .ok_or(UnknownMember)?;
        if self.wants.len() >= WANTS_MAX && !self.wants.contains_key(&at) {
            return Err(UnknownMember);
        }
        if !self.wants.contains_key(&at) {
            self.interest_is_new();
        }
        let routing = &self.config.routing;
        self.wants
            .entry(at)
            .or_insert_with(|| Kept::new(bytes, routing))
            .bytes = bytes;
        self.plan(now);
        self.paths_stale(true);
        self.settle(now);
        Ok(())
    }

    /// Keeps no more routes to `to`.
    pub fn unwant(&mut self, to: &NodeId) {
        if let Some(at) = self.member_table.find(to) {
            self.wants.remove(&at);
        }
    }

    /// The routes to a wanted destination, by the present estimates; `None` while none are known, or when estimates for
    /// them have expired.
    pub fn routes(&mut self, to: &NodeId, now: Instant) -> Option<Routes> {
        let at = self.member_table.find(to)?;
        let kept = self.wants.get(&at)?;
        let (routes, bytes) = (kept.current()?.clone(), kept.bytes);
        self.refresh_map(now);
        self.show(at, bytes, &routes)
    }

    /// The best routes for one message, regardless of those in use; the direct link only if it helps.
    pub fn best_routes(&mut self, to: &NodeId, bytes: u64, now: Instant) -> Option<Routes> {
        let at = self.member_table.find(to)?;
        self.refresh_map(now);
        let pair = (self.member_table.me, at);
        let paths = &mut self.paths;
        let routes = paths
            .map
            .best(&mut paths.finder, pair, bytes, &self.config.routing, false);
        self.show(at, bytes, &routes)
    }

    /// Sets the total rate granted to this node's circuits at each relay. The node has that rate there regardless of
    /// the headroom that the relay publishes, which excludes these grants.
    pub fn set_held(&mut self, held: &[(NodeId, Rate)], now: Instant) {
        let places = held
            .iter()
            .filter_map(|(relay, rate)| Some((self.member_table.find(relay)?, *rate)));
        let held = places.collect();
        if self.paths.held != held {
            self.paths.held = held;
            self.paths_stale(false);
            self.settle(now);
        }
    }

    /// All links with a valid estimate, this node's own first.
    pub fn links(&self, now: Instant) -> Vec<LinkView> {
        let me = self.member_table.me;
        let mut views = Vec::new();
        for at in 0..self.member_table.len() {
            if let Some((estimate, age, source)) = self.own_link(at, now) {
                views.push(LinkView {
                    from: self.me(),
                    to: self.member_table.entry(at).node,
                    bandwidth: estimate.bandwidth,
                    delay_min: estimate.delay_min,
                    deviation: estimate.deviation,
                    age,
                    source,
                    trust: self.trust.factor((me, at), now),
                });
            }
        }
        self.each_published(now, |link, state, age| {
            views.push(LinkView {
                from: self.member_table.entry(link.0).node,
                to: self.member_table.entry(link.1).node,
                bandwidth: state.bandwidth,
                delay_min: state.delay_min,
                deviation: state.deviation,
                age,
                source: Source::Record,
                trust: self.trust.factor(link, now),
            });
        });
        views
    }

    /// Calls `each` with the links that other live members publish, to live members, and their ages.
    fn each_published(
        &self,
        now: Instant,
        mut each: impl FnMut(Pair, &crate::wire::LinkState, Duration),
    ) {
        let scale = refresh_interval(&self.config, self.member_table.live()).as_secs_f64()
            / self.config.refresh.as_secs_f64();
        let age_max = self.config.age_max.mul_f64(scale);
        for from in (0..self.member_table.len()).filter(|&at| at != self.member_table.me) {
            let entry = self.member_table.entry(from);
            let Some(bytes) = entry.record.as_ref().filter(|_| entry.state.is_live()) else {
                continue;
            };
            let Ok(record) = Record::decode(bytes) else {
                continue;
            };
            let held = entry.held(now);
            for link in &record.links {
                let age = link.age.saturating_add(held);
                let to = self.member_table.find_short(link.peer);
                let is_live = |to: &usize| self.member_table.entry(*to).state.is_live();
                if let Some(to) = to.filter(is_live).filter(|_| age <= age_max) {
                    each((from, to), link, age);
                }
            }
        }
    }

    /// Notes that an input of the routes has changed; `is_urgent`: review them at once.
    pub(super) fn paths_stale(&mut self, is_urgent: bool) {
        self.paths.is_stale = true;
        self.paths.is_urgent |= is_urgent;
    }

    /// Reviews all wanted routes when it is time.
    pub(super) fn look(&mut self, now: Instant) {
        let is_time = now >= self.paths.next_look || self.paths.is_urgent;
        if self.wants.is_empty() || !is_time {
            return;
        }
        self.paths.next_look = now + LOOK;
        self.paths.is_urgent = false;
        self.refresh_map(now);
        let me = self.member_table.me;
        let mut changed = Vec::new();
        for (&to, kept) in &mut self.wants {
            let paths = &mut self.paths;
            let routing = &self.config.routing;
            if let Some(reason) = kept.look(&paths.map, &mut paths.finder, (me, to), routing, now) {
                changed.push((to, reason));
            }
        }
        for (to, reason) in changed {
            let to = self.member_table.entry(to).node;
            self.outputs
                .push_back(Output::Event(Event::RoutesChanged { to, reason }));
            self.probing_is_stale();
        }
        // Penalties end and trust returns without an event.
        self.paths.is_stale = true;
    }

    pub(super) fn refresh_map(&mut self, now: Instant) {
        if !std::mem::take(&mut self.paths.is_stale) {
            return;
        }
        let me = self.member_table.me;
        let mut known = Vec::new();
        let mut add = |trust: &Trust, link: Pair, estimate: Estimate, group: u8| {
            if !trust.is_left_out(link, now) {
                let bandwidth = estimate.bandwidth * trust.factor(link, now);
                let bandwidth = trust
                    .seen(link, now)
                    .map_or(bandwidth, |seen| seen.max(bandwidth));
                known.push(Known {
                    link,
                    estimate: Estimate {
                        bandwidth,
                        ..estimate
                    },
                    group,
                });
            }
        };
        for at in 0..self.member_table.len() {
            if let Some((own, _, _)) = self.own_link(at, now) {
                let estimate = Estimate {
                    bandwidth: own.bandwidth,
                    delay_min: own.delay_min,
                    error: own.deviation.unwrap_or(0.0),
                };
                add(&self.trust, (me, at), estimate, self.group_of(at));
            }
        }
        let mut headroom = vec![Rate::ZERO; self.member_table.len()];
        self.each_published(now, |link, state, _| {
            let estimate = Estimate {
                bandwidth: state.bandwidth,
                delay_min: state.delay_min,
                error: state.deviation.unwrap_or(0.0),
            };
            add(&self.trust, link, estimate, state.group);
        });
        for (at, headroom) in headroom.iter_mut().enumerate() {
            let entry = self.member_table.entry(at);
            let carries = match entry.state {
                State::Alive => true,
                State::Suspect => now.since(entry.changed_at) < DOUBT,
                _ => false,
            };
            let is_good = carries && !self.trust.is_relay_left_out(at, now);
            if let Some(bytes) = entry.record.as_ref().filter(|_| is_good) {
                let published = crate::wire::record::headroom(bytes).unwrap_or(Rate::ZERO);
                let held = self.paths.held.get(&at).copied().unwrap_or(Rate::ZERO);
                *headroom = published.max(held);
            }
        }
        self.paths.map = Map::new(headroom, &known);
    }

    pub(super) fn node_route(&self, to: &NodeId, relays: &[NodeId]) -> Option<Vec<usize>> {
        let me = std::iter::once(Some(self.member_table.me));
        let rest = relays
            .iter()
            .chain(std::iter::once(to))
            .map(|node| self.member_table.find(node));
        me.chain(rest).collect()
    }

    fn show(&mut self, to: usize, bytes: u64, routes: &NodeRoutes) -> Option<Routes> {
        let pair = (self.member_table.me, to);
        let paths = &mut self.paths;
        let routing = &self.config.routing;
        let (paths, division) =
            divided(&paths.map, &mut paths.finder, pair, bytes, routing, routes)?;
        let paths = paths
            .iter()
            .zip(&division.bytes)
            .map(|(path, &bytes)| Path {
                relays: path
                    .relays(&self.paths.map.graph)
                    .map(|node| self.member_table.entry(node.at()).node)
                    .collect(),
                bandwidth: path.bandwidth,
                delay_min: path.delay_min,
                deviation: path.error(&self.paths.map.graph),
                bytes,
            })
            .collect();
        Some(Routes {
            to: self.member_table.entry(to).node,
            bytes,
            paths,
            finish: division.finish,
        })
    }
}
