//! A listener that can be replaced by another one while connections are accepted.

use std::{
    collections::VecDeque,
    fmt::Debug,
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::net::{TcpListener, TcpStream};

/// A socket that listens.
pub(crate) trait Listener: Sized + Debug {
    /// Its connections.
    type Stream: Debug;

    /// Accepts a connection, or wakes the task when there is one.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Stream>>;

    /// Closes it; the connections that were made and not accepted yet.
    fn close(self) -> Vec<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        Self::poll_accept(self, cx).map_ok(|(stream, _)| stream)
    }

    fn close(self) -> Vec<TcpStream> {
        // It does not block, so the first error is the end of those that wait.
        let Ok(listener) = self.into_std() else {
            return Vec::new();
        };
        let waiting = std::iter::from_fn(|| listener.accept().ok());
        let taken = waiting.filter_map(|(stream, _)| {
            stream.set_nonblocking(true).ok()?;
            TcpStream::from_std(stream).ok()
        });
        taken.collect()
    }
}

/// Place at which connections are accepted by one task: at the listener that is there, if there is one.
#[derive(Debug)]
pub(crate) struct Door<L: Listener>(Mutex<State<L>>);

#[derive(Debug)]
struct State<L: Listener> {
    listener: Option<L>,
    /// Connections of earlier listeners.
    waiting: VecDeque<L::Stream>,
    /// Of the task that accepts.
    waker: Option<Waker>,
}

impl<L: Listener> Door<L> {
    /// Accepts at this listener.
    pub(crate) fn new(listener: Option<L>) -> Self {
        Self(Mutex::new(State {
            listener,
            waiting: VecDeque::new(),
            waker: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if there is a listener.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().listener.is_some()
    }

    /// The next connection; waits for a listener if there is none.
    pub(crate) async fn accept(&self) -> io::Result<L::Stream> {
        poll_fn(|cx| {
            let mut state = self.lock();
            if let Some(stream) = state.waiting.pop_front() {
                return Poll::Ready(Ok(stream));
            }
            state.waker = Some(cx.waker().clone());
            match &state.listener {
                Some(listener) => listener.poll_accept(cx),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Closes the listener at once and accepts at another one. Connections that wait at the closed one are accepted first.
    pub(crate) fn replace(&self, listener: Option<L>) {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.listener, listener);
        state
            .waiting
            .extend(before.into_iter().flat_map(Listener::close));
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl Door<TcpListener> {
    /// Address of the listener, if there is one.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.lock().listener.as_ref()?.local_addr().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_who_connected_is_lost_when_the_listener_is_replaced() {
        let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let first = bind().await;
        let address = first.local_addr().unwrap();
        let door = Door::new(Some(first));
        let early = TcpStream::connect(address).await.unwrap();
        let other = bind().await;
        let other_address = other.local_addr().unwrap();
        door.replace(Some(other));
        assert!(TcpStream::connect(address).await.is_err(), "it is closed");
        let late = TcpStream::connect(other_address).await.unwrap();
        for expected in [&early, &late] {
            let accepted = door.accept().await.unwrap();
            let peer = accepted.peer_addr().unwrap();
            assert_eq!(peer, expected.local_addr().unwrap());
        }
        // The address is free at once.
        TcpListener::bind(address).await.unwrap();
    }

    #[tokio::test]
    async fn one_who_waits_accepts_at_the_listener_that_comes() {
        let door = Door::<TcpListener>::new(None);
        let coming = async {
            tokio::task::yield_now().await;
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            door.replace(Some(listener));
            TcpStream::connect(address).await.unwrap()
        };
        let (accepted, _stream) = tokio::join!(door.accept(), coming);
        accepted.unwrap();
        assert!(door.is_open());
        door.replace(None);
        assert!(door.local_addr().is_none());
    }
}
