//! The allow-list: nodes that may open channels here, and what strangers may do.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch_base::NodeId;

/// The nodes that may talk to this one; shared, and may change while channels are open.
///
/// An engine follows changes: it closes what keys opened that are no longer allowed.
#[derive(Clone, Debug, Default)]
pub struct AllowList(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    allowed: RwLock<Allowed>,
    /// Counts changes, so that who follows them need not look at the list.
    changes: AtomicU64,
}

#[derive(Debug, Default)]
struct Allowed {
    nodes: BTreeSet<NodeId>,
    strangers: Strangers,
}

/// Outcome of nodes that are not on the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Strangers {
    #[default]
    Refused,
    /// Let in, and held to little until the application says that they have shown their right.
    Probation,
    /// Treated as if they were listed.
    Listed,
}

/// How a node stands that may open channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is on the list.
    Listed,
    /// It is let in because everyone is, and has shown no right yet.
    Stranger,
}

impl AllowList {
    /// A list of exactly these nodes.
    pub fn of(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let list = Self::default();
        for node in nodes {
            list.add(node);
        }
        list
    }

    /// A list that admits every node that proves possession of its key; for receivers whose ticket
    /// carries a secret of its own. Sessions of nodes that are not listed besides begin on probation.
    pub fn everyone() -> Self {
        let list = Self::default();
        list.change(|allowed| allowed.strangers = Strangers::Probation);
        list
    }

    /// A list on which every node counts as listed: no probation, no protection from strangers. For experiments, and for
    /// networks on which there are none.
    pub fn everyone_listed() -> Self {
        let list = Self::default();
        list.change(|allowed| allowed.strangers = Strangers::Listed);
        list
    }

    /// Admits `node` from now on.
    pub fn add(&self, node: NodeId) {
        self.change(|allowed| allowed.nodes.insert(node));
    }

    /// Takes `node` off the list. What it opened is closed when the engine looks next: with the next packet or timer, at
    /// once where the host is asked to look.
    pub fn remove(&self, node: &NodeId) {
        self.change(|allowed| allowed.nodes.remove(node));
    }

    /// True if `node` may open channels.
    pub fn contains(&self, node: &NodeId) -> bool {
        self.access(node).is_some()
    }

    /// How `node` stands; `None`: it may not open channels.
    pub fn access(&self, node: &NodeId) -> Option<Access> {
        let allowed = self.0.allowed.read();
        // A poisoned list is still a valid list: no update leaves it half done.
        let allowed = allowed.unwrap_or_else(|poisoned| poisoned.into_inner());
        if allowed.nodes.contains(node) {
            return Some(Access::Listed);
        }
        match allowed.strangers {
            Strangers::Refused => None,
            Strangers::Probation => Some(Access::Stranger),
            Strangers::Listed => Some(Access::Listed),
        }
    }

    /// A number that differs from an earlier one if the list has changed since. Takes no lock.
    pub fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Allowed) -> T) {
        let allowed = self.0.allowed.write();
        let mut allowed = allowed.unwrap_or_else(|poisoned| poisoned.into_inner());
        change(&mut allowed);
        self.0.changes.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;

    #[test]
    fn listed_nodes_and_strangers_stand_apart() {
        let [listed, other] = [1, 2].map(|seed| SecretKey::from_seed([seed; 32]).node_id());
        let list = AllowList::of([listed]);
        assert_eq!(list.access(&listed), Some(Access::Listed));
        assert_eq!(list.access(&other), None);
        let open = AllowList::everyone();
        let before = open.changes();
        open.add(listed);
        assert_ne!(open.changes(), before);
        assert_eq!(open.access(&listed), Some(Access::Listed));
        assert_eq!(open.access(&other), Some(Access::Stranger));
        open.remove(&listed);
        assert_eq!(open.access(&listed), Some(Access::Stranger));
        let experiment = AllowList::everyone_listed();
        assert_eq!(experiment.access(&other), Some(Access::Listed));
    }
}
