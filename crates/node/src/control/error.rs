//! Errors of the control socket.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::socket_file::SocketFileError;

/// Failure of the control socket, or of a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It cannot be opened for listening.
    #[error("cannot listen on control socket {}: {source}; name another one with --control", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another user could put a socket there, or listen in its place.
    #[error("control socket {}: others can write to its folder; name one with --control in a folder that only this user can write to, or `chmod go-w` the folder", path.display())]
    Exposed {
        /// The socket.
        path: PathBuf,
    },
    /// A file that is not a socket has the name.
    #[error("control socket {}: there is a file of this name that is not a socket; remove it, or name another socket with --control", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// Another node listens there.
    #[error("a node is running on control socket {} already; stop it, or name another socket with --control", path.display())]
    Running {
        /// The socket.
        path: PathBuf,
    },
    /// No node answers there.
    #[error("no node answers on control socket {}: {source}; start one with `anabranch up`, or name its socket with --control; if it was started with sudo, use sudo here, too", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The node refused the request.
    #[error("the node refused: {0}")]
    Refused(String),
    /// The answer cannot be parsed.
    #[error("the node's answer cannot be understood; is it of another version?")]
    Answer,
}

impl ControlError {
    pub(super) fn of(path: &Path, error: SocketFileError) -> Self {
        let path = path.to_owned();
        match error {
            SocketFileError::Io(source) => Self::Listen { path, source },
            SocketFileError::Exposed => Self::Exposed { path },
            SocketFileError::Taken => Self::Taken { path },
            SocketFileError::Running => Self::Running { path },
        }
    }
}
