//! Streams that viewers open at a source: how many there are, and their requests.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{ClientError, base::NodeId, local::client::Stream};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::wire::{WireError, decode};

/// Code of a stream whose messages are none.
pub(crate) const CODE_MALFORMED: u32 = 0x20;
/// Code of a stream beyond the number that is served at a time.
pub(crate) const CODE_BUSY: u32 = 0x21;
/// Time for the first message of a stream.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Streams at a time; a viewer has up to five.
const STREAMS_MAX: usize = 320;
/// Streams of one peer at a time.
const STREAMS_OF_PEER_MAX: usize = 40;

/// Reason why a stream is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    /// The stream is.
    #[error(transparent)]
    Stream(#[from] ClientError),
    /// The peer does not keep to the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The peer makes no request.
    #[error("it made no request")]
    Silent,
    /// There are as many viewers as are served.
    #[error("there are too many viewers")]
    Full,
}

/// Streams that are served, by peer.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<BTreeMap<NodeId, usize>>);

impl Places {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more stream of the peer; `None`: there is none.
    pub(crate) fn enter(self: &Arc<Self>, peer: NodeId) -> Option<Place> {
        let mut streams = self.lock();
        let of_peer = streams.get(&peer).copied().unwrap_or_default();
        if of_peer >= STREAMS_OF_PEER_MAX || streams.values().sum::<usize>() >= STREAMS_MAX {
            return None;
        }
        streams.insert(peer, of_peer + 1);
        let places = self.clone();
        Some(Place { places, peer })
    }
}

/// A stream that is counted until this is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    peer: NodeId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut streams = self.places.lock();
        if let Some(count) = streams.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.peer);
            }
        }
    }
}

/// The next request of a stream; `None`: the peer has finished.
pub(crate) async fn request<T: DeserializeOwned>(stream: &Stream) -> Result<Option<T>, End> {
    match stream.recv().await? {
        Some(adu) => Ok(Some(decode(&adu.data)?)),
        None => Ok(None),
    }
}

/// The first request of a stream.
pub(crate) async fn first_request<T: DeserializeOwned>(stream: &Stream) -> Result<T, End> {
    let first = timeout(REQUEST_TIME, request(stream)).await;
    first.map_err(|_| End::Silent)??.ok_or(End::Silent)
}

/// Resets and stops a stream.
pub(crate) fn refuse(stream: &Stream, code: u32) {
    // An error means that it is over.
    let _ = (stream.reset(code), stream.stop(code));
}
