//! Sessions of a node by peer, shared by everything in the node that sends.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::{
    NodeId, SessionId,
    text::{nearest, printable},
};
use anabranch_net::{ConnectError, Host, Remotes, Session, WeakSession};
use tokio::{sync::mpsc, time::Instant};

use super::Core;
use crate::{overlay::Overlay, rights::Rights, service::Services};

/// Time that a session opened on demand stays open after its last use.
const LINGER: Duration = Duration::from_secs(10);
/// Time between two checks of its use.
const CHECK: Duration = Duration::from_secs(2);
/// Time between two looks at a session that may be for the overlay.
const UNDECIDED_CHECK: Duration = Duration::from_millis(20);
/// Sessions opened on demand that may wait for the task that serves them.
const OPENED_MAX: usize = 64;

/// The open sessions of a node. Bounded by the sessions of its host.
#[derive(Debug)]
pub(super) struct Sessions {
    table: Mutex<BTreeMap<NodeId, Vec<WeakSession>>>,
    /// Held while a peer is dialled, so that concurrent requests for it share one session.
    dialling: tokio::sync::Mutex<()>,
    opened: mpsc::Sender<Session>,
}

impl Sessions {
    /// Creates an empty table; sessions that are opened on demand arrive at the receiver, and are served from there.
    pub(super) fn new() -> (Self, mpsc::Receiver<Session>) {
        let (opened, arriving) = mpsc::channel(OPENED_MAX);
        let sessions = Self {
            table: Mutex::default(),
            dialling: tokio::sync::Mutex::default(),
            opened,
        };
        (sessions, arriving)
    }

    /// Adds a session, opened by either side.
    pub(super) fn add(&self, session: &Session) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|_, sessions| {
            sessions.retain(|session| session.upgrade().is_some());
            !sessions.is_empty()
        });
        let sessions = table.entry(session.peer()).or_default();
        sessions.push(session.downgrade());
    }

    /// Open sessions that this peer has opened.
    pub(super) fn opened_by(&self, peer: &NodeId) -> Vec<Session> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = table.get(peer).into_iter().flatten();
        let sessions: Vec<Session> = sessions.filter_map(WeakSession::upgrade).collect();
        drop(table);
        let is_incoming = |session: &Session| session.stats().is_some_and(|stats| stats.incoming);
        sessions.into_iter().filter(is_incoming).collect()
    }

    /// The open session with this peer that new streams go to: the one with the most channels; of two equal ones, that which the node
    /// with the smaller id has opened, so that both nodes choose the same; of those, the oldest. `own` is the id of this node. Those that are
    /// `reserved` for something else are left out.
    fn find(
        &self,
        own: NodeId,
        peer: &NodeId,
        reserved: impl Fn(SessionId) -> bool,
    ) -> Option<Session> {
        let open: Vec<Session> = {
            let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            let open = table.get(peer)?.iter().filter_map(WeakSession::upgrade);
            open.filter(|session| session.close_reason().is_none() && !reserved(session.id()))
                .collect()
        };
        let rank = |session: &Session| {
            let stats = session.stats();
            let opened_by = |incoming| if incoming { *peer } else { own };
            stats.map(|stats| {
                let is_preferred = opened_by(stats.incoming) == own.min(*peer);
                (stats.channels_active, is_preferred)
            })
        };
        // Of equal ones, the last maximum.
        open.into_iter().rev().max_by_key(rank)
    }
}

/// A running node, for the parts of a program that use its sessions. Clones share it; it does not keep the node running.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Core>);

impl Handle {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self(core)
    }

    pub(super) fn core(&self) -> &Core {
        &self.0
    }

    /// The node's host.
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// The rights in force.
    pub fn rights(&self) -> &Rights {
        &self.0.rights
    }

    /// Its part in the overlay, if it takes part in one now.
    pub(crate) fn overlay(&self) -> Option<Overlay> {
        self.0.overlay()
    }

    /// The services that take the streams of its peers.
    pub fn services(&self) -> &Services {
        &self.0.services
    }

    /// Name of a node in the configuration; its id if it has none.
    pub fn name(&self, node: &NodeId) -> String {
        self.0.name(node)
    }

    /// The node with this name in the configuration, or with this id.
    ///
    /// # Errors
    /// There is none; names the peer that was probably meant, or those that there are.
    pub fn node_named(&self, name: &str) -> Result<NodeId, UnknownPeer> {
        self.0.node_named(name)
    }

    /// A session with a peer: one that is open, whichever side opened it, or a new one to `addresses`, or to those in the
    /// configuration if `addresses` is empty, of a peer or of a member of the overlay. A new one stays open until ten seconds after its last use.
    ///
    /// # Errors
    /// As [`Host::connect`]. The node must be running ([`super::Daemon::run`]).
    pub async fn session_with(
        &self,
        peer: NodeId,
        addresses: impl Into<Remotes>,
    ) -> Result<Session, ConnectError> {
        self.0.session_with(peer, addresses.into()).await
    }
}

/// Names of peers that an error lists.
const NAMES_MAX: usize = 20;
/// Characters of a name that an error shows.
const NAME_CHARS: usize = 100;

/// No peer has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{name}' is neither the name of a peer in the node's configuration nor the id of a node{hint}"
)]
pub struct UnknownPeer {
    name: String,
    hint: String,
}

impl UnknownPeer {
    fn new<'n>(name: &str, known: impl Iterator<Item = &'n String>) -> Self {
        let mut known: Vec<&str> = known.map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        let hint = match (nearest(name, known.iter().copied()), &known[..]) {
            (Some(near), _) => format!("; did you mean '{near}'?"),
            (None, []) => "; there are no peers yet (`anabranch pair`)".to_owned(),
            (None, known) if known.len() <= NAMES_MAX => {
                format!("; its peers are {}", known.join(", "))
            }
            (None, _) => "; `anabranch rights` lists them".to_owned(),
        };
        Self {
            name: printable(name, NAME_CHARS),
            hint: printable(&hint, NAME_CHARS * NAMES_MAX),
        }
    }
}

impl Core {
    /// The oldest open session with this peer, if there is one.
    pub(super) fn session_accepted(&self, peer: &NodeId) -> Option<Session> {
        // Nothing but the overlay is served on its sessions.
        let overlay = self.overlay();
        let reserved = |id| overlay.as_ref().is_some_and(|overlay| overlay.has_line(id));
        self.sessions.find(self.host.node_id(), peer, reserved)
    }

    /// The same; one that a member has just opened is waited for until it is known whether it is for the overlay.
    async fn session_open(&self, peer: &NodeId) -> Option<Session> {
        loop {
            let session = self.session_accepted(peer)?;
            let overlay = self.overlay();
            let undecided = overlay.and_then(|overlay| overlay.undecided(session.id()));
            let Some(until) = undecided else {
                return Some(session);
            };
            tokio::time::sleep_until(until.min(Instant::now() + UNDECIDED_CHECK)).await;
        }
    }

    /// See [`Handle::node_named`].
    pub(crate) fn node_named(&self, name: &str) -> Result<NodeId, UnknownPeer> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let named = names.iter().find(|(_, known)| *known == name);
        let named = named.map(|(node, _)| *node).or_else(|| name.parse().ok());
        named.ok_or_else(|| UnknownPeer::new(name, names.values()))
    }

    pub(crate) async fn session_with(
        &self,
        peer: NodeId,
        addresses: Remotes,
    ) -> Result<Session, ConnectError> {
        if let Some(session) = self.session_open(&peer).await {
            return Ok(session);
        }
        if addresses.is_empty() {
            self.calling.settled(&peer).await;
        }
        let _dialling = self.sessions.dialling.lock().await;
        if let Some(session) = self.session_open(&peer).await {
            return Ok(session);
        }
        let configured = self.calls.borrow().clone();
        let configured = configured.iter().find(|call| call.peer.node == peer);
        let addresses = match configured {
            _ if !addresses.is_empty() => addresses,
            Some(call) => call.peer.addresses.clone(),
            // A member of the overlay need not be a peer, too.
            None => (self.overlay().and_then(|overlay| overlay.remotes(&peer))).unwrap_or_default(),
        };
        let session = self.host.connect(peer, addresses).await?;
        self.note_connected(&session, "called on demand");
        self.sessions.add(&session);
        if self.sessions.opened.send(session.clone()).await.is_err() {
            return Err(ConnectError::ShuttingDown);
        }
        Ok(session)
    }

    /// Serves a session that was opened on demand, until it was not used for a while.
    pub(super) async fn serve_while_used(self: Arc<Self>, session: Session) {
        let mut used = Instant::now();
        let unused = async {
            loop {
                tokio::time::sleep(CHECK).await;
                // This task has one handle.
                if session.handles() > 1 {
                    used = Instant::now();
                } else if used.elapsed() >= LINGER {
                    return;
                }
            }
        };
        tokio::select! {
            () = self.serve(&session) => {}
            () = unused => session.close(0, "not in use"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_peer_is_answered_with_the_names_that_there_are() {
        let words = |name: &str, known: &[&str]| {
            let known: Vec<String> = known.iter().map(|&name| name.to_owned()).collect();
            UnknownPeer::new(name, known.iter()).to_string()
        };
        let text = words("stduio", &["ship", "studio"]);
        assert!(text.ends_with("; did you mean 'studio'?"), "{text}");
        let text = words("zzz", &["studio", "ship"]);
        assert!(text.ends_with("; its peers are ship, studio"), "{text}");
        assert!(words("zzz", &[]).contains("anabranch pair"));
        assert!(!words("\u{1b}[2J", &[]).contains('\u{1b}'));
    }
}
