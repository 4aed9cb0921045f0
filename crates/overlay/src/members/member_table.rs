//! Member table of a node.
//!
//! A member's state follows from signed statements alone: its own record makes it alive, a claim against the version of
//! that record makes it suspect, and the lack of a newer record in time makes it down. So a statement that arrives
//! late, twice or out of order changes nothing, and all nodes that hold the same statements agree.

use std::time::Duration;

use anabranch_base::{Instant, NodeId};

use super::{moves::Moves, ring::Ring};
use crate::{
    config::{ConfigError, MEMBERS_MAX, Member},
    wire::{DigestEntry, Load, LoadOf, Record, ShortId},
};

/// State of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// On the list, but no record received.
    Unknown,
    /// Its record is valid.
    Alive,
    /// Claimed to be silent; has not answered yet.
    Suspect,
    /// Claimed to be silent; did not answer in time.
    Down,
    /// It has left.
    Left,
}

impl State {
    /// True if the member counts as part of the overlay.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Alive | Self::Suspect)
    }
}

/// Outcome of a record or claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is new and should be added to the table.
    New,
    /// The table holds it already.
    Known,
    /// The table holds something newer.
    Stale,
}

/// Entry of one member.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) node: NodeId,
    pub(crate) short: ShortId,
    pub(crate) state: State,
    /// True if the member is ignored, regardless of its records ([`crate::Agent::set_barred`]).
    pub(crate) is_barred: bool,
    /// Version of its record; 0 and no record when unknown.
    pub(crate) version: u64,
    /// Signed record, as transmitted.
    pub(crate) record: Option<Box<[u8]>>,
    /// Signed load that belongs to the record, as transmitted; `None`: the member publishes none, or it has not come.
    pub(crate) load: Option<Box<[u8]>>,
    /// Time at which the record was signed, by this node's clock, as reported by the nodes that passed it on.
    pub(crate) signed_at: Instant,
    /// Age of the record beyond the start of this node's clock.
    pub(crate) signed_before: Duration,
    /// Signed claim against `version`, as transmitted.
    pub(crate) claim: Option<Box<[u8]>>,
    /// Time at which the claim was accepted.
    pub(crate) claimed_at: Instant,
    /// Time at which the version or claim changed.
    pub(crate) changed_at: Instant,
}

impl Entry {
    /// Time since the record was signed.
    pub(crate) fn held(&self, now: Instant) -> Duration {
        now.since(self.signed_at).saturating_add(self.signed_before)
    }

    /// The load that belongs to the record, while the member counts as part of the overlay.
    pub(crate) fn load(&self) -> Option<Load> {
        let bytes = self.load.as_ref().filter(|_| self.state.is_live())?;
        LoadOf::decode(bytes).ok().map(|of| of.load)
    }

    fn digest(&self) -> DigestEntry {
        DigestEntry {
            id: self.short,
            version: self.version,
            is_accused: self.claim.is_some(),
        }
    }
}

/// All members, this node included, in the order of their keys. Bounded by the list.
#[derive(Debug, Clone)]
pub(crate) struct MemberTable {
    entries: Vec<Entry>,
    pub(crate) me: usize,
    pub(crate) ring: Ring,
    summary: u32,
    live: usize,
    /// Members whose state may have changed since the last [`Self::take_changed`].
    changed: Vec<usize>,
    /// Members in [`State::Suspect`].
    suspects: usize,
}

impl MemberTable {
    pub(crate) fn new(me: NodeId, members: &[Member]) -> Result<Self, ConfigError> {
        let mut nodes: Vec<NodeId> = members.iter().map(|member| member.node).collect();
        nodes.push(me);
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() > MEMBERS_MAX {
            return Err(ConfigError::Range {
                field: "members",
                value: nodes.len().to_string(),
                range: "at most 4096",
            });
        }
        let alike = nodes
            .windows(2)
            .find(|pair| ShortId::of(&pair[0]) == ShortId::of(&pair[1]));
        if let Some(pair) = alike {
            return Err(ConfigError::Alike(Box::new(pair[0]), Box::new(pair[1])));
        }
        let me_at = nodes.binary_search(&me).unwrap_or_default();
        let ring = Ring::new(&nodes);
        let entries = nodes
            .into_iter()
            .map(|node| Entry {
                node,
                short: ShortId::of(&node),
                state: State::Unknown,
                is_barred: false,
                version: 0,
                record: None,
                load: None,
                signed_at: Instant::EPOCH,
                signed_before: Duration::ZERO,
                claim: None,
                claimed_at: Instant::EPOCH,
                changed_at: Instant::EPOCH,
            })
            .collect();
        Ok(Self {
            entries,
            me: me_at,
            ring,
            summary: 0,
            live: 0,
            changed: Vec::new(),
            suspects: 0,
        })
    }

    /// Takes over the state of the members that are also in `before`, and returns their places. The others are unknown, and changes
    /// of the members that stay are reported again.
    pub(crate) fn succeed(&mut self, before: Self) -> Moves {
        let entries = before.entries.iter();
        let moves = Moves(entries.map(|entry| self.find(&entry.node)).collect());
        for (at, entry) in before.entries.into_iter().enumerate() {
            if let Some(now) = moves.of(at) {
                self.entries[now] = entry;
            }
        }
        let all = || self.entries.iter();
        let summary = all().fold(0, |sum: u32, entry| sum.wrapping_add(fingerprint(entry)));
        let live = all().filter(|entry| entry.state.is_live()).count();
        let suspects = all().filter(|entry| entry.state == State::Suspect).count();
        (self.summary, self.live, self.suspects) = (summary, live, suspects);
        self.changed = before.changed;
        moves.apply(&mut self.changed);
        moves
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Members that count as part of the overlay, this node included.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    pub(crate) fn entry(&self, at: usize) -> &Entry {
        &self.entries[at]
    }

    /// O(log n).
    pub(crate) fn find(&self, node: &NodeId) -> Option<usize> {
        self.entries
            .binary_search_by(|entry| entry.node.cmp(node))
            .ok()
    }

    /// O(log n).
    pub(crate) fn find_short(&self, short: ShortId) -> Option<usize> {
        self.entries
            .binary_search_by(|entry| entry.short.cmp(&short))
            .ok()
    }

    /// Summary of the table: equal at two nodes that hold the same versions and accusations.
    pub(crate) fn summary(&self) -> u32 {
        self.summary
    }

    /// Verdict on a record of `version` of member `at`.
    pub(crate) fn judge_record(&self, at: usize, version: u64) -> Verdict {
        let entry = &self.entries[at];
        match (&entry.record, version.cmp(&entry.version)) {
            (None, _) | (_, std::cmp::Ordering::Greater) => Verdict::New,
            (_, std::cmp::Ordering::Equal) => Verdict::Known,
            (_, std::cmp::Ordering::Less) => Verdict::Stale,
        }
    }

    /// Verdict on a claim against `version` of member `at`. A claim about a version that this
    /// node does not hold (yet) is stale.
    pub(crate) fn judge_claim(&self, at: usize, version: u64) -> Verdict {
        let entry = &self.entries[at];
        if entry.record.is_none() || entry.version != version || entry.state == State::Left {
            Verdict::Stale
        } else if entry.claim.is_some() {
            Verdict::Known
        } else {
            Verdict::New
        }
    }

    /// Stores a verified record that [`Self::judge_record`] calls new.
    pub(crate) fn take_record(
        &mut self,
        at: usize,
        record: &Record,
        bytes: &[u8],
        held: Duration,
        now: Instant,
    ) {
        self.change(at, now, |entry| {
            entry.version = record.version;
            entry.record = Some(bytes.into());
            entry.load = None;
            entry.signed_at = now - held;
            entry.signed_before = held.saturating_sub(now.since_epoch());
            entry.claim = None;
            entry.state = if record.leaving || entry.is_barred {
                State::Left
            } else {
                State::Alive
            };
        });
    }

    /// Stores the verified load that belongs to the present record.
    pub(crate) fn take_load(&mut self, at: usize, bytes: &[u8]) {
        self.entries[at].load = Some(bytes.into());
    }

    /// Stores a verified claim that [`Self::judge_claim`] calls new.
    pub(crate) fn take_claim(&mut self, at: usize, bytes: &[u8], now: Instant) {
        self.change(at, now, |entry| {
            entry.claim = Some(bytes.into());
            entry.claimed_at = now;
            entry.state = State::Suspect;
        });
    }

    /// Sets whether a member is barred: it counts as gone, or may come back.
    pub(crate) fn set_barred(&mut self, at: usize, is_barred: bool, now: Instant) {
        self.change(at, now, |entry| {
            entry.is_barred = is_barred;
            if is_barred && entry.record.is_some() {
                entry.state = State::Left;
            }
        });
    }

    /// Marks as down the suspects that did not answer within `down_after`.
    pub(crate) fn expire(&mut self, down_after: Duration, now: Instant) {
        if self.suspects == 0 {
            return;
        }
        for (at, entry) in self.entries.iter_mut().enumerate() {
            if entry.state == State::Suspect && now.since(entry.claimed_at) >= down_after {
                entry.state = State::Down;
                self.live -= 1;
                self.suspects -= 1;
                self.changed.push(at);
            }
        }
    }

    /// Takes the members whose state may have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.changed)
    }

    /// Digest entries of members `from..` that have records, as many as fit into `bytes`, and the index at which to
    /// continue.
    pub(crate) fn digest(&self, from: usize, bytes: usize) -> (Vec<DigestEntry>, usize) {
        let mut space = bytes;
        let mut entries = Vec::new();
        for (at, entry) in self.entries.iter().enumerate().skip(from) {
            if entry.record.is_none() {
                continue;
            }
            let entry = entry.digest();
            let size = crate::wire::frame::entry_bytes(&entry);
            if size > space || entries.len() == crate::wire::frame::ENTRIES_MAX {
                return (entries, at);
            }
            space -= size;
            entries.push(entry);
        }
        (entries, self.entries.len())
    }

    /// Digest entries of the given members, in their order.
    pub(crate) fn digest_of(&self, members: impl Iterator<Item = usize>) -> Vec<DigestEntry> {
        members.map(|at| self.entries[at].digest()).collect()
    }

    fn change(&mut self, at: usize, now: Instant, change: impl FnOnce(&mut Entry)) {
        let entry = &mut self.entries[at];
        self.summary = self.summary.wrapping_sub(fingerprint(entry));
        let before = entry.state;
        change(entry);
        entry.changed_at = now;
        self.summary = self.summary.wrapping_add(fingerprint(entry));
        self.live = self.live + usize::from(entry.state.is_live()) - usize::from(before.is_live());
        let is_suspect = |state| usize::from(state == State::Suspect);
        self.suspects = self.suspects + is_suspect(entry.state) - is_suspect(before);
        self.changed.push(at);
    }
}

/// Contribution of an entry to the summary; 0 without a record.
fn fingerprint(entry: &Entry) -> u32 {
    if entry.record.is_none() {
        return 0;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let version = (entry.version * 2 + u64::from(entry.claim.is_some())).to_be_bytes();
    for &byte in entry.short.0.iter().chain(&version) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    (hash >> 32) as u32
}
