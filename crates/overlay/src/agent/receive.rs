//! Messages from members, frame by frame.

use std::time::Duration;

use anabranch_base::Instant;

use super::{Agent, publish::is_change};
use crate::{
    members::{State, Verdict},
    wire::{Claim, DecodeError, Frame, Reader, Record, ShortId, Want, claim, record},
};

impl Agent {
    /// Handles a message of member `from`, up to its end or the first malformed frame.
    pub(super) fn receive(&mut self, from: usize, message: &[u8], now: Instant) {
        self.peers[from].last_received_at = Some(now);
        if self.read_frames(from, message, now).is_err() {
            self.refused.malformed += 1;
        }
    }

    fn read_frames(
        &mut self,
        from: usize,
        message: &[u8],
        now: Instant,
    ) -> Result<(), DecodeError> {
        let mut reader = Reader::new(message)?;
        while let Some(frame) = reader.next_frame()? {
            match frame {
                Frame::Heartbeat { summary } => {
                    self.begin_gossip(from, now);
                    self.compare_summary(from, summary, now);
                }
                Frame::Record {
                    held,
                    is_pushed,
                    bytes,
                } => self.receive_record(from, held, is_pushed, bytes, now)?,
                Frame::Claim { bytes } => self.receive_claim(from, bytes, now)?,
                Frame::Digest {
                    from: lowest,
                    to,
                    entries,
                } => self.receive_digest(from, (lowest, to), &entries, now),
                Frame::Want(wants) => self.receive_wants(from, &wants, now),
                Frame::Prune => self.peers[from].is_eager = false,
                Frame::Interest(ids) => self.receive_interest(from, &ids, now),
                Frame::Load { bytes } => self.receive_load(from, bytes, now)?,
            }
        }
        Ok(())
    }

    fn receive_record(
        &mut self,
        from: usize,
        held: Duration,
        is_pushed: bool,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), DecodeError> {
        let (origin, version) = record::peek(bytes)?;
        let Some(at) = self.member_table.find_short(origin) else {
            self.refused.strangers += 1;
            return Ok(());
        };
        match self.member_table.judge_record(at, version) {
            Verdict::New => {}
            // A record of this node with its present version, but different content: it is from an earlier run.
            Verdict::Known if at == self.member_table.me => {
                let is_same = self.member_table.entry(at).record.as_deref() == Some(bytes);
                if is_same || !self.check(from, at, bytes, now) {
                    return Ok(());
                }
            }
            Verdict::Known => {
                if is_pushed && self.peers[from].is_gossip {
                    self.prune(from);
                }
                return Ok(());
            }
            Verdict::Stale => {
                self.refused.stale += 1;
                if is_pushed {
                    self.serve(from, at, Want::Record, now);
                }
                return Ok(());
            }
        }
        if !self.check(from, at, bytes, now) {
            return Ok(());
        }
        if at == self.member_table.me {
            self.answer(version, now);
            return Ok(());
        }
        let Ok(record) = Record::decode(bytes) else {
            self.refused.absurd += 1;
            return Ok(());
        };
        self.note_answer(at, now);
        self.renew_trust(at, &record);
        self.paths_stale(false);
        self.member_table.take_record(at, &record, bytes, held, now);
        self.peers[at].wanted_at = None;
        if is_pushed {
            self.peers[from].is_eager |= self.peers[from].is_gossip;
        }
        self.push_record(at, Some(from), now);
        Ok(())
    }

    /// Restores the trust in a link about which its origin publishes a new value.
    fn renew_trust(&mut self, origin: usize, record: &Record) {
        let entry = self.member_table.entry(origin);
        let before = entry
            .record
            .as_ref()
            .and_then(|bytes| Record::decode(bytes).ok());
        for link in &record.links {
            let Some(to) = self.member_table.find_short(link.peer) else {
                self.refused.strangers += 1;
                continue;
            };
            let known = before.iter().flat_map(|record| &record.links);
            let mut known = known
                .filter(|known| known.peer == link.peer)
                .map(|known| known.bandwidth);
            let is_new = known
                .next_back()
                .is_none_or(|known| is_change(known, link.bandwidth, self.config.change));
            if is_new {
                self.trust.renew((origin, to));
            }
        }
    }

    /// True if the signature of a record is valid and `from` may still have signatures checked.
    fn check(&mut self, from: usize, origin: usize, bytes: &[u8], now: Instant) -> bool {
        if !self.peers[from].credit.take(now) {
            self.refused.excess += 1;
            return false;
        }
        let holds = record::verify(&*self.keys, &self.member_table.entry(origin).node, bytes);
        self.refused.forged += u64::from(!holds);
        holds
    }

    /// Member `at` sent a new record. If it answers an accusation at once, the accuser was wrong.
    fn note_answer(&mut self, at: usize, now: Instant) {
        let entry = self.member_table.entry(at);
        let (state, accuser) = (entry.state, entry.claim.as_deref().and_then(accuser_of));
        let Some(accuser) = accuser.and_then(|accuser| self.member_table.find_short(accuser))
        else {
            return;
        };
        if state == State::Suspect {
            self.peers[accuser].false_claims.add(now);
        }
        if accuser == self.member_table.me {
            self.peers[at].accusation.was_refuted(now);
        }
    }

    fn prune(&mut self, from: usize) {
        self.peers[from].is_eager = false;
        let mut bytes = Vec::new();
        Frame::Prune.write(&mut bytes);
        // Sent with the next message; one is enough.
        if self.peers[from].lazy.is_empty() {
            self.peers[from].lazy.push(bytes);
        }
    }

    fn receive_claim(
        &mut self,
        from: usize,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), DecodeError> {
        let claim = Claim::decode(bytes)?;
        let accuser = self.member_table.find_short(claim.accuser);
        let (Some(accuser), Some(target)) = (accuser, self.member_table.find_short(claim.target))
        else {
            self.refused.strangers += 1;
            // Whoever passed it on has the accuser on its list, and believes it.
            if claim.target == self.member_table.entry(self.member_table.me).short {
                self.answer_stranger(claim.version, now);
            }
            return Ok(());
        };
        match self.member_table.judge_claim(target, claim.version) {
            Verdict::New => {}
            Verdict::Known => return Ok(()),
            Verdict::Stale => {
                self.refused.stale += 1;
                return Ok(());
            }
        }
        // Claims about this node are always examined: others may believe them.
        let is_liar = self.peers[accuser].false_claims.is_too_many(now);
        if is_liar && target != self.member_table.me || !self.peers[from].credit.take(now) {
            self.refused.excess += 1;
            return Ok(());
        }
        if !claim::verify(&*self.keys, &self.member_table.entry(accuser).node, bytes) {
            self.refused.forged += 1;
            return Ok(());
        }
        if target == self.member_table.me {
            self.peers[accuser].false_claims.add(now);
            self.answer_claim(claim.version, is_liar, now);
            return Ok(());
        }
        self.member_table.take_claim(target, bytes, now);
        self.peers[target].wanted_at = None;
        self.push_claim(target, Some(from));
        Ok(())
    }

    fn receive_wants(&mut self, from: usize, wants: &[(ShortId, Want)], now: Instant) {
        for &(id, want) in wants {
            match self.member_table.find_short(id) {
                Some(at) => self.serve(from, at, want, now),
                None => self.refused.strangers += 1,
            }
        }
    }
}

fn accuser_of(claim: &[u8]) -> Option<ShortId> {
    Claim::decode(claim).ok().map(|claim| claim.accuser)
}
