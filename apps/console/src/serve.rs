//! A console that runs.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use tokio::{
    net::TcpListener,
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::{
    access::Access,
    feed, listen,
    metrics::Metrics,
    routes::Shared,
    source::{Asked, Source},
};

/// Settings of a console.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address to listen on: one of loopback. With port 0, the system chooses one.
    pub listen: SocketAddr,
    /// Subject of the console.
    pub source: Source,
}

/// Reason for which a console does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address can be reached from other machines, and requests are not encrypted.
    #[error(
        "the console listens on addresses of this machine only, such as 127.0.0.1:{port}, not on {address}; from elsewhere: ssh -L {port}:127.0.0.1:{port} HOST",
        port = .0.port(),
        address = .0.ip()
    )]
    Remote(SocketAddr),
    /// The address cannot be listened on.
    #[error("the console cannot listen on {0}: {1}{hint}", hint = hint(.1.kind()))]
    Listen(SocketAddr, #[source] io::Error),
}

/// Remedy for an address that cannot be listened on.
fn hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => {
            "; another program listens there: choose another port, or 0 for a free one"
        }
        io::ErrorKind::PermissionDenied => "; choose a port from 1024 on, or 0 for a free one",
        _ => "; give an address of this machine, such as 127.0.0.1:0",
    }
}

/// A console; it ends when this is dropped.
#[derive(Debug)]
pub struct Console {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

impl Console {
    /// Listens, and serves from now on.
    ///
    /// # Errors
    /// The address is not of this machine alone, or cannot be listened on.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        let Settings { listen, source } = settings;
        if !is_loopback(listen.ip()) {
            return Err(StartError::Remote(listen));
        }
        let failed = |error| StartError::Listen(listen, error);
        let listener = std::net::TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            source: Asked::new(source),
            access: Access::default(),
            metrics: Metrics::default(),
            newest: watch::Sender::new(Bytes::new()),
            looked: Notify::new(),
            cookie: format!("anabranch-console-{}", address.port()),
        });
        let tasks = [
            tokio::spawn(feed::run(Arc::clone(&shared))),
            tokio::spawn(listen::run(listener, Arc::clone(&shared))),
        ];
        Ok(Self {
            address,
            shared,
            tasks,
        })
    }

    /// Address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A link that opens the page once, within ten minutes.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn link(&self) -> io::Result<String> {
        let token = self.shared.access.token(Instant::now());
        let token = token.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(format!("http://{}/#token={token}", self.address))
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
