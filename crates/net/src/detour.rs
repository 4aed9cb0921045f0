//! Detours: other ways to a peer, used when none of its addresses answers.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::NodeId;

/// Time that the addresses of a peer have before its detour is used.
pub(crate) const DIRECT: Duration = Duration::from_secs(3);

/// An address that leads to a peer in a roundabout way, such as a circuit at a relay.
pub trait Detour: Send + Sync + fmt::Debug + 'static {
    /// Opens the detour, or returns the one that is open; `None`: there is none now.
    fn open(&self) -> Pin<Box<dyn Future<Output = Option<SocketAddr>> + Send>>;
}

/// Detours of a host, by peer.
#[derive(Debug, Default)]
pub(crate) struct Detours(Mutex<BTreeMap<NodeId, Known>>);

#[derive(Clone, Debug)]
struct Known {
    detour: Arc<dyn Detour>,
    /// The last session came about by it: the next one does not wait for the addresses.
    was_needed: bool,
}

impl Detours {
    pub(crate) fn set(&self, peer: NodeId, detour: Option<Arc<dyn Detour>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match detour {
            Some(detour) => {
                let was_needed = false;
                known.insert(peer, Known { detour, was_needed });
            }
            None => {
                known.remove(&peer);
            }
        }
    }

    /// The detour of a peer, and the time to wait before it is used.
    pub(crate) fn get(&self, peer: NodeId) -> Option<(Arc<dyn Detour>, Duration)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&peer)?;
        let wait = match known.was_needed {
            true => Duration::ZERO,
            false => DIRECT,
        };
        Some((known.detour.clone(), wait))
    }

    /// Notes whether the last session with a peer needed its detour.
    pub(crate) fn note(&self, peer: NodeId, was_needed: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(&peer) {
            known.was_needed = was_needed;
        }
    }
}
