//! One proxy's session.

use std::{sync::Arc, time::Duration};

use anabranch::{Session, Stream, StreamFailure, StreamSpec, base::Rate};
use anabranch_media::Part;
use bytes::{Bytes, BytesMut};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinSet,
};

use super::{
    governor::FETCH_RATE_MAX,
    library::{Library, LibraryError, Opened},
    pump::{Command, Pump},
};
use crate::{
    priority,
    video::policy_text,
    wire::{
        CONTROL_LABEL, ENTRIES_MAX, FETCH_LABEL, PIECE_BYTES_MAX, Piece, Refusal, RefusalKind,
        Reply, Request, WireError,
    },
};

/// A proxy that says nothing for this long after connecting is sent away.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// Requests of one session that are worked on at a time; others wait.
const REQUESTS_MAX: usize = 8;
/// Requests that wait, too; more end the session.
const WAITING_MAX: usize = 1_024;

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error(transparent)]
    Stream(#[from] StreamFailure),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{0}")]
    Words(&'static str),
}

impl From<LibraryError> for Refusal {
    fn from(error: LibraryError) -> Self {
        let kind = match &error {
            LibraryError::NotFound(_) => RefusalKind::NotFound,
            LibraryError::Changed(_) => RefusalKind::Changed,
            LibraryError::Unusable { .. } => RefusalKind::Unusable,
            _ => RefusalKind::Failed,
        };
        Self::new(kind, error)
    }
}

/// Serves a session until it is over.
pub(super) async fn serve(
    session: Session,
    library: Arc<Library>,
    secret: String,
    capacity: Option<Rate>,
) {
    let peer = session.peer();
    match converse(&session, library, &secret, capacity).await {
        Ok(()) => tracing::info!(%peer, "the proxy has left"),
        Err(End::Stream(error)) => tracing::info!(%peer, %error, "the proxy is gone"),
        Err(error) => {
            tracing::warn!(%peer, %error, "the proxy is sent away");
            session.close(1, &error.to_string());
        }
    }
}

async fn converse(
    session: &Session,
    library: Arc<Library>,
    secret: &str,
    capacity: Option<Rate>,
) -> Result<(), End> {
    let accepting = session.accept_stream_where(|spec| spec.label == CONTROL_LABEL);
    let control = tokio::time::timeout(HELLO_TIMEOUT, accepting).await;
    let control = control
        .map_err(|_| End::Words("no greeting"))?
        .map_err(StreamFailure::from)?;
    let hello = tokio::time::timeout(HELLO_TIMEOUT, control.recv()).await;
    let hello = hello.map_err(|_| End::Words("no greeting"))??;
    let Some(hello) = hello else { return Ok(()) };
    let Request::Hello { secret: shown } = Request::decode(&hello.data)? else {
        return Err(End::Words("no greeting"));
    };
    if blake3::hash(shown.as_bytes()) != blake3::hash(secret.as_bytes()) {
        let refusal = Refusal::new(
            RefusalKind::Ticket,
            "the origin does not know this ticket; copy the line again that `anabranch video origin` prints there",
        );
        control
            .send(Reply::Refused { id: 0, refusal }.encode())
            .await?;
        control.finish()?;
        // Its end of the stream says that it has heard.
        let _ = tokio::time::timeout(HELLO_TIMEOUT, control.recv()).await;
        return Ok(());
    }
    session.end_probation()?;
    control.send(Reply::Welcome.encode()).await?;
    let fetch = session.open_stream(StreamSpec {
        weight: priority::FETCH_WEIGHT,
        cap: Some(FETCH_RATE_MAX),
        label: FETCH_LABEL.to_owned(),
        ..StreamSpec::default()
    })?;
    tracing::info!(peer = %session.peer(), "a proxy is here");
    let (commands, orders) = mpsc::channel(WAITING_MAX);
    let (fetching, watching) = watch::channel(0);
    let mut desk = Desk {
        library,
        control: control.clone(),
        fetch,
        commands,
        fetching,
        turns: Arc::new(Semaphore::new(REQUESTS_MAX)),
        running: JoinSet::new(),
    };
    tokio::select! {
        result = desk.listen() => result,
        result = Pump::new(session, &control, capacity, watching).run(orders) => Ok(result?),
    }
}

/// Hears requests, and has each answered by a task of its own.
struct Desk {
    library: Arc<Library>,
    control: Stream,
    fetch: Stream,
    commands: mpsc::Sender<Command>,
    fetching: watch::Sender<usize>,
    turns: Arc<Semaphore>,
    running: JoinSet<Result<(), StreamFailure>>,
}

impl Desk {
    async fn listen(&mut self) -> Result<(), End> {
        loop {
            tokio::select! {
                Some(done) = self.running.join_next() => {
                    if let Ok(result) = done {
                        result?;
                    }
                }
                message = self.control.recv() => {
                    let Some(message) = message? else { return Ok(()) };
                    self.hear(Request::decode(&message.data)?)?;
                }
            }
        }
    }

    fn hear(&mut self, request: Request) -> Result<(), End> {
        if self.running.len() >= WAITING_MAX {
            return Err(End::Words("too many requests at a time"));
        }
        match request {
            Request::Hello { .. } => return Err(End::Words("a second greeting")),
            Request::Seek { play, from } => self.command(Command::Seek { play, from })?,
            Request::Stop { play } => self.command(Command::Stop { play })?,
            request => {
                let clerk = Clerk {
                    library: self.library.clone(),
                    control: self.control.clone(),
                    fetch: self.fetch.clone(),
                    commands: self.commands.clone(),
                };
                let (turns, fetching) = (self.turns.clone(), self.fetching.clone());
                if let Request::Repair { id, .. } = request
                    && turns.available_permits() == 0
                {
                    // It is of use for a second or two, and makes others wait who want a video.
                    let words = "what was lost would come too late";
                    let refusal = Refusal::new(RefusalKind::Full, words);
                    self.running
                        .spawn(async move { clerk.refuse(id, refusal).await });
                    return Ok(());
                }
                self.running.spawn(async move {
                    // Never closed.
                    let _turn = turns.acquire_owned().await;
                    let _fetching = request.is_fetch().then(|| Fetching::new(fetching));
                    clerk.answer(request).await
                });
            }
        }
        Ok(())
    }

    fn command(&self, command: Command) -> Result<(), End> {
        let sent = self.commands.try_send(command);
        sent.map_err(|_| End::Words("too many requests at a time"))
    }
}

/// While it is there, data are fetched besides plays.
struct Fetching(watch::Sender<usize>);

impl Fetching {
    fn new(count: watch::Sender<usize>) -> Self {
        count.send_if_modified(|count| {
            *count += 1;
            *count == 1
        });
        Self(count)
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.0.send_if_modified(|count| {
            *count -= 1;
            *count == 0
        });
    }
}

/// Answers one request.
struct Clerk {
    library: Arc<Library>,
    control: Stream,
    fetch: Stream,
    commands: mpsc::Sender<Command>,
}

impl Clerk {
    async fn answer(self, request: Request) -> Result<(), StreamFailure> {
        match request {
            Request::List { id, after } => {
                let library = self.library.clone();
                let all = blocking(move || library.list()).await;
                let begin = all.partition_point(|entry| entry.name <= after);
                let end = all.len().min(begin + ENTRIES_MAX);
                let reply = Reply::Catalogue {
                    id,
                    is_last: end == all.len(),
                    videos: all[begin..end].to_vec(),
                };
                self.say(&reply).await
            }
            Request::Open { id, name } => match self.open(name).await {
                Ok(opened) => {
                    let division = opened.video.division;
                    let reply = Reply::Opened {
                        id,
                        version: opened.video.version.clone(),
                        policy: policy_text(division.policy),
                        chunk_ms: millis(division.chunk),
                        segment_ms: millis(opened.video.segments.length),
                        index_bytes: opened.index.len() as u64,
                    };
                    self.say(&reply).await?;
                    self.send_pieces(id, &opened.index).await
                }
                Err(refusal) => self.refuse(id, refusal).await,
            },
            Request::Fetch {
                id,
                name,
                version,
                chunk,
                is_enhanced,
            } => {
                let part = if is_enhanced {
                    Part::Enhanced
                } else {
                    Part::Essential
                };
                let found = match self.open_version(name, &version).await {
                    Ok(opened) => read(opened, chunk, part).await,
                    Err(refusal) => Err(refusal),
                };
                match found {
                    Ok(data) => self.send_pieces(id, &data).await,
                    Err(refusal) => self.refuse(id, refusal).await,
                }
            }
            Request::Repair {
                id,
                name,
                version,
                chunk,
                frames,
            } => {
                let found = match self.open_version(name, &version).await {
                    Ok(opened) => read_frames(opened, chunk, frames).await,
                    Err(refusal) => Err(refusal),
                };
                match found {
                    Ok(data) => self.send_pieces(id, &data).await,
                    Err(refusal) => self.refuse(id, refusal).await,
                }
            }
            Request::Play {
                id,
                play,
                name,
                version,
                from,
            } => match self.open_version(name, &version).await {
                Ok(opened) => {
                    let command = Command::Play {
                        id,
                        play,
                        opened,
                        from,
                    };
                    // The pump lives as long as the session.
                    let _ = self.commands.send(command).await;
                    Ok(())
                }
                Err(refusal) => self.refuse(id, refusal).await,
            },
            // The desk answers these itself.
            Request::Hello { .. } | Request::Seek { .. } | Request::Stop { .. } => Ok(()),
        }
    }

    async fn open(&self, name: String) -> Result<Arc<Opened>, Refusal> {
        let library = self.library.clone();
        Ok(blocking(move || library.video(&name)).await?)
    }

    async fn open_version(&self, name: String, version: &str) -> Result<Arc<Opened>, Refusal> {
        let opened = self.open(name.clone()).await?;
        if opened.video.version != version {
            return Err(LibraryError::Changed(name).into());
        }
        Ok(opened)
    }

    async fn send_pieces(&self, id: u32, data: &Bytes) -> Result<(), StreamFailure> {
        let total = data.len() as u64;
        let mut offset = 0;
        loop {
            let end = data.len().min(offset + PIECE_BYTES_MAX);
            let piece = Piece {
                id,
                offset: offset as u64,
                total,
                data: data.slice(offset..end),
            };
            self.fetch.send(piece.encode()).await?;
            offset = end;
            if offset >= data.len() {
                return Ok(());
            }
        }
    }

    async fn refuse(&self, id: u32, refusal: Refusal) -> Result<(), StreamFailure> {
        self.say(&Reply::Refused { id, refusal }).await
    }

    async fn say(&self, reply: &Reply) -> Result<(), StreamFailure> {
        self.control.send(reply.encode()).await?;
        Ok(())
    }
}

/// Reads a part of a chunk on a thread that may wait for the disk.
pub(super) async fn read(opened: Arc<Opened>, chunk: u32, part: Part) -> Result<Bytes, Refusal> {
    if chunk >= opened.video.count() {
        let words = format!("the video has {} chunks", opened.video.count());
        return Err(Refusal::new(RefusalKind::NotFound, words));
    }
    Ok(blocking(move || opened.read(chunk, part)).await?)
}

/// Single enhanced frames of a chunk, by their numbers, one after the other.
async fn read_frames(opened: Arc<Opened>, chunk: u32, frames: Vec<u32>) -> Result<Bytes, Refusal> {
    let all = read(opened.clone(), chunk, Part::Enhanced).await?;
    let video = &opened.video;
    let mut wanted = frames.into_iter().peekable();
    let mut out = BytesMut::new();
    let mut at = 0;
    for (number, frame) in (0..).zip(video.frames(chunk, Part::Enhanced)) {
        let end = at + video.size(frame) as usize;
        if wanted.next_if_eq(&number).is_some() {
            out.extend_from_slice(&all[at..end]);
        }
        at = end;
    }
    if wanted.next().is_some() {
        let words = "the chunk has no such frame";
        return Err(Refusal::new(RefusalKind::NotFound, words));
    }
    Ok(out.freeze())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
