//! The side that reads the exports of a peer.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use anabranch_session::{Order, Priority, StreamSpec};
use bytes::Bytes;
use tokio::{
    sync::{Semaphore, oneshot},
    task::{AbortHandle, JoinSet},
};

use super::{
    LABEL,
    error::ExportError,
    message::{Answer, Entry, Fault, LIST_MAX, Metadata, Request, Version},
};
use crate::{
    api::{AduSession, AduStream, Failure},
    daemon::{CODE_BUSY, CODE_NO_RIGHT},
    transfer::names::path_fault,
};

/// Bytes of one request of a longer range.
const PIECE_BYTES: u32 = 512 << 10;
/// Bytes that are asked for at a time, of all ranges: what a path of 1 Gbit/s and 100 ms holds, and a little more.
const WINDOW_BYTES: usize = 16 << 20;
/// Bytes that a request counts for at least, which bounds the requests at a time.
const COST_MIN_BYTES: usize = 64 << 10;

/// Bytes of a file, with the version that all of them are of.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Version of the file.
    pub version: Version,
    /// Size of the file.
    pub size_bytes: u64,
    /// The bytes, in pieces that follow each other.
    pub pieces: Vec<Bytes>,
}

impl Part {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Entries of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The entries, in the order of the bytes of their names. Names that this system cannot have are left out.
    pub entries: Vec<Entry>,
    /// The name after which others follow; `None`: these are the last.
    pub more_after: Option<String>,
}

/// Exports of a peer, read over a stream of their own. Clones share it; it ends with the last one. Reads in progress do not wait for each
/// other; a future that is dropped leaves the others alone.
#[derive(Debug)]
pub struct Exports<S: AduStream> {
    inner: Arc<Inner<S>>,
}

impl<S: AduStream> Clone for Exports<S> {
    fn clone(&self) -> Self {
        let inner = self.inner.clone();
        Self { inner }
    }
}

#[derive(Debug)]
struct Inner<S> {
    stream: S,
    waiting: Arc<Waiting>,
    next: AtomicU32,
    window: Semaphore,
    reading: AbortHandle,
}

impl<S> Drop for Inner<S> {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// Requests without an answer, or the reason why none has one any more.
#[derive(Debug, Default)]
struct Waiting(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    requests: BTreeMap<u32, oneshot::Sender<Answer>>,
    over: Option<ExportError>,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, error: ExportError) {
        let mut state = self.lock();
        state.over.get_or_insert(error);
        state.requests.clear();
    }

    fn over(&self) -> ExportError {
        let over = self.lock().over.clone();
        over.unwrap_or_else(|| ExportError::Over("it was closed".to_owned()))
    }
}

/// A request that waits for its answer, until this is dropped.
struct Pending<'w> {
    waiting: &'w Waiting,
    id: u32,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.waiting.lock().requests.remove(&self.id);
    }
}

fn of_stream(error: &impl Failure) -> ExportError {
    match error.reset_code().or(error.stop_code()) {
        Some(CODE_NO_RIGHT) => ExportError::NotExported,
        Some(CODE_BUSY) => ExportError::Busy,
        _ if error.is_session_over() => ExportError::Over(error.to_string()),
        _ => ExportError::Stream(error.to_string()),
    }
}

/// Hands answers to those who wait for them, until the stream is over.
async fn receive<S: AduStream>(stream: S, waiting: Arc<Waiting>) {
    let end = loop {
        match stream.recv().await {
            Ok(Some(adu)) => match Answer::decode(&adu.data) {
                Ok((id, answer)) => {
                    // Nobody waits for it any more if there is none.
                    if let Some(request) = waiting.lock().requests.remove(&id) {
                        let _ = request.send(answer);
                    }
                }
                Err(_) => break ExportError::Protocol("no answer"),
            },
            Ok(None) => break ExportError::Over("the peer has finished the stream".to_owned()),
            Err(error) => break of_stream(&error),
        }
    };
    waiting.end(end);
}

/// Checks a path before it is sent.
fn check(path: &str) -> Result<(), ExportError> {
    match path.is_empty() || path_fault(path).is_none() {
        true => Ok(()),
        false => Err(ExportError::at(path)(Fault::Invalid)),
    }
}

impl<S: AduStream> Exports<S> {
    /// Opens the exports of the peer of a session. Nothing is sent before the first request. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The session is over.
    pub async fn open<T>(session: &T, priority: Priority) -> Result<Self, ExportError>
    where
        T: AduSession<Stream = S, Error = S::Error>,
    {
        let spec = StreamSpec {
            duplex: true,
            order: Order::Unordered,
            priority,
            label: LABEL.to_owned(),
            ..StreamSpec::default()
        };
        let stream = session.open_stream(spec).await;
        let stream = stream.map_err(|error| of_stream(&error))?;
        let waiting = Arc::new(Waiting::default());
        let reading = tokio::spawn(receive(stream.clone(), waiting.clone()));
        Ok(Self {
            inner: Arc::new(Inner {
                stream,
                waiting,
                next: AtomicU32::new(0),
                window: Semaphore::new(WINDOW_BYTES),
                reading: reading.abort_handle(),
            }),
        })
    }

    /// Attributes of a file or directory; of the list of exports, if the path is empty.
    ///
    /// # Errors
    /// It cannot be read, or the stream is over.
    pub async fn stat(&self, path: &str) -> Result<Metadata, ExportError> {
        check(path)?;
        let path_owned = path.to_owned();
        let request = Request::Stat { path: path_owned };
        match self.inner.ask(&request, 0).await? {
            Answer::Stat(metadata) => Ok(metadata),
            other => Err(unfit(path, &other)),
        }
    }

    /// Entries of a directory after a name, empty for the first, [`LIST_MAX`] at most; the exports that this node may read, if the path
    /// is empty.
    ///
    /// # Errors
    /// As [`Self::stat`].
    pub async fn list(&self, path: &str, after: &str) -> Result<Listed, ExportError> {
        check(path)?;
        if after.contains('/') || after.len() > usize::from(u8::MAX) {
            return Err(ExportError::at(after)(Fault::Invalid));
        }
        let request = Request::List {
            path: path.to_owned(),
            after: after.to_owned(),
            max: LIST_MAX,
        };
        match self.inner.ask(&request, COST_MIN_BYTES * 4).await? {
            Answer::List { entries, has_more } => {
                // So that the next part begins later, whatever the peer answers.
                let is_sorted = entries.is_sorted_by(|one, next| one.name < next.name);
                let first = entries.first();
                if !is_sorted || first.is_some_and(|first| first.name.as_str() <= after) {
                    return Err(ExportError::Protocol("entries out of order"));
                }
                let last = entries.last().filter(|_| has_more);
                let more_after = last.map(|last| last.name.clone());
                let is_fine =
                    |entry: &Entry| path_fault(&entry.name).is_none() && !entry.name.contains('/');
                let entries = entries.into_iter().filter(is_fine).collect();
                Ok(Listed {
                    entries,
                    more_after,
                })
            }
            other => Err(unfit(path, &other)),
        }
    }

    /// Bytes of a file, fewer where it ends. All are of one version: the one asked for, or that of the file now.
    ///
    /// # Errors
    /// As [`Self::stat`]; the file has another version, or got one meanwhile.
    pub async fn read(
        &self,
        path: &str,
        offset: u64,
        bytes: u64,
        version: Option<Version>,
    ) -> Result<Part, ExportError> {
        check(path)?;
        let piece = |at: u64, end: u64, version| {
            let bytes = (end - at).min(PIECE_BYTES.into()) as u32;
            self.inner
                .clone()
                .piece(path.to_owned(), at, bytes, version)
        };
        let mut end = offset.saturating_add(bytes);
        if bytes <= PIECE_BYTES.into() {
            return piece(offset, end, version).await;
        }
        let mut joined = Joined::default();
        let mut at = offset;
        let mut version = version;
        if bytes > WINDOW_BYTES as u64 {
            // It may end long before: the size first.
            let first = piece(at, end, version).await?;
            (version, end) = (Some(first.version), end.min(first.size_bytes));
            joined.add(path, at, PIECE_BYTES.into(), first)?;
            at += u64::from(PIECE_BYTES);
        }
        let mut reading = JoinSet::new();
        while at < end || !reading.is_empty() {
            // As many as the window has are under way; the others are not begun, because a range may be long.
            while at < end && reading.len() < WINDOW_BYTES / PIECE_BYTES as usize {
                let (reading_piece, begin) = (piece(at, end, version), at);
                let bytes = (end - at).min(PIECE_BYTES.into());
                reading.spawn(async move { (begin, bytes, reading_piece.await) });
                at += bytes;
            }
            if let Some(done) = reading.join_next().await {
                let failed = |error: tokio::task::JoinError| ExportError::Stream(error.to_string());
                let (begin, bytes, piece) = done.map_err(failed)?;
                let piece = piece?;
                joined.add(path, begin, bytes, piece)?;
            }
        }
        Ok(joined.part())
    }
}

/// Pieces of a range, which arrive in any order.
#[derive(Default)]
struct Joined {
    of_file: Option<(Version, u64)>,
    pieces: BTreeMap<u64, Vec<Bytes>>,
}

impl Joined {
    /// Adds what came for `bytes` from `at` on.
    fn add(&mut self, path: &str, at: u64, bytes: u64, piece: Part) -> Result<(), ExportError> {
        let of_file = (piece.version, piece.size_bytes);
        let expected = piece.size_bytes.saturating_sub(at).min(bytes);
        if *self.of_file.get_or_insert(of_file) != of_file || piece.len() as u64 != expected {
            return Err(ExportError::at(path)(Fault::Changed));
        }
        self.pieces.insert(at, piece.pieces);
        Ok(())
    }

    fn part(self) -> Part {
        let (version, size_bytes) = self.of_file.unwrap_or_default();
        let pieces = self.pieces.into_values().flatten().collect();
        Part {
            version,
            size_bytes,
            pieces,
        }
    }
}

/// An answer that does not fit the request.
fn unfit(path: &str, answer: &Answer) -> ExportError {
    match answer {
        Answer::Fault(fault) => ExportError::at(path)(*fault),
        _ => ExportError::Protocol("an answer of another kind"),
    }
}

impl<S: AduStream> Inner<S> {
    /// Asks, and waits for the answer. `cost_bytes`: about the size of the answer.
    async fn ask(&self, request: &Request, cost_bytes: usize) -> Result<Answer, ExportError> {
        let cost = cost_bytes.clamp(COST_MIN_BYTES, WINDOW_BYTES) as u32;
        // It is never closed.
        let _permit = self.window.acquire_many(cost).await;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut state = self.waiting.lock();
            if let Some(over) = &state.over {
                return Err(over.clone());
            }
            state.requests.insert(id, sender);
        }
        let _request = Pending {
            waiting: &self.waiting,
            id,
        };
        let message = Bytes::from(request.encode(id));
        let sent = self.stream.send(message).await;
        sent.map_err(|error| of_stream(&error))?;
        answer.await.map_err(|_| self.waiting.over())
    }

    async fn piece(
        self: Arc<Self>,
        path: String,
        offset: u64,
        bytes: u32,
        version: Option<Version>,
    ) -> Result<Part, ExportError> {
        let request = Request::Read {
            path: path.clone(),
            offset,
            bytes,
            version,
        };
        match self.ask(&request, bytes as usize).await? {
            Answer::Data {
                version,
                size_bytes,
                bytes: data,
            } if data.len() <= bytes as usize => Ok(Part {
                version,
                size_bytes,
                pieces: vec![data],
            }),
            other => Err(unfit(&path, &other)),
        }
    }
}
