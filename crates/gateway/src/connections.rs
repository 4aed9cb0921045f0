//! Connections of a gateway: their tasks, their number, and what they share.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use anabranch::{
    Session,
    daemon::{FlowReport, FlowReports, RuleReport},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

use crate::{
    credit::{Pool, Pools},
    limits::{CONNECTIONS_MAX, Timeouts},
    notice::Notices,
    outage::{Outage, Outages},
    register::Register,
    rules::Rules,
};

/// Shared state of the flows of a gateway. Clones share it; a task of a flow may hold one.
#[derive(Clone, Debug)]
pub(crate) struct Means {
    pub(crate) notices: Notices,
    pub(crate) pools: Pools,
    pub(crate) outages: Outages,
    pub(crate) rules: Rules,
    pub(crate) register: Register,
    pub(crate) timeouts: Timeouts,
}

impl Means {
    /// With these notices, and nothing yet.
    pub(crate) fn new(notices: Notices) -> Self {
        Self {
            notices,
            pools: Pools::default(),
            outages: Outages::default(),
            rules: Rules::default(),
            register: Register::default(),
            timeouts: Timeouts::default(),
        }
    }
}

/// State that the connections of a session share. Clones share it; it does not keep the session open.
#[derive(Clone, Debug)]
pub(crate) struct OfSession {
    pub(crate) pool: Pool,
    pub(crate) outage: Outage,
}

impl Means {
    /// Means that the connections of a session share. Must be called within a runtime.
    pub(crate) fn of(&self, session: &Session) -> OfSession {
        OfSession {
            pool: self.pools.of(session.id()),
            outage: self.outages.of(session, &self.timeouts, &self.notices),
        }
    }
}

/// The connections of a gateway: their tasks and their number. Clones share them; they end when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    places: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
    means: Means,
}

/// Reference to connections that does not keep them; for their own tasks.
#[derive(Clone, Debug)]
pub(crate) struct WeakConnections(Weak<Shared>);

impl WeakConnections {
    pub(crate) fn upgrade(&self) -> Option<Connections> {
        self.0.upgrade().map(Connections)
    }
}

impl FlowReports for Connections {
    fn flows(&self) -> Vec<FlowReport> {
        self.means().register.report()
    }

    fn rules(&self) -> Vec<RuleReport> {
        self.rules().report()
    }
}

impl Connections {
    pub(crate) fn downgrade(&self) -> WeakConnections {
        WeakConnections(Arc::downgrade(&self.0))
    }

    /// No connections yet.
    pub fn new(notices: Notices) -> Self {
        Self::with(Means::new(notices))
    }

    /// No connections yet, with what others use, too.
    pub(crate) fn with(means: Means) -> Self {
        Self(Arc::new(Shared {
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            tasks: Mutex::default(),
            means,
        }))
    }

    /// Connections and flows at present.
    pub fn count(&self) -> usize {
        CONNECTIONS_MAX - self.0.places.available_permits()
    }

    /// The rules for flows.
    pub fn rules(&self) -> &Rules {
        &self.0.means.rules
    }

    /// The timeouts of new connections and of flows.
    pub fn timeouts(&self) -> &Timeouts {
        &self.0.means.timeouts
    }

    pub(crate) fn means(&self) -> &Means {
        &self.0.means
    }

    pub(crate) fn notices(&self) -> &Notices {
        &self.0.means.notices
    }

    /// Waits for a place.
    pub(crate) async fn place(&self) -> OwnedSemaphorePermit {
        let place = self.0.places.clone().acquire_owned().await;
        place.expect("the semaphore is not closed")
    }

    /// Waits until there is a place, without taking it: no connection is accepted that would wait for one.
    pub(crate) async fn available(&self) {
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
