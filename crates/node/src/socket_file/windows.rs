//! Stand-ins for local sockets on Windows: none of them exists, and every attempt to make one returns the reason.

use std::{
    fs, io,
    path::Path,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{SocketFileError, door::Listener};

fn unsupported() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this version of anabranch has no local sockets on Windows; use commands with a node of their own, such as `send` and \
         `recv`",
    )
}

/// An item that does not exist.
#[derive(Debug)]
enum Never {}

/// A socket, of which there is none.
#[derive(Debug)]
pub(crate) struct UnixStream(Never);
/// Half of a socket that is read.
pub(crate) type OwnedReadHalf = UnixStream;
/// Half of a socket that is written.
pub(crate) type OwnedWriteHalf = UnixStream;
/// A socket that listens, of which there is none.
#[derive(Debug)]
pub(crate) struct SocketFile(Never);

impl SocketFile {
    /// # Errors
    /// Always: there are none.
    pub(crate) async fn open(_: &Path, _: u32) -> Result<Self, SocketFileError> {
        Err(unsupported().into())
    }
}

impl Listener for SocketFile {
    type Stream = UnixStream;

    fn poll_accept(&self, _: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        match self.0 {}
    }

    fn close(self) -> Vec<UnixStream> {
        match self.0 {}
    }
}

impl UnixStream {
    /// # Errors
    /// Always: there are none.
    pub(crate) async fn connect(_: impl AsRef<Path>) -> io::Result<Self> {
        Err(unsupported())
    }

    pub(crate) fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        match self.0 {}
    }

    pub(crate) fn try_write(&self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self.0 {}
    }
}

impl AsyncRead for UnixStream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.0 {}
    }
}

impl AsyncWrite for UnixStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match self.0 {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }
}

/// Number of the user at the other end.
pub(crate) fn peer_uid(socket: &UnixStream) -> Option<u32> {
    match socket.0 {}
}

/// Users have no numbers here; those of TCP have shown the token of this one.
pub(crate) fn own_uid() -> u32 {
    0
}

/// True for the user of this process.
pub(crate) fn is_owner(uid: u32) -> bool {
    uid == own_uid()
}

/// Makes a folder where there is none, with the access rights of the one that it is in.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// False: access rights are inherited, and those of a user's folders keep others out.
pub(crate) fn is_exposed(folder: &Path) -> io::Result<bool> {
    fs::metadata(folder).map(|_| false)
}

/// Nothing: there is no socket.
pub(crate) fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}
