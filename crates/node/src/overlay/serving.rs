//! Relaying for members that have the right to it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_base::{NodeId, Rate};
use anabranch_net::{
    Session, Stream,
    relay::{
        Answer, Members, Quota, Refusal, Relay, RelayConfig, RelayError, RelayReport, Request,
        Role, Totals,
    },
};
use bytes::Bytes;

use super::{Site, circuit::RELAYS};
use crate::rights::{CODE_NO_RIGHT, Right, Rights};

/// Limit on a session's streams of requests; a source has one for each path, and few paths. One more is stopped.
const STREAMS_MAX: usize = 64;

/// The relay of this node, and its knowledge of other nodes. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    relay: Arc<Relay>,
    known: Arc<Known>,
}

/// Addresses of members: from the configuration, and from the sessions with them.
#[derive(Debug)]
struct Known {
    sites: Mutex<Arc<BTreeMap<NodeId, Site>>>,
    rights: Rights,
    sessions: Mutex<BTreeMap<NodeId, Session>>,
}

impl Known {
    fn sites(&self) -> Arc<BTreeMap<NodeId, Site>> {
        let sites = self.sites.lock();
        sites.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<NodeId, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// True if a node may have circuits here.
    fn may_use(&self, node: NodeId) -> bool {
        self.is_member(node) && self.rights.may(&node, Right::UseRelay)
    }
}

impl Members for Known {
    fn is_member(&self, node: NodeId) -> bool {
        self.sites().contains_key(&node) && self.rights.may(&node, Right::Member)
    }

    fn is_at(&self, node: NodeId, address: SocketAddr, role: Role) -> bool {
        let known = self.addresses(node);
        match role {
            Role::Relay => known
                .iter()
                .any(|own| own.ip().to_canonical() == address.ip().to_canonical()),
            _ => known.contains(&address),
        }
    }

    /// Addresses of a node, those of the configuration first.
    fn addresses(&self, node: NodeId) -> Vec<SocketAddr> {
        let sites = self.sites();
        let site = sites.get(&node);
        let listed = site.iter().flat_map(|site| site.addresses.iter().copied());
        let session = self.sessions().get(&node).cloned();
        listed.chain(session.iter().flat_map(seen)).collect()
    }
}

/// Addresses at which the peer of a session is seen.
fn seen(session: &Session) -> Vec<SocketAddr> {
    session
        .channels()
        .iter()
        .map(|channel| channel.remote)
        .collect()
}

impl Serving {
    pub(super) fn new(relay: Relay, sites: Arc<BTreeMap<NodeId, Site>>, rights: Rights) -> Self {
        Self {
            relay: Arc::new(relay),
            known: Arc::new(Known {
                sites: Mutex::new(sites),
                rights,
                sessions: Mutex::default(),
            }),
        }
    }

    /// Replaces the list of members. Circuits of those that are gone end, and those that lead to them.
    pub(super) fn set_sites(&self, sites: &Arc<BTreeMap<NodeId, Site>>) {
        let before = {
            let mut known = (self.known.sites.lock()).unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *known, sites.clone())
        };
        for node in before.keys().filter(|node| !sites.contains_key(node)) {
            self.relay.close_all(*node);
            self.relay.reset_quota(*node);
            self.set_session(*node, None);
        }
        self.enforce();
    }

    /// See [`Relay::check`].
    pub(super) fn check(&self, config: &RelayConfig) -> Result<(), RelayError> {
        self.relay.check(config)
    }

    /// See [`Relay::configure`].
    pub(super) fn configure(&self, config: RelayConfig) -> Result<(), RelayError> {
        self.relay.configure(config)
    }

    /// True if both are the same relay.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.relay, &other.relay)
    }

    /// Sets the session with a member; `None` if there is none.
    pub(super) fn set_session(&self, node: NodeId, session: Option<Session>) {
        let mut sessions = self.known.sessions();
        match session {
            Some(session) => sessions.insert(node, session),
            None => sessions.remove(&node),
        };
    }

    /// Capacity left for others.
    pub(super) fn headroom(&self) -> Rate {
        self.relay.headroom()
    }

    pub(super) fn totals(&self) -> Totals {
        self.relay.totals()
    }

    pub(super) fn report(&self) -> RelayReport {
        self.relay.report()
    }

    /// Sets the quotas of sources from now on; a source that is not named has the default quota.
    pub(super) fn set_quotas(&self, quotas: &BTreeMap<NodeId, Quota>) {
        for node in self.known.sites().keys() {
            let quota = quotas.get(node).copied().unwrap_or_default();
            self.relay.set_quota(*node, quota);
        }
    }

    /// Ends the circuits of sources that may no longer use the relay, and those that lead to nodes that are no longer members.
    pub(super) fn enforce(&self) {
        let known = &*self.known;
        for node in known.sites().keys() {
            if !known.may_use(*node) {
                self.relay.close_all(*node);
            }
        }
        for circuit in self.relay.report().circuits {
            if !known.is_member(circuit.next) {
                let close = Request::Close {
                    circuit: circuit.circuit,
                };
                self.relay.request(circuit.source, &[], &close, known);
            }
        }
    }

    /// Answers the requests on a session with a member, until it is over.
    pub(super) async fn attend(self, session: Session) {
        let mut streams = tokio::task::JoinSet::new();
        while let Ok(stream) = session
            .accept_stream_where(|spec| spec.label == RELAYS)
            .await
        {
            while streams.try_join_next().is_some() {}
            if streams.len() >= STREAMS_MAX {
                // It may be over already; then there is nothing to stop.
                let _ = stream.stop(CODE_NO_RIGHT);
                continue;
            }
            streams.spawn(self.clone().answer(session.clone(), stream));
        }
    }

    async fn answer(self, session: Session, stream: Stream) {
        while let Ok(Some(adu)) = stream.recv().await {
            let Ok(request) = Request::decode(&adu.data) else {
                stream.stop(1).ok();
                return;
            };
            let (known, peer) = (&*self.known, session.peer());
            let answer = if known.may_use(peer) {
                self.relay.request(peer, &seen(&session), &request, known)
            } else {
                known.rights.note_refused(Right::UseRelay);
                Answer::Refused {
                    circuit: request.circuit(),
                    refusal: Refusal::NotMember,
                }
            };
            let mut bytes = Vec::new();
            answer.encode(&mut bytes);
            if stream.send(Bytes::from(bytes)).await.is_err() {
                return;
            }
        }
    }
}
