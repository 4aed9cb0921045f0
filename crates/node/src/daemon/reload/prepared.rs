//! Preparation of a reload: everything that may fail, acquired before anything changes.

use std::path::Path;

use anabranch_net::Prepared as Locals;

use super::{
    Core, ReloadError, Started,
    costs::NewCosts,
    traces::{Traces, try_file},
};
use crate::{
    config::{LocalTcp, NodeConfig},
    daemon::{is_unsupported, meeting, membership, part::Commit, peers::Receivers, resources},
    evidence::OtherFile,
    local::{Change, LocalError},
    objectives::Objectives,
    rights::Table,
    socket_file::SocketFile,
    transfer::Receiver,
    whole_file::folder,
};

/// A configuration with everything that it needs. Dropping it releases what was acquired.
pub(super) struct Prepared {
    pub(super) config: NodeConfig,
    pub(super) objectives: Objectives,
    /// Rights of each node.
    pub(super) table: Table,
    pub(super) receivers: Receivers,
    /// Other local addresses; `None`: they are the same.
    pub(super) locals: Option<Locals>,
    pub(super) rendezvous: Option<meeting::Change>,
    pub(super) overlay: Option<membership::Change>,
    pub(super) parts: Vec<Commit>,
    pub(super) files: Files,
    /// Last, so that what was made goes when nothing uses it any more.
    pub(super) traces: Traces,
}

/// Files and sockets that are different; of each, `None` is no change.
pub(super) struct Files {
    pub(super) evidence: Option<OtherFile>,
    pub(super) costs: Option<NewCosts>,
    /// The control socket, or that the system has none.
    pub(super) control: Option<Option<SocketFile>>,
    pub(super) local: Change,
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
        // First, so that it is dropped last.
        let mut traces = Traces::default();
        let objectives = Objectives::read(&config)?;
        let table = config.rights.clone();
        let receivers = {
            let directory = config.receive.as_deref();
            for folder in Receivers::folders(&table).into_iter().flatten() {
                traces.folder(&directory.unwrap_or(Path::new("")).join(folder));
            }
            let before = self.resources.receivers.borrow().clone();
            Receivers::new(directory, &table, &before, |path| {
                Receiver::with_rights(path, &self.key, self.rights.clone())
            })?
        };
        let locals = match config.locals == self.host.locals() {
            true => None,
            false => Some(self.host.prepare_locals(config.locals.clone()).await?),
        };
        let rendezvous = self.prepare_rendezvous(started, &config, locals.is_some())?;
        let overlay = self.membership.prepare(
            (started.config.overlay.as_ref(), config.overlay.as_ref()),
            &self.host,
            (&self.key, &self.rights),
        )?;
        let files = self
            .prepare_files(&started.config, &config, &mut traces)
            .await?;
        let parts = self.prepare_parts(&config).map_err(ReloadError::Config)?;
        Ok(Prepared {
            config,
            objectives,
            table,
            receivers,
            locals,
            rendezvous,
            overlay,
            parts,
            files,
            traces,
        })
    }

    async fn prepare_files(
        &self,
        before: &NodeConfig,
        config: &NodeConfig,
        traces: &mut Traces,
    ) -> Result<Files, ReloadError> {
        let unusable = |key: &'static str, path: &Path, error: std::io::Error| {
            let path = path.display();
            ReloadError::Config(format!("{key} = \"{path}\": {error}; name another"))
        };
        if let Some(path) = &config.promise_record
            && before.promise_record != config.promise_record
        {
            try_file(path).map_err(|error| unusable("promise_record", path, error))?;
        }
        if let Some(path) = &config.qlog
            && before.qlog != config.qlog
        {
            try_file(&path.join("trace")).map_err(|error| unusable("qlog", path, error))?;
        }
        let mut evidence = None;
        if before.evidence != config.evidence {
            let path = config.evidence.as_deref();
            let failed = |error| unusable("evidence", path.unwrap_or(Path::new("")), error);
            path.map(try_file).transpose().map_err(failed)?;
            evidence = Some(OtherFile::read(config.evidence.clone()).map_err(failed)?);
        }
        let costs = self.prepare_costs(before, config, traces)?;
        let mut control = None;
        if before.control != config.control {
            traces.folder(folder(&config.control));
            control = Some(resources::open_control(&config.control).await?);
        }
        if let Some(local) = &config.local {
            traces.folder(folder(&local.path));
            if let Some(LocalTcp { token, .. }) = &local.tcp {
                traces.folder(folder(token));
            }
        }
        let local = match Change::prepare(before.local.as_ref(), config.local.as_ref()).await {
            Err(LocalError::Listen { source, .. }) if is_unsupported(&source) => {
                tracing::warn!(%source, "no local interface");
                Change::default()
            }
            change => change?,
        };
        Ok(Files {
            evidence,
            costs,
            control,
            local,
        })
    }

    /// Starts the rendezvous of a configuration if there is none; `None`: it stays, or there is none.
    fn prepare_rendezvous(
        &self,
        started: &Started,
        config: &NodeConfig,
        moves: bool,
    ) -> Result<Option<meeting::Change>, ReloadError> {
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
                let running = meeting::Running::start(settings, &self.host, parts);
                Ok(Some(meeting::Change::Start(running?)))
            }
            (Some(_), None) => Ok(Some(meeting::Change::Stop)),
            (Some(before), Some(now)) if !before.has_relay_of(now) => {
                self.rendezvous.check(now, &self.host)?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}
