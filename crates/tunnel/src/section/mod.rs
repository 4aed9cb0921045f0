//! The tunnel of a node: the sections `[tunnel.server]` and `[tunnel.client]` of its configuration.

mod setting;

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use anabranch::{
    Remotes,
    base::NodeId,
    config::{ConfigError, NodeConfig},
    daemon::{Commit, FlowReport, Handle, Part},
    net::tun::Tun,
    service::{Registration, TooManyServices},
};
use anabranch_gateway::Connections;
use tokio::task::AbortHandle;

pub use self::setting::{MTU, Settings, of_client, of_server};
use crate::{
    client::{Client, Joining},
    notice::{Notice, Notices},
    server::{self, Server},
    system::SetupError,
};

/// Shortest and longest pause before the client joins again.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

/// The tunnel of a node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server cannot start.
    #[error(transparent)]
    Server(#[from] server::StartError),
    /// The client cannot start.
    #[error(transparent)]
    Client(#[from] SetupError),
    /// The node has too many services.
    #[error(transparent)]
    Services(#[from] TooManyServices),
}

/// The tunnel of a node, which is there as long as this value.
#[derive(Debug)]
pub struct Tunnel {
    server: Option<Arc<Server>>,
    client: Option<Arc<Client>>,
    tasks: Vec<AbortHandle>,
    _registration: Option<Registration>,
    _reloading: Arc<Reloading>,
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        // Tasks may hold them for a moment.
        if let Some(client) = &self.client {
            client.end();
        }
        if let Some(server) = &self.server {
            server.end();
        }
    }
}

/// Part of the node that follows reloads and reports flows. The node keeps it, and it keeps neither the server nor the client.
#[derive(Debug)]
struct Reloading {
    server: Mutex<Weak<Server>>,
    client: Weak<Client>,
    notices: Notices,
}

impl Part for Reloading {
    fn prepare(&self, config: &NodeConfig) -> Result<Commit, String> {
        let settings = Settings::read(config).map_err(|error| error.to_string())?;
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = server.upgrade().zip(settings.server);
        let notices = self.notices.clone();
        Ok(Box::new(move || {
            let Some((server, settings)) = changed else {
                return;
            };
            server.set_destinations(settings.destinations);
            server.set_promised_share(settings.promised_share);
            if let Err(error) = server.set_pools(settings.pools) {
                notices.show(&Notice::Warning(error.to_string()));
            }
        }))
    }

    fn flows(&self) -> Vec<FlowReport> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let of_server = server.upgrade().map(|server| server.flows());
        let of_client = self.client.upgrade().map(|client| client.flows());
        let both = of_client.into_iter().chain(of_server);
        both.flatten().collect()
    }

    fn dropped(&self) -> Vec<(&'static str, u64)> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let of_server = server.upgrade().map(|server| server.totals());
        let of_client = self.client.upgrade().map(|client| client.totals());
        let both = of_client.into_iter().chain(of_server);
        let all = both.flat_map(|totals| totals.dropped_by_name().collect::<Vec<_>>());
        all.collect()
    }
}

impl Tunnel {
    /// Starts the tunnel of a node, and makes it follow reloads of the configuration. TCP connections that are split count with
    /// `connections`, those of the node's gateway if it has one; its rules apply to packets, too. Must be called within a runtime.
    ///
    /// # Errors
    /// The configuration is refused, or a device cannot be created.
    pub fn start(
        node: &Handle,
        config: &NodeConfig,
        connections: &Connections,
        notices: Notices,
    ) -> Result<Self, TunnelError> {
        let settings = Settings::read(config)?;
        let host = node.host();
        let mut tasks = Vec::new();
        let (mut server, mut registration) = (None, None);
        if let Some(settings) = &settings.server {
            let rights = node.rights().clone();
            let started = Server::start(
                host.clone(),
                (rights, connections.clone()),
                settings,
                notices.clone(),
            )?;
            let started = Arc::new(started);
            registration = Some(node.services().register(started.clone())?);
            let running = started.clone();
            tasks.push(tokio::spawn(async move { running.run().await }).abort_handle());
            server = Some(started);
        }
        let mut client = None;
        if let Some((peer, settings)) = settings.client {
            let device = Tun::create(&settings.device).map_err(SetupError::from)?;
            let joining = Joining {
                connections: connections.clone(),
                server: peer,
            };
            let ends = (device, joining);
            let started = Client::start(host.clone(), ends, settings, notices.clone())?;
            let started = Arc::new(started);
            let running = started.clone();
            tasks.push(tokio::spawn(async move { running.run().await }).abort_handle());
            let joining = keep(node.clone(), peer, started.clone(), notices.clone());
            tasks.push(tokio::spawn(joining).abort_handle());
            client = Some(started);
        }
        let reloading = Arc::new(Reloading {
            server: Mutex::new(server.as_ref().map(Arc::downgrade).unwrap_or_default()),
            client: client.as_ref().map(Arc::downgrade).unwrap_or_default(),
            notices,
        });
        node.attach(reloading.clone());
        Ok(Self {
            server,
            client,
            tasks,
            _registration: registration,
            _reloading: reloading,
        })
    }

    /// The tunnel that other nodes may join.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_deref()
    }

    /// The tunnel that this node has joined.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_deref()
    }
}

/// Keeps a client in the tunnel of a peer; does not return.
async fn keep(node: Handle, peer: NodeId, client: Arc<Client>, notices: Notices) {
    let [first, last] = PAUSES;
    let mut pause = first;
    loop {
        let cause = match node.session_with(peer, Remotes::default()).await {
            Ok(session) => {
                let began = tokio::time::Instant::now();
                let cause = client.serve(&session).await.to_string();
                if began.elapsed() > last {
                    pause = first;
                }
                cause
            }
            Err(error) => error.to_string(),
        };
        notices.show(&Notice::Down(cause));
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(last);
    }
}
