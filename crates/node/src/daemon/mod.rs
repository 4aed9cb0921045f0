//! A node that runs by its configuration: keeps sessions with its peers, accepts transfers, relays, and reports its state.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Daemon`]: start, operation, shutdown |
//! | `serve` | one session, limited to the rights of its peer |
//! | `sessions` | open sessions by peer, shared by everything in the node that sends |
//! | `notes` | lines of the log about sessions, paths and transfers |
//! | `peers` | the peers that are dialled, and the folders that files go into |
//! | `reach` | sessions with peers that are met at a relay |
//! | `calling` | peers that are being called |
//! | `membership` | its part in the overlay |
//! | `meeting` | the rendezvous that it serves |
//! | `part` | parts of the program above the node that follow its reloads |
//! | `reload` | change of the configuration while the node runs |
//! | `resources` | files and sockets that a reload replaces |
//!
//! The control socket and this module use each other: a request may reload the very node that runs the socket. An interface between
//! them would have one implementation.

mod calling;
mod meeting;
mod membership;
mod notes;
mod part;
mod peers;
mod reach;
mod reload;
mod resources;
mod serve;
mod sessions;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch_base::NodeId;
use anabranch_net::{Host, Session, StartError, relay::RelayError};
use anabranch_session::{AllowList, SecretKey};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

pub(crate) use self::serve::refuse;
use self::{
    calling::Calling,
    meeting::{Change, Meeting, Running},
    membership::Membership,
    peers::{Call, Receivers},
    reload::Started,
    resources::{Opened, Resources},
    sessions::Sessions,
};
pub use self::{
    part::{Commit, FlowReport, FlowReports, Part, PromiseState, RuleReport},
    reload::{ReloadError, Reloaded, Source},
    serve::CODE_BUSY,
    sessions::{Handle, UnknownPeer},
};
pub use crate::rights::CODE_NO_RIGHT;
use crate::{
    config::{NodeConfig, Settings},
    control::{Control, ControlError},
    evidence::Evidence,
    exports,
    keys::{self, KeyError},
    ledger::LedgerError,
    local::{LocalError, LocalServer},
    objectives::{Objectives, ObjectivesFileError},
    overlay::{Overlay, OverlayError},
    record::PromiseRecord,
    rendezvous::Via,
    rights::Rights,
    service::{Registration, Services},
    ticket::Ticket,
    transcripts::Transcripts,
    transfer::{Receiver, TransferError},
};

/// First pause before a peer is dialled again, doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest pause before a peer is dialled again.
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
    /// The usage ledger cannot be opened.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The control socket cannot be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The socket of the local interface cannot be opened.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The directory for transfers cannot be used.
    #[error(transparent)]
    Receive(#[from] TransferError),
    /// A file of objectives cannot be used.
    #[error(transparent)]
    Objectives(#[from] ObjectivesFileError),
    /// The relay of the rendezvous cannot start.
    #[error("rendezvous: {0}")]
    Rendezvous(#[from] RelayError),
    /// It cannot take part in the overlay.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
}

/// A running node.
#[derive(Debug)]
pub struct Daemon {
    core: Arc<Core>,
    /// Sessions that were opened on demand, until they are served.
    opened: tokio::sync::Mutex<mpsc::Receiver<Session>>,
}

/// State shared by sessions, control requests and reloads.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) host: Host,
    membership: Membership,
    /// Keys whose handshakes succeed; follows `rights`.
    allowed: AllowList,
    rights: Rights,
    key: SecretKey,
    resources: Resources,
    transcripts: Transcripts,
    services: Services,
    rendezvous: Meeting,
    exports: Arc<exports::Server>,
    /// Keeps the exports among the services.
    _registration: Option<Registration>,
    parts: Mutex<Vec<Arc<dyn Part>>>,
    sessions: Sessions,
    calls: watch::Sender<Arc<Vec<Call>>>,
    calling: Calling,
    /// Relay at which the node attends.
    via: watch::Sender<Option<Via>>,
    names: Mutex<BTreeMap<NodeId, String>>,
    started: tokio::sync::Mutex<Started>,
}

impl Core {
    /// The rights in force.
    pub(crate) fn rights(&self) -> &Rights {
        &self.rights
    }

    /// The record of promises.
    pub(crate) fn record(&self) -> &PromiseRecord {
        &self.resources.record
    }

    /// The settings in force, as they were given.
    pub(crate) async fn settings(&self) -> Arc<Settings> {
        self.started.lock().await.config.settings.clone()
    }

    /// Name of a node in the configuration; its id if it has none.
    pub(crate) fn name(&self, node: &NodeId) -> String {
        let names = self.names.lock().unwrap_or_else(|error| error.into_inner());
        names.get(node).cloned().unwrap_or_else(|| node.to_string())
    }
}

impl Daemon {
    /// Opens everything that the configuration names.
    ///
    /// # Errors
    /// The first thing that cannot be opened.
    pub async fn start(config: NodeConfig) -> Result<Self, DaemonError> {
        let objectives = Objectives::read(&config)?;
        let key = keys::load_or_create(&config.key)?;
        let rights = Rights::new(config.rights.clone());
        let receivers = Receivers::new(
            config.receive.as_deref(),
            &config.rights,
            &Receivers::default(),
            |path| Receiver::with_rights(path, &key, rights.clone()),
        )?;
        let control = Control::of(resources::open_control(&config.control).await?);
        let local = resources::open_local(config.local.as_ref()).await?;
        let connecting = config.rights.iter().map(|(node, _)| *node);
        let connecting = connecting.filter(|node| config.rights.may_connect(node));
        let strangers = meeting::serves_strangers(config.rendezvous.as_ref());
        let allowed = AllowList::default();
        allowed.admit_strangers(strangers);
        for node in connecting {
            allowed.add(node);
        }
        let mut host = config.host(key.clone(), allowed.clone());
        host.engine.objectives.clone_from(&objectives.all);
        let evidence = Evidence::open(config.evidence.clone());
        host.engine.priors = evidence.priors();
        let ledger = config.costs.clone().apply(&mut host)?;
        let host = Host::start(host)?;
        let overlay = config.overlay.clone();
        let overlay = overlay
            .map(|settings| membership::Running::new(settings, &host, (&key, &rights)))
            .transpose()?;
        let (sessions, opened) = Sessions::new();
        let services = Services::default();
        let rendezvous = Meeting::default();
        if let Some(settings) = &config.rendezvous {
            let running = Running::start(settings, &host, (&rights, &services))?;
            rendezvous.apply(Some(Change::Start(running)), strangers);
        }
        let exports = exports::Server::new(rights.clone(), reload::exports(&config));
        let exports = Arc::new(exports);
        // There are no others yet, so that none is too many.
        let registration = services.register(exports.clone()).ok();
        let core = Core {
            host,
            membership: Membership::new(overlay),
            allowed,
            rights,
            key,
            resources: Resources::new(Opened {
                receivers,
                control,
                local,
                evidence,
                record: PromiseRecord::new(config.promise_record.clone()),
                ledger,
            }),
            services,
            rendezvous,
            exports,
            _registration: registration,
            parts: Mutex::default(),
            sessions,
            transcripts: Transcripts::new(config.transcripts.clone()),
            calls: watch::Sender::new(Arc::new(reload::calls(&config, objectives))),
            calling: Calling::default(),
            via: watch::Sender::new(config.via.clone()),
            names: Mutex::new(config.names.clone()),
            started: tokio::sync::Mutex::new(Started {
                config,
                source: None,
            }),
        };
        Ok(Self {
            core: Arc::new(core),
            opened: tokio::sync::Mutex::new(opened),
        })
    }

    /// Sets the source of the configuration for reloads, requested here or over the control socket.
    ///
    /// # Panics
    /// If there is a [`Handle`] already.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Self {
        let core = Arc::get_mut(&mut self.core).expect("there is no handle yet");
        core.started.get_mut().source = Some(source);
        self
    }

    /// The node itself.
    pub fn host(&self) -> &Host {
        &self.core.host
    }

    /// Its part in the overlay, if it takes part in one now.
    pub fn overlay(&self) -> Option<Overlay> {
        self.core.overlay()
    }

    /// The local interface, if it has one now.
    pub fn local(&self) -> Option<&LocalServer> {
        let local = &self.core.resources.local;
        local.is_open().then_some(local)
    }

    /// The rights in force.
    pub fn rights(&self) -> &Rights {
        &self.core.rights
    }

    /// A handle for the parts of the program that use its sessions.
    pub fn handle(&self) -> Handle {
        Handle::new(self.core.clone())
    }

    /// Reads the configuration again, and applies it atomically: all of it, but for keys that need a restart
    /// ([`Reloaded::restart`]), or nothing if something that it names cannot be used. Sessions go on. Whatever depends on a right that
    /// was withdrawn ends: sessions, transfers, circuits.
    ///
    /// # Errors
    /// The configuration cannot be read or used.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        self.core.reload().await
    }

    /// A ticket without a secret: for nodes with the rights to call and to send files, for any number of uses.
    pub fn ticket(&self) -> Ticket {
        let mut addresses = self.host().addresses();
        addresses.truncate(crate::ticket::ADDRESSES_MAX);
        Ticket {
            hosts: Vec::new(),
            via: self.core.via.borrow().clone(),
            node: self.host().node_id(),
            secret: None,
            addresses,
        }
    }

    /// Runs until dropped; call [`Daemon::shutdown`] afterwards.
    pub async fn run(&self) {
        let core = &self.core;
        let mut tasks = JoinSet::new();
        let accepting = async {
            while let Some(session) = core.host.accept().await {
                core.note_connected(&session, "which called");
                tasks.spawn(core.clone().attend(session));
                while tasks.try_join_next().is_some() {}
            }
        };
        let lingering = async {
            let mut opened = self.opened.lock().await;
            let mut tasks = JoinSet::new();
            while let Some(session) = opened.recv().await {
                tasks.spawn(core.clone().serve_while_used(session));
                while tasks.try_join_next().is_some() {}
            }
        };
        let keeping = core.resources.keep_usage(&core.host);
        let relaying = core.membership.run();
        let calling = core.clone().keep_all();
        let present = core.attend_at_relay();
        let serving = core.resources.control.serve_node(core);
        let handle = self.handle();
        let attaching = core.resources.local.serve(&handle);
        let (record, evidence) = (&core.resources.record, &core.resources.evidence);
        let recording = record.keep(&core.host, |node| core.name(node));
        let learning = evidence.keep(&core.host);
        let writing = core.transcripts.keep(&core.host);
        tokio::join!(
            accepting, lingering, calling, present, keeping, relaying, serving, attaching,
            recording, learning, writing
        );
    }

    /// Notifies the peers, and records the usage.
    ///
    /// # Errors
    /// The ledger cannot be written; it then holds a little more than was used.
    pub async fn shutdown(&self) -> Result<(), LedgerError> {
        let core = &self.core;
        let resources = &core.resources;
        resources.record.close(&core.host, |node| core.name(node));
        resources.evidence.close(&core.host);
        core.host.shutdown().await;
        resources.close_ledger(&core.host)
    }
}

impl Drop for Daemon {
    /// Closes the sockets for requests and applications, even if there is still a [`Handle`].
    fn drop(&mut self) {
        self.core.resources.control.replace(None);
        self.core.resources.local.close();
    }
}

/// True if the system has no sockets of this kind.
fn is_unsupported(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::Unsupported
}
