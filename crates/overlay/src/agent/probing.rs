//! Probing of links: the choice, the times and the results.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, NodeId, Rate};

use super::{
    Agent, Event, Output,
    interest::{Asked, links_max},
};
use crate::{
    measure::{LinkEstimate, Source, Tracker, plan, tracker::Pending},
    members::Moves,
    wire::{LinkState, ShortId},
};

/// Longest and shortest wait for the answer to a test message.
const ANSWER_MAX: Duration = Duration::from_secs(20);
const ANSWER_MIN: Duration = Duration::from_secs(2);
/// Least time between two test messages of a link.
const FIRST_GAP: Duration = Duration::from_millis(300);
/// Time for which trackers are kept of links that are no longer measured.
const FORGET: Duration = Duration::from_secs(1_800);
/// Least change of a published delay that counts as marked, beyond the relative one.
const DELAY_CHANGE: Duration = Duration::from_millis(3);

/// This node's own links.
#[derive(Debug)]
pub(super) struct Probing {
    /// Keyed by the other end's place in the member table; at most one per member.
    pub(super) trackers: BTreeMap<usize, Tracker>,
    /// Links measured now.
    pub(super) targets: Vec<usize>,
    /// Links that others asked for.
    pub(super) asked: Asked,
    /// See [`LinkState::group`], by place in the member table.
    groups: BTreeMap<usize, u8>,
    next_plan: Instant,
    next_id: u64,
    /// Bytes that may be spent now, and the time of that count.
    purse: (f64, Instant),
}

impl Probing {
    pub(super) fn new(config: &crate::config::Probing, now: Instant) -> Self {
        Self {
            trackers: BTreeMap::new(),
            targets: Vec::new(),
            asked: Asked::default(),
            groups: BTreeMap::new(),
            next_plan: now,
            next_id: 0,
            purse: (purse_max(config), now),
        }
    }

    /// Follows the members to other places; measurements of links to those that are gone are forgotten.
    pub(super) fn follow(&mut self, moves: &Moves) {
        moves.rekey(&mut self.trackers, Moves::of);
        moves.rekey(&mut self.groups, Moves::of);
        moves.apply(&mut self.targets);
        self.asked.follow(moves);
    }
}

/// Budget that a node may spend at once when it starts, as a fraction of an hour's budget; the rest accrues evenly, so
/// that no hour costs more than the budget.
const AT_ONCE: f64 = 1.0 / 12.0;

fn purse_max(config: &crate::config::Probing) -> f64 {
    config.bytes_per_hour as f64 * AT_ONCE
}

/// Measurement of real traffic of this node over its direct link to a peer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Acknowledged rate over `window`.
    pub rate: Rate,
    /// Duration of the measurement; 0.2 s to 10 s are suitable.
    pub window: Duration,
    /// True if the link was the limit: the sender always had data to send.
    pub is_limited: bool,
    /// Least round trip in the window; `None`: not measured.
    pub round_trip_min: Option<Duration>,
}

impl Agent {
    /// Handles the outcome of test message `id` to `to` ([`Output::Probe`]): acknowledged whole `took` after its
    /// sending began, or lost (`None`).
    pub fn handle_probe(&mut self, to: &NodeId, id: u64, took: Option<Duration>, now: Instant) {
        let Some((at, tracker)) = self.member_table.find(to).and_then(|at| {
            let tracker = self.probing.trackers.get_mut(&at)?;
            Some((at, tracker))
        }) else {
            return;
        };
        let Some(pending) = tracker.pending.filter(|pending| pending.id == id) else {
            return;
        };
        tracker.pending = None;
        let was_dead = tracker.is_dead();
        let has_changed = match took {
            Some(took) => {
                let most = self.config.probing.bytes_max;
                tracker.observe(pending.bytes, took, most, now)
            }
            None => {
                tracker.lose();
                false
            }
        };
        let is_dead = tracker.is_dead();
        self.trust.renew((self.member_table.me, at));
        self.link_moved(at, has_changed || was_dead != is_dead, now);
        self.settle(now);
    }

    /// Handles a measurement of real traffic over the direct link to `to`.
    pub fn handle_sample(&mut self, to: &NodeId, sample: Sample, now: Instant) {
        let Some(at) = self
            .member_table
            .find(to)
            .filter(|&at| at != self.member_table.me)
        else {
            return;
        };
        let memory = self.config.probing.memory;
        let tracker = self
            .probing
            .trackers
            .entry(at)
            .or_insert_with(|| Tracker::new(memory, now));
        if let Some(round_trip) = sample.round_trip_min {
            tracker.note_round_trip(round_trip, now);
        }
        let has_changed = tracker.sample(sample.rate, sample.window, sample.is_limited, now);
        if sample.is_limited {
            self.trust.renew((self.member_table.me, at));
        }
        self.link_moved(at, has_changed, now);
        self.settle(now);
    }

    /// Sets which of this node's links share a bottleneck: one list for each bottleneck. A link in no list shares none.
    pub fn set_groups(&mut self, groups: &[Vec<NodeId>], now: Instant) {
        let mut by_link = BTreeMap::new();
        for (group, number) in groups.iter().zip(1..=u8::MAX) {
            let members = group.iter().filter_map(|node| self.member_table.find(node));
            by_link.extend(members.map(|at| (at, number)));
        }
        if by_link != self.probing.groups {
            self.probing.groups = by_link;
            self.publish_soon();
            self.publish_if_due(now);
            self.paths_stale(false);
            self.settle(now);
        }
    }

    /// Handles a new estimate of link `at`; `is_marked`: so different that others should be informed soon.
    fn link_moved(&mut self, at: usize, is_marked: bool, now: Instant) {
        self.paths_stale(is_marked);
        if is_marked {
            let node = self.member_table.entry(at).node;
            self.outputs
                .push_back(Output::Event(Event::LinkChanged(node)));
        }
        if self.differs_from_published(now) {
            self.publish_soon();
            self.publish_if_due(now);
        }
    }

    pub(super) fn group_of(&self, at: usize) -> u8 {
        self.probing.groups.get(&at).copied().unwrap_or(0)
    }

    /// Has the next tick make a new plan.
    pub(super) fn probing_is_stale(&mut self) {
        self.probing.next_plan = Instant::EPOCH;
    }

    /// State and quality of this node's link to `at`.
    pub(super) fn own_link(
        &self,
        at: usize,
        now: Instant,
    ) -> Option<(LinkEstimate, Duration, Source)> {
        let tracker = self.probing.trackers.get(&at)?;
        let is_gone = tracker.is_dead() || self.peers[at].is_lost(now);
        let (estimate, age) = (tracker.estimate()?, tracker.age(now)?);
        (!is_gone && age <= self.config.age_max).then_some((estimate, age, tracker.source()))
    }

    /// The links that this node would publish now.
    pub(super) fn links_to_publish(&self, now: Instant) -> Vec<LinkState> {
        let live = |at: &usize| self.member_table.entry(*at).state.is_live();
        let known = self.probing.trackers.keys().filter(|at| live(at));
        let mut links: Vec<(Duration, LinkState)> = known
            .filter_map(|&at| {
                let (estimate, age, _) = self.own_link(at, now)?;
                let link = LinkState {
                    peer: self.member_table.entry(at).short,
                    bandwidth: estimate.bandwidth,
                    delay_min: estimate.delay_min,
                    deviation: estimate.deviation,
                    age,
                    group: self.group_of(at),
                };
                Some((age, link.rounded()))
            })
            .collect();
        links.sort_unstable_by_key(|(age, link)| (*age, link.peer));
        links.truncate(links_max(self.config.probing.links));
        links.into_iter().map(|(_, link)| link).collect()
    }

    pub(super) fn differs_from_published(&self, now: Instant) -> bool {
        let current = self.links_to_publish(now);
        let published = &self.own.links;
        let find = |links: &[LinkState], peer: ShortId| {
            links.iter().find(|link| link.peer == peer).copied()
        };
        let change = self.config.change;
        published.len() != current.len()
            || current.iter().any(|link| {
                find(published, link.peer).is_none_or(|before| {
                    let delays = (before.delay_min, link.delay_min);
                    let (short, long) = (delays.0.min(delays.1), delays.0.max(delays.1));
                    before.group != link.group
                        || super::publish::is_change(before.bandwidth, link.bandwidth, change)
                        || long > short.mul_f64(1.0 + change) + DELAY_CHANGE
                })
            })
    }

    /// Sends the probes that are due, gives up those without an answer, and makes a new plan when it is due.
    pub(super) fn probe(&mut self, now: Instant) {
        if now >= self.probing.next_plan {
            self.plan(now);
        }
        let (have, since) = self.probing.purse;
        let config = &self.config.probing;
        let gained =
            now.since(since).as_secs_f64() * config.bytes_per_hour as f64 * (1.0 - AT_ONCE)
                / 3600.0;
        self.probing.purse = ((have + gained).min(purse_max(config)), now);
        for at in self.probing.targets.clone() {
            self.expire_probe(at, now);
            self.probe_link(at, now);
        }
    }

    fn expire_probe(&mut self, at: usize, now: Instant) {
        let Some(tracker) = self.probing.trackers.get_mut(&at) else {
            return;
        };
        if tracker
            .pending
            .is_some_and(|pending| now >= pending.deadline)
        {
            tracker.pending = None;
            let was_dead = tracker.is_dead();
            tracker.lose();
            let is_marked = tracker.is_dead() != was_dead;
            self.link_moved(at, is_marked, now);
        }
    }

    fn probe_link(&mut self, at: usize, now: Instant) {
        let config = &self.config.probing;
        let is_up = self.peers[at].is_up();
        let Some(tracker) = self.probing.trackers.get_mut(&at) else {
            return;
        };
        if !is_up || tracker.pending.is_some() || now < tracker.next_at {
            return;
        }
        // Small and large messages alternate; a dead link is tried with small ones.
        let is_small = tracker.is_dead() || tracker.messages.is_multiple_of(2);
        let is_new = tracker.estimate().is_none();
        let bytes = match tracker.agenda.front() {
            _ if is_small => config.bytes_min,
            Some(&planned) => planned,
            None if is_new => tracker.growth.next(tracker.messages / 2, config),
            None => config.bytes_min,
        };
        if bytes as f64 > self.probing.purse.0 {
            return;
        }
        self.probing.purse.0 -= bytes as f64;
        let id = self.probing.next_id;
        self.probing.next_id += 1;
        let answer = tracker.expected(bytes).map_or(ANSWER_MAX, |expected| {
            (expected * 4).clamp(ANSWER_MIN, ANSWER_MAX)
        });
        tracker.pending = Some(Pending {
            id,
            bytes,
            deadline: now + answer,
        });
        let wait = if is_new || tracker.is_dead() {
            FIRST_GAP
        } else {
            // Planned messages are spread over the time of the plan, a small one before each.
            if !is_small {
                tracker.agenda.pop_front();
            }
            let left = self.probing.next_plan.since(now).max(FIRST_GAP);
            left / (2 * tracker.agenda.len() as u32 + 1)
        };
        let spread = wait.mul_f64(self.random.uniform(0.8, 1.2));
        tracker.next_at = now + spread.max(FIRST_GAP);
        let to = self.member_table.entry(at).node;
        self.outputs.push_back(Output::Probe { to, id, bytes });
    }

    /// Chooses the links to measure, and divides the budget among them.
    pub(super) fn plan(&mut self, now: Instant) {
        self.probing.asked.expire(now);
        let config = &self.config.probing;
        self.probing.next_plan = now + config.plan;
        let me = self.member_table.me;
        let is_live = |at: usize| at != me && self.member_table.entry(at).state.is_live();
        let mut targets: Vec<usize> = Vec::new();
        let mut add = |at: usize| {
            if is_live(at) && !targets.contains(&at) && targets.len() < config.links {
                targets.push(at);
            }
        };
        // Destinations, and the first relays of their paths; then neighbours, whose sessions exist anyway; then
        // successors on the ring.
        self.wants.keys().for_each(|&to| add(to));
        for kept in self.wants.values() {
            kept.current()
                .into_iter()
                .flatten()
                .for_each(|path| add(path[1]));
        }
        self.ring.neighbours.iter().for_each(|&at| add(at));
        for at in self.member_table.ring.successors(me, config.links, is_live) {
            add(at);
        }
        for at in self.probing.asked.places() {
            if is_live(at) && !targets.contains(&at) && targets.len() < links_max(config.links) {
                targets.push(at);
            }
        }
        let memory = config.memory;
        for &at in &targets {
            let trackers = &mut self.probing.trackers;
            trackers
                .entry(at)
                .or_insert_with(|| Tracker::new(memory, now));
        }
        self.probing.trackers.retain(|at, tracker| {
            targets.contains(at) || tracker.age(now).is_some_and(|age| age < FORGET)
        });
        let (mut planned, mut subjects) = (Vec::new(), Vec::new());
        for &at in &targets {
            let tracker = &self.probing.trackers[&at];
            let known = tracker.estimate().filter(|_| !tracker.is_dead());
            if let Some(((known, scatter), age)) =
                known.zip(tracker.scatter()).zip(tracker.age(now))
            {
                planned.push(at);
                subjects.push(plan::Subject {
                    known,
                    scatter,
                    age,
                });
            }
        }
        let others = targets.len() - subjects.len();
        let agendas = plan::agenda(&subjects, others, config);
        for (at, agenda) in planned.into_iter().zip(agendas) {
            if let Some(tracker) = self.probing.trackers.get_mut(&at) {
                tracker.agenda = agenda.into();
            }
        }
        self.probing.targets = targets;
        for at in self.probing.targets.clone() {
            self.dial(at, now);
        }
    }
}
