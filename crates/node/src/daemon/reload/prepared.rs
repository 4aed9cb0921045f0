//! Preparation of a reload: everything that may fail, acquired before anything changes.

use anabranch_net::Prepared as Locals;

use super::{Core, ReloadError, Started};
use crate::{
    config::NodeConfig,
    daemon::{
        meeting::{Change, Running},
        part::Commit,
        peers::Receivers,
    },
    objectives::Objectives,
    rights::{Right, Table},
    transfer::Receiver,
};

/// A configuration with everything that it needs. Dropping it releases what was acquired.
pub(super) struct Prepared {
    pub(super) config: NodeConfig,
    pub(super) objectives: Objectives,
    /// Rights of each node, without those of members that the overlay does not know.
    pub(super) table: Table,
    pub(super) receivers: Receivers,
    /// Other local addresses; `None`: they are the same.
    pub(super) locals: Option<Locals>,
    pub(super) rendezvous: Option<Change>,
    pub(super) parts: Vec<Commit>,
}

impl Core {
    /// Acquires what a configuration needs.
    ///
    /// # Errors
    /// The first thing that cannot be used; nothing has changed then.
    pub(super) async fn prepare(
        &self,
        started: &Started,
        config: NodeConfig,
    ) -> Result<Prepared, ReloadError> {
        let objectives = Objectives::read(&config)?;
        let table = self.table(&config);
        let receivers = {
            let before = self.receivers.lock();
            let before = before.unwrap_or_else(|error| error.into_inner()).clone();
            Receivers::new(started.config.receive.as_deref(), &table, &before, |path| {
                Receiver::with_rights(path, &self.key, self.rights.clone())
            })?
        };
        let locals = match config.locals == self.host.locals() {
            true => None,
            false => Some(self.host.prepare_locals(config.locals.clone()).await?),
        };
        let rendezvous = self.prepare_rendezvous(started, &config, locals.is_some())?;
        let parts = self.prepare_parts(&config).map_err(ReloadError::Config)?;
        Ok(Prepared {
            config,
            objectives,
            table,
            receivers,
            locals,
            rendezvous,
            parts,
        })
    }

    /// Starts the rendezvous of a configuration if there is none; `None`: it stays, or there is none.
    fn prepare_rendezvous(
        &self,
        started: &Started,
        config: &NodeConfig,
        moves: bool,
    ) -> Result<Option<Change>, ReloadError> {
        let before = started.config.rendezvous.as_ref();
        match (before, config.rendezvous.as_ref()) {
            // Its relay would begin on the former addresses.
            (None, Some(_)) if moves => Err(ReloadError::Config(
                "[rendezvous] begins on the local addresses in force: reload once with the other `listen`, `interfaces` or `port`, \
                 and once more with [rendezvous]"
                    .to_owned(),
            )),
            (None, Some(settings)) => {
                let parts = (&self.rights, &self.services);
                let running = Running::start(settings, &self.host, parts);
                Ok(Some(Change::Start(running?)))
            }
            (Some(_), None) => Ok(Some(Change::Stop)),
            _ => Ok(None),
        }
    }

    /// The rights of a configuration, as far as this node can give them.
    fn table(&self, config: &NodeConfig) -> Table {
        let mut table = config.rights.clone();
        // The list of members is fixed for the lifetime of the agent.
        for node in config.rights.with(Right::Member) {
            if !self
                .overlay
                .as_ref()
                .is_some_and(|overlay| overlay.is_listed(&node))
            {
                table.take(&node, Right::Member);
                table.take(&node, Right::UseRelay);
            }
        }
        table
    }
}
