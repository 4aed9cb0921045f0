//! The rendezvous of the node: started, stopped, opened to strangers and closed to them by a reload.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_net::{Host, relay::RelayError};

use crate::{
    config::RendezvousConfig,
    rendezvous::Server,
    rights::Rights,
    service::{Registration, Services},
};

/// The rendezvous in force, if there is one.
#[derive(Debug, Default)]
pub(super) struct Meeting(Mutex<Option<Running>>);

/// A rendezvous among the services of the node.
#[derive(Debug)]
pub(super) struct Running {
    server: Arc<Server>,
    /// `None`: there are too many services.
    _registration: Option<Registration>,
}

/// Change by a reload.
#[derive(Debug)]
pub(super) enum Change {
    Start(Running),
    Stop,
}

impl Running {
    /// Starts a rendezvous that does not serve strangers yet.
    ///
    /// # Errors
    /// The relay of its circuits cannot start.
    pub(super) fn start(
        settings: &RendezvousConfig,
        host: &Host,
        (rights, services): (&Rights, &Services),
    ) -> Result<Self, RelayError> {
        let relay = settings.start(host)?;
        let server = Arc::new(Server::new(relay, rights.clone(), false, host.clock()));
        Ok(Self {
            _registration: services.register(server.clone()).ok(),
            server,
        })
    }
}

impl Meeting {
    /// The rendezvous in force.
    pub(super) fn server(&self) -> Option<Arc<Server>> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| running.server.clone())
    }

    /// Checks whether a rendezvous that stays can have these settings.
    ///
    /// # Errors
    /// Its relay cannot have them.
    pub(super) fn check(&self, settings: &RendezvousConfig, host: &Host) -> Result<(), RelayError> {
        match self.server() {
            Some(server) => server.relay().check(&settings.relay(host)),
            None => Ok(()),
        }
    }

    /// Gives the relay its settings, on the addresses that the host has now.
    pub(super) fn place_relay(&self, settings: Option<&RendezvousConfig>, host: &Host) {
        if let Some((server, settings)) = self.server().zip(settings)
            && let Err(error) = server.relay().configure(settings.relay(host))
        {
            tracing::error!(%error, "the relay of the rendezvous keeps its settings");
        }
    }

    /// Applies a change, if there is one, and sets whether strangers are served. Guests who are present stay until their sessions end.
    pub(super) fn apply(&self, change: Option<Change>, serves_strangers: bool) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match change {
            Some(Change::Start(new)) => *running = Some(new),
            Some(Change::Stop) => {
                if let Some(former) = running.take() {
                    former.server.serve_strangers(false);
                }
            }
            None => {}
        }
        if let Some(running) = &*running {
            running.server.serve_strangers(serves_strangers);
        }
    }
}

/// True if strangers may use the rendezvous of a configuration.
pub(super) fn serves_strangers(settings: Option<&RendezvousConfig>) -> bool {
    settings.is_some_and(|settings| settings.strangers)
}
