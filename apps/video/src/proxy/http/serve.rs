//! HTTP listener: accepts and limits connections, and closes those that make no progress.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use anabranch::net::limited;
use axum::{
    body::{Body, HttpBody},
    http::Request,
    response::Response,
};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::Sleep,
};

use super::guests::{Busy, Guests, Limits, Place};
use crate::clock::Clock;

/// Time within which a request must be complete after its connection, or after the previous response.
pub(super) const HEAD_MAX: Duration = Duration::from_secs(10);
/// Time after which a player that reads nothing is taken for gone: one that pauses requests the rest anew.
pub(super) const STALL_MAX: Duration = Duration::from_secs(300);
/// Maximum size of the head of a request, in bytes, and maximum number of its lines.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEAD_LINES_MAX: usize = 64;
/// Number of descriptors reserved for the cache, the session and the needs of the system.
const DESCRIPTORS_KEPT: u64 = 128;
/// Time for which responses may continue after the proxy was stopped.
const FAREWELL: Duration = Duration::from_secs(2);
/// First pause after a failure to accept connections, doubled up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Response to connections for which there is no place.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Handler of requests. Their bodies, if they have any, are not read.
pub(super) trait Handler: Clone + Send + Sync + 'static {
    fn answer(
        self,
        peer: SocketAddr,
        request: Request<()>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// Reduces `limits` so that enough descriptors are left.
pub(super) fn bounded(limits: Limits) -> Limits {
    let total = match descriptors() {
        None => limits.total,
        Some(most) => {
            let kept = DESCRIPTORS_KEPT.min(most / 2);
            let free = usize::try_from(most - kept).unwrap_or(usize::MAX);
            limits.total.min(free)
        }
    };
    Limits {
        total: total.max(1),
        per_address: limits.per_address.clamp(1, total.max(1)),
    }
}

/// Maximum number of descriptors of this process; `None`: there is no limit, or it is not known.
fn descriptors() -> Option<u64> {
    #[cfg(unix)]
    {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }
    #[cfg(not(unix))]
    None
}

/// Serves until `stop` is ready, and then lets responses in progress continue for a moment.
pub(super) async fn serve(
    handler: impl Handler,
    clock: Clock,
    listener: TcpListener,
    limits: Limits,
    stop: impl Future<Output = ()> + Send,
) {
    let guests = Guests::new(bounded(limits), clock);
    let stopping = watch::Sender::new(false);
    let mut running = JoinSet::new();
    let mut pause = PAUSE_MIN;
    let mut stop = std::pin::pin!(stop);
    loop {
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            Some(_) = running.join_next() => continue,
            () = &mut stop => break,
        };
        let now = clock.now();
        let (stream, peer) = match taken {
            Ok(taken) => taken,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                limited!(warn, %error, "connections cannot be accepted; retrying");
                // Most often for lack of descriptors.
                guests.evict(now);
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(PAUSE_MAX);
                continue;
            }
        };
        pause = PAUSE_MIN;
        let Some(place) = guests.admit(now, peer.ip()) else {
            refuse(&stream);
            continue;
        };
        // It only affects latency.
        let _ = stream.set_nodelay(true);
        running.spawn(converse(
            handler.clone(),
            stream,
            peer,
            place,
            stopping.subscribe(),
        ));
    }
    stopping.send_replace(true);
    drop(listener);
    let ended = async { while running.join_next().await.is_some() {} };
    // Later responses are cut off.
    let _ = tokio::time::timeout(FAREWELL, ended).await;
}

/// True for failures that concern one connection, not the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Sends the refusal, if that is possible at once.
fn refuse(stream: &TcpStream) {
    // A new connection has space in its buffer; where it has not, closing it is enough.
    let _ = stream.try_write(BUSY);
}

/// Serves one connection until it is over.
pub(super) async fn converse<I>(
    handler: impl Handler,
    io: I,
    peer: SocketAddr,
    place: Arc<Place>,
    mut stopping: watch::Receiver<bool>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send,
{
    let io = TokioIo::new(Watched {
        io,
        place: place.clone(),
        stalled: None,
    });
    let here = place.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let busy = here.begin();
        let answering = handler.clone().answer(peer, request.map(drop));
        async move {
            let response = answering.await;
            Ok::<_, std::convert::Infallible>(response.map(|body| Tracked { body, _busy: busy }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEAD_LINES_MAX)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let stopped = async {
        // The sender lives as long as the listener.
        let _ = stopping.wait_for(|&is_stopping| is_stopping).await;
    };
    // Errors of players' connections are not logged.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = place.taken() => return,
        () = stopped => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A body; its connection is idle again when this is dropped.
struct Tracked {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that fails when none of the data to be sent has been taken for [`STALL_MAX`].
struct Watched<I> {
    io: I,
    place: Arc<Place>,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<I> Watched<I> {
    /// Evaluates the result of a write.
    fn look<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            if self.stalled.take().is_some() {
                self.place.stalled(None);
            }
            return done;
        }
        let place = &self.place;
        let sleep = self.stalled.get_or_insert_with(|| {
            place.stalled(Some(place.now()));
            Box::pin(tokio::time::sleep(STALL_MAX))
        });
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Watched<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.look(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write_vectored(cx, bytes);
        self.look(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
