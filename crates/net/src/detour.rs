//! Detours: other ways to a peer, used when none of its addresses answers.

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, ready},
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::NodeId;

/// Time that the addresses of a peer have before its detour is used.
pub(crate) const DIRECT: Duration = Duration::from_secs(3);

/// An address that leads to a peer in a roundabout way, such as a circuit at a relay. It is opened again when a session that this node opened has
/// lost all paths.
pub trait Detour: Send + Sync + fmt::Debug + 'static {
    /// Asks for further addresses of the peer, such as those at which a relay sees it. They are tried before the detour is opened, for as long as
    /// its known ones.
    fn addresses(&self) -> Pin<Box<dyn Future<Output = Vec<SocketAddr>> + Send>> {
        Box::pin(ready(Vec::new()))
    }

    /// Opens the detour, or returns the one that is open if it still leads there; `None`: there is none now.
    fn open(&self) -> Pin<Box<dyn Future<Output = Option<SocketAddr>> + Send>>;
}

/// Means to reach a peer, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Its addresses.
    Known,
    /// Those that the detour knows.
    Further,
    /// The detour.
    Detour,
}

/// Detours of a host, by peer.
#[derive(Debug, Default)]
pub(crate) struct Detours(Mutex<BTreeMap<NodeId, Known>>);

#[derive(Clone, Debug)]
struct Known {
    detour: Arc<dyn Detour>,
    /// Last stage of the last session: the next one does not wait before it.
    needed: Stage,
}

impl Detours {
    pub(crate) fn set(&self, peer: NodeId, detour: Option<Arc<dyn Detour>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match detour {
            Some(detour) => {
                let needed = Stage::Known;
                known.insert(peer, Known { detour, needed });
            }
            None => {
                known.remove(&peer);
            }
        }
    }

    /// The stages after a peer's addresses.
    pub(crate) fn get(&self, peer: NodeId) -> Stages {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Stages {
            known: known.get(&peer).cloned(),
            last: Stage::Known,
            opened: None,
        }
    }

    /// The detour to a peer.
    pub(crate) fn of(&self, peer: NodeId) -> Option<Arc<dyn Detour>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&peer).map(|known| known.detour.clone())
    }

    /// Notes the last stage of a session with a peer.
    pub(crate) fn note(&self, peer: NodeId, needed: Stage) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(&peer) {
            known.needed = needed;
        }
    }
}

/// Stages of one call.
#[derive(Debug)]
pub(crate) struct Stages {
    known: Option<Known>,
    pub(crate) last: Stage,
    /// The detour, once it is open.
    pub(crate) opened: Option<SocketAddr>,
}

impl Stages {
    /// True if there is a detour.
    pub(crate) fn has_detour(&self) -> bool {
        self.known.is_some()
    }

    /// Addresses of the next stage that has any, after the time that the one before it has if `is_patient`; `None`: there is none. May be dropped
    /// and called again.
    pub(crate) async fn next(&mut self, is_patient: bool) -> Option<Vec<SocketAddr>> {
        let known = self.known.as_ref()?;
        let pause = async |stage: Stage| {
            if is_patient && known.needed < stage {
                tokio::time::sleep(DIRECT).await;
            }
        };
        let mut is_paused = false;
        if self.last == Stage::Known {
            pause(Stage::Further).await;
            is_paused = true;
            let further = known.detour.addresses().await;
            self.last = Stage::Further;
            if !further.is_empty() {
                return Some(further);
            }
        }
        if self.last == Stage::Further {
            if !is_paused {
                pause(Stage::Detour).await;
            }
            self.opened = known.detour.open().await;
            self.last = Stage::Detour;
            return self.opened.map(|address| vec![address]);
        }
        None
    }
}
