//! Sessions with peers that this node calls: at their addresses, or at a relay, because neither node may be reachable from outside.

use std::{sync::Arc, time::Duration};

use anabranch_base::NodeId;
use anabranch_net::{ConnectError, Session};
use tokio::time;

use super::Core;
use crate::{
    config::Peer,
    rendezvous::{Attendance, Pairing, RendezvousError, Via, open_translator},
};

/// Time that the addresses in the configuration have before the relay is asked.
const DIRECT: Duration = Duration::from_secs(5);
/// Time that the other node may take to dial, once both are at the relay.
const DIALLED: Duration = Duration::from_secs(30);
/// Interval of the search for the session that it has opened.
const EVERY: Duration = Duration::from_millis(100);

/// Interval of the search for a session that the peer has opened at the same time.
const TWIN_EVERY: Duration = Duration::from_secs(1);

/// A session with a peer.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) session: Session,
    /// True if this node opened it.
    pub(super) is_ours: bool,
    /// The circuit that may carry it, which ends with this.
    pub(super) _circuit: Option<Arc<Pairing>>,
}

/// There is no session.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReachError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Relay(#[from] RendezvousError),
    #[error("the peer is at the relay, but has not dialled within {} s; it needs this node as a [[peer]] that may \"call\"", DIALLED.as_secs())]
    NotDialled,
}

impl Core {
    /// Opens a session with a peer: at its addresses, or at the relay where it is met. Of two nodes at a relay, the one with the
    /// smaller id dials, and the other one waits.
    pub(super) async fn reach(&self, peer: &Peer) -> Result<Reached, ReachError> {
        let direct = self.host.connect(peer.node, &peer.addresses);
        let Some(via) = &peer.via else {
            return Ok(ours(direct.await?, None));
        };
        if !peer.addresses.is_empty()
            && let Ok(Ok(session)) = time::timeout(DIRECT, direct).await
        {
            return Ok(ours(session, None));
        }
        self.reach_at(peer, via).await
    }

    /// Returns when this session is one too many, with the one that remains: two nodes that call each other have a session each. That
    /// of the node with the larger id ends as soon as nothing uses it, unless it has more paths. Does not return otherwise.
    pub(super) async fn twin(&self, session: &Session) -> Session {
        let peer = session.peer();
        if self.host.node_id() < peer {
            return std::future::pending().await;
        }
        loop {
            time::sleep(TWIN_EVERY).await;
            let is_idle = session.stats().is_some_and(|stats| stats.streams == 0);
            let chosen = self.session_accepted(&peer).filter(|_| is_idle);
            let is_theirs = |other: &Session| other.stats().is_some_and(|stats| stats.incoming);
            if let Some(chosen) = chosen.filter(is_theirs) {
                return chosen;
            }
        }
    }

    /// Attends at the relay of the configuration in force; does not return.
    pub(super) async fn attend_at_relay(&self) {
        let mut wanted = self.via.subscribe();
        loop {
            let via = wanted.borrow_and_update().clone();
            let via = via.filter(|via| via.node != self.host.node_id());
            let _attendance = match via {
                None => None,
                Some(via) => {
                    let rights = self.rights.clone();
                    let may_call = move |node: &NodeId| rights.table().may_connect(node);
                    let attendance = Attendance::start(&self.host, &via, may_call).await;
                    if let Some(failure) = attendance.failure() {
                        tracing::warn!("not reachable at the relay: {failure}");
                    }
                    Some(attendance)
                }
            };
            if wanted.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn reach_at(&self, peer: &Peer, via: &Via) -> Result<Reached, ReachError> {
        let pairing = Arc::new(Pairing::meet(&self.host, via, peer.node).await?);
        let mut remotes = peer.addresses.clone();
        remotes.addresses.extend(&pairing.addresses);
        if self.host.node_id() < peer.node {
            self.host.set_detour(peer.node, Some(pairing.clone()));
            let session = self.host.connect(peer.node, remotes).await?;
            return Ok(ours(session, Some(pairing)));
        }
        let opening = open_translator(&self.host, peer.node, &remotes.addresses);
        let waiting = async {
            loop {
                if let Some(session) = self.session_accepted(&peer.node) {
                    return session;
                }
                time::sleep(EVERY).await;
            }
        };
        let opening = async {
            opening.await;
            std::future::pending::<()>().await;
        };
        let dialled = async {
            tokio::select! {
                session = waiting => session,
                () = opening => unreachable!("it waits when it is over"),
            }
        };
        let session = time::timeout(DIALLED, dialled).await;
        Ok(Reached {
            session: session.map_err(|_| ReachError::NotDialled)?,
            is_ours: false,
            _circuit: Some(pairing),
        })
    }
}

fn ours(session: Session, circuit: Option<Arc<Pairing>>) -> Reached {
    Reached {
        session,
        is_ours: true,
        _circuit: circuit,
    }
}
