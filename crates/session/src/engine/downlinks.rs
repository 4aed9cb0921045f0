//! Downlinks: promises of peers to this node over each of its interfaces, which it states to its other peers, so that they do not promise the
//! same capacity.
//!
//! A peer states what it promised on each channel. To each other session whose channels end at the same interface, this node states the
//! sum of the others', and the rate at which their data arrives. A peer may lie: its promises count as old as the first statement of its
//! session at most, and those of a session that came later never as durable, so that they do not go before older ones.

use std::{collections::BTreeMap, time::Duration};

use anabranch_admission::{Kind, Reservation};
use anabranch_base::{ChannelId, Instant, Rate, SessionId, SocketId};
use anabranch_channel::Channel;

use super::{Engine, traffic::Traffic};
use crate::{
    session::far_end::{FORGOTTEN_AFTER, listed, reservations},
    wire::{
        Control,
        promised::{PROMISED_MAX, Promised},
    },
};

/// Least time between two statements to all, while promises are the same, and while they change.
const STATED_EVERY: [Duration; 2] = [Duration::from_millis(900), Duration::from_millis(100)];

/// Statements of peers, and of this node. Key: node.
#[derive(Debug, Default)]
pub(super) struct Downlinks {
    announced: BTreeMap<ChannelId, Announced>,
    /// Bytes that arrived since the first peer stated that it promised something.
    received: Traffic,
    stated: BTreeMap<ChannelId, Stated>,
    /// Time of the last statements to all, and whether promises changed since.
    stated_at: Option<Instant>,
    is_changed: bool,
}

/// Promises of a peer. Key: channel.
#[derive(Debug)]
struct Announced {
    session: SessionId,
    interface: SocketId,
    /// Time of the first statement, and of the last.
    since: Instant,
    at: Instant,
    promises: Vec<Reservation>,
}

/// The last statement of this node on a channel.
#[derive(Debug)]
struct Stated {
    at: Instant,
    /// Bytes of others that had arrived.
    bytes: u64,
    promises: Vec<(bool, Rate)>,
}

/// Promises of all peers over one interface.
#[derive(Debug, Default)]
struct Account {
    /// In order of precedence.
    promises: Vec<Reservation>,
    total_bps: f64,
    /// Of each session that stated something: the time of its first statement, and the sum of its promises in bits per second.
    sessions: BTreeMap<SessionId, (Instant, f64)>,
}

impl Account {
    /// The first promises of others than `session`, of which the last stands for the rest. O(promises of the session).
    fn others(&self, session: SessionId) -> Vec<Reservation> {
        let own = self.sessions.get(&session);
        let own_bps = own.map_or(0.0, |(_, bps)| *bps);
        let others = self.promises.iter();
        let others = others.filter(|one| one.standing.session != session);
        let mut first: Vec<Reservation> = others.copied().take(PROMISED_MAX).collect();
        let first_bps: f64 = first.iter().map(|one| one.bps).sum();
        // The list is full: its last promise stands for the rest.
        if let Some(last) = first.get_mut(PROMISED_MAX - 1) {
            last.bps += (self.total_bps - own_bps - first_bps).max(0.0);
        }
        for one in &mut first {
            let theirs = self.sessions.get(&one.standing.session);
            if let (Some((own, _)), Some((theirs, _))) = (own, theirs)
                && theirs > own
            {
                one.standing.kind = one.standing.kind.max(Kind::Renewable);
            }
        }
        first
    }
}

impl Downlinks {
    pub(super) fn forget(&mut self, session: SessionId) {
        self.announced.retain(|_, known| known.session != session);
        self.received.forget(session);
        self.is_changed = true;
    }

    /// Takes note of a statement. The promises of channels that were silent for long are forgotten.
    fn announce(
        &mut self,
        now: Instant,
        (session, channel, interface): (SessionId, ChannelId, SocketId),
        list: &[Promised],
    ) {
        self.announced
            .retain(|_, known| now.since(known.at) < FORGOTTEN_AFTER);
        let of_session = self.announced.values().filter(|k| k.session == session);
        let since = of_session.map(|known| known.since).min().unwrap_or(now);
        let promises = reservations(now, session, list).map(|mut one| {
            one.standing.since = one.standing.since.max(since);
            one
        });
        let announced = Announced {
            session,
            interface,
            since,
            at: now,
            promises: promises.collect(),
        };
        let is_same = |before: &Announced| {
            let (before, now) = (before.promises.iter(), announced.promises.iter());
            let of = |one: &Reservation| (one.standing.kind, one.bps);
            before.map(of).eq(now.map(of))
        };
        let is_known = self.announced.get(&channel).is_some_and(is_same);
        self.is_changed |= !is_known;
        self.announced.insert(channel, announced);
    }

    /// True if it is time to state to all what others were promised.
    fn is_due(&self, now: Instant) -> bool {
        let every = STATED_EVERY[usize::from(self.is_changed)];
        let is_any = !self.announced.is_empty() || !self.stated.is_empty();
        is_any && self.stated_at.is_none_or(|at| now.since(at) >= every)
    }

    /// The accounts of all interfaces. O(n log n) for n promises.
    fn accounts(&self) -> BTreeMap<SocketId, Account> {
        let mut accounts: BTreeMap<SocketId, Account> = BTreeMap::new();
        for known in self.announced.values() {
            let account = accounts.entry(known.interface).or_default();
            let bps: f64 = known.promises.iter().map(|one| one.bps).sum();
            account.promises.extend(&known.promises);
            account.total_bps += bps;
            let own = account
                .sessions
                .entry(known.session)
                .or_insert((known.since, 0.0));
            own.0 = own.0.min(known.since);
            own.1 += bps;
        }
        for account in accounts.values_mut() {
            account.promises.sort_by_key(|one| one.standing);
        }
        accounts
    }

    /// The statement for a channel of a session, unless there never was anything to state.
    fn beside(
        &mut self,
        now: Instant,
        (session, channel, interface): (SessionId, ChannelId, SocketId),
        account: Option<&Account>,
    ) -> Option<Control> {
        let others = account.map_or_else(Vec::new, |account| account.others(session));
        let promised = listed(now, others);
        let (bytes, busy) = self.received.beside(now, interface, session);
        let promises: Vec<_> = promised
            .iter()
            .map(|one| (one.is_durable, one.rate))
            .collect();
        let last = self.stated.get(&channel);
        if last.is_none() && promises.is_empty() {
            return None;
        }
        let is_changed = last.is_none_or(|last| last.promises != promises);
        if !is_changed && last.is_some_and(|last| now.since(last.at) < STATED_EVERY[0]) {
            return None;
        }
        let passed_s = last.map_or(0.0, |last| now.since(last.at).as_secs_f64());
        let arrived = last.map_or(0, |last| bytes.saturating_sub(last.bytes));
        let rate_bps = if passed_s > 0.0 {
            arrived as f64 * 8.0 / passed_s
        } else {
            0.0
        };
        if promises.is_empty() {
            self.stated.remove(&channel);
        } else {
            let stated = Stated {
                at: now,
                bytes,
                promises,
            };
            self.stated.insert(channel, stated);
        }
        Some(Control::Beside {
            interface: interface.0,
            rate: Rate::from_bps(rate_bps as u64),
            busy: busy as u64,
            promised,
        })
    }
}

impl Engine {
    fn downlink(&mut self, id: ChannelId) -> Option<SocketId> {
        let socket = self.endpoint.peek(id).map(Channel::socket)?;
        let (descriptions, quotas) = (&self.descriptions, &self.quotas);
        Some(self.uplinks.of_socket(socket, descriptions, quotas))
    }

    /// Notes that data of a session arrived on a channel. O(1) while no peer promised anything.
    pub(super) fn note_received(
        &mut self,
        now: Instant,
        id: ChannelId,
        session: SessionId,
        bytes: usize,
    ) {
        if self.uplinks.downlinks.announced.is_empty() || self.sessions.len() < 2 {
            return;
        }
        if let Some(interface) = self.downlink(id) {
            let received = &mut self.uplinks.downlinks.received;
            received.add(now, interface, session, bytes as u64);
        }
    }

    /// Takes note of what a peer stated.
    pub(super) fn follow_announced(
        &mut self,
        now: Instant,
        session: SessionId,
        announced: Vec<(ChannelId, Vec<Promised>)>,
    ) {
        for (channel, list) in announced {
            if let Some(interface) = self.downlink(channel) {
                let of = (session, channel, interface);
                self.uplinks.downlinks.announce(now, of, &list);
            }
        }
        self.state_downlinks(now);
    }

    /// States to all sessions what others were promised, if it is time. O(channels of the node · sessions), ten times a second at most.
    pub(super) fn state_downlinks(&mut self, now: Instant) {
        if self.sessions.len() < 2 || !self.uplinks.downlinks.is_due(now) {
            return;
        }
        let accounts = self.uplinks.downlinks.accounts();
        let downlinks = &mut self.uplinks.downlinks;
        (downlinks.stated_at, downlinks.is_changed) = (Some(now), false);
        downlinks
            .stated
            .retain(|channel, _| self.owners.contains_key(channel));
        let channels: Vec<_> = self
            .sessions
            .iter()
            .flat_map(|(id, session)| session.channel_ids().map(|channel| (*id, channel)))
            .collect();
        for (id, channel) in channels {
            let Some(interface) = self.downlink(channel) else {
                continue;
            };
            let account = accounts.get(&interface);
            let of = (id, channel, interface);
            let beside = self.uplinks.downlinks.beside(now, of, account);
            if let (Some(beside), Some(session)) = (beside, self.sessions.get_mut(&id)) {
                session.state_beside(channel, beside);
                self.touched.push_back(channel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACE: SocketId = SocketId(3);
    const ONE: (SessionId, ChannelId, SocketId) = (SessionId(1), ChannelId(1), INTERFACE);
    const TWO: (SessionId, ChannelId, SocketId) = (SessionId(2), ChannelId(2), INTERFACE);

    fn promised(mbps: u64, age_s: u64) -> Promised {
        Promised {
            is_durable: false,
            age: Duration::from_secs(age_s),
            rate: Rate::from_mbps(mbps),
        }
    }

    /// A statement on a channel: the rate of the others, the number of those that are busy, and their promises.
    fn stated(
        downlinks: &mut Downlinks,
        now: Instant,
        to: (SessionId, ChannelId, SocketId),
    ) -> Option<(Rate, u64, Vec<Promised>)> {
        let accounts = downlinks.accounts();
        match downlinks.beside(now, to, accounts.get(&to.2))? {
            Control::Beside {
                rate,
                busy,
                promised,
                ..
            } => Some((rate, busy, promised)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn others_on_the_interface_are_stated_and_forgotten() {
        let mut downlinks = Downlinks::default();
        let at = Instant::from_secs;
        let elsewhere = (SessionId(2), ChannelId(4), SocketId(9));
        downlinks.announce(at(100), ONE, &[promised(12, 50)]);
        downlinks.received.add(at(100), INTERFACE, SessionId(1), 0);
        let (_, _, list) = stated(&mut downlinks, at(100), TWO).expect("it is stated");
        // As old as the first statement, not as old as the peer claims.
        assert_eq!(list, [promised(12, 0)]);
        assert_eq!(stated(&mut downlinks, at(100), ONE), None);
        assert_eq!(stated(&mut downlinks, at(100), elsewhere), None);
        downlinks.announce(at(102), ONE, &[promised(12, 52)]);
        let received = &mut downlinks.received;
        received.add(at(102), INTERFACE, SessionId(1), 250_000);
        let again = stated(&mut downlinks, at(102), TWO);
        assert_eq!(again, Some((Rate::from_mbps(1), 1, vec![promised(12, 2)])));
        assert_eq!(stated(&mut downlinks, at(102), TWO), None);
        // An end is stated once.
        downlinks.announce(at(103), ONE, &[]);
        let (_, _, list) = stated(&mut downlinks, at(103), TWO).expect("the end is stated");
        assert_eq!(list, []);
        assert_eq!(stated(&mut downlinks, at(104), TWO), None);
    }

    #[test]
    fn statements_that_are_not_repeated_are_forgotten() {
        let mut downlinks = Downlinks::default();
        let at = Instant::from_secs;
        downlinks.announce(at(100), ONE, &[promised(12, 0)]);
        downlinks.announce(at(111), TWO, &[promised(5, 0)]);
        let others = |downlinks: &Downlinks| -> f64 {
            let accounts = downlinks.accounts();
            let others = accounts.get(&INTERFACE).map(|all| all.others(SessionId(3)));
            others.into_iter().flatten().map(|one| one.bps).sum()
        };
        assert_eq!(others(&downlinks), 5e6);
        downlinks.forget(TWO.0);
        assert_eq!(others(&downlinks), 0.0);
    }

    /// A session that came later does not go before others by claiming that its promises are durable; one that came earlier may.
    #[test]
    fn late_claims_of_durable_promises_go_before_nobody() {
        let mut downlinks = Downlinks::default();
        let at = Instant::from_secs;
        let durable = |mbps: u64| Promised {
            is_durable: true,
            ..promised(mbps, 1 << 30)
        };
        downlinks.announce(at(100), ONE, &[durable(2)]);
        downlinks.announce(at(101), TWO, &[durable(90)]);
        let (_, _, list) = stated(&mut downlinks, at(101), ONE).expect("it is stated");
        assert_eq!(list, [promised(90, 0)]);
        let (_, _, list) = stated(&mut downlinks, at(101), TWO).expect("it is stated");
        assert!(list[0].is_durable, "{list:?}");
    }

    #[test]
    fn of_many_promises_all_are_counted_and_the_first_are_listed() {
        let mut downlinks = Downlinks::default();
        let at = Instant::from_secs;
        for number in 0..1_000_u64 {
            let of = (SessionId(number), ChannelId(number), INTERFACE);
            downlinks.announce(at(100 + number / 200), of, &[promised(1 + number % 2, 0)]);
        }
        let (_, _, list) = stated(&mut downlinks, at(105), ONE).expect("it is stated");
        assert_eq!(list.len(), PROMISED_MAX);
        let total: u64 = list.iter().map(|one| one.rate.as_bps()).sum();
        assert_eq!(total, 1_500_000_000 - 2_000_000);
        assert_eq!(list[0].age, Duration::from_secs(5));
    }

    #[test]
    fn all_are_told_at_once_of_changes_and_else_once_a_second() {
        let mut downlinks = Downlinks::default();
        let at = |ms: u64| Instant::from_secs(100) + Duration::from_millis(ms);
        assert!(!downlinks.is_due(at(0)), "there is nothing");
        downlinks.announce(at(0), ONE, &[promised(12, 0)]);
        assert!(downlinks.is_due(at(0)));
        (downlinks.stated_at, downlinks.is_changed) = (Some(at(0)), false);
        downlinks.announce(at(500), ONE, &[promised(12, 1)]);
        assert!(!downlinks.is_due(at(500)), "it is only older");
        assert!(downlinks.is_due(at(900)));
        downlinks.announce(at(550), ONE, &[promised(11, 1)]);
        assert!(downlinks.is_due(at(550)) && !downlinks.is_due(at(99)));
    }
}
