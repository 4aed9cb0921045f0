//! Sockets: TCP and Unix connections behind one type, with what a relay needs and nothing that allocates.

use std::{io, time::Duration};

use bytes::BufMut;
use tokio::{io::Interest, net::TcpStream};

use crate::unix_socket::UnixStream;

/// Silence of a program after which it is asked whether it is still there, the pause between two questions, and their number.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_PROBES: u32 = 6;

/// A connection of a program. Dropped, it is closed with RST, so that no program takes a failure for the end of the data; a Unix
/// socket has no RST.
#[derive(Debug)]
pub(crate) struct Socket {
    kind: Kind,
    is_orderly: bool,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        // Pieces are as large as the sender made them; waiting for more would only delay the last one.
        let _ = stream.set_nodelay(true);
        keep_alive(&stream);
        Self {
            kind: Kind::Tcp(stream),
            is_orderly: false,
        }
    }
}

/// Has the system ask a silent program whether it is still there: its own connection is not the one with the target, so that neither
/// of both would learn of the other's end without a packet.
#[cfg(unix)]
fn keep_alive(stream: &TcpStream) {
    use rustix::net::sockopt::{
        set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
    };
    // A connection that has failed takes no options, and is over.
    let _ = set_socket_keepalive(stream, true);
    let _ = set_tcp_keepidle(stream, KEEPALIVE_IDLE);
    let _ = set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL);
    let _ = set_tcp_keepcnt(stream, KEEPALIVE_PROBES);
}

/// The same on Windows.
#[cfg(windows)]
fn keep_alive(stream: &TcpStream) {
    let asking = socket2::TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    // A connection that has failed takes no options, and is over.
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&asking);
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self {
            kind: Kind::Unix(stream),
            is_orderly: false,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Kind::Tcp(stream) = &self.kind
            && !self.is_orderly
        {
            // It is closed in any case.
            let _ = stream.set_zero_linger();
        }
    }
}

impl Socket {
    /// Waits until there may be something to read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match &self.kind {
            Kind::Tcp(stream) => stream.readable().await,
            Kind::Unix(stream) => stream.readable().await,
        }
    }

    /// Reads what is there, into the space that the buffer has.
    pub(crate) fn try_read(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        match &self.kind {
            Kind::Tcp(stream) => stream.try_read_buf(buffer),
            Kind::Unix(stream) => stream.try_read_buf(buffer),
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match &self.kind {
            Kind::Tcp(stream) => stream.writable().await,
            Kind::Unix(stream) => stream.writable().await,
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.kind {
            Kind::Tcp(stream) => stream.try_write(bytes),
            Kind::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Writes all bytes. `held` is called before each wait for the program to read.
    pub(crate) async fn write_all(
        &self,
        mut bytes: &[u8],
        mut held: impl FnMut(),
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    held();
                    self.writable().await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends FIN. An error means that the connection is over, which reading reports.
    #[cfg(unix)]
    pub(crate) fn shut_write(&self) {
        let how = rustix::net::Shutdown::Write;
        let _ = match &self.kind {
            Kind::Tcp(stream) => rustix::net::shutdown(stream, how),
            Kind::Unix(stream) => rustix::net::shutdown(stream, how),
        };
    }

    /// Sends FIN. An error means that the connection is over, which reading reports.
    #[cfg(windows)]
    pub(crate) fn shut_write(&self) {
        if let Kind::Tcp(stream) = &self.kind {
            let _ = socket2::SockRef::from(stream).shutdown(std::net::Shutdown::Write);
        }
    }

    /// Waits until the connection has failed, as by RST.
    pub(crate) async fn failed(&self) -> io::Error {
        let ready = match &self.kind {
            Kind::Tcp(stream) => stream.ready(Interest::ERROR).await,
            Kind::Unix(stream) => stream.ready(Interest::ERROR).await,
        };
        if let Err(error) = ready {
            return error;
        }
        let error = match &self.kind {
            Kind::Tcp(stream) => stream.take_error(),
            Kind::Unix(stream) => stream.take_error(),
        };
        // Another call may have taken the error.
        let reset = || io::ErrorKind::ConnectionReset.into();
        error.unwrap_or_else(Some).unwrap_or_else(reset)
    }

    /// Closes the connection after both directions have ended.
    pub(crate) fn close(mut self) {
        self.is_orderly = true;
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::{socket_keepalive, tcp_keepidle};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn silent_programs_are_asked_whether_they_are_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        assert!(!socket_keepalive(&stream).unwrap());
        let socket = Socket::from(stream);
        let Kind::Tcp(stream) = &socket.kind else {
            unreachable!("it was made of one")
        };
        assert!(socket_keepalive(stream).unwrap());
        assert_eq!(tcp_keepidle(stream).unwrap(), KEEPALIVE_IDLE);
    }
}
