//! Budgets of a running host: sockets are charged to accounts, and billing periods follow the calendar.

use std::time::Duration;

use anabranch_base::{Instant, SocketId};
use anabranch_session::metering::Period;

use crate::{
    clock,
    error::StartError,
    place::Place,
    socket::Bind,
    state::{Shared, State},
    tariff::{Account, BudgetReport, HostEvent, Tariff},
};

/// Interval of the calendar checks.
pub(crate) const CALENDAR_EVERY: Duration = Duration::from_secs(10);

impl Shared {
    /// Sets the tariffs of a new host.
    pub(crate) fn set_tariffs(&self, tariffs: Vec<Tariff>) {
        if tariffs.is_empty() {
            return;
        }
        let unix_s = clock::calendar_s();
        let mut state = self.lock();
        state.accounts = tariffs
            .into_iter()
            .map(|tariff| Account::new(tariff, unix_s))
            .collect();
        state.calendar_due = Some(self.clock.now() + CALENDAR_EVERY);
    }

    /// Refuses a tariff that can never apply, because the user would rely on its cap.
    pub(crate) fn check_tariffs(&self, is_fixed: bool) -> Result<(), StartError> {
        for account in &self.lock().accounts {
            let place = &account.tariff.place;
            match account.sockets.is_empty() {
                true if is_fixed => return Err(StartError::Place(place.clone())),
                true => tracing::warn!("{place}, for which there is a tariff, has no address now"),
                false => {}
            }
        }
        Ok(())
    }

    /// Permits a total of `total_bytes` at a place in a period; see [`Tariff::is_granted`].
    pub(crate) fn grant(&self, place: &Place, period: Period, total_bytes: u64) {
        self.command(|state, _| {
            let mut accounts = state.accounts.iter();
            let account = accounts.find(|account| account.tariff.place == *place);
            if let Some(&first) = account.and_then(|account| account.sockets.first()) {
                state.engine.grant(first, period, total_bytes);
            }
        });
    }
}

impl State {
    /// Charges a new socket to its tariff, if there is one. `interface` is that of its address.
    pub(crate) fn pay_for(
        &mut self,
        now: Instant,
        socket: SocketId,
        bind: &Bind,
        interface: Option<&str>,
    ) {
        let address = Place::Address(bind.address.ip());
        let interface = interface.map(|name| Place::Interface(name.to_owned()));
        let find = |place: &Place| {
            let mut accounts = self.accounts.iter();
            accounts.position(|account| account.tariff.place == *place)
        };
        let found = find(&address).or_else(|| interface.as_ref().and_then(find));
        let Some(account) = found.and_then(|index| self.accounts.get_mut(index)) else {
            return;
        };
        match account.sockets.first() {
            Some(&first) => self.engine.share_meter(now, socket, first),
            None => {
                let meter = account.idle.clone();
                let period = meter.period();
                self.engine.set_meter(now, socket, Some(meter));
                if account.tariff.is_granted {
                    self.engine.grant(socket, period, 0);
                }
            }
        }
        account.sockets.push(socket);
    }

    /// Checks the calendar when that is due.
    pub(crate) fn follow_calendar(&mut self, now: Instant) {
        if self.calendar_due.is_some_and(|due| due <= now) {
            self.calendar_due = Some(now + CALENDAR_EVERY);
            self.begin_periods(now, clock::calendar_s());
        }
    }

    fn begin_periods(&mut self, now: Instant, unix_s: u64) {
        for account in &mut self.accounts {
            let period = account.tariff.billing.period(unix_s);
            account.idle.begin(period);
            if let Some(&first) = account.sockets.first() {
                self.engine.begin_period(now, first, period);
            }
        }
    }

    pub(crate) fn budgets(&self) -> Vec<BudgetReport> {
        let report = |account: &Account| {
            let sockets = self.sockets.iter();
            let own = sockets.filter(|socket| account.sockets.contains(&socket.id));
            let first = account.sockets.first();
            BudgetReport {
                place: account.tariff.place.clone(),
                currency: account.tariff.currency.clone(),
                billing: account.tariff.billing,
                meter: account.meter(&self.engine).clone(),
                is_spent: first.is_some_and(|&first| self.engine.is_spent(first)),
                locals: own.map(|socket| socket.local).collect(),
            }
        };
        self.accounts.iter().map(report).collect()
    }

    /// Translates an event of a socket's budget into one of its place.
    pub(crate) fn budget_event(&mut self, socket: SocketId, event: fn(Place) -> HostEvent) {
        if let Some(account) = self.account_of(socket) {
            let event = event(account.tariff.place.clone());
            self.host_event(event);
        }
    }

    pub(crate) fn budget_low(&mut self, socket: SocketId, left_bytes: u64) {
        if let Some(account) = self.account_of(socket) {
            let place = account.tariff.place.clone();
            self.host_event(HostEvent::BudgetLow { place, left_bytes });
        }
    }

    /// Takes a socket out of use again after its budget was renewed, if it has no address now: the engine would use all.
    pub(crate) fn keep_down(&mut self, now: Instant, socket: SocketId) {
        let account = self.accounts.iter();
        let mut account = account.filter(|account| account.sockets.contains(&socket));
        let Some(account) = account.next() else {
            return;
        };
        for entry in &self.sockets {
            if account.sockets.contains(&entry.id) && !entry.is_up {
                self.engine.socket_down(now, entry.id);
            }
        }
    }

    fn account_of(&self, socket: SocketId) -> Option<&Account> {
        let mut accounts = self.accounts.iter();
        accounts.find(|account| account.sockets.contains(&socket))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use anabranch_session::{AllowList, Config, Engine, SecretKey, metering::Billing};

    use super::*;
    use crate::{clock::Clock, tariff::Counted, waker::Waker};

    const NOVEMBER_S: u64 = 1_795_219_200;
    const DECEMBER_S: u64 = NOVEMBER_S + 20 * 86_400;

    fn shared(tariffs: Vec<Tariff>) -> Shared {
        let clock = Clock::start();
        let key = SecretKey::from_seed([9; 32]);
        let allowed = AllowList::default();
        let engine = Engine::new(clock.epoch(), key, allowed, Config::default(), [1; 32]);
        let shared = Shared::new(clock, Waker::new().unwrap(), engine);
        shared.lock().accounts = tariffs
            .into_iter()
            .map(|tariff| Account::new(tariff, NOVEMBER_S))
            .collect();
        shared
    }

    fn tariff(place: &str, price: &str, used_bytes: u64) -> Tariff {
        let billing = Billing::default();
        Tariff {
            counted: Some(Counted {
                period: billing.period(NOVEMBER_S),
                used_bytes,
            }),
            ..Tariff::new(place.parse().unwrap(), price.parse().unwrap())
        }
    }

    fn pay_for(shared: &Shared, id: u64, address: &str, interface: &str) {
        let bind = Bind::from(format!("{address}:7").parse::<SocketAddr>().unwrap());
        shared.command(|state, now| state.pay_for(now, SocketId(id), &bind, Some(interface)));
    }

    #[test]
    fn an_interface_is_paid_for_as_one_and_an_address_goes_first() {
        let own = [
            tariff("wwan0", "5 GB then stop", 7),
            tariff("192.0.2.9", "0.01/MB", 0),
        ];
        let shared = shared(own.into());
        pay_for(&shared, 0, "192.0.2.1", "eth0");
        pay_for(&shared, 1, "192.0.2.2", "wwan0");
        pay_for(&shared, 2, "[2001:db8::2]", "wwan0");
        pay_for(&shared, 3, "192.0.2.9", "wwan0");
        let state = shared.lock();
        assert!(state.engine.meter(SocketId(0)).is_none());
        assert_eq!(state.accounts[0].sockets, [1, 2].map(SocketId));
        assert_eq!(state.accounts[1].sockets, [SocketId(3)]);
        assert_eq!(state.engine.meter(SocketId(2)).unwrap().used_bytes(), 7);
    }

    #[test]
    fn a_spent_budget_is_renewed_by_the_calendar() {
        let shared = shared(vec![
            tariff("wwan0", "1 MB then stop", 999_999),
            tariff("wwan1", "1 MB then stop", 1_000_000),
        ]);
        pay_for(&shared, 0, "192.0.2.1", "wwan0");
        let spent = |shared: &Shared| {
            let budgets = shared.lock().budgets();
            budgets
                .iter()
                .map(|b| (b.is_spent, b.meter.used_bytes()))
                .collect::<Vec<_>>()
        };
        assert_eq!(spent(&shared), [(true, 999_999), (false, 1_000_000)]);
        for unix_s in [NOVEMBER_S, 0] {
            shared.command(|state, now| state.begin_periods(now, unix_s));
        }
        assert_eq!(spent(&shared), [(true, 999_999), (false, 1_000_000)]);
        shared.command(|state, now| state.begin_periods(now, DECEMBER_S));
        assert_eq!(spent(&shared), [(false, 0), (false, 0)]);
        let place = Place::Interface("wwan0".to_owned());
        let events: Vec<HostEvent> = shared.lock().events.drain(..).collect();
        assert_eq!(
            events,
            [
                HostEvent::BudgetSpent {
                    place: place.clone()
                },
                HostEvent::BudgetRenewed { place }
            ]
        );
    }
}
