//! Change of tariffs and descriptions while the host runs. A place that keeps a tariff keeps what was used of it.

use anabranch_base::Instant;
use anabranch_session::LocalDescription;

use crate::{
    budgets::CALENDAR_EVERY,
    clock,
    host::Host,
    place::Place,
    state::{SocketEntry, State},
    tariff::{Account, Counted, Tariff},
};

impl Host {
    /// A place of these tariffs at which this host has no socket now, so that its cap would never apply; `None`: all have one.
    pub fn place_without_socket(&self, tariffs: &[Tariff]) -> Option<Place> {
        self.inner.shared.lock().place_without_socket(tariffs)
    }

    /// Replaces the tariffs. A place that has a tariff before and after keeps its usage: the larger one of what was used here, and of
    /// what the tariff states as [`counted`](Tariff::counted). Where [`Tariff::is_granted`], nothing may be sent until
    /// [`Host::grant`] permits it anew. Returns what was used, by place, under the tariffs so far; nothing is charged to them
    /// any more.
    pub fn set_tariffs(&self, tariffs: Vec<Tariff>) -> Vec<(Place, Counted)> {
        let unix_s = clock::calendar_s();
        self.inner
            .shared
            .command(|state, now| state.set_tariffs(now, unix_s, tariffs))
    }

    /// Replaces the descriptions of places, for channels that are opened from now on.
    pub fn set_descriptions(&self, descriptions: Vec<(Place, LocalDescription)>) {
        self.inner
            .shared
            .command(|state, _| state.set_descriptions(descriptions));
    }
}

/// The tariff that a socket is charged to: that of its address, or else that of its interface.
fn tariff_of<'a>(
    socket: &SocketEntry,
    mut places: impl Iterator<Item = &'a Place> + Clone,
) -> Option<usize> {
    let address = Place::Address(socket.bind.address.ip());
    let device = socket.bind.interface.as_ref().or(socket.device.as_ref());
    let device = device.map(|name| Place::Interface(name.clone()));
    let mut again = places.clone();
    let at = places.position(|place| *place == address);
    at.or_else(|| again.position(|place| Some(place) == device.as_ref()))
}

/// The larger usage, of the later period.
fn larger(one: Option<Counted>, other: Counted) -> Counted {
    let rank = |counted: &Counted| (counted.period, counted.used_bytes);
    one.filter(|one| rank(one) > rank(&other)).unwrap_or(other)
}

impl State {
    fn place_without_socket(&self, tariffs: &[Tariff]) -> Option<Place> {
        let places = tariffs.iter().map(|tariff| &tariff.place);
        let used: Vec<usize> = self
            .sockets
            .iter()
            .filter(|socket| !socket.is_retired())
            .filter_map(|socket| tariff_of(socket, places.clone()))
            .collect();
        let mut all = places.enumerate();
        let unused = all.find(|(index, _)| !used.contains(index));
        unused.map(|(_, place)| place.clone())
    }

    fn set_tariffs(
        &mut self,
        now: Instant,
        unix_s: u64,
        tariffs: Vec<Tariff>,
    ) -> Vec<(Place, Counted)> {
        let usage: Vec<(Place, Counted)> = self
            .accounts
            .iter()
            .map(|account| {
                let meter = account.meter(&self.engine);
                let counted = Counted {
                    period: meter.period(),
                    used_bytes: meter.used_bytes(),
                };
                (account.tariff.place.clone(), counted)
            })
            .collect();
        let accounts = tariffs.into_iter().map(|mut tariff| {
            if let Some((_, used)) = usage.iter().find(|(place, _)| *place == tariff.place) {
                tariff.counted = Some(larger(tariff.counted, *used));
            }
            Account::new(tariff, unix_s)
        });
        let accounts: Vec<Account> = accounts.collect();
        let before = std::mem::replace(&mut self.accounts, accounts);
        self.leave(now, before);
        self.join(now);
        self.calendar_due = match self.accounts.is_empty() {
            true => None,
            false => self.calendar_due.or(Some(now + CALENDAR_EVERY)),
        };
        usage
    }

    /// Takes sockets out of accounts that they do not belong to any more. The others stay, with the meter of their new account.
    fn leave(&mut self, now: Instant, before: Vec<Account>) {
        for old in before {
            let Some(&first) = old.sockets.first() else {
                continue;
            };
            let places: Vec<Place> = self.places();
            let belongs = |state: &Self, id| {
                let entry = state.sockets.iter().find(|entry| entry.id == id)?;
                let index = tariff_of(entry, places.iter())?;
                (places[index] == old.tariff.place).then_some(index)
            };
            let Some(index) = belongs(self, first) else {
                // Its account was that of the others, too.
                for &socket in old.sockets.iter().rev() {
                    self.engine.set_meter(now, socket, None);
                }
                continue;
            };
            for &socket in &old.sockets {
                if belongs(self, socket).is_some() {
                    self.accounts[index].sockets.push(socket);
                } else {
                    self.engine.set_meter(now, socket, None);
                }
            }
            let account = &self.accounts[index];
            if self.engine.meter(first) != Some(&account.idle) {
                self.engine
                    .set_meter(now, first, Some(account.idle.clone()));
            }
            if account.tariff.is_granted {
                self.engine.grant(first, account.idle.period(), 0);
            }
        }
    }

    /// Charges the sockets that have no account to their tariffs.
    fn join(&mut self, now: Instant) {
        let places = self.places();
        for entry in self.sockets.clone() {
            let is_new = |index: &usize| !self.accounts[*index].sockets.contains(&entry.id);
            if tariff_of(&entry, places.iter()).filter(is_new).is_some() {
                let device = entry.device.as_deref().or(entry.bind.interface.as_deref());
                self.pay_for(now, entry.id, &entry.bind, device);
            }
            if !entry.is_up {
                // A budget that was taken away, or is larger now, puts its sockets into use again.
                self.engine.socket_down(now, entry.id);
            }
        }
    }

    fn places(&self) -> Vec<Place> {
        let accounts = self.accounts.iter();
        accounts
            .map(|account| account.tariff.place.clone())
            .collect()
    }

    fn set_descriptions(&mut self, descriptions: Vec<(Place, LocalDescription)>) {
        self.descriptions = descriptions;
        for index in 0..self.sockets.len() {
            let entry = &self.sockets[index];
            let device = entry.device.as_deref().or(entry.bind.interface.as_deref());
            let description = self.description(entry.bind.address.ip(), device);
            let (id, name) = (entry.id, description.name.clone());
            self.engine.describe_socket(id, description);
            self.sockets[index].interface = name.map(|name| name.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
