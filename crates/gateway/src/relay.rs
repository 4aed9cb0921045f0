//! Relay: bytes between a connection and its stream, with FIN, RST and back-pressure carried as such.
//!
//! One task a connection, which holds no buffer while nothing moves: bytes are read when there are some, directly into the ADU that
//! is sent. The two directions are independent until both have ended, or one fails, which ends both with a reset.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anabranch::{Stream, StreamFailure, daemon::CODE_NO_RIGHT};
use bytes::{BufMut, Bytes, BytesMut};
use tokio::{sync::Notify, time::timeout_at};

use crate::{
    connections::OfSession,
    credit::{Overrun, Window},
    error::{Code, Refusal},
    outage::Outage,
    register::Registered,
    socket::Socket,
    wire::{CODE_PROTOCOL, CODE_RESET, DATA, INITIAL_CREDIT, LAST, Message, WireError},
};

/// Smallest and largest piece that is read at a time.
const PIECE_BYTES: (usize, usize) = (4 << 10, 64 << 10);

/// Cause of a relay that ended before both directions did.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The connection of the program here.
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    /// The stream or its session.
    #[error(transparent)]
    Stream(#[from] StreamFailure),
    /// The peer sent something that it should not.
    #[error("the peer does not keep to the protocol: {0}")]
    Wire(#[from] WireError),
    /// As above.
    #[error("the peer does not keep to the protocol: {0}")]
    Overrun(#[from] Overrun),
    /// As above.
    #[error("the peer does not keep to the protocol: a message out of place")]
    Order,
    /// No path worked for too long.
    #[error("no path to the peer for {} s", .0.as_secs())]
    Outage(Duration),
    /// The peer did not make the connection.
    #[error("{0}")]
    Refused(Refusal),
}

/// State of the relay when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The peer has not answered the request, and must do so in time.
    Asked {
        /// Latest time of the answer.
        by: tokio::time::Instant,
    },
    /// Both ends are connected.
    Open,
}

/// Ends both directions of a stream at once.
pub(crate) fn abort(stream: &Stream, code: u32) {
    // An error means that a direction is over already.
    let _ = stream.stop(code);
    let _ = stream.reset(code);
}

/// Carries bytes until both directions have ended. A failure at either end resets the other.
pub(crate) async fn relay(
    socket: Socket,
    stream: &Stream,
    phase: Phase,
    shared: OfSession,
    flow: &Registered,
) -> Result<(), Broken> {
    let result = carry(&socket, stream, phase, shared, flow).await;
    match &result {
        Ok(()) => socket.close(),
        Err(broken) => {
            let code = match broken {
                Broken::Wire(_) | Broken::Overrun(_) | Broken::Order => CODE_PROTOCOL,
                _ => CODE_RESET,
            };
            abort(stream, code);
        }
    }
    result
}

/// Ends a connection whose right was withdrawn.
pub(crate) fn withdraw(stream: &Stream) {
    abort(stream, CODE_NO_RIGHT);
}

async fn carry(
    socket: &Socket,
    stream: &Stream,
    phase: Phase,
    OfSession { pool, outage }: OfSession,
    flow: &Registered,
) -> Result<(), Broken> {
    let credit = Credit {
        limit: AtomicU64::new(INITIAL_CREDIT),
        raised: Notify::new(),
    };
    // Directions that have ended; the stream is finished when both have, because credit follows data until then.
    let ended = AtomicU64::new(0);
    let end = || -> Result<(), Broken> {
        if ended.fetch_add(1, Ordering::AcqRel) == 1 {
            stream.finish()?;
        }
        Ok(())
    };
    let answered = Notify::new();
    let is_open = AtomicBool::new(phase == Phase::Open);
    let up = async {
        send(socket, stream, &credit, flow).await?;
        end()
    };
    let down = async {
        let mut window = Window::new(pool, Instant::now());
        let ends = Ends {
            socket,
            stream,
            flow,
            answered: &answered,
            is_open: &is_open,
        };
        receive(ends, phase, &credit, &mut window, &end).await
    };
    let both = async { tokio::try_join!(up, down).map(|((), ())| ()) };
    let result = tokio::select! {
        // First: what ends a stream may arrive together with what was said on it.
        biased;
        result = both => result,
        error = socket.failed() => Err(error.into()),
        failure = stopped(stream) => Err(failure.into()),
        broken = out_of_reach(phase, &answered, &outage) => Err(broken),
    };
    let result = match (result, phase) {
        (Err(Broken::Stream(failure)), Phase::Asked { by }) if !is_open.load(Ordering::Acquire) => {
            Err(behind(stream, failure, by).await)
        }
        (result, _) => result,
    };
    match result {
        // Both programs have all bytes, and the end behind them. The session may end early, or the connection be reset.
        Err(Broken::Stream(_) | Broken::Socket(_)) if ended.load(Ordering::Acquire) == 2 => {}
        result => result?,
    }
    // If this is the last stream of the session, the peer must learn of its end before the session's.
    let _ = stream.delivered().await;
    Ok(())
}

/// Refusal by a peer that has stopped the stream: it wants no more of it, and its answer may arrive behind that. The failure itself if
/// no answer comes.
async fn behind(stream: &Stream, failure: StreamFailure, by: tokio::time::Instant) -> Broken {
    let StreamFailure::Stopped(_) = failure else {
        return failure.into();
    };
    if let Ok(Ok(Some(adu))) = timeout_at(by, stream.recv()).await
        && let Ok(Message::Answer(Err(refusal))) = Message::decode(adu.data)
    {
        return Broken::Refused(refusal);
    }
    failure.into()
}

/// Waits until the peer has not answered the request in time, or, after its answer, was out of reach for too long.
async fn out_of_reach(phase: Phase, answered: &Notify, outage: &Outage) -> Broken {
    if let Phase::Asked { by } = phase
        && timeout_at(by, answered.notified()).await.is_err()
    {
        return Broken::Refused(no_answer());
    }
    Broken::Outage(outage.too_long().await)
}

/// Refusal of a connection for which the peer does not answer.
pub(crate) fn no_answer() -> Refusal {
    let text = "the peer does not answer; it may be gone, or its network interrupted";
    Refusal::new(Code::TimedOut, text)
}

/// Waits until the peer has stopped the stream, or the session is over.
async fn stopped(stream: &Stream) -> StreamFailure {
    loop {
        if let Err(failure) = stream.next_event().await {
            return failure;
        }
    }
}

/// Credit that the peer has given.
#[derive(Debug)]
struct Credit {
    limit: AtomicU64,
    raised: Notify,
}

impl Credit {
    /// Waits until more than `sent` bytes may be sent, and returns how many more.
    async fn after(&self, sent: u64) -> u64 {
        loop {
            let left = self.limit.load(Ordering::Acquire).saturating_sub(sent);
            if left > 0 {
                return left;
            }
            // One task waits, and a notification before it does is kept.
            self.raised.notified().await;
        }
    }

    fn raise(&self, limit: u64) {
        self.limit.fetch_max(limit, Ordering::AcqRel);
        self.raised.notify_one();
    }
}

/// Sends what the program writes, until it shuts its side.
async fn send(
    socket: &Socket,
    stream: &Stream,
    credit: &Credit,
    flow: &Registered,
) -> Result<(), Broken> {
    let mut sent = 0;
    let mut size = PIECE_BYTES.0;
    loop {
        let left = credit.after(sent).await;
        flow.ready().await;
        socket.readable().await?;
        let limit = usize::try_from(left).unwrap_or(usize::MAX).min(size);
        let Some(mut piece) = read(socket, limit)? else {
            continue;
        };
        let count = piece.len() - 1;
        if count == 0 {
            stream.send(Message::End.encode()).await?;
            return Ok(());
        }
        sent += count as u64;
        if count as u64 == left {
            piece[0] = LAST;
        }
        // What is sent is kept until it is acknowledged: a few bytes must not keep a large buffer.
        let bytes = match count < limit / 4 {
            true => Bytes::copy_from_slice(&piece),
            false => piece.freeze(),
        };
        // A full piece asks for larger ones, a small one for smaller ones.
        if count == size {
            size = (2 * size).min(PIECE_BYTES.1);
        } else if count < size / 4 {
            size = (size / 2).max(PIECE_BYTES.0);
        }
        // Before the peer can answer, so that whoever has an answer finds the question counted.
        flow.sent(count);
        stream.send(bytes).await?;
    }
}

/// Reads up to `limit` bytes behind the type byte of a message; a message without bytes is the end. `None`: there are none now.
fn read(socket: &Socket, limit: usize) -> Result<Option<BytesMut>, Broken> {
    let mut piece = BytesMut::with_capacity(1 + limit);
    piece.put_u8(DATA);
    match socket.try_read(&mut (&mut piece).limit(limit)) {
        Ok(_) => Ok(Some(piece)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Both ends of a connection, and its place in the register.
#[derive(Clone, Copy)]
struct Ends<'r> {
    socket: &'r Socket,
    stream: &'r Stream,
    flow: &'r Registered,
    /// Notified when the peer has made the connection.
    answered: &'r Notify,
    /// True from then on.
    is_open: &'r AtomicBool,
}

/// Writes what the peer sends, until it has ended and finished.
async fn receive(
    ends: Ends<'_>,
    mut phase: Phase,
    credit: &Credit,
    window: &mut Window,
    end: &impl Fn() -> Result<(), Broken>,
) -> Result<(), Broken> {
    let Ends {
        socket,
        stream,
        flow,
        answered,
        is_open,
    } = ends;
    let mut is_ended = false;
    while let Some(adu) = stream.recv().await? {
        match (Message::decode(adu.data)?, phase) {
            (Message::Answer(Ok(_)), Phase::Asked { .. }) => {
                phase = Phase::Open;
                is_open.store(true, Ordering::Release);
                answered.notify_one();
            }
            (Message::Answer(Err(refusal)), Phase::Asked { .. }) => {
                return Err(Broken::Refused(refusal));
            }
            (Message::Credit(limit), Phase::Open) => credit.raise(limit),
            (Message::Data { bytes, is_last }, Phase::Open) if !is_ended => {
                window.receive(bytes.len())?;
                flow.received(bytes.len());
                let (mut began, mut held) = (None, Duration::ZERO);
                let writing = socket.write_all(&bytes, || {
                    began.get_or_insert_with(Instant::now);
                });
                writing.await?;
                let now = Instant::now();
                if let Some(began) = began {
                    held = now.saturating_duration_since(began);
                }
                let count = bytes.len();
                drop(bytes);
                if let Some(limit) = window.take(count, held, is_last, now) {
                    stream.send(Message::Credit(limit).encode()).await?;
                }
            }
            (Message::End, Phase::Open) if !is_ended => {
                is_ended = true;
                socket.shut_write();
                end()?;
            }
            _ => return Err(Broken::Order),
        }
    }
    match is_ended {
        true => Ok(()),
        false => Err(Broken::Order),
    }
}
