//! One proxy's session.

use std::{sync::Arc, time::Duration};

use anabranch::{
    Session, Stream, StreamFailure, StreamSpec,
    base::text::{REASON_CHARS, printable},
    net::limited,
};
use anabranch_media::Part;
use bytes::Bytes;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinSet,
};

use super::{
    Shared,
    door::{From, Place},
    governor::FETCH_RATE_MAX,
    library::{Library, LibraryError, Opened},
    memory::MemoryShare,
    pump::{Command, Pump},
    reading::{blocking, read, read_frames},
    tickets::Good,
};
use crate::{
    priority,
    video::policy_text,
    wire::{
        CONTROL_LABEL, ENTRIES_MAX, FETCH_LABEL, PIECE_BYTES_MAX, Piece, Refusal, RefusalKind,
        Reply, Request, WireError,
    },
};

/// Time after which a session that has not shown a ticket is closed.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// Requests of one session that are processed at a time; others wait.
const REQUESTS_MAX: usize = 8;
/// Maximum number of waiting requests; more end the session.
const WAITING_MAX: usize = 1_024;

/// Reason for which a session ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error(transparent)]
    Stream(#[from] StreamFailure),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{0}")]
    Words(&'static str),
}

impl std::convert::From<LibraryError> for Refusal {
    fn from(error: LibraryError) -> Self {
        let kind = match &error {
            LibraryError::NotFound(_) => RefusalKind::NotFound,
            LibraryError::Changed(_) => RefusalKind::Changed,
            LibraryError::Unusable { .. } => RefusalKind::Unusable,
            // Messages of the system or a store are only logged here: they name addresses and folders.
            LibraryError::Read { name, .. } => {
                note(&error);
                let words = format!(
                    "the video '{name}' cannot be read at the origin; the reason is in its log"
                );
                return Self::new(RefusalKind::Failed, words);
            }
            _ => {
                note(&error);
                let words = "the origin cannot read its library; the reason is in its log";
                return Self::new(RefusalKind::Failed, words);
            }
        };
        Self::new(kind, error)
    }
}

fn note(error: &LibraryError) {
    limited!(warn, error = %printable(&error.to_string(), REASON_CHARS), "the library cannot be read");
}

/// Serves a session until it is over.
pub(super) async fn serve(session: Session, from: From, place: Place, shared: Arc<Shared>) {
    let peer = from.node;
    let greeting = tokio::time::timeout(HELLO_MAX, greeted(&session, from, &place, &shared));
    let greeted = tokio::select! {
        greeted = greeting => greeted.unwrap_or(Err(End::Words("no greeting"))),
        () = place.taken() => Err(End::Words("newer sessions without a greeting took its place")),
    };
    let proxy = match greeted {
        Ok(proxy) => proxy,
        Err(end) => {
            limited!(info, %peer, error = %printable(&end.to_string(), REASON_CHARS), "a session showed no ticket");
            session.close(1, &printable(&end.to_string(), REASON_CHARS));
            return;
        }
    };
    tracing::info!(%peer, ticket = proxy.ticket.name, "a proxy has connected");
    let conversing = converse(&session, &proxy, &shared);
    let revoked = shared.tickets.revoked(&proxy.ticket);
    let ended = tokio::select! {
        ended = conversing => ended,
        () = revoked => Err(End::Words("the ticket was revoked; ask for another at the origin")),
    };
    match ended {
        Ok(()) => limited!(info, %peer, "the proxy has disconnected"),
        Err(End::Stream(error)) => {
            limited!(info, %peer, error = %printable(&error.to_string(), REASON_CHARS), "the session with the proxy failed");
        }
        Err(error) => {
            let error = printable(&error.to_string(), REASON_CHARS);
            limited!(warn, %peer, error, "the session with the proxy was closed");
            session.close(1, &error);
        }
    }
}

/// A session that has shown a ticket.
struct Proxy {
    control: Stream,
    ticket: Good,
    memory_share: MemoryShare,
}

/// Waits for the greeting. A peer that shows no ticket gets nothing else.
async fn greeted(
    session: &Session,
    from: From,
    place: &Place,
    shared: &Shared,
) -> Result<Proxy, End> {
    let accepting = session.accept_stream_where(|spec| spec.label == CONTROL_LABEL);
    let control = accepting.await.map_err(StreamFailure::from)?;
    let hello = control.recv().await?.ok_or(End::Words("no greeting"))?;
    let Request::Hello { secret } = Request::decode(&hello.data)? else {
        return Err(End::Words("no greeting"));
    };
    let now = shared.clock.now();
    let words = if !shared.door.may_try(now, from.address) {
        "too many wrong tickets came from this address; try again in a minute"
    } else if let Some(ticket) = shared.tickets.find(&secret) {
        match place.admit(from.node, &ticket.name) {
            Ok(()) => {
                // The session has shown a right; its probation ends here.
                session.end_probation()?;
                control.send(Reply::Welcome.encode()).await?;
                let memory_share = shared.memory.memory_share(&ticket.name);
                return Ok(Proxy {
                    control,
                    ticket,
                    memory_share,
                });
            }
            Err(words) => return Err(End::Words(words)),
        }
    } else {
        shared.door.failed(now, from.address, &secret);
        "the origin does not know this ticket; copy the line again that `anabranch video origin` or `video ticket new` printed there"
    };
    let refusal = Refusal::new(RefusalKind::Ticket, words);
    control
        .send(Reply::Refused { id: 0, refusal }.encode())
        .await?;
    control.finish()?;
    // The proxy confirms receipt by closing its end of the stream.
    let _ = control.recv().await;
    Err(End::Words("the ticket is not valid"))
}

async fn converse(session: &Session, proxy: &Proxy, shared: &Shared) -> Result<(), End> {
    let control = &proxy.control;
    let fetch = session.open_stream(StreamSpec {
        weight: priority::FETCH_WEIGHT,
        cap: Some(FETCH_RATE_MAX),
        label: FETCH_LABEL.to_owned(),
        ..StreamSpec::default()
    })?;
    let (commands, orders) = mpsc::channel(WAITING_MAX);
    let (fetching, watching) = watch::channel(0);
    let mut handler = RequestHandler {
        library: shared.library.clone(),
        memory_share: proxy.memory_share.clone(),
        control: control.clone(),
        fetch,
        commands,
        fetching,
        turns: Arc::new(Semaphore::new(REQUESTS_MAX)),
        running: JoinSet::new(),
    };
    let pump = Pump::new(
        session,
        control,
        (shared.clock, shared.capacity),
        watching,
        proxy.memory_share.clone(),
        shared.monitor.session(&proxy.ticket.name),
    );
    tokio::select! {
        result = handler.listen() => result,
        result = pump.run(orders) => Ok(result?),
    }
}

/// Receives requests, and has each answered by a task of its own.
struct RequestHandler {
    library: Arc<Library>,
    memory_share: MemoryShare,
    control: Stream,
    fetch: Stream,
    commands: mpsc::Sender<Command>,
    fetching: watch::Sender<usize>,
    turns: Arc<Semaphore>,
    running: JoinSet<Result<(), StreamFailure>>,
}

impl RequestHandler {
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
                    self.handle(Request::decode(&message.data)?)?;
                }
            }
        }
    }

    fn handle(&mut self, request: Request) -> Result<(), End> {
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
                    memory_share: self.memory_share.clone(),
                    control: self.control.clone(),
                    fetch: self.fetch.clone(),
                    commands: self.commands.clone(),
                };
                let (turns, fetching) = (self.turns.clone(), self.fetching.clone());
                if let Request::Repair { id, .. } = request
                    && turns.available_permits() == 0
                {
                    // It is of use for a second or two, and delays viewers who wait for a video.
                    let words = "lost frames would come too late";
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

/// A fetch in progress: while this exists, data is fetched besides plays.
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

/// Handler of one request.
struct Clerk {
    library: Arc<Library>,
    memory_share: MemoryShare,
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
                self.reply(&reply).await
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
                    self.reply(&reply).await?;
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
                    Ok(opened) => read(opened, chunk, part, &self.memory_share).await,
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
                    Ok(opened) => read_frames(opened, chunk, frames, &self.memory_share).await,
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
            // The request handler answers these itself.
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
        self.reply(&Reply::Refused { id, refusal }).await
    }

    async fn reply(&self, reply: &Reply) -> Result<(), StreamFailure> {
        self.control.send(reply.encode()).await?;
        Ok(())
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
