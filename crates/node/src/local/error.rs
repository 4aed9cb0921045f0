//! Errors of the sockets of the local interface.

use std::{io, net::SocketAddr, path::PathBuf};

use crate::socket_file::SocketFileError;

/// The socket of the local interface cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// It cannot be opened for listening.
    #[error("cannot listen on the socket of the local interface, {}: {source}; name another one with --local, or '' for none", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another user could put a socket there, or listen in its place.
    #[error("the socket of the local interface, {}: others can write to its folder; name one with --local in a folder that only this user can write to, or `chmod go-w` the folder", path.display())]
    Exposed {
        /// The socket.
        path: PathBuf,
    },
    /// A file that is not a socket has the name.
    #[error("the socket of the local interface, {}: there is a file of this name that is not a socket; remove it, or name another socket with --local", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// Another node listens there.
    #[error("a node is running on the local interface {} already; stop it, or name another socket with --local", path.display())]
    Running {
        /// The socket.
        path: PathBuf,
    },
    /// The TCP socket cannot be opened.
    #[error(
        "cannot listen on {address} for local applications: {source}; name another address with `local_tcp`"
    )]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The token for it cannot be made.
    #[error("the token of the local interface, {}: {source}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A user does not exist.
    #[error("local_users: there is no user '{0}' on this system; give another name, or a number")]
    User(String),
}

impl LocalError {
    pub(super) fn of(path: PathBuf, error: SocketFileError) -> Self {
        match error {
            SocketFileError::Io(source) => Self::Listen { path, source },
            SocketFileError::Exposed => Self::Exposed { path },
            SocketFileError::Taken => Self::Taken { path },
            SocketFileError::Running => Self::Running { path },
        }
    }
}
