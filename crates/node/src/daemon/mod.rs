//! A node that runs by its configuration: keeps sessions with its peers, takes transfers, tells what it
//! does.

use std::{sync::Arc, time::Duration};

use anabranch_net::{Host, HostConfig, Session, StartError};
use anabranch_session::AllowList;
use tokio::task::JoinSet;

use crate::{
    config::{NodeConfig, Peer},
    control::{Control, ControlError},
    keys::{self, KeyError},
    ledger::{Ledger, LedgerError},
    objectives::{Objectives, ObjectivesFileError},
    overlay::{Overlay, OverlayError, Runner},
    ticket::Ticket,
    transfer::{Progress, Receiver, TransferError},
};

/// First pause before a peer is called again, doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest pause before a peer is called again.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// A node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The sockets cannot be opened.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The file with what was used cannot be opened.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The control socket cannot be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The directory for transfers cannot be used.
    #[error(transparent)]
    Receive(#[from] TransferError),
    /// A file of objectives cannot be used.
    #[error(transparent)]
    Objectives(#[from] ObjectivesFileError),
    /// It cannot take part in the overlay.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
}

/// A running node.
#[derive(Debug)]
pub struct Daemon {
    host: Host,
    ledger: Option<Ledger>,
    control: Control,
    receiver: Option<Arc<Receiver>>,
    overlay: Option<Overlay>,
    /// What runs the overlay, until it is run.
    runner: std::sync::Mutex<Option<Runner>>,
    /// With the objectives for sessions with each.
    peers: Vec<(Peer, Option<Arc<str>>)>,
}

impl Daemon {
    /// Opens everything the configuration names.
    ///
    /// # Errors
    /// The first thing that cannot be opened.
    pub async fn start(config: NodeConfig) -> Result<Self, DaemonError> {
        let objectives = Objectives::read(&config)?;
        let key = keys::load_or_create(&config.key)?;
        let receiver = match config.receive {
            Some(directory) => {
                let receiver = Receiver::new(directory, &key, config.allow.iter().copied())?;
                Some(Arc::new(receiver))
            }
            None => None,
        };
        let control = Control::open(&config.control).await?;
        let mut host = HostConfig::new(key.clone(), AllowList::of(config.allow));
        host.engine = config.engine;
        host.engine.objectives = objectives.all;
        host.locals = config.locals;
        let ledger = config.costs.apply(&mut host)?;
        let host = Host::start(host)?;
        let (overlay, runner) = match config.overlay {
            Some(settings) => {
                let (overlay, runner) = Overlay::new(&host, key, settings)?;
                (Some(overlay), Some(runner))
            }
            None => (None, None),
        };
        Ok(Self {
            host,
            ledger,
            control,
            receiver,
            overlay,
            runner: std::sync::Mutex::new(runner),
            peers: config.peers.into_iter().zip(objectives.peers).collect(),
        })
    }

    /// The node itself.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Its part in the overlay, if it takes part in one.
    pub fn overlay(&self) -> Option<&Overlay> {
        self.overlay.as_ref()
    }

    /// A ticket without a secret: for allowed nodes, as often as they like.
    pub fn ticket(&self) -> Ticket {
        let mut addresses = self.host.addresses();
        addresses.truncate(crate::ticket::ADDRESSES_MAX);
        Ticket {
            node: self.host.node_id(),
            secret: None,
            addresses,
        }
    }

    /// Runs until dropped; call [`Daemon::shutdown`] afterwards.
    pub async fn run(&self) {
        let mut tasks = JoinSet::new();
        for (peer, objectives) in &self.peers {
            let (host, receiver) = (self.host.clone(), self.receiver.clone());
            let overlay = self.overlay.clone();
            let overlay = overlay.filter(|overlay| overlay.is_member(&peer.node));
            tasks.spawn(keep(
                host,
                peer.clone(),
                objectives.clone(),
                receiver,
                overlay,
            ));
        }
        let accepting = async {
            while let Some(session) = self.host.accept().await {
                tracing::info!(peer = %session.peer(), "session accepted");
                if let Some(overlay) = &self.overlay
                    && overlay.is_member(&session.peer())
                {
                    overlay.accepted(session.clone()).await;
                }
                tasks.spawn(serve(session, self.receiver.clone()));
                while tasks.try_join_next().is_some() {}
            }
        };
        let keeping = async {
            if let Some(ledger) = &self.ledger {
                ledger.keep(&self.host).await;
            }
        };
        let runner = self
            .runner
            .lock()
            .unwrap_or_else(|error| error.into_inner())
            .take();
        let relaying = async {
            if let Some(runner) = runner {
                runner.run().await;
            }
        };
        let serving = self.control.serve(&self.host, self.overlay.as_ref());
        tokio::join!(accepting, keeping, relaying, serving);
    }

    /// Tells the peers, and writes down what was used.
    ///
    /// # Errors
    /// The ledger cannot be written; it then holds a little more than was used.
    pub async fn shutdown(&self) -> Result<(), LedgerError> {
        self.host.shutdown().await;
        match &self.ledger {
            Some(ledger) => ledger.close(&self.host),
            None => Ok(()),
        }
    }
}

/// Keeps a session with a peer open.
async fn keep(
    host: Host,
    peer: Peer,
    objectives: Option<Arc<str>>,
    receiver: Option<Arc<Receiver>>,
    overlay: Option<Overlay>,
) {
    let mut pause = RETRY_MIN;
    loop {
        match host.connect(peer.node, &peer.addresses).await {
            Ok(session) => {
                tracing::info!(peer = peer.name, "session open");
                pause = RETRY_MIN;
                if let Some(text) = &objectives
                    && let Err(error) = session.inject_objectives(text)
                {
                    tracing::warn!(peer = peer.name, %error, "objectives not injected");
                }
                let following = async {
                    if let Some(overlay) = &overlay {
                        overlay.follow(session.clone()).await;
                    }
                };
                tokio::join!(serve(session.clone(), receiver.clone()), following);
            }
            Err(error) => tracing::warn!(peer = peer.name, %error, "no session"),
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(RETRY_MAX);
    }
}

/// Takes transfers until the session ends.
async fn serve(session: Session, receiver: Option<Arc<Receiver>>) {
    while session.close_reason().is_none() {
        let Some(receiver) = &receiver else {
            session.closed().await;
            break;
        };
        let progress = Progress::default();
        match receiver.receive_when_offered(&session, &progress).await {
            // Nothing was offered any more.
            Err(TransferError::Interrupted(_)) if progress.snapshot().name.is_empty() => {}
            Ok(done) => tracing::info!(name = done.name, bytes = done.bytes, "received"),
            Err(error) => tracing::warn!(%error, peer = %session.peer(), "not received"),
        }
    }
    tracing::info!(peer = %session.peer(), "session over");
}
