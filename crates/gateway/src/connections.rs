//! Connections of a gateway: their tasks, their number, and what they share.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

use crate::{credit::Pools, limits::CONNECTIONS_MAX, notice::Notices};

/// The connections of a gateway: their tasks and their number. Clones share them; they end when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    places: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
    pools: Pools,
    notices: Notices,
}

/// Reference to connections that does not keep them; for their own tasks.
#[derive(Clone, Debug)]
pub(crate) struct WeakConnections(Weak<Shared>);

impl WeakConnections {
    pub(crate) fn upgrade(&self) -> Option<Connections> {
        self.0.upgrade().map(Connections)
    }
}

impl Connections {
    pub(crate) fn downgrade(&self) -> WeakConnections {
        WeakConnections(Arc::downgrade(&self.0))
    }

    /// No connections yet.
    pub fn new(notices: Notices) -> Self {
        Self::sharing(notices, Pools::default())
    }

    /// As [`Connections::new`], with the windows of sessions that others use, too.
    pub(crate) fn sharing(notices: Notices, pools: Pools) -> Self {
        Self(Arc::new(Shared {
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            tasks: Mutex::default(),
            pools,
            notices,
        }))
    }

    /// Connections and flows at present.
    pub fn count(&self) -> usize {
        CONNECTIONS_MAX - self.0.places.available_permits()
    }

    pub(crate) fn notices(&self) -> &Notices {
        &self.0.notices
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.0.pools
    }

    /// Waits for a place.
    pub(crate) async fn place(&self) -> OwnedSemaphorePermit {
        let place = self.0.places.clone().acquire_owned().await;
        place.expect("the semaphore is not closed")
    }

    /// Waits until there is a place, without taking it: no connection is accepted that would wait for one.
    pub(crate) async fn room(&self) {
        drop(self.place().await);
    }

    pub(crate) fn try_place(&self) -> Option<OwnedSemaphorePermit> {
        self.0.places.clone().try_acquire_owned().ok()
    }

    /// Runs a connection. It must not hold these connections, which would never end.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}
