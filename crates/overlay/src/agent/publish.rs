//! This node's own record.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{Instant, Rate};

use super::{Agent, load::OwnLoad, refresh_interval};
use crate::wire::{
    LinkState, Load, LoadOf, Record,
    record::{ADDRESSES_MAX, RATE_MAX, VERSION_MAX},
};

/// Least time between two records of changed links.
const CHANGE_GAP: Duration = Duration::from_secs(2);
/// Least time between two answers to claims.
const ANSWER_GAP: Duration = Duration::from_millis(300);
/// The same, to an accuser that was wrong too often.
const LIAR_GAP: Duration = Duration::from_secs(30);

/// Record of this node about itself.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) version: u64,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) headroom: Option<Rate>,
    /// Links as last published.
    pub(super) links: Vec<LinkState>,
    pub(super) load: OwnLoad,
    published_at: Instant,
    /// Time at which the record should be published again at the latest.
    due_at: Instant,
}

impl Own {
    pub(super) fn new(version: u64, addresses: Vec<SocketAddr>, headroom: Option<Rate>) -> Self {
        Self {
            version: version.min(VERSION_MAX / 2),
            addresses,
            headroom,
            links: Vec::new(),
            load: OwnLoad::default(),
            published_at: Instant::EPOCH,
            due_at: Instant::EPOCH,
        }
    }
}

/// True if the rates differ by more than `share` of the lower one.
pub(super) fn is_change(a: Rate, b: Rate, share: f64) -> bool {
    let (low, high) = (a.min(b).as_bps() as f64, a.max(b).as_bps() as f64);
    low * (1.0 + share) < high
}

impl Agent {
    /// Sets the rate that this node can relay for others in 95 % of the time; `None`: it does not relay. Published when
    /// it differs from the previous rate by more than [`Config::change`](crate::Config::change).
    pub fn set_headroom(&mut self, headroom: Option<Rate>, now: Instant) {
        let before = self.own.headroom;
        self.own.headroom = headroom.map(|rate| rate.min(RATE_MAX));
        let is_different = match (before, headroom) {
            (Some(before), Some(after)) => is_change(before, after, self.config.change),
            (before, after) => before.is_some() != after.is_some(),
        };
        if is_different {
            self.publish_soon();
            self.publish_if_due(now);
            self.settle(now);
        } else {
            self.own.headroom = before;
        }
    }

    /// Sets the addresses that this node announces, of which [`ADDRESSES_MAX`] are used. They take the place of those of its
    /// configuration, until the next one.
    pub fn set_addresses(&mut self, mut addresses: Vec<SocketAddr>, now: Instant) {
        addresses.truncate(ADDRESSES_MAX);
        if self.has_left || self.own.addresses == addresses {
            return;
        }
        self.own.addresses = addresses;
        self.publish_soon();
        self.publish_if_due(now);
        self.settle(now);
    }

    /// Signs and spreads a record of the present state.
    pub(super) fn publish(&mut self, now: Instant) {
        self.own.version = (self.own.version + 1).min(VERSION_MAX);
        self.own.links = self.links_to_publish(now);
        let record = Record {
            origin: self.member_table.entry(self.member_table.me).short,
            version: self.own.version,
            leaving: false,
            headroom: self.own.headroom,
            addresses: self.own.addresses.clone(),
            links: self.own.links.clone(),
        };
        let load = self.own.load.publish(now);
        self.spread_own(&record, load, now);
    }

    pub(super) fn publish_farewell(&mut self, now: Instant) {
        self.own.version = (self.own.version + 1).min(VERSION_MAX);
        let record = Record {
            origin: self.member_table.entry(self.member_table.me).short,
            version: self.own.version,
            leaving: true,
            headroom: None,
            addresses: Vec::new(),
            links: Vec::new(),
        };
        // Pushed to every connected member: there is no later chance.
        self.peers
            .iter_mut()
            .for_each(|peer| peer.is_eager = peer.is_gossip);
        self.spread_own(&record, None, now);
        self.flush();
    }

    fn spread_own(&mut self, record: &Record, load: Option<Load>, now: Instant) {
        let bytes = record.encode(&*self.keys);
        let me = self.member_table.me;
        self.member_table
            .take_record(me, record, &bytes, Duration::ZERO, now);
        if let Some(load) = load {
            let of = LoadOf {
                origin: record.origin,
                version: record.version,
                load,
            };
            self.member_table.take_load(me, &of.encode(&*self.keys));
        }
        self.own.published_at = now;
        let interval = refresh_interval(&self.config, self.member_table.live());
        self.own.due_at = now + interval.mul_f64(self.random.uniform(0.8, 1.0));
        self.push_record(me, None, now);
    }

    /// Publishes when a refresh is due.
    pub(super) fn publish_if_due(&mut self, now: Instant) {
        if now >= self.own.due_at {
            self.publish(now);
        }
    }

    /// Schedules a record soon, because links changed, but not more often than every [`CHANGE_GAP`].
    pub(super) fn publish_soon(&mut self) {
        self.publish_not_before(Instant::EPOCH);
    }

    /// As [`Self::publish_soon`], but not before a time.
    pub(super) fn publish_not_before(&mut self, earliest: Instant) {
        let soon = (self.own.published_at + CHANGE_GAP).max(earliest);
        self.own.due_at = self.own.due_at.min(soon);
    }

    /// Another node holds a record of ours that we do not know: publishes one with a version above `seen`.
    pub(super) fn answer(&mut self, seen: u64, now: Instant) {
        if seen >= self.own.version {
            self.own.version = seen.min(VERSION_MAX - 1);
            self.publish_after(ANSWER_GAP, now);
        }
    }

    /// Answers a claim that this node is silent. An accuser that is wrong too often is answered seldom: others no
    /// longer believe it either.
    pub(super) fn answer_claim(&mut self, version: u64, is_liar: bool, now: Instant) {
        if version == self.own.version {
            let gap = if is_liar { LIAR_GAP } else { ANSWER_GAP };
            self.publish_after(gap, now);
        }
    }

    /// Answers a claim of a node that is not on this node's list, and whose signature it cannot check.
    pub(super) fn answer_stranger(&mut self, version: u64, now: Instant) {
        if version == self.own.version {
            self.publish_after(CHANGE_GAP, now);
        }
    }

    /// Publishes as soon as `gap` has passed since the last record.
    fn publish_after(&mut self, gap: Duration, now: Instant) {
        if now.since(self.own.published_at) >= gap {
            self.publish(now);
        } else {
            self.own.due_at = self.own.due_at.min(self.own.published_at + gap);
        }
    }
}
