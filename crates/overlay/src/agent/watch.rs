//! The tick: heartbeats, accusations, expiry.

use std::time::Duration;

use anabranch_base::Instant;

use super::Agent;
use crate::{
    members::{State, Verdict, ring::MONITORS},
    wire::{Claim, Frame},
};

/// Factor by which heartbeats to neighbours that are no monitors are less frequent; they serve to compare summaries.
const SELDOM: u32 = 10;
/// Time that a new monitor allows the monitored member to learn of it.
const GRACE: Duration = Duration::from_secs(3);

impl Agent {
    pub(super) fn tick(&mut self, now: Instant) {
        self.member_table.expire(self.config.down_after, now);
        self.accuse_silent(now);
        if now >= self.timers.next_beat {
            let jitter = self.random.uniform(0.95, 1.05);
            self.timers.next_beat =
                now.max(self.timers.next_beat + self.config.heartbeat.mul_f64(jitter));
            self.beat_monitors(now);
        }
        self.publish_if_due(now);
        self.tend_sessions(now);
        self.probe(now);
        self.report_interest(now);
    }

    /// Sends `to` a heartbeat, with a summary of the member table.
    pub(super) fn beat(&mut self, to: usize, now: Instant) {
        self.peers[to].beat_at = now;
        let summary = self.member_table.summary();
        self.queue(to, &Frame::Heartbeat { summary });
    }

    fn beat_monitors(&mut self, now: Instant) {
        let member_table = &self.member_table;
        let is_live = |at: usize| member_table.entry(at).state.is_live();
        let monitors: Vec<usize> = member_table
            .ring
            .predecessors(member_table.me, MONITORS, is_live)
            .collect();
        let seldom = self.config.heartbeat * SELDOM;
        for at in self.active.iter().copied().collect::<Vec<_>>() {
            let peer = &self.peers[at];
            let is_due = peer.is_gossip && now.since(peer.beat_at) >= seldom;
            if peer.is_up() && (monitors.contains(&at) || is_due) {
                self.beat(at, now);
            }
        }
    }

    /// Accuses the monitored members that have been silent for too long.
    fn accuse_silent(&mut self, now: Instant) {
        for at in self
            .ring
            .neighbours
            .iter()
            .take(MONITORS)
            .copied()
            .collect::<Vec<_>>()
        {
            let (peer, entry) = (&self.peers[at], self.member_table.entry(at));
            let Some(since) = peer.monitored_since.filter(|_| entry.state == State::Alive) else {
                continue;
            };
            let last_received_at = peer
                .last_received_at
                .unwrap_or(Instant::EPOCH)
                .max(since + GRACE);
            let is_silent = now.since(last_received_at) >= self.config.suspect_after;
            // The answer of an accused member reaches us through others: allow time for that as well.
            let is_answered = now.since(entry.changed_at) < self.config.suspect_after;
            if is_silent && !is_answered && now >= peer.accusation.not_before {
                self.accuse(at, now);
            }
        }
    }

    fn accuse(&mut self, at: usize, now: Instant) {
        let entry = self.member_table.entry(at);
        let claim = Claim {
            accuser: self.member_table.entry(self.member_table.me).short,
            target: entry.short,
            version: entry.version,
        };
        if self.member_table.judge_claim(at, claim.version) == Verdict::New {
            let bytes = claim.encode(&*self.keys);
            self.member_table.take_claim(at, &bytes, now);
            self.push_claim(at, None);
        }
    }
}
