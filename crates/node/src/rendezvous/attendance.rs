//! Attendance at a relay: a node is reached there by its id, for as long as it runs.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::NodeId;
use anabranch_net::Host;
use tokio::{
    task::{AbortHandle, JoinSet},
    time,
};

use super::{
    client::{Pairing, RendezvousError, Seat, open_translator},
    message::Refusal,
    via::Via,
};
use crate::codes::Line;

/// Time for the relay to answer at the start.
const ANSWER: Duration = Duration::from_secs(5);
/// First pause before the relay is asked again, doubled up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Time that a caller has to open a session. Each takes one of the few connections that a relay gives a node.
const SESSION: Duration = Duration::from_secs(30);

/// Judge of the nodes that may call.
type Wanted = Arc<dyn Fn(&NodeId) -> bool + Send + Sync>;

/// Presence of a node at a relay, where whoever knows its id and is wanted can call it, until this is dropped.
pub struct Attendance {
    failure: Arc<Mutex<Option<RendezvousError>>>,
    _keeping: JoinSet<()>,
}

impl fmt::Debug for Attendance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attendance").finish_non_exhaustive()
    }
}

impl Attendance {
    /// Attends at the relay, now or as soon as it answers.
    pub async fn start(
        host: &Host,
        via: &Via,
        is_wanted: impl Fn(&NodeId) -> bool + Send + Sync + 'static,
    ) -> Self {
        // That of the first address in its tickets.
        let port = host.addresses().first().map_or(0, SocketAddr::port);
        let (seat, failure) = match take(host, via, port).await {
            Ok(seat) => (Some(seat), None),
            Err(error) => (None, Some(error)),
        };
        let mut keeping = JoinSet::new();
        let failure = Arc::new(Mutex::new(failure));
        let keeper = Keeper {
            host: host.clone(),
            via: via.clone(),
            port,
            is_wanted: Arc::new(is_wanted),
            failure: failure.clone(),
        };
        keeping.spawn(keeper.keep(seat));
        Self {
            failure,
            _keeping: keeping,
        }
    }

    /// Reason for which the node cannot be reached at the relay now, with what is to be done; `None`: it can.
    pub fn failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().map(ToString::to_string)
    }

    /// True if the relay refuses this node, as it will again.
    pub fn is_refused(&self) -> bool {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*failure, Some(RendezvousError::Refused(refusal)) if *refusal != Refusal::Full)
    }
}

async fn take(host: &Host, via: &Via, port: u16) -> Result<Seat, RendezvousError> {
    let taking = time::timeout(ANSWER, Seat::take(host, via, port)).await;
    taking.unwrap_or(Err(RendezvousError::Silent(via.node)))
}

struct Keeper {
    host: Host,
    via: Via,
    port: u16,
    is_wanted: Wanted,
    failure: Arc<Mutex<Option<RendezvousError>>>,
}

impl Keeper {
    /// Attends again after each caller, and after each failure.
    async fn keep(self, mut seat: Option<Seat>) {
        let mut serving = JoinSet::new();
        let mut callers: BTreeMap<NodeId, AbortHandle> = BTreeMap::new();
        let mut pause = PAUSE_MIN;
        loop {
            let taken = match seat.take() {
                Some(seat) => Ok(seat),
                None => take(&self.host, &self.via, self.port).await,
            };
            let called = match taken {
                Ok(seat) => {
                    self.note(None);
                    pause = PAUSE_MIN;
                    seat.caller().await
                }
                Err(error) => Err(error),
            };
            match called {
                Ok(pairing) if (self.is_wanted)(&pairing.node) => {
                    callers.retain(|_, caller| !caller.is_finished());
                    let node = pairing.node;
                    let caller = serving.spawn(serve(self.host.clone(), pairing));
                    // One that calls again has given up the call before.
                    if let Some(before) = callers.insert(node, caller) {
                        before.abort();
                    }
                }
                Ok(pairing) => {
                    tracing::info!(node = %pairing.node, "a call at the relay by a node without a right");
                    time::sleep(pause).await;
                }
                Err(error) => {
                    self.note(Some(error));
                    time::sleep(pause).await;
                    pause = (2 * pause).min(PAUSE_MAX);
                }
            }
            while serving.try_join_next().is_some() {}
        }
    }

    fn note(&self, failure: Option<RendezvousError>) {
        let mut noted = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*noted, &failure) {
            (None, Some(error)) => {
                tracing::info!(relay = %self.via.node, %error, "not reachable at the relay");
            }
            (Some(_), None) => tracing::info!(relay = %self.via.node, "reachable at the relay"),
            _ => {}
        }
        *noted = failure;
    }
}

/// Lets a caller dial this node, and keeps the connection that a circuit to it needs.
async fn serve(host: Host, pairing: Pairing) {
    let opening = async {
        let opening = open_translator(&host, pairing.node, &pairing.addresses);
        tokio::join!(opening, time::sleep(SESSION));
        let sessions = host.sessions();
        let mut sessions = sessions.iter().map(|session| &session.stats);
        if sessions.any(|stats| stats.peer == pairing.node && stats.channels_active > 0) {
            std::future::pending::<()>().await;
        }
    };
    let leaving = async { while pairing.recv().await.is_ok() {} };
    tokio::select! {
        () = opening => tracing::debug!(node = %pairing.node, "a caller without a session"),
        () = leaving => {}
    }
}
