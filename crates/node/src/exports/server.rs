//! Service of a node that answers requests about its exports.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_base::{NodeId, text::printable};
use anabranch_net::{Session, Stream, limited};
use bytes::Bytes;
use tokio::{
    sync::Semaphore,
    task::{JoinSet, spawn_blocking},
};

use super::{
    LABEL,
    message::{Answer, Entry, Fault, Kind, LIST_MAX, Metadata, READ_BYTES_MAX, Request, Version},
    path::{self, Asked},
    root::{self, Range},
};
use crate::{
    config::Export,
    daemon::{CODE_BUSY, refuse},
    rights::{CODE_NO_RIGHT, Right, Rights},
    service::{Service, Serving},
};

/// Application code of a stream whose request is none.
const CODE_MALFORMED: u32 = 0x13;
/// Requests of a stream that are answered at a time; further ones wait in its window. An answer has 1 MiB at most.
const ANSWERING_MAX: usize = 8;
/// Requests that are read from the disk at a time, of all streams; each has three files open at most.
const READING_MAX: usize = 32;
/// Streams at a time.
const STREAMS_MAX: usize = 64;
/// Streams of one peer at a time.
const STREAMS_OF_PEER_MAX: usize = 16;
/// Files of a stream of which the log says that they were opened once only.
const NOTED_MAX: usize = 1024;
/// Characters of a name or path in the log.
const NAME_CHARS: usize = 200;

/// Exports of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) exports: Vec<Export>,
    /// Names of nodes, for the log.
    pub(crate) names: BTreeMap<NodeId, String>,
}

/// The exports of a node.
#[derive(Debug)]
pub(crate) struct Server {
    rights: Rights,
    settings: Mutex<Arc<Settings>>,
    reading: Arc<Semaphore>,
    /// Streams that are served, by peer.
    streams: Mutex<BTreeMap<NodeId, usize>>,
}

/// A stream that is counted until this is dropped.
struct Place<'s> {
    server: &'s Server,
    peer: NodeId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut streams = self.server.streams();
        if let Some(count) = streams.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.peer);
            }
        }
    }
}

impl Server {
    pub(crate) fn new(rights: Rights, settings: Settings) -> Self {
        Self {
            rights,
            settings: Mutex::new(Arc::new(settings)),
            reading: Arc::new(Semaphore::new(READING_MAX)),
            streams: Mutex::default(),
        }
    }

    /// Applies other settings to requests from now on.
    pub(crate) fn replace(&self, settings: Settings) {
        let mut current = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(settings);
    }

    fn settings(&self) -> Arc<Settings> {
        let current = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    fn streams(&self) -> MutexGuard<'_, BTreeMap<NodeId, usize>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, peer: NodeId) -> Option<Place<'_>> {
        let mut streams = self.streams();
        let of_peer = streams.get(&peer).copied().unwrap_or_default();
        if of_peer >= STREAMS_OF_PEER_MAX || streams.values().sum::<usize>() >= STREAMS_MAX {
            return None;
        }
        streams.insert(peer, of_peer + 1);
        Some(Place { server: self, peer })
    }

    /// The exports that a peer may read now.
    fn exports_of(&self, peer: &NodeId) -> Vec<Export> {
        let settings = self.settings();
        let Some(terms) = self.rights.terms(peer, Right::ReadExport) else {
            return Vec::new();
        };
        let exports = settings.exports.iter();
        let readable = exports.filter(|export| terms.include_export(&export.name));
        readable.cloned().collect()
    }

    async fn serve_stream(self: Arc<Self>, session: Session, stream: Stream) {
        let peer = session.peer();
        if self.exports_of(&peer).is_empty() {
            self.rights.note_refused(Right::ReadExport);
            return refuse(&stream, CODE_NO_RIGHT);
        }
        let Some(place) = self.enter(peer) else {
            return refuse(&stream, CODE_BUSY);
        };
        let mut answering = JoinSet::new();
        let mut noted = BTreeSet::new();
        loop {
            let is_full = answering.len() >= ANSWERING_MAX;
            let adu = tokio::select! {
                Some(sent) = answering.join_next(), if !answering.is_empty() => match sent {
                    Ok(Ok(_)) => continue,
                    // The stream is over, or the task failed.
                    _ => return,
                },
                adu = stream.recv(), if !is_full => adu,
            };
            let Ok(adu) = adu else { return };
            let Some(adu) = adu else { break };
            let Ok((id, request)) = Request::decode(&adu.data) else {
                drop(place);
                return refuse(&stream, CODE_MALFORMED);
            };
            if let Request::Read { path, .. } = &request {
                self.note(&peer, path, &mut noted);
            }
            let (server, stream) = (self.clone(), stream.clone());
            answering
                .spawn(async move { stream.send(server.answer(peer, id, request).await).await });
        }
        // The last answers, and the end.
        while let Some(sent) = answering.join_next().await {
            if !matches!(sent, Ok(Ok(_))) {
                return;
            }
        }
        if stream.finish().is_ok() {
            // An error means that the session is over.
            let _ = stream.delivered().await;
        }
    }

    /// Logs the first request for each file.
    fn note(&self, peer: &NodeId, path: &str, noted: &mut BTreeSet<String>) {
        if noted.contains(path) {
            return;
        }
        if noted.len() < NOTED_MAX {
            noted.insert(path.to_owned());
        }
        let settings = self.settings();
        let name = settings.names.get(peer).cloned();
        let name = name.unwrap_or_else(|| peer.to_string());
        let (name, path) = (printable(&name, NAME_CHARS), printable(path, NAME_CHARS));
        limited!(info, node = %peer, "{name} reads /{path}");
    }

    /// The answer to a request as bytes.
    async fn answer(self: Arc<Self>, peer: NodeId, id: u32, request: Request) -> Bytes {
        // The semaphore is not closed.
        let permit = self.reading.clone().acquire_owned().await;
        let exports = self.exports_of(&peer);
        let answering = spawn_blocking(move || {
            let _permit = permit;
            match fulfil(&exports, id, &request) {
                Ok(message) => message,
                Err(fault) => Answer::Fault(fault).encode(id),
            }
        });
        let message = answering.await;
        let message = message.unwrap_or_else(|_| Answer::Fault(Fault::Failed).encode(id));
        message.into()
    }
}

/// Fulfils a request of a peer that may read these exports.
fn fulfil(exports: &[Export], id: u32, request: &Request) -> Result<Vec<u8>, Fault> {
    let find = |path| match path::read(path)? {
        Asked::All => Ok(None),
        Asked::In { export, beneath } => {
            let mut all = exports.iter();
            let export = all.find(|known| known.name == export);
            let is_shown = |export: &&Export| export.hidden || !path::has_hidden(beneath);
            let export = export.filter(is_shown).ok_or(Fault::NotFound)?;
            Ok(Some((export, beneath)))
        }
    };
    match request {
        Request::Stat { path } => {
            let metadata = match find(path)? {
                None => OF_ALL,
                Some((export, beneath)) => root::stat(&export.path, beneath)?,
            };
            Ok(Answer::Stat(metadata).encode(id))
        }
        Request::List { path, after, max } => {
            if !(1..=LIST_MAX).contains(max) {
                return Err(Fault::TooLong);
            }
            let max = usize::from(*max);
            let (entries, has_more) = match find(path)? {
                None => all(exports, after, max),
                Some((export, beneath)) => {
                    let is_shown = |name: &str| path::is_shown(name, export.hidden);
                    root::list(&export.path, beneath, after, max, is_shown)?
                }
            };
            Ok(Answer::List { entries, has_more }.encode(id))
        }
        Request::Read {
            path,
            offset,
            bytes,
            version,
        } => {
            if *bytes > READ_BYTES_MAX {
                return Err(Fault::TooLong);
            }
            let (export, beneath) = find(path)?.ok_or(Fault::IsDirectory)?;
            let range = Range {
                offset: *offset,
                bytes: *bytes,
                version: *version,
            };
            let header = Answer::data_header(id, Version::default(), 0).len();
            let read = root::read(&export.path, beneath, range, header)?;
            let mut message = read.message;
            let header = Answer::data_header(id, read.version, read.size_bytes);
            message[..header.len()].copy_from_slice(&header);
            Ok(message)
        }
    }
}

/// Attributes of the list of exports.
const OF_ALL: Metadata = Metadata {
    kind: Kind::Directory,
    size_bytes: 0,
    modified_ns: 0,
    version: Version([0; 16]),
};

/// The exports as entries, after a name; those whose directory is not there are left out.
fn all(exports: &[Export], after: &str, max: usize) -> (Vec<Entry>, bool) {
    let mut after: Vec<&Export> = exports
        .iter()
        .filter(|it| it.name.as_str() > after)
        .collect();
    after.sort_by(|one, other| one.name.cmp(&other.name));
    let mut entries = after.iter().filter_map(|export| {
        Some(Entry {
            name: export.name.clone(),
            metadata: root::stat(&export.path, "").ok()?,
        })
    });
    let first = entries.by_ref().take(max).collect();
    (first, entries.next().is_some())
}

impl Service for Server {
    fn takes(&self, label: &str) -> bool {
        label == LABEL
    }

    fn serve(self: Arc<Self>, session: Session, stream: Stream) -> Serving {
        Box::pin(self.serve_stream(session, stream))
    }
}
