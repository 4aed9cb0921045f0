//! Listeners: accepting connections, whatever the limit of files.

use std::{io, net::SocketAddr, time::Duration};

use anabranch::rights::Transport;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

use crate::{
    datagram,
    endpoint::{Endpoint, Host},
    limits::is_out_of_files,
    notice::{Notice, Notices},
    socket::Socket,
    source::Source,
    unix_socket::{SocketFile, UnixStream, process},
};

/// Pause when no file is left for another connection.
const PAUSE: Duration = Duration::from_secs(1);

/// Connections that the system keeps until they are accepted. Beyond, it may reset them: many programs that connect at once are more
/// than the 128 of the standard library.
const BACKLOG: u32 = 4096;

/// No connections can be accepted at an endpoint.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {at}: {error}{}", hint(error))]
pub struct ListenError {
    /// The endpoint.
    pub at: Endpoint,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there, choose another port",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need a privilege, choose another one"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}

/// An endpoint that is open.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(SocketFile),
    Udp(UdpSocket),
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Accepted {
    /// The program that connected.
    pub(crate) fn source(&self) -> Source {
        match self {
            Self::Tcp(stream) => tcp_source(stream),
            Self::Unix(stream) => Source::Unix(process(stream)),
        }
    }
}

/// Source of a TCP connection.
pub(crate) fn tcp_source(stream: &TcpStream) -> Source {
    match (stream.peer_addr(), stream.local_addr()) {
        (Ok(client), Ok(at)) => Source::Address {
            transport: Transport::Tcp,
            client,
            at,
        },
        // It was reset already.
        _ => Source::Unknown,
    }
}

impl From<Accepted> for Socket {
    fn from(accepted: Accepted) -> Self {
        match accepted {
            Accepted::Tcp(stream) => stream.into(),
            Accepted::Unix(stream) => stream.into(),
        }
    }
}

impl Listener {
    /// Opens an endpoint; returns it with the port that was assigned, too. Must be called within a runtime.
    ///
    /// # Errors
    /// The address is taken or not available.
    pub(crate) fn open(at: &Endpoint) -> Result<(Self, Endpoint), ListenError> {
        let opened = match at {
            Endpoint::Unix(path) => SocketFile::open(path).map(Self::Unix),
            Endpoint::Port {
                host: Host::Name(_),
                ..
            } => Err(io::ErrorKind::InvalidInput.into()),
            Endpoint::Port {
                transport,
                host: Host::Ip(address),
                port,
            } => {
                let address = SocketAddr::new(*address, *port);
                match transport {
                    Transport::Tcp => open_tcp(address).map(Self::Tcp),
                    Transport::Udp => datagram::open(address).map(Self::Udp),
                }
            }
        };
        let opened = opened.and_then(|listener| {
            let local = listener.local()?;
            Ok((listener, local))
        });
        opened.map_err(|error| ListenError {
            at: at.clone(),
            error,
        })
    }

    /// The endpoint, with the port that was assigned.
    fn local(&self) -> io::Result<Endpoint> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Endpoint::tcp),
            Self::Udp(socket) => socket.local_addr().map(Endpoint::udp),
            Self::Unix(file) => Ok(Endpoint::Unix(file.path().to_owned())),
        }
    }

    /// Accepts the next connection. Pauses while there are no files for one.
    pub(crate) async fn accept(&self, notices: &Notices) -> Accepted {
        loop {
            let accepted = match self {
                Self::Tcp(listener) => listener
                    .accept()
                    .await
                    .map(|(stream, _)| Accepted::Tcp(stream)),
                Self::Unix(file) => file.accept().await.map(Accepted::Unix),
                Self::Udp(_) => std::future::pending().await,
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) if is_out_of_files(&error) => {
                    if let Ok(at) = self.local() {
                        let cause = format!("{error}; raise the limit of open files");
                        notices.show(&Notice::Paused { at, cause });
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                // The connection was over before it was accepted.
                Err(error) => tracing::debug!(%error, "not accepted"),
            }
        }
    }
}

fn open_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[tokio::test]
    async fn a_socket_that_is_left_over_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        let at = Endpoint::Unix(path.clone());
        let first = Listener::open(&at).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let taken = Listener::open(&at).unwrap_err();
        assert!(taken.to_string().contains("another program"), "{taken}");
        drop(first);
        assert!(!path.exists());
        // As after a crash.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(Listener::open(&at).unwrap());
        // No file of another kind is removed.
        fs::write(&path, "mine").unwrap();
        assert!(Listener::open(&at).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_an_error_with_a_hint() {
        let (_first, at) = Listener::open(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let error = Listener::open(&at).unwrap_err().to_string();
        assert!(
            error.contains(&at.to_string()) && error.contains("another program"),
            "{error}"
        );
    }
}
