//! The node's part in the overlay: begun, changed and ended by a reload.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_base::NodeId;
use anabranch_net::Host;
use anabranch_session::SecretKey;
use tokio::sync::watch;

use super::Core;
use crate::{
    config::OverlayConfig,
    overlay::{Overlay, OverlayError, Prepared, Runner},
    rights::Rights,
};

/// The part in the overlay in force, if there is one.
#[derive(Debug)]
pub(super) struct Membership(watch::Sender<Option<Arc<Running>>>);

/// A part in the overlay.
#[derive(Debug)]
pub(super) struct Running {
    overlay: Overlay,
    /// Its task, until it is run.
    runner: Mutex<Option<Runner>>,
}

/// Change by a reload.
#[derive(Debug)]
pub(super) enum Change {
    Start(Arc<Running>),
    Alter(Prepared),
    Stop,
}

impl Running {
    /// Prepares to take part in an overlay.
    ///
    /// # Errors
    /// As [`Overlay::new`].
    pub(super) fn new(
        config: OverlayConfig,
        host: &Host,
        (key, rights): (&SecretKey, &Rights),
    ) -> Result<Self, OverlayError> {
        let (overlay, runner) = Overlay::new(host, key.clone(), config, rights.clone())?;
        Ok(Self {
            overlay,
            runner: Mutex::new(Some(runner)),
        })
    }

    fn take_runner(&self) -> Option<Runner> {
        let mut runner = self.runner.lock().unwrap_or_else(PoisonError::into_inner);
        runner.take()
    }

    /// True if its task has been taken.
    fn is_run(&self) -> bool {
        let runner = self.runner.lock().unwrap_or_else(PoisonError::into_inner);
        runner.is_none()
    }
}

/// Wait for the effect of a change.
#[must_use = "the effect comes a little later"]
pub(super) struct Effect {
    overlay: Overlay,
    has_ended: bool,
}

impl Effect {
    pub(super) async fn come(self) {
        match self.has_ended {
            true => self.overlay.ended().await,
            false => self.overlay.settled().await,
        }
    }
}

impl Membership {
    pub(super) fn new(running: Option<Running>) -> Self {
        Self(watch::Sender::new(running.map(Arc::new)))
    }

    /// The part in the overlay in force.
    pub(super) fn overlay(&self) -> Option<Overlay> {
        let running = self.0.borrow();
        running.as_ref().map(|running| running.overlay.clone())
    }

    /// Acquires what a configuration needs; `None`: nothing changes.
    ///
    /// # Errors
    /// It cannot be used.
    pub(super) fn prepare(
        &self,
        (before, now): (Option<&OverlayConfig>, Option<&OverlayConfig>),
        host: &Host,
        identity: (&SecretKey, &Rights),
    ) -> Result<Option<Change>, OverlayError> {
        match (self.overlay(), now) {
            (None, None) => Ok(None),
            (Some(_), None) => Ok(Some(Change::Stop)),
            (None, Some(config)) => {
                let running = Running::new(config.clone(), host, identity)?;
                Ok(Some(Change::Start(Arc::new(running))))
            }
            (Some(_), Some(config)) if before == Some(config) => Ok(None),
            (Some(overlay), Some(config)) => {
                let prepared = overlay.prepare(host, config.clone())?;
                Ok(Some(Change::Alter(prepared)))
            }
        }
    }

    /// The effect of changes of the part in force, and of rights.
    pub(super) fn effect(&self) -> Option<Effect> {
        let running = self.0.borrow().clone()?;
        running.is_run().then(|| Effect {
            overlay: running.overlay.clone(),
            has_ended: false,
        })
    }

    /// Applies a change. The effect on links and circuits comes a little later; that of an end is returned.
    pub(super) fn apply(&self, change: Change) -> Option<Effect> {
        match change {
            Change::Start(running) => {
                self.0.send_replace(Some(running));
                None
            }
            Change::Alter(prepared) => {
                let running = self.0.borrow().clone()?;
                running.overlay.apply(prepared);
                None
            }
            Change::Stop => {
                let overlay = self.0.send_replace(None)?.overlay.clone();
                Some(Effect {
                    overlay,
                    has_ended: true,
                })
            }
        }
    }

    /// Receiver that is notified when members may have changed.
    pub(super) fn changes(&self) -> watch::Receiver<Option<Arc<Running>>> {
        self.0.subscribe()
    }

    /// Notifies those who wait for other members.
    pub(super) fn notify(&self) {
        self.0.send_modify(|_| ());
    }

    /// Runs whichever part there is, until dropped.
    pub(super) async fn run(&self) {
        let mut changes = self.0.subscribe();
        loop {
            let running = changes.borrow_and_update().clone();
            let is_other = |now: &Option<Arc<Running>>| match (now, &running) {
                (Some(now), Some(running)) => !Arc::ptr_eq(now, running),
                (now, running) => now.is_some() != running.is_some(),
            };
            let runner = running.as_ref().and_then(|running| running.take_runner());
            let over = async {
                // This object keeps the sender, so the channel is not closed.
                let _ = changes.wait_for(is_other).await;
            };
            match runner {
                Some(runner) => runner.run(over).await,
                None => over.await,
            }
        }
    }
}

/// Members in a configuration that another one does not have.
pub(super) fn new_members(
    before: Option<&OverlayConfig>,
    now: Option<&OverlayConfig>,
) -> Vec<NodeId> {
    let is_new = |node: &&NodeId| before.is_none_or(|before| !before.sites.contains_key(node));
    let all = now.into_iter().flat_map(|now| now.sites.keys());
    all.filter(is_new).copied().collect()
}

impl Core {
    /// The node's part in the overlay, if it takes part in one.
    pub(crate) fn overlay(&self) -> Option<Overlay> {
        self.membership.overlay()
    }

    /// The overlay, if a node is a member of it.
    pub(super) fn overlay_with(&self, peer: &NodeId) -> Option<Overlay> {
        self.overlay().filter(|overlay| overlay.is_member(peer))
    }

    /// Hands sessions that these nodes have opened before they were members to the overlay: one of them may be for it.
    pub(super) async fn hand_over(&self, new: &[NodeId]) {
        for node in new {
            if let Some(overlay) = self.overlay_with(node) {
                for session in self.sessions.opened_by(node) {
                    overlay.accepted(session).await;
                }
            }
        }
    }
}
