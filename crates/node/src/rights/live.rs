//! Rights in force: one table, replaced as a whole.

use std::sync::Arc;

use anabranch_base::NodeId;
use tokio::sync::watch;

use super::{Right, Table, Terms};

/// The table in force. Clones share it.
#[derive(Clone, Debug)]
pub struct Rights(Arc<watch::Sender<Arc<Table>>>);

impl Default for Rights {
    fn default() -> Self {
        Self::new(Table::default())
    }
}

impl Rights {
    /// Applies this table.
    pub fn new(table: Table) -> Self {
        Self(Arc::new(watch::Sender::new(Arc::new(table))))
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
        self.0.borrow().clone()
    }

    /// True if the node has the right now.
    pub fn may(&self, node: &NodeId, right: Right) -> bool {
        self.0.borrow().may(node, right)
    }

    /// Terms on which the node has the right now; `None`: it does not have it.
    pub fn terms(&self, node: &NodeId, right: Right) -> Option<Terms> {
        self.0.borrow().terms(node, right).cloned()
    }

    /// Applies another table, atomically for all readers, and returns the previous one.
    pub fn replace(&self, table: Table) -> Arc<Table> {
        self.0.send_replace(Arc::new(table))
    }

    /// Waits until `holds` is false of the table in force; returns at once if it already is.
    pub async fn until_not(&self, mut holds: impl FnMut(&Table) -> bool) {
        let mut tables = self.0.subscribe();
        // This handle keeps the sender, so the channel is not closed.
        let _ = tables.wait_for(|table| !holds(table)).await;
    }

    /// Receiver that is notified of every table that comes into force after this call.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<Table>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
