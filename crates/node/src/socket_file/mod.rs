//! Local sockets with a file: made so that nobody else can listen in their place, removed when they are closed. There are none on Windows:
//! opening one, and connecting, is an error there.

mod door;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io;

pub(crate) use door::Door;
#[cfg(unix)]
pub(crate) use unix::{
    OwnedReadHalf, OwnedWriteHalf, SocketFile, UnixStream, is_exposed, is_owner, make_folder,
    own_uid, peer_uid, set_mode,
};
#[cfg(windows)]
pub(crate) use windows::{
    OwnedReadHalf, OwnedWriteHalf, SocketFile, UnixStream, is_exposed, is_owner, make_folder,
    own_uid, peer_uid, set_mode,
};

/// Mode of a socket that only its owner (and root) may connect to.
pub(crate) const OWNER_ONLY: u32 = 0o600;
/// Mode of a socket that everyone may connect to who can enter its folder.
pub(crate) const EVERYONE: u32 = 0o666;

/// A socket cannot be opened.
#[derive(Debug)]
#[cfg_attr(windows, allow(dead_code, reason = "one kind of failure there"))]
pub(crate) enum SocketFileError {
    /// Error of the system.
    Io(io::Error),
    /// Others could put a socket there, or listen in its place.
    Exposed,
    /// A file that is not a socket has the name.
    Taken,
    /// Another process listens there.
    Running,
}

impl From<io::Error> for SocketFileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
