//! Rights in force: one table, replaced as a whole.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anabranch_base::NodeId;
use tokio::sync::watch;

use super::{Right, Table, Terms};

/// The table in force, and what was refused by it. Clones share both.
#[derive(Clone, Debug)]
pub struct Rights {
    table: Arc<watch::Sender<Arc<Table>>>,
    /// Requests refused, in the order of [`Right::ALL`].
    refused: Arc<[AtomicU64; Right::ALL.len()]>,
}

impl Default for Rights {
    fn default() -> Self {
        Self::new(Table::default())
    }
}

impl Rights {
    /// Applies this table.
    pub fn new(table: Table) -> Self {
        Self {
            table: Arc::new(watch::Sender::new(Arc::new(table))),
            refused: Arc::default(),
        }
    }

    /// These nodes have this right, and no node has any other.
    pub fn only(right: Right, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut table = Table::default();
        for node in nodes {
            table.give(node, right, Terms::default());
        }
        Self::new(table)
    }

    /// The table in force now.
    pub fn table(&self) -> Arc<Table> {
        self.table.borrow().clone()
    }

    /// True if the node has the right now.
    pub fn may(&self, node: &NodeId, right: Right) -> bool {
        self.table.borrow().may(node, right)
    }

    /// Terms on which the node has the right now; `None`: it does not have it.
    pub fn terms(&self, node: &NodeId, right: Right) -> Option<Terms> {
        self.table.borrow().terms(node, right).cloned()
    }

    /// Applies another table, atomically for all readers, and returns the previous one.
    pub fn replace(&self, table: Table) -> Arc<Table> {
        self.table.send_replace(Arc::new(table))
    }

    /// Waits until `holds` is false of the table in force; returns at once if it already is.
    pub async fn until_not(&self, mut holds: impl FnMut(&Table) -> bool) {
        let mut tables = self.table.subscribe();
        // This handle keeps the sender, so the channel is not closed.
        let _ = tables.wait_for(|table| !holds(table)).await;
    }

    /// Receiver that is notified of every table that comes into force after this call.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<Table>> {
        self.table.subscribe()
    }

    /// Counts a request that was refused because its node lacks the right, or has it for other things; for who enforces it.
    pub fn note_refused(&self, right: Right) {
        let place = Right::ALL.iter().position(|one| *one == right);
        if let Some(count) = place.and_then(|place| self.refused.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests refused so far, by right.
    pub fn refused(&self) -> impl Iterator<Item = (Right, u64)> + '_ {
        let counts = self.refused.iter();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        Right::ALL.into_iter().zip(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_right_and_outlive_the_table() {
        let rights = Rights::default();
        let clone = rights.clone();
        for right in [Right::Tunnel, Right::ReadExport, Right::Tunnel] {
            clone.note_refused(right);
        }
        rights.replace(Table::default());
        let counted: Vec<_> = rights.refused().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(Right::Tunnel, 2), (Right::ReadExport, 1)]);
        assert_eq!(rights.refused().count(), Right::ALL.len());
    }

    #[tokio::test]
    async fn waiting_tasks_are_notified_when_the_right_is_withdrawn() {
        let node = NodeId::from_public_key([1; 32]);
        let rights = Rights::only(Right::Call, [node]);
        let waiting = {
            let rights = rights.clone();
            tokio::spawn(async move {
                rights
                    .until_not(|table| table.may(&node, Right::Call))
                    .await;
            })
        };
        let mut more = (*rights.table()).clone();
        more.give(node, Right::SendFiles, Terms::into_folder("ship"));
        rights.replace(more);
        assert_eq!(
            rights.terms(&node, Right::SendFiles),
            Some(Terms::into_folder("ship"))
        );
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "the right is still in force");
        rights.replace(Table::default());
        waiting.await.unwrap();
        assert!(!rights.may(&node, Right::SendFiles));
    }
}
