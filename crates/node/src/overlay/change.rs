//! Members and settings of a node's part in the overlay, replaced while it runs: first everything that may fail is done, then they are
//! put into force.

use std::{collections::BTreeMap, sync::Arc};

use anabranch_base::NodeId;
use anabranch_net::{Host, Remotes};
use anabranch_overlay::{Member, Setup};

use super::{Overlay, OverlayError, Site, serving::Serving};
use crate::{
    config::{OverlayConfig, Relaying},
    rights::Rights,
};

/// Members and settings.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) sites: Arc<BTreeMap<NodeId, Site>>,
    pub(super) setup: Setup,
    /// Addresses and names at which others reach this node.
    pub(super) own: Remotes,
    /// Relaying for others, if enabled.
    pub(super) serving: Option<Serving>,
    relaying: Option<Relaying>,
}

/// Members and settings that can be put into force without fail ([`Overlay::apply`]). Dropping it ends what was started.
#[derive(Debug)]
pub(crate) struct Prepared(Arc<Settings>);

impl Settings {
    /// Prepares a configuration; a relay that is in force `before` goes on.
    ///
    /// # Errors
    /// A setting is out of its range, or the relay cannot start or have other ports.
    pub(super) fn new(
        host: &Host,
        config: OverlayConfig,
        rights: &Rights,
        before: Option<&Self>,
    ) -> Result<Self, OverlayError> {
        let OverlayConfig {
            sites,
            agent,
            hosts,
            relay: relaying,
        } = config;
        let own = Remotes {
            addresses: agent.addresses.clone(),
            hosts,
        };
        let members = sites.iter().map(|(&node, site)| Member {
            node,
            addresses: site.addresses.clone(),
        });
        let setup = Setup::new(agent, host.node_id(), members.collect())?;
        let sites = Arc::new(sites);
        let running =
            before.and_then(|before| before.serving.as_ref().zip(before.relaying.as_ref()));
        let serving = match (running, &relaying) {
            (_, None) => None,
            (Some((serving, before)), Some(relaying)) => {
                let others = |relaying: &Relaying| {
                    let Relaying { ports, public, .. } = relaying;
                    (relaying.capacity, ports.clone(), *public)
                };
                if others(before) != others(relaying) {
                    serving.check(&relaying.config(host))?;
                }
                Some(serving.clone())
            }
            (None, Some(relaying)) => Some(Serving::new(
                relaying.clone().start(host)?,
                sites.clone(),
                rights.clone(),
            )),
        };
        Ok(Self {
            sites,
            setup,
            own,
            serving,
            relaying,
        })
    }
}

impl Overlay {
    /// Prepares another configuration.
    ///
    /// # Errors
    /// As [`Overlay::new`]; also, none of the relay's new ports can be opened.
    pub(crate) fn prepare(
        &self,
        host: &Host,
        config: OverlayConfig,
    ) -> Result<Prepared, OverlayError> {
        let before = self.settings.borrow().clone();
        let settings = Settings::new(host, config, &self.rights, Some(&before))?;
        Ok(Prepared(Arc::new(settings)))
    }

    /// Puts a configuration into force. Links and circuits of nodes that are still members go on, those of others end.
    pub(crate) fn apply(&self, Prepared(settings): Prepared) {
        if let Some(serving) = &settings.serving {
            serving.set_sites(&settings.sites);
        }
        self.settings.send_replace(settings);
    }

    /// Gives the relay, if there is one, its settings, on the addresses that the host has now.
    pub(crate) fn place_relay(&self, host: &Host) {
        let settings = self.settings.borrow().clone();
        if let (Some(serving), Some(relaying)) = (&settings.serving, &settings.relaying) {
            if let Err(error) = serving.configure(relaying.config(host)) {
                tracing::error!(%error, "the relay keeps its settings");
            }
            serving.set_quotas(&relaying.quotas);
        }
    }

    /// Waits until the runner has acted on everything so far; returns at once if it has ended. It must be running.
    pub(crate) async fn settled(&self) {
        self.ask(|_, _| ()).await;
    }

    /// Waits until the runner has ended.
    pub(crate) async fn ended(&self) {
        self.inputs.closed().await;
    }
}
