//! Other costs of sending: tariffs, and the ledger that keeps their usage.

use std::fmt::Debug;

use super::{Core, ReloadError, traces::Traces};
use crate::{
    config::{Costs, NodeConfig},
    ledger::Ledger,
};
use anabranch_net::{Locals, Tariff};

/// Costs that are different.
pub(super) struct NewCosts {
    tariffs: Vec<Tariff>,
    ledger: NewLedger,
}

enum NewLedger {
    /// The one in use, if there is one.
    Same,
    /// Another one.
    Other(Ledger),
    /// None, because nothing costs anything.
    None,
}

impl Core {
    /// Acquires what the costs of a configuration need; `None`: they are those of before.
    ///
    /// # Errors
    /// The ledger cannot be used, or a place has no address.
    pub(super) fn prepare_costs(
        &self,
        before: &NodeConfig,
        config: &NodeConfig,
        traces: &mut Traces,
    ) -> Result<Option<NewCosts>, ReloadError> {
        let Costs { tariffs, ledger } = &config.costs;
        let text = |costs: &dyn Debug| format!("{costs:?}");
        if text(&before.costs) == text(&config.costs) {
            return Ok(None);
        }
        if let Some(place) = self.host.place_without_socket(tariffs) {
            match before.locals {
                Locals::Fixed(_) => return Err(ReloadError::Place(place.to_string())),
                _ => tracing::warn!("{place}, for which there is a tariff, has no address now"),
            }
        }
        let ledger = if tariffs.is_empty() {
            NewLedger::None
        } else if self.resources.ledger().is_some() && before.costs.ledger == *ledger {
            NewLedger::Same
        } else {
            traces.file(&Ledger::lock_file(ledger));
            NewLedger::Other(Ledger::open(ledger)?)
        };
        Ok(Some(NewCosts {
            tariffs: tariffs.clone(),
            ledger,
        }))
    }

    /// Charges what is sent from now on to other tariffs.
    pub(super) fn commit_costs(&self, costs: NewCosts) {
        let (host, before) = (&self.host, self.resources.ledger());
        let NewCosts { tariffs, ledger } = costs;
        let written = match (ledger, before) {
            (NewLedger::Same, Some(same)) => same.set_tariffs(host, tariffs),
            (NewLedger::Other(other), before) => {
                let written = other.take_over(before.as_deref(), host, tariffs);
                self.resources.set_ledger(Some(other));
                written
            }
            (NewLedger::None, Some(before)) => {
                let written = before.end(host, tariffs);
                self.resources.set_ledger(None);
                written
            }
            (NewLedger::None | NewLedger::Same, None) => Ok(()),
        };
        if let Err(error) = written {
            tracing::error!("{error}; it holds a little more than was used");
        }
    }
}
