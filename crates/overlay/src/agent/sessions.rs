//! Choice of the members with which a session is wanted.

use std::time::Duration;

use anabranch_base::Instant;

use super::{
    Agent, Output,
    peer::{Peer, Session},
};
use crate::{
    members::ring::MONITORS,
    wire::{Frame, Want},
};

/// Time in which the host must answer an [`Output::Connect`].
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(60);
/// Time for which an unused session is kept: neighbours change back.
const IDLE: Duration = Duration::from_secs(20);
/// Time after its start for which a node asks for its record of an earlier run.
const RECOVERY: Duration = Duration::from_secs(60);
/// Interval at which each absent member is tried by some node, approximately.
const SEARCH: Duration = Duration::from_secs(10);

impl Agent {
    /// Asks the host for a session with member `at`, unless one exists or the retry time has not come.
    pub(super) fn dial(&mut self, at: usize, now: Instant) {
        let is_excluded = at == self.member_table.me || self.member_table.entry(at).is_barred;
        let peer = &mut self.peers[at];
        if is_excluded || peer.session != Session::Down || now < peer.retry_at {
            return;
        }
        peer.session = Session::Connecting { since: now };
        self.active.insert(at);
        peer.is_ours = true;
        self.outputs
            .push_back(Output::Connect(self.member_table.entry(at).node));
    }

    pub(super) fn session_up(&mut self, at: usize, now: Instant) {
        let peer = &mut self.peers[at];
        peer.session = Session::Up;
        self.active.insert(at);
        peer.failures = 0;
        let was_lost = peer.lost_at.take().is_some();
        peer.last_received_at = Some(now);
        let is_searched = peer.is_ours && !self.member_table.entry(at).state.is_live();
        if was_lost {
            self.paths_stale(false);
        }
        if is_searched || self.ring.neighbours.contains(&at) {
            self.begin_gossip(at, now);
        }
    }

    /// Begins gossip with `at`: sends a summary and, soon after the start, requests this node's own record of an
    /// earlier run.
    pub(super) fn begin_gossip(&mut self, at: usize, now: Instant) {
        let peer = &mut self.peers[at];
        if peer.is_gossip || !peer.is_up() {
            return;
        }
        peer.is_gossip = true;
        peer.is_eager = true;
        self.beat(at, now);
        if now.since(self.started_at) < RECOVERY {
            let me = self.member_table.entry(self.member_table.me).short;
            self.queue(at, &Frame::Want(vec![(me, Want::Record)]));
        }
    }

    pub(super) fn session_down(&mut self, at: usize, now: Instant) {
        let random = self.random.uniform(0.75, 1.25);
        let peer = &mut self.peers[at];
        if peer.session == Session::Down {
            return;
        }
        let was_up = peer.is_up();
        if was_up {
            peer.lost_at = Some(now);
        } else {
            peer.failures = (peer.failures + 1).min(16);
        }
        // A session that was up may have ended for its own reasons: retry soon.
        let first = if was_up { RETRY_FIRST / 8 } else { RETRY_FIRST };
        let gap = first * (1 << peer.failures.min(6));
        peer.retry_at = now + gap.min(RETRY_LAST).mul_f64(random);
        peer.forget_session();
        self.active.remove(&at);
        self.paths_stale(false);
    }

    /// Chooses neighbours among the live members.
    pub(super) fn choose_neighbours(&mut self, now: Instant) {
        let member_table = &self.member_table;
        let me = member_table.me;
        self.ring.neighbours = member_table.ring.neighbours(me, member_table.live(), |at| {
            member_table.entry(at).state.is_live()
        });
        for at in 0..self.peers.len() {
            let is_monitored = self
                .ring
                .neighbours
                .iter()
                .take(MONITORS)
                .any(|&other| other == at);
            let since = &mut self.peers[at].monitored_since;
            *since = is_monitored.then(|| since.unwrap_or(now));
        }
        for at in self.ring.neighbours.clone() {
            self.dial(at, now);
            self.begin_gossip(at, now);
        }
    }

    /// Dials neighbours that are due for a retry, closes unused sessions, and searches for absent members.
    pub(super) fn tend_sessions(&mut self, now: Instant) {
        let wanted = self.ring.neighbours.iter().chain(&self.probing.targets);
        for at in wanted.copied().collect::<Vec<_>>() {
            self.dial(at, now);
        }
        for at in self.active.iter().copied().collect::<Vec<_>>() {
            match self.peers[at].session {
                Session::Connecting { since } if now.since(since) > CONNECT_WITHIN => {
                    self.session_down(at, now);
                }
                Session::Up => self.tend_session(at, now),
                _ => {}
            }
        }
        if now >= self.timers.next_search {
            self.search(now);
        }
    }

    fn tend_session(&mut self, at: usize, now: Instant) {
        let is_needed = self.ring.neighbours.contains(&at) || self.probing.targets.contains(&at);
        let Peer {
            is_ours,
            idle_since,
            ..
        } = &mut self.peers[at];
        if is_needed || !*is_ours {
            *idle_since = None;
            return;
        }
        if now.since(*idle_since.get_or_insert(now)) >= IDLE {
            let peer = &mut self.peers[at];
            peer.forget_session();
            peer.retry_at = now;
            self.active.remove(&at);
            let node = self.member_table.entry(at).node;
            self.outputs.push_back(Output::Disconnect(node));
        }
    }

    /// Tries one absent member. All live nodes together try each of them about every [`SEARCH`]; a node without live
    /// members tries ever more slowly.
    fn search(&mut self, now: Instant) {
        let absent: Vec<usize> = (0..self.member_table.len())
            .filter(|&at| {
                let entry = self.member_table.entry(at);
                let is_away = !entry.state.is_live() && !entry.is_barred;
                is_away && self.peers[at].session == Session::Down
            })
            .collect();
        let away = self.member_table.len() - self.member_table.live();
        let is_alone = self.member_table.live() <= 1;
        let gap = if is_alone {
            self.timers.search_gap = (self.timers.search_gap.mul_f64(1.5)).min(SEARCH);
            self.timers.search_gap
        } else {
            self.timers.search_gap = self.config.heartbeat;
            SEARCH
                .mul_f64(self.member_table.live() as f64 / away.max(1) as f64)
                .clamp(SEARCH / 4, Duration::from_secs(600))
        };
        self.timers.next_search = now + gap.mul_f64(self.random.uniform(0.5, 1.5));
        let seed = self
            .config
            .seeds
            .iter()
            .filter_map(|seed| self.member_table.find(seed))
            .find(|at| is_alone && absent.contains(at) && now >= self.peers[*at].retry_at);
        let pick = self.random.below(absent.len() as u64) as usize;
        if let Some(at) = seed.or_else(|| absent.get(pick).copied()) {
            self.dial(at, now);
        }
    }
}
