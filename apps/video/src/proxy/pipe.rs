//! The session with the origin: established again whenever it ends.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch::{
    Host, Session, Stream, StreamFailure, StreamSpec, Ticket,
    base::ids::encode_base32,
    base::text::{REASON_CHARS, printable},
};
use anabranch_media::Part;
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};

use super::pieces::{INDEX_BYTES_MAX, Pieces};
use crate::{
    priority,
    video::{Division, PART_MIN, Video, parse_policy},
    wire::{
        CONTROL_LABEL, Entry, FETCH_LABEL, Flow, From, Piece, Refusal, RefusalKind, Reply, Request,
        WireError,
    },
};

/// First pause before a new connection attempt, doubled up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Longest pause after a refusal of the origin: most often the ticket is the reason.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(10);
/// Timeout of one connection attempt; QUIC's handshakes back off, and a fresh one finds an origin that is back sooner.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Timeout of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Time after which a new connection is made to an origin that is silent on all paths: it may have been restarted.
const SILENCE_MAX: Duration = Duration::from_secs(4);
/// Maximum number of videos in a catalogue.
const CATALOGUE_MAX: usize = 100_000;

/// The connection to the origin, over all of its sessions.
#[derive(Debug)]
pub(crate) struct Pipe {
    line: watch::Sender<Option<Arc<Line>>>,
    /// Reason for which there is no session, in words that do not reveal the origin's address to viewers.
    trouble: Mutex<&'static str>,
    connected: AtomicU64,
}

/// A session with the origin.
#[derive(Debug)]
pub(crate) struct Line {
    session: Session,
    control: Stream,
    next: AtomicU32,
    waiting: Mutex<HashMap<u32, Waiting>>,
    plays: Mutex<HashMap<u32, mpsc::UnboundedSender<PlayEvent>>>,
}

#[derive(Debug)]
enum Waiting {
    Reply(oneshot::Sender<Result<Reply, Refusal>>),
    Pieces(Pieces),
}

/// Event of a play.
#[derive(Debug)]
pub(crate) enum PlayEvent {
    /// One of its streams has opened.
    Stream(Flow, Stream),
    /// The origin ended it.
    Ended(Refusal),
}

/// A play at the origin; stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Play {
    line: Arc<Line>,
    number: u32,
    pub(crate) events: mpsc::UnboundedReceiver<PlayEvent>,
}

/// A video as the origin opened it.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) version: String,
    pub(crate) division: Division,
    pub(crate) index: Bytes,
}

/// Reason for which a session ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error(transparent)]
    Stream(#[from] StreamFailure),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{0}")]
    Refused(Refusal),
    #[error("{0}")]
    Words(String),
}

impl End {
    /// The same for viewers: players and pages see no addresses, and no messages of the system.
    fn for_everybody(&self) -> &'static str {
        match self {
            Self::Refused(refusal) if refusal.kind == RefusalKind::Ticket => {
                "the origin does not know the ticket of this proxy"
            }
            Self::Refused(_) => "the origin refuses this proxy",
            Self::Wire(_) => "the origin uses another protocol",
            Self::Stream(_) | Self::Words(_) => "the origin does not answer; the proxy reconnects",
        }
    }
}

fn away(reason: impl ToString) -> Refusal {
    Refusal {
        retry_after_s: Some(5),
        ..Refusal::new(RefusalKind::Failed, reason)
    }
}

impl Pipe {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            line: watch::Sender::new(None),
            trouble: Mutex::new("the origin has not answered yet"),
            connected: AtomicU64::new(0),
        })
    }

    /// Keeps a session with the origin up; does not return.
    pub(crate) async fn keep(&self, host: &Host, ticket: &Ticket) {
        let mut pause = PAUSE_MIN;
        loop {
            let calling = host.connect(ticket.node, ticket.remotes());
            let end = match tokio::time::timeout(CALL_MAX, calling).await {
                Ok(Ok(session)) => {
                    let end = self.converse(session, ticket).await;
                    if self.line_now().is_some() {
                        pause = PAUSE_MIN;
                    }
                    end
                }
                Ok(Err(error)) => End::Words(error.to_string()),
                Err(_) => End::Words("the origin does not answer".to_owned()),
            };
            let before = self.line.send_replace(None);
            let reason = printable(&end.to_string(), REASON_CHARS);
            if before.is_some() {
                tracing::warn!(error = %reason, "the session with the origin has ended; reconnecting");
            } else {
                tracing::info!(error = %reason, "no session with the origin; retrying");
            }
            let words = end.for_everybody();
            if let Some(line) = before {
                line.give_up(&away(words));
            }
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = words;
            let longest = match &end {
                // Repeated attempts do not make a ticket valid.
                End::Refused(_) => REFUSED_PAUSE_MAX,
                _ => PAUSE_MAX,
            };
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(longest);
        }
    }

    async fn converse(&self, session: Session, ticket: &Ticket) -> End {
        let line = match greet(session, ticket).await {
            Ok(line) => Arc::new(line),
            Err(end) => return end,
        };
        self.connected.fetch_add(1, Ordering::Relaxed);
        self.line.send_replace(Some(line.clone()));
        let result = tokio::select! {
            result = line.receive() => result,
            result = line.take_streams() => result,
            () = silence(&line.session) => Err(End::Words("no path to the origin answers".to_owned())),
        };
        match result {
            Ok(()) => End::Words("the origin has ended the session".to_owned()),
            Err(end) => end,
        }
    }

    /// The session with the origin, as soon as there is one.
    ///
    /// # Errors
    /// There is none within `timeout`.
    pub(crate) async fn line(&self, timeout: Duration) -> Result<Arc<Line>, Refusal> {
        let mut lines = self.line.subscribe();
        let waiting = lines.wait_for(Option::is_some);
        let found = tokio::time::timeout(timeout, waiting).await;
        if let Ok(Ok(line)) = found
            && let Some(line) = &*line
        {
            return Ok(line.clone());
        }
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        Err(away(format!("the origin is away: {trouble}")))
    }

    /// The session with the origin, if there is one now.
    pub(crate) fn line_now(&self) -> Option<Arc<Line>> {
        self.line.borrow().clone()
    }

    /// Waits until the session with the origin changes.
    pub(crate) async fn changed(&self, watcher: &mut watch::Receiver<Option<Arc<Line>>>) {
        // The sender is a field of this struct.
        let _ = watcher.changed().await;
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Option<Arc<Line>>> {
        self.line.subscribe()
    }

    /// Reason for which there is no session; `None`: there is one.
    pub(crate) fn trouble(&self) -> Option<&'static str> {
        if self.line.borrow().is_some() {
            return None;
        }
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        Some(*trouble)
    }

    /// Number of sessions so far.
    pub(crate) fn connected(&self) -> u64 {
        self.connected.load(Ordering::Relaxed)
    }
}

/// Returns when no path has answered for a while.
async fn silence(session: &Session) {
    const LOOK: Duration = Duration::from_millis(250);
    let mut silent = Duration::ZERO;
    while silent < SILENCE_MAX {
        tokio::time::sleep(LOOK).await;
        let active = session.stats().map_or(0, |stats| stats.channels_active);
        silent = if active > 0 {
            Duration::ZERO
        } else {
            silent + LOOK
        };
    }
}

async fn greet(session: Session, ticket: &Ticket) -> Result<Line, End> {
    let control = session.open_stream(StreamSpec {
        weight: priority::CONTROL_WEIGHT,
        duplex: true,
        label: CONTROL_LABEL.to_owned(),
        ..StreamSpec::default()
    })?;
    let secret = ticket.secret.map(|secret| encode_base32(&secret.0));
    let hello = Request::Hello {
        secret: secret.unwrap_or_default(),
    };
    control.send(hello.encode()).await?;
    let answer = tokio::time::timeout(ANSWER_MAX, control.recv()).await;
    let answer = answer.map_err(|_| End::Words("the origin does not answer".to_owned()))??;
    let answer =
        answer.ok_or_else(|| End::Words("the origin has closed the control stream".to_owned()))?;
    match Reply::decode(&answer.data)? {
        Reply::Welcome => Ok(Line {
            session,
            control,
            next: AtomicU32::new(1),
            waiting: Mutex::default(),
            plays: Mutex::default(),
        }),
        Reply::Refused { refusal, .. } => Err(End::Refused(refusal)),
        _ => Err(End::Words(
            "the origin sent an unexpected reply to the greeting".to_owned(),
        )),
    }
}

impl Line {
    /// The session, for its measurements.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    async fn receive(&self) -> Result<(), End> {
        while let Some(message) = self.control.recv().await? {
            let reply = Reply::decode(&message.data)?;
            match reply {
                Reply::Welcome => {}
                Reply::Refused { id, refusal } => {
                    match self.waiting().remove(&id) {
                        Some(Waiting::Reply(done)) => {
                            let _ = done.send(Err(refusal));
                        }
                        Some(Waiting::Pieces(pieces)) => pieces.refuse(refusal),
                        None => {}
                    };
                }
                Reply::Ended { play, refusal } => {
                    if let Some(events) = self.plays().get(&play) {
                        let _ = events.send(PlayEvent::Ended(refusal));
                    }
                }
                Reply::Opened { id, .. } => {
                    self.note_opened(id, reply);
                }
                Reply::Catalogue { id, .. } | Reply::Playing { id } => {
                    if let Some(Waiting::Reply(done)) = self.waiting().remove(&id) {
                        let _ = done.send(Ok(reply));
                    }
                }
            }
        }
        Ok(())
    }

    async fn take_streams(&self) -> Result<(), End> {
        let mut fetching = None;
        loop {
            let fetched = async {
                match &fetching {
                    Some(stream) => Stream::recv(stream).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                piece = fetched => {
                    let Some(piece) = piece? else { return Ok(()) };
                    self.take_piece(&Piece::decode(piece.data)?)?;
                }
                stream = self.session.accept_stream() => {
                    let stream = stream.map_err(StreamFailure::from)?;
                    let label = &stream.spec().label;
                    if label == FETCH_LABEL {
                        fetching = Some(stream);
                    } else if let Some((flow, play)) = Flow::of_label(label)
                        && let Some(events) = self.plays().get(&play)
                    {
                        // A stream that is no longer wanted is stopped by being dropped.
                        let _ = events.send(PlayEvent::Stream(flow, stream));
                    }
                }
            }
        }
    }

    fn note_opened(&self, id: u32, reply: Reply) {
        if let Some(Waiting::Pieces(pieces)) = self.waiting().get_mut(&id) {
            pieces.opened(reply);
        }
        self.complete(id);
    }

    fn take_piece(&self, piece: &Piece) -> Result<(), End> {
        // The waiting task may be gone.
        if let Some(Waiting::Pieces(pieces)) = self.waiting().get_mut(&piece.id) {
            pieces.take(piece)?;
        }
        self.complete(piece.id);
        Ok(())
    }

    /// Hands over an answer that is complete.
    fn complete(&self, id: u32) {
        let mut waiting = self.waiting();
        let is_whole =
            |waiting: &Waiting| matches!(waiting, Waiting::Pieces(pieces) if pieces.is_whole());
        if waiting.get(&id).is_some_and(is_whole)
            && let Some(Waiting::Pieces(pieces)) = waiting.remove(&id)
        {
            pieces.finish();
        }
    }

    /// Fails all requests that wait.
    fn give_up(&self, refusal: &Refusal) {
        for (_, waiting) in self.waiting().drain() {
            match waiting {
                Waiting::Reply(done) => drop(done.send(Err(refusal.clone()))),
                Waiting::Pieces(pieces) => pieces.refuse(refusal.clone()),
            }
        }
        for (_, events) in self.plays().drain() {
            let _ = events.send(PlayEvent::Ended(refusal.clone()));
        }
    }

    async fn ask(&self, id: u32, request: Request) -> Result<Reply, Refusal> {
        let (done, answer) = oneshot::channel();
        self.waiting().insert(id, Waiting::Reply(done));
        let _forget = Forget { line: self, id };
        self.control.send(request.encode()).await.map_err(away)?;
        answered(answer).await
    }

    async fn ask_for_pieces(
        &self,
        id: u32,
        request: Request,
        bytes_max: u64,
    ) -> Result<(Option<Reply>, Bytes), Refusal> {
        let (done, answer) = oneshot::channel();
        let is_opening = matches!(request, Request::Open { .. });
        let waiting = Waiting::Pieces(Pieces::new(is_opening, bytes_max, done));
        self.waiting().insert(id, waiting);
        let _forget = Forget { line: self, id };
        self.control.send(request.encode()).await.map_err(away)?;
        answered(answer).await
    }

    fn id(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// All videos.
    pub(crate) async fn list(&self) -> Result<Vec<Entry>, Refusal> {
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let id = self.id();
            let after = all.last().map(|last| last.name.clone());
            let after = after.unwrap_or_default();
            let reply = self.ask(id, Request::List { id, after }).await?;
            let Reply::Catalogue {
                videos, is_last, ..
            } = reply
            else {
                return Err(away("the origin sent an unexpected reply"));
            };
            let is_stuck = videos.is_empty() && !is_last;
            all.extend(videos);
            if is_last || is_stuck || all.len() > CATALOGUE_MAX {
                return Ok(all);
            }
        }
    }

    /// Opens a video.
    pub(crate) async fn open(&self, name: &str) -> Result<Opened, Refusal> {
        let id = self.id();
        let name = name.to_owned();
        let request = Request::Open { id, name };
        match self.ask_for_pieces(id, request, INDEX_BYTES_MAX).await? {
            (
                Some(Reply::Opened {
                    version,
                    policy,
                    chunk_ms,
                    segment_ms,
                    ..
                }),
                index,
            ) => Ok(Opened {
                version,
                division: Division {
                    policy: parse_policy(&policy).map_err(away)?,
                    chunk: Duration::from_millis(chunk_ms.into()).max(PART_MIN),
                    segment: Some(Duration::from_millis(segment_ms.into()).max(PART_MIN)),
                },
                index,
            }),
            _ => Err(away("the origin sent an unexpected reply")),
        }
    }

    /// All of one part of a chunk.
    pub(crate) async fn fetch(
        &self,
        video: &Video,
        chunk: u32,
        part: Part,
    ) -> Result<Bytes, Refusal> {
        let id = self.id();
        let request = Request::Fetch {
            id,
            name: video.name.clone(),
            version: video.version.clone(),
            chunk,
            is_enhanced: part == Part::Enhanced,
        };
        let bytes_max = video.bytes(chunk, part);
        Ok(self.ask_for_pieces(id, request, bytes_max).await?.1)
    }

    /// Single enhanced frames of a chunk, by their numbers, one after the other.
    pub(crate) async fn repair(
        &self,
        video: &Video,
        chunk: u32,
        frames: Vec<u32>,
    ) -> Result<Bytes, Refusal> {
        let id = self.id();
        let request = Request::Repair {
            id,
            name: video.name.clone(),
            version: video.version.clone(),
            chunk,
            frames,
        };
        let bytes_max = video.bytes(chunk, Part::Enhanced);
        Ok(self.ask_for_pieces(id, request, bytes_max).await?.1)
    }

    /// Begins a play.
    pub(crate) async fn play(
        self: &Arc<Self>,
        name: &str,
        version: &str,
        from: From,
    ) -> Result<Play, Refusal> {
        let id = self.id();
        let (sender, events) = mpsc::unbounded_channel();
        self.plays().insert(id, sender);
        let play = Play {
            line: self.clone(),
            number: id,
            events,
        };
        let request = Request::Play {
            id,
            play: id,
            name: name.to_owned(),
            version: version.to_owned(),
            from,
        };
        // A session that had ended before the play was registered does not notify it.
        if self.session.close_reason().is_some() {
            return Err(away("the origin is gone"));
        }
        match self.ask(id, request).await? {
            Reply::Playing { .. } => Ok(play),
            _ => Err(away("the origin sent an unexpected reply")),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u32, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plays(&self) -> MutexGuard<'_, HashMap<u32, mpsc::UnboundedSender<PlayEvent>>> {
        self.plays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a request that is no longer waited for.
struct Forget<'a> {
    line: &'a Line,
    id: u32,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.line.waiting().remove(&self.id);
    }
}

async fn answered<T>(answer: oneshot::Receiver<Result<T, Refusal>>) -> Result<T, Refusal> {
    match tokio::time::timeout(ANSWER_MAX, answer).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(away("the origin is gone")),
        Err(_) => Err(away("the origin does not answer")),
    }
}

impl Play {
    /// Continues at another position.
    pub(crate) async fn seek(&self, from: From) -> Result<(), Refusal> {
        let play = self.number;
        let request = Request::Seek { play, from };
        let sent = self.line.control.send(request.encode()).await;
        sent.map(|_| ()).map_err(away)
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        self.line.plays().remove(&self.number);
        let stop = Request::Stop { play: self.number };
        // Where the queue is full or there is no session, its streams are stopped by being dropped.
        let _ = self.line.control.try_send(stop.encode());
    }
}
