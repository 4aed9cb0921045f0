//! Listener: accepts and limits connections.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::body::Body;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

use crate::site::{Site, guarded};

/// Most connections; a browser opens six for a page.
const CONNECTIONS_MAX: usize = 64;
/// Time without progress after which a connection gives way to a new one, where all are taken.
const IDLE_MIN: Duration = Duration::from_secs(5);
/// Time within which the head of a request is complete.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Pause after a failure to accept.
const PAUSE: Duration = Duration::from_millis(100);
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// An open connection.
#[derive(Debug)]
struct Guest {
    /// Milliseconds from the start of the listener to its last byte.
    moved: Arc<AtomicU64>,
    task: AbortHandle,
}

/// Serves until it is dropped; does not return.
pub(crate) async fn run<S: Site>(listener: TcpListener, site: Arc<S>) {
    let begin = Instant::now();
    let (mut tasks, mut guests) = (JoinSet::new(), Vec::<Guest>::new());
    loop {
        while tasks.try_join_next().is_some() {}
        guests.retain(|guest| !guest.task.is_finished());
        let mut connection = match listener.accept().await {
            Ok((connection, _)) => connection,
            Err(error) => {
                tracing::warn!(%error, "a page cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        guests.retain(|guest| !guest.task.is_finished());
        if guests.len() >= CONNECTIONS_MAX && !make_room(&mut guests, begin) {
            let _ = tokio::time::timeout(PAUSE, connection.write_all(BUSY)).await;
            continue;
        }
        let moved = Arc::new(AtomicU64::new(millis(begin)));
        let io = Watched {
            inner: connection,
            begin,
            moved: Arc::clone(&moved),
        };
        let task = tasks.spawn(serve(io, Arc::clone(&site)));
        guests.push(Guest { moved, task });
    }
}

/// Ends the connection that has made no progress for the longest time; false if all are busy.
fn make_room(guests: &mut Vec<Guest>, begin: Instant) -> bool {
    let moved = |guest: &Guest| guest.moved.load(Ordering::Relaxed);
    let oldest = (0..guests.len()).min_by_key(|&index| moved(&guests[index]));
    let now = millis(begin);
    let Some(oldest) = oldest.filter(|&index| {
        Duration::from_millis(now.saturating_sub(moved(&guests[index]))) >= IDLE_MIN
    }) else {
        return false;
    };
    guests.swap_remove(oldest).task.abort();
    true
}

fn millis(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX)
}

async fn serve<S: Site>(connection: Watched, site: Arc<S>) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let site = Arc::clone(&site);
        async move {
            let response = guarded(site, request.map(Body::new)).await;
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(connection), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of a page ended");
    }
}

/// A connection that records when bytes last moved.
#[derive(Debug)]
struct Watched {
    inner: TcpStream,
    begin: Instant,
    moved: Arc<AtomicU64>,
}

impl Watched {
    fn note<T>(&self, polled: &Poll<io::Result<T>>) {
        if matches!(polled, Poll::Ready(Ok(_))) {
            self.moved.store(millis(self.begin), Ordering::Relaxed);
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.note(&polled);
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, buffer);
        self.note(&polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
