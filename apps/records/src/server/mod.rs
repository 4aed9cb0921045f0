//! Service of record sets: an application that is attached to a node, which grants the streams by their labels.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Server`]: its sets, and the streams that it takes |
//! | `answer` | answers to requests: lists, manifests, hashes |
//! | `data` | the data that a client wants, as fast as possible |
//! | `paced` | the same, record by record at its rate |
//! | `clock` | the times at which records are due, one for all streams of a set that a peer watches |
//! | `inbox` | messages of a client in the order in which it sent them |
//! | `put`, `copy` | sets that clients send, and sets that are sent to third nodes |
//! | `promise` | the promise that a client asks for |
//! | `pin` | a lane on its channel, and elsewhere while that one does not respond |

mod answer;
mod clock;
mod copy;
mod data;
mod inbox;
mod paced;
mod pin;
mod promise;
mod put;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{
    Client, ClientError,
    base::{
        NodeId,
        text::{REASON_CHARS, printable},
    },
    local::client::{Service, Stream},
    net::limited,
};
use inbox::Inbox;
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

use crate::{
    carry::Ended,
    shelf::{self, Found, ShelfError},
    source::Source,
    wire::{ALL_LABELS, Label, Notice, Purpose, Request, WireError, encode},
};

/// Code of a stream whose first message is none.
pub const CODE_MALFORMED: u32 = 0x20;
/// Code of a stream beyond the number that is served at a time.
pub const CODE_BUSY: u32 = 0x21;
/// Time for the first message of a stream.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Streams at a time.
const STREAMS_MAX: usize = 1_024;
/// Streams of one peer at a time.
const STREAMS_OF_PEER_MAX: usize = 256;
/// Readers of the disk at a time.
const READERS_MAX: usize = 16;

/// End of a stream.
#[derive(Debug, thiserror::Error)]
enum End {
    /// The stream is over.
    #[error(transparent)]
    Stream(#[from] ClientError),
    /// The client does not keep to the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The task that reads has ended.
    #[error("its data cannot be read")]
    Reading,
    /// The client says nothing.
    #[error("it made no request")]
    Silent,
}

impl From<Ended<ClientError>> for End {
    fn from(ended: Ended<ClientError>) -> Self {
        match ended {
            Ended::Stream(error) => Self::Stream(error),
            Ended::Reading => Self::Reading,
        }
    }
}

/// A server of the sets in a directory.
#[derive(Debug)]
pub struct Server {
    client: Client,
    shelf: PathBuf,
    sets: Mutex<BTreeMap<String, Arc<Source>>>,
    readers: Arc<Semaphore>,
    clocks: clock::Clocks,
    streams: Mutex<BTreeMap<NodeId, usize>>,
    /// True if peers may send sets.
    is_accepting: bool,
    taking: Mutex<put::AllTaken>,
}

/// A stream that is counted until this is dropped.
struct Place {
    server: Arc<Server>,
    peer: NodeId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut streams = lock(&self.server.streams);
        if let Some(count) = streams.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.peer);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// A server of the sets in a directory, with those that were found. Blocks while it looks. `is_accepting`: peers with the right may
    /// send sets, which become directories in it.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn open(
        client: Client,
        shelf: &Path,
        is_accepting: bool,
    ) -> Result<(Arc<Self>, Found), ShelfError> {
        let found = shelf::look(shelf, &BTreeMap::new())?;
        let server = Self {
            client,
            shelf: shelf.to_owned(),
            sets: Mutex::new(found.sets.clone()),
            readers: Arc::new(Semaphore::new(READERS_MAX)),
            clocks: clock::Clocks::default(),
            streams: Mutex::default(),
            is_accepting,
            taking: Mutex::default(),
        };
        Ok((Arc::new(server), found))
    }

    /// Registers the labels of record sets at the node.
    ///
    /// # Errors
    /// The connection to the node is over, or another application has them.
    pub async fn register(&self) -> Result<Service, ClientError> {
        self.client.register(ALL_LABELS).await
    }

    /// Serves the streams of a registration until the connection to the node is over; returns the reason.
    pub async fn serve(self: &Arc<Self>, service: &Service) -> ClientError {
        let mut serving = JoinSet::new();
        loop {
            while serving.try_join_next().is_some() {}
            let (peer, stream) = match service.accept().await {
                Ok(accepted) => accepted,
                Err(error) => return error,
            };
            match self.enter(peer) {
                Some(place) => {
                    let server = self.clone();
                    serving.spawn(async move { server.stream(place, stream).await });
                }
                None => refuse(&stream, CODE_BUSY),
            }
        }
    }

    fn accepts_sets(&self) -> bool {
        self.is_accepting
    }

    fn enter(self: &Arc<Self>, peer: NodeId) -> Option<Place> {
        let mut streams = lock(&self.streams);
        let of_peer = streams.get(&peer).copied().unwrap_or_default();
        if of_peer >= STREAMS_OF_PEER_MAX || streams.values().sum::<usize>() >= STREAMS_MAX {
            return None;
        }
        streams.insert(peer, of_peer + 1);
        let server = self.clone();
        Some(Place { server, peer })
    }

    async fn stream(self: Arc<Self>, place: Place, stream: Stream) {
        match self.answer(place.peer, &stream).await {
            Ok(()) | Err(End::Stream(_)) => {}
            Err(end) => {
                let words = printable(&end.to_string(), REASON_CHARS);
                limited!(info, peer = %place.peer, error = words, "a stream about record sets was refused");
                refuse(&stream, CODE_MALFORMED);
            }
        }
    }

    /// Answers the request of a stream.
    async fn answer(self: &Arc<Self>, peer: NodeId, stream: &Stream) -> Result<(), End> {
        let label: Label = (stream.spec().label.parse())
            .map_err(|()| WireError(format!("the label '{}'", stream.spec().label)))?;
        let mut inbox = Inbox::new(stream);
        let first = timeout(REQUEST_TIME, inbox.next()).await;
        let first = first.map_err(|_| End::Silent)??.ok_or(End::Silent)?;
        let request: Request = crate::wire::decode(&first)?;
        match (label.purpose, request) {
            (Purpose::List, Request::List { after }) => self.list(stream, &after).await?,
            (
                Purpose::Put,
                Request::Put {
                    bytes,
                    format,
                    digest,
                },
            ) => {
                let manifest = (bytes, format, digest);
                self.put(peer, &mut inbox, &label.set, manifest).await?;
            }
            (Purpose::Put, Request::Data { manifest }) => {
                self.put_data(peer, &mut inbox, &label.set, manifest)
                    .await?;
            }
            (Purpose::Copy, Request::Copy { to }) => match self.set(&label.set).await {
                Some(source) => self.copy(peer, &mut inbox, source, &to).await?,
                None => {
                    let why = format!("there is no set '{}'", label.set);
                    return Ok(refused(stream, why, false).await?);
                }
            },
            (Purpose::Get, request) => {
                let Some(source) = self.set(&label.set).await else {
                    let why = format!("there is no set '{}'", label.set);
                    return Ok(refused(stream, why, false).await?);
                };
                match request {
                    Request::Manifest => {
                        limited!(info, %peer, set = label.set, "a set was opened");
                        answer::manifest(stream, &source).await?;
                    }
                    Request::Paths => pin::paths(&self.client, peer, stream).await?,
                    Request::Get(get) => self.get(peer, &mut inbox, source, get).await?,
                    Request::Hashes { manifest } => {
                        self.hashes(&mut inbox, source, manifest).await?;
                    }
                    _ => {
                        return Err(WireError("another request than its label".to_owned()).into());
                    }
                }
            }
            _ => return Err(WireError("another request than its label".to_owned()).into()),
        }
        stream.finish()?;
        // An error means that the session is over.
        let _ = stream.delivered().await;
        Ok(())
    }

    /// A set, which is looked for again if it is not known or its manifest was changed.
    async fn set(&self, name: &str) -> Option<Arc<Source>> {
        self.look().await;
        lock(&self.sets).get(name).cloned()
    }

    /// Looks for the sets again.
    async fn look(&self) {
        // The semaphore is not closed.
        let permit = self.readers.clone().acquire_owned().await;
        let (shelf, known) = (self.shelf.clone(), lock(&self.sets).clone());
        let looking = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            shelf::look(&shelf, &known)
        });
        match looking.await {
            Ok(Ok(found)) => {
                for words in found.left_out {
                    let words = printable(&words, REASON_CHARS);
                    limited!(warn, error = words, "a set is left out");
                }
                *lock(&self.sets) = found.sets;
            }
            Ok(Err(error)) => {
                let words = printable(&error.to_string(), REASON_CHARS);
                limited!(warn, error = words, "the sets cannot be read");
            }
            Err(_) => {}
        }
    }
}

/// Resets and stops a stream.
fn refuse(stream: &Stream, code: u32) {
    // An error means that it is over.
    let _ = (stream.reset(code), stream.stop(code));
}

/// Tells the client why its request is refused.
async fn refused(stream: &Stream, why: String, is_changed: bool) -> Result<(), ClientError> {
    let notice = Notice::Refused {
        why,
        offer_bps: None,
        is_changed,
    };
    stream.send(encode(&notice)).await?;
    stream.finish()?;
    // An error means that the session is over.
    let _ = stream.delivered().await;
    Ok(())
}
