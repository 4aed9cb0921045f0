//! Allow-list: the nodes that may open channels here, and what other nodes may do.

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
/// An engine follows changes: it closes what was opened by keys that are no longer allowed.
#[derive(Clone, Debug, Default)]
pub struct AllowList(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    allowed: RwLock<Allowed>,
    /// Number of changes, so that a follower need not compare the list.
    changes: AtomicU64,
}

#[derive(Debug, Default)]
struct Allowed {
    nodes: BTreeSet<NodeId>,
    strangers: Strangers,
}

/// Treatment of nodes that are not on the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Strangers {
    #[default]
    Refused,
    /// Accepted, with tight limits until the application reports that they have shown their right.
    Probation,
    /// Treated as if they were listed.
    Listed,
}

/// Access of a node that may open channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is on the list.
    Listed,
    /// It is accepted because every node is, and has shown no right yet.
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

    /// A list that admits every node that proves possession of its key; for receivers whose tickets carry a secret of
    /// their own. Sessions of nodes that are not also listed begin on probation.
    pub fn everyone() -> Self {
        let list = Self::default();
        list.change(|allowed| allowed.strangers = Strangers::Probation);
        list
    }

    /// A list on which every node counts as listed: no probation, no protection from strangers. For experiments, and
    /// for networks without strangers.
    pub fn everyone_listed() -> Self {
        let list = Self::default();
        list.change(|allowed| allowed.strangers = Strangers::Listed);
        list
    }

    /// Admits nodes that are not listed, on probation as by [`Self::everyone`], or refuses them from now on. What they opened is
    /// closed as by [`Self::remove`].
    pub fn admit_strangers(&self, admits: bool) {
        self.change(|allowed| {
            allowed.strangers = match admits {
                true => Strangers::Probation,
                false => Strangers::Refused,
            };
        });
    }

    /// Admits `node` from now on.
    pub fn add(&self, node: NodeId) {
        self.change(|allowed| allowed.nodes.insert(node));
    }

    /// Takes `node` off the list. What it opened is closed at the engine's next check: with the next packet or timer,
    /// or at once if the host is asked to check.
    pub fn remove(&self, node: &NodeId) {
        self.change(|allowed| allowed.nodes.remove(node));
    }

    /// True if `node` may open channels.
    pub fn contains(&self, node: &NodeId) -> bool {
        self.access(node).is_some()
    }

    /// Access of `node`; `None`: it may not open channels.
    pub fn access(&self, node: &NodeId) -> Option<Access> {
        let allowed = self.0.allowed.read();
        // A poisoned list is still a valid list: no update leaves it incomplete.
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
    fn strangers_are_admitted_and_refused_again() {
        let [listed, other] = [1, 2].map(|seed| SecretKey::from_seed([seed; 32]).node_id());
        let list = AllowList::of([listed]);
        let before = list.changes();
        list.admit_strangers(true);
        assert_eq!(list.access(&other), Some(Access::Stranger));
        assert_eq!(list.access(&listed), Some(Access::Listed));
        list.admit_strangers(false);
        assert_eq!(list.access(&other), None);
        assert_eq!(list.changes(), before + 2);
    }

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
