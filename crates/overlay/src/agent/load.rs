//! Loads of nodes that process streams: this node's own, published with its record, and those of others.

use std::time::Duration;

use anabranch_base::Instant;

use super::Agent;
use crate::wire::{DecodeError, Load, LoadOf, load};

/// Least time between two records that are published because of the load.
const LOAD_GAP: Duration = Duration::from_secs(10);

/// Load of this node.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnLoad {
    current: Option<Load>,
    published: Option<Load>,
    /// True if a record is due because of the load.
    is_due: bool,
    /// Time at which a record was published because of the load, or with another load than the one before.
    changed_at: Option<Instant>,
}

impl OwnLoad {
    /// The load to publish with a record.
    pub(super) fn publish(&mut self, now: Instant) -> Option<Load> {
        if std::mem::take(&mut self.is_due) || self.published != self.current {
            self.changed_at = Some(now);
        }
        self.published = self.current;
        self.published
    }

    fn is_news(&self) -> bool {
        match (&self.current, &self.published) {
            (Some(current), Some(published)) => current.differs(published),
            (current, published) => current.is_some() != published.is_some(),
        }
    }

    /// Earliest time of the next record that is published because of the load.
    fn may_change_at(&self) -> Instant {
        self.changed_at.map_or(Instant::EPOCH, |at| at + LOAD_GAP)
    }
}

impl Agent {
    /// Sets the load of this node; `None`: it processes no streams. It goes with every record of the node. A change that
    /// [differs](Load::differs) from what was published causes a record, at most one in ten seconds.
    pub fn set_load(&mut self, load: Option<Load>, now: Instant) {
        if self.has_left {
            return;
        }
        self.own.load.current = load.map(|load| load.rounded());
        if self.own.load.is_news() {
            self.own.load.is_due = true;
            self.publish_not_before(self.own.load.may_change_at());
            self.publish_if_due(now);
        }
        self.settle(now);
    }

    /// Takes the load that belongs to the present record of a member, and passes it on.
    pub(super) fn receive_load(
        &mut self,
        from: usize,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), DecodeError> {
        let LoadOf {
            origin, version, ..
        } = LoadOf::decode(bytes)?;
        let Some(at) = self.member_table.find_short(origin) else {
            self.refused.strangers += 1;
            return Ok(());
        };
        let entry = self.member_table.entry(at);
        if entry.record.is_none() || entry.version != version {
            self.refused.stale += u64::from(version < entry.version);
            return Ok(());
        }
        if at == self.member_table.me || entry.load.is_some() {
            return Ok(());
        }
        if !self.peers[from].credit.take(now) {
            self.refused.excess += 1;
            return Ok(());
        }
        let node = self.member_table.entry(at).node;
        if !load::verify(&*self.keys, &node, bytes) {
            self.refused.forged += 1;
            return Ok(());
        }
        self.member_table.take_load(at, bytes);
        self.push_load(at, Some(from));
        Ok(())
    }
}
