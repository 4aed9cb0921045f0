//! Fuel of WebAssembly modules: a peer that a derivation is for has it, or the modules do not run.

use std::collections::BTreeMap;

use super::{
    derivation::Derivation,
    table::Subscriber,
    terms::{DeriveError, SubscriberId},
};
use crate::{Failure, Limits, Modules, Pipeline, Processed, Running, adu::Adu, memory::Account};
use anabranch_base::Instant;

/// Account that the modules of a derivation are charged to.
pub(super) enum Payer<'a> {
    /// There are no modules.
    Nobody,
    /// The first that has fuel.
    Is(&'a Account),
    /// None has fuel; the place of the first module.
    Overdrawn(usize),
}

/// What pipelines are computed with.
pub(crate) struct Means {
    /// The set of the table.
    pub(super) modules: Modules,
    pub(super) limits: Limits,
    pub(super) now: Instant,
}

impl Means {
    /// The first subscriber of a derivation that has fuel for its modules.
    pub(super) fn payer<'a>(
        &self,
        derivation: &Derivation,
        subscribers: &'a BTreeMap<SubscriberId, Subscriber>,
    ) -> Payer<'a> {
        let Some(module) = derivation.running.pipeline().first_module() else {
            return Payer::Nobody;
        };
        let own = derivation.subscribers.iter();
        let mut accounts = own.filter_map(|id| Some(subscribers.get(id)?.queue.account()));
        let payer = accounts.find(|account| self.has_fuel(account));
        payer.map_or(Payer::Overdrawn(module), Payer::Is)
    }

    fn has_fuel(&self, account: &Account) -> bool {
        account.fuel().has_fuel(self.now, self.limits.fuel_per_s)
    }

    /// Derives from the next ADU of a source.
    pub(super) fn derive(
        &self,
        derivation: &mut Derivation,
        adu: &Adu,
        payer: &Payer<'_>,
    ) -> Result<Processed, Failure> {
        let running = &mut derivation.running;
        match payer {
            Payer::Nobody => running.process(adu.clone(), &self.modules),
            Payer::Is(account) => paid(running, account, |running| {
                running.process(adu.clone(), &self.modules)
            }),
            Payer::Overdrawn(module) => {
                let reason = DeriveError::Fuel(self.limits.fuel_per_s).to_string();
                Err(running.leave_out(*module, adu.sequence, reason))
            }
        }
    }

    /// A pipeline at work, whose modules begin with the fuel of the account.
    ///
    /// # Errors
    /// The account has none, or an operator cannot begin.
    pub(crate) fn start(
        &self,
        pipeline: &Pipeline,
        account: &Account,
    ) -> Result<Running, DeriveError> {
        let has_modules = pipeline.first_module().is_some();
        if has_modules && !self.has_fuel(account) {
            return Err(DeriveError::Fuel(self.limits.fuel_per_s));
        }
        let started = pipeline.start(&self.modules, self.limits);
        if has_modules {
            // What a module took that could not begin is not known: as much as it may.
            let taken = started.as_ref().map_or(self.limits.fuel, Running::burnt);
            account.fuel().take(taken);
        }
        Ok(started?)
    }

    /// Another pipeline for one at work, whose modules begin with the fuel of the account.
    ///
    /// # Errors
    /// The account has none, or an operator cannot begin; the pipeline then stays as it was.
    pub(crate) fn replace(
        &self,
        running: &mut Running,
        pipeline: &Pipeline,
        account: &Account,
    ) -> Result<(), DeriveError> {
        if pipeline.first_module().is_some() && !self.has_fuel(account) {
            return Err(DeriveError::Fuel(self.limits.fuel_per_s));
        }
        let replaced = paid(running, account, |running| {
            running.replace(pipeline.clone(), &self.modules)
        });
        Ok(replaced?)
    }

    /// Derives from an ADU that came earlier. `None`: its modules have to wait for fuel.
    pub(crate) fn catch_up(
        &self,
        running: &mut Running,
        adu: &Adu,
        account: &Account,
    ) -> Option<Result<Processed, Failure>> {
        let waits = running.pipeline().first_module().is_some() && !self.has_fuel(account);
        let process = |running: &mut Running| running.process(adu.clone(), &self.modules);
        (!waits).then(|| paid(running, account, process))
    }
}

/// Charges the account for what modules take meanwhile.
fn paid<T>(running: &mut Running, account: &Account, run: impl FnOnce(&mut Running) -> T) -> T {
    let before = running.burnt();
    let result = run(running);
    account.fuel().take(running.burnt() - before);
    result
}
