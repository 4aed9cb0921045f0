//! Dissemination of records and claims.
//!
//! A new record is pushed to neighbours at once, and a neighbour that had it already asks to be pruned (PRUNE). What
//! remains is a tree over which every record reaches every node about once [Leitão et al., "Epidemic Broadcast Trees",
//! 2007]. Losses and dead branches are repaired by summaries: every heartbeat carries one, and when two nodes'
//! summaries differ for longer than updates take to spread, one sends a digest, first of recent changes, then of
//! everything.

use std::time::Duration;

use anabranch_base::Instant;

use super::{Agent, Output};
use crate::wire::{Frame, MESSAGE_BYTES_MAX, ShortId, Want, frame::ENTRIES_MAX};

/// Age up to which changes are part of a short digest.
const LATELY: Duration = Duration::from_secs(20);
/// Least time between requests for the same record, to different members.
const WANT_AGAIN: Duration = Duration::from_secs(2);
const DIGEST_GAP: Duration = Duration::from_secs(1);
const DIGEST_GAP_MAX: Duration = Duration::from_secs(30);
/// Most messages of one digest.
const DIGEST_MESSAGES: usize = 16;
/// Most differing entries for which a digest is answered with records rather than with a digest.
const FEW: usize = 3;

impl Agent {
    /// Queues a frame for the next flush.
    pub(super) fn queue(&mut self, to: usize, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        self.queue_bytes(to, bytes);
    }

    pub(super) fn queue_bytes(&mut self, to: usize, bytes: Vec<u8>) {
        if self.peers[to].is_up() {
            self.peers[to].pending.push(bytes);
            self.unsent.push(to);
        }
    }

    /// Hands queued messages to the host.
    pub(super) fn flush(&mut self) {
        for at in std::mem::take(&mut self.unsent) {
            for bytes in self.peers[at].messages() {
                let to = self.member_table.entry(at).node;
                self.outputs.push_back(Output::Send { to, bytes });
            }
        }
    }

    /// Pushes the record of member `at` along the tree, except back to `from`.
    pub(super) fn push_record(&mut self, at: usize, from: Option<usize>, now: Instant) {
        let Some(bytes) = self.push_record_of(at, now, true) else {
            return;
        };
        self.push_along(&bytes, at, from);
        self.push_load(at, from);
    }

    /// Pushes the load of member `at`, if it has one, along the tree, except back to `from`.
    pub(super) fn push_load(&mut self, at: usize, from: Option<usize>) {
        if let Some(bytes) = self.load_frame_of(at) {
            self.push_along(&bytes, at, from);
        }
    }

    fn push_along(&mut self, bytes: &[u8], at: usize, from: Option<usize>) {
        for to in self.active.iter().copied().collect::<Vec<_>>() {
            if self.peers[to].is_eager && Some(to) != from && to != at {
                self.queue_bytes(to, bytes.to_vec());
            }
        }
    }

    /// Pushes the claim against member `at` to all neighbours: claims are rare, short and urgent.
    pub(super) fn push_claim(&mut self, at: usize, from: Option<usize>) {
        let Some(bytes) = self.claim_frame_of(at) else {
            return;
        };
        for to in self.active.iter().copied().collect::<Vec<_>>() {
            if self.peers[to].is_gossip && Some(to) != from {
                self.queue_bytes(to, bytes.clone());
            }
        }
    }

    /// Compares the summary in a neighbour's heartbeat with ours, and sends a digest if they keep differing.
    pub(super) fn compare_summary(&mut self, with: usize, summary: u32, now: Instant) {
        let own = self.member_table.summary();
        let peer = &mut self.peers[with];
        if summary == own {
            peer.digests.mismatches = 0;
            peer.digests.gap = Duration::ZERO;
            return;
        }
        peer.digests.mismatches += 1;
        let is_fresh = peer.digests.gap.is_zero() && peer.digests.next_at == Instant::EPOCH;
        let may_wait = !is_fresh && peer.digests.mismatches < 2;
        if may_wait || now < peer.digests.next_at || now < self.timers.next_digest {
            return;
        }
        let is_short = !is_fresh && peer.digests.mismatches < 4;
        peer.digests.gap = (peer.digests.gap * 2).clamp(DIGEST_GAP, DIGEST_GAP_MAX);
        peer.digests.next_at = now + peer.digests.gap;
        self.timers.next_digest = now + DIGEST_GAP / 2;
        if is_short {
            self.send_recent(with, now);
        } else {
            self.send_digest(with);
        }
    }

    fn send_recent(&mut self, to: usize, now: Instant) {
        let recent = |at: &usize| {
            let entry = self.member_table.entry(*at);
            entry.record.is_some() && now.since(entry.changed_at) < LATELY
        };
        let members: Vec<usize> = (0..self.member_table.len())
            .filter(recent)
            .take(ENTRIES_MAX)
            .collect();
        if !members.is_empty() {
            self.send_some(to, &members);
        }
    }

    /// Sends a digest of the given members, ascending, that covers no others.
    fn send_some(&mut self, to: usize, members: &[usize]) {
        for members in members.chunks(ENTRIES_MAX / 2) {
            let entries = self.member_table.digest_of(members.iter().copied());
            let frame = Frame::Digest {
                from: ShortId::LAST,
                to: ShortId::FIRST,
                entries,
            };
            self.queue(to, &frame);
        }
    }

    /// Sends a digest of all members.
    pub(super) fn send_digest(&mut self, to: usize) {
        let mut at = 0;
        let mut from = ShortId::FIRST;
        for _ in 0..DIGEST_MESSAGES {
            let (entries, next) = self.member_table.digest(at, MESSAGE_BYTES_MAX - 40);
            let is_last = next >= self.member_table.len();
            let last = entries.last().map_or(from, |entry| entry.id);
            let until = if is_last { ShortId::LAST } else { last };
            let frame = Frame::Digest {
                from,
                to: until,
                entries,
            };
            self.queue(to, &frame);
            if is_last {
                return;
            }
            (at, from) = (next, self.member_table.entry(next).short);
        }
    }

    /// Answers a digest: requests what is newer there, and sends what is newer here.
    pub(super) fn receive_digest(
        &mut self,
        from: usize,
        covers: (ShortId, ShortId),
        entries: &[crate::wire::DigestEntry],
        now: Instant,
    ) {
        let mut wants = Vec::new();
        let mut newer_here = Vec::new();
        for entry in entries {
            let Some(at) = self.member_table.find_short(entry.id) else {
                self.refused.strangers += 1;
                continue;
            };
            let own = self.member_table.entry(at);
            let is_newer = own.record.is_none() || entry.version > own.version;
            let is_older = own.record.is_some() && entry.version < own.version;
            let want = if is_newer {
                Some(Want::Record)
            } else if !is_older && entry.is_accused && own.claim.is_none() {
                Some(Want::Claim)
            } else {
                if is_older || own.claim.is_some() && !entry.is_accused {
                    newer_here.push(at);
                }
                None
            };
            let is_wanted = self.peers[at]
                .wanted_at
                .is_some_and(|at| now.since(at) < WANT_AGAIN);
            if let Some(want) = want.filter(|_| !is_wanted && wants.len() < ENTRIES_MAX) {
                self.peers[at].wanted_at = Some(now);
                wants.push((entry.id, want));
            }
        }
        let (lowest, highest) = covers;
        if lowest <= highest {
            let silent = (0..self.member_table.len()).filter(|&at| {
                let own = self.member_table.entry(at);
                own.record.is_some()
                    && (lowest..=highest).contains(&own.short)
                    && entries
                        .binary_search_by(|entry| entry.id.cmp(&own.short))
                        .is_err()
            });
            newer_here.extend(silent);
            newer_here.sort_unstable();
        }
        if !wants.is_empty() {
            // Records that come late along the tree may come sooner along this branch.
            self.peers[from].is_eager |= self.peers[from].is_gossip;
            self.queue(from, &Frame::Want(wants));
        }
        if newer_here.len() <= FEW {
            for at in newer_here {
                self.serve(from, at, Want::Record, now);
            }
        } else {
            self.send_some(from, &newer_here);
        }
    }

    /// Sends `to` what it wants of member `at`.
    pub(super) fn serve(&mut self, to: usize, at: usize, want: Want, now: Instant) {
        if !self.peers[to].served.take(now) {
            self.refused.excess += 1;
            return;
        }
        if want == Want::Record
            && let Some(bytes) = self.push_record_of(at, now, false)
        {
            self.queue_bytes(to, bytes);
            if let Some(load) = self.load_frame_of(at) {
                self.queue_bytes(to, load);
            }
        }
        if let Some(bytes) = self.claim_frame_of(at) {
            self.queue_bytes(to, bytes);
        }
    }
}
