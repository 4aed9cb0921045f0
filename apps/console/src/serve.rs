//! A console that runs.

use std::{io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::{
    feed,
    metrics::Metrics,
    routes::Shared,
    site::{self, Visitors, listen_at},
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

/// Reason for which a page cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address can be reached from other machines, and requests are not encrypted.
    #[error(
        "pages are served at addresses of this machine only, such as 127.0.0.1:{port}, not at {address}; from elsewhere: ssh -L {port}:127.0.0.1:{port} HOST",
        port = .0.port(),
        address = .0.ip()
    )]
    Remote(SocketAddr),
    /// The address cannot be listened on.
    #[error("no page can be served at {0}: {1}{hint}", hint = hint(.1.kind()))]
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
        let (listener, address) = listen_at(listen)?;
        let shared = Arc::new(Shared {
            source: Asked::new(source),
            visitors: Visitors::new(
                address,
                "anabranch-console",
                "`anabranch console` prints one for a node",
            ),
            metrics: Metrics::default(),
            newest: watch::Sender::new(Bytes::new()),
            looked: Notify::new(),
        });
        let tasks = [
            tokio::spawn(feed::run(Arc::clone(&shared))),
            tokio::spawn(site::run(listener, Arc::clone(&shared))),
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
        self.shared.visitors.link()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
