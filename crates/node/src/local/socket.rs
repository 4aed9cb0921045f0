//! Sockets of connections: of the Unix socket, or of TCP on loopback. Both halves are the same to what reads and writes them.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, tcp},
};

use crate::socket_file::{OwnedReadHalf, OwnedWriteHalf, UnixStream};

/// Half of a socket that is read.
#[derive(Debug)]
pub(super) enum Reading {
    Unix(OwnedReadHalf),
    Tcp(tcp::OwnedReadHalf),
}

/// Half of a socket that is written.
#[derive(Debug)]
pub(super) enum Writing {
    Unix(OwnedWriteHalf),
    Tcp(tcp::OwnedWriteHalf),
}

/// Halves of a socket.
#[derive(Debug)]
pub(super) struct Halves {
    pub(super) reading: Reading,
    pub(super) writing: Writing,
}

impl From<UnixStream> for Halves {
    fn from(socket: UnixStream) -> Self {
        let (reading, writing) = socket.into_split();
        Self {
            reading: Reading::Unix(reading),
            writing: Writing::Unix(writing),
        }
    }
}

impl From<TcpStream> for Halves {
    fn from(socket: TcpStream) -> Self {
        // It may be closed already; what follows fails then.
        let _ = socket.set_nodelay(true);
        let (reading, writing) = socket.into_split();
        Self {
            reading: Reading::Tcp(reading),
            writing: Writing::Tcp(writing),
        }
    }
}

impl Reading {
    /// Waits until something can be read, the end included.
    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Unix(half) => half.readable().await,
            Self::Tcp(half) => half.readable().await,
        }
    }
}

impl AsyncRead for Reading {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(half) => Pin::new(half).poll_read(cx, buffer),
            Self::Tcp(half) => Pin::new(half).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Writing {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(half) => Pin::new(half).poll_write(cx, bytes),
            Self::Tcp(half) => Pin::new(half).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(half) => Pin::new(half).poll_write_vectored(cx, slices),
            Self::Tcp(half) => Pin::new(half).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(half) => Pin::new(half).poll_flush(cx),
            Self::Tcp(half) => Pin::new(half).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(half) => Pin::new(half).poll_shutdown(cx),
            Self::Tcp(half) => Pin::new(half).poll_shutdown(cx),
        }
    }
}
