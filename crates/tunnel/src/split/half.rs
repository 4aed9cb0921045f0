//! The second halves of connections: their listeners, and their ends.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::atomic::Ordering,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

use super::{Split, table::Number};
use crate::{
    packet::{Ends, reset},
    wire::Terms,
};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u32 = 4096;
/// Pause after a listener has failed, as for want of files.
const PAUSE: Duration = Duration::from_millis(100);

/// The listener of one family.
#[derive(Debug)]
pub(super) struct Half {
    /// The second halves of connections: from the server's address, with a number as its port, to the listener.
    pub(super) server: IpAddr,
    pub(super) listener: SocketAddr,
    task: AbortHandle,
}

impl Drop for Half {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Half {
    /// Ends of the second half of a connection.
    pub(super) fn ends(&self, number: Number) -> Ends {
        Ends {
            source: SocketAddr::new(self.server, number.get()),
            destination: self.listener,
        }
    }

    /// True if its addresses are those of the terms.
    fn is_of(&self, terms: &Terms) -> bool {
        pairs(terms).any(|(address, server)| self.listener.ip() == address && self.server == server)
    }
}

impl Split {
    /// Ends the connections whose addresses this machine loses; before it does, because both halves are to learn of it.
    pub(crate) fn leave(&self, terms: &Terms) {
        let mut halves = self.halves();
        let (kept, left) = halves.drain(..).partition(|half| half.is_of(terms));
        *halves = kept;
        drop(halves);
        let left: Vec<Half> = left;
        for half in left {
            for flow in self.table().leave(half.listener.is_ipv4()) {
                for number in flow.for_program {
                    self.put(&reset(flow.ends.reversed(), number));
                }
                for number in flow.for_listener {
                    self.put(&reset(half.ends(flow.number), number));
                }
            }
        }
    }

    /// Listens at the addresses that this machine has now. Must be called within a runtime.
    pub(crate) fn listen(&self, terms: &Terms) -> io::Result<()> {
        self.0.mtu.store(terms.mtu, Ordering::Relaxed);
        let mut halves = self.halves();
        for (address, server) in pairs(terms) {
            let is_there = |half: &Half| half.listener.ip() == address && half.server == server;
            if !halves.iter().any(is_there) {
                halves.push(self.half(address, server)?);
            }
        }
        Ok(())
    }

    fn half(&self, address: IpAddr, server: IpAddr) -> io::Result<Half> {
        let socket = match address {
            IpAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
            IpAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
        };
        socket.bind(SocketAddr::new(address, 0))?;
        let listener = socket.listen(BACKLOG)?;
        Ok(Half {
            server,
            listener: listener.local_addr()?,
            task: tokio::spawn(self.clone().accept(listener, server)).abort_handle(),
        })
    }

    /// Accepts second halves.
    async fn accept(self, listener: TcpListener, server: IpAddr) {
        loop {
            let (stream, from) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if from.ip() != server {
                // Another program, which connects to the listener, is answered by the end of the connection.
                continue;
            }
            let number = Number::new(from.port());
            let waiting = number.and_then(|number| self.table().accept(number));
            let late = match waiting {
                Some(waiting) => waiting.send(stream).err(),
                None => Some(stream),
            };
            if let Some(late) = late {
                turn_away(late);
            }
        }
    }
}

/// Resets the second half of a connection that is given up: to its program, an end would be that of the target.
fn turn_away(late: TcpStream) {
    if let Err(error) = late.set_zero_linger() {
        tracing::debug!(%error, "a connection is ended instead of reset");
    }
    drop(late);
}

/// Addresses of this machine, each with that of the server in the same network.
fn pairs(terms: &Terms) -> impl Iterator<Item = (IpAddr, IpAddr)> + use<> {
    let v4 = terms.v4.map(|v4| (v4.address.into(), v4.server.into()));
    let v6 = terms.v6.map(|v6| (v6.address.into(), v6.server.into()));
    v4.into_iter().chain(v6)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_half_that_is_accepted_too_late_is_reset() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let (program, accepted) = tokio::join!(TcpStream::connect(to), listener.accept());
        turn_away(accepted.unwrap().0);
        let read = program.unwrap().read(&mut [0]).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}
