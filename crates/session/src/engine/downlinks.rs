//! Downlinks: what peers promised to this node over each of its interfaces, which it states to its other peers, so that they do not promise
//! the same capacity.
//!
//! A peer states what it promised on each channel. To each other session whose channels end at the same interface, this node states the
//! sum of the others', and the rate at which their data arrives. Promises of a peer count as old as the first statement of its session at
//! most, whatever it claims: those of others that were there before keep their precedence.

use std::{collections::BTreeMap, time::Duration};

use anabranch_admission::Reservation;
use anabranch_base::{ChannelId, Instant, Rate, SessionId, SocketId};
use anabranch_channel::Channel;

use super::{Engine, traffic::Traffic};
use crate::{
    session::far_end::{FORGOTTEN_AFTER, listed, reservations},
    wire::{Control, promised::Promised},
};

/// Least time between two statements on a channel, unless the promises changed.
const STATED_EVERY: Duration = Duration::from_millis(900);

/// Statements of peers, and of this node. Key: node.
#[derive(Debug, Default)]
pub(super) struct Downlinks {
    announced: BTreeMap<ChannelId, Announced>,
    /// Bytes that arrived since the first peer stated that it promised something.
    received: Traffic,
    stated: BTreeMap<ChannelId, Stated>,
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

impl Downlinks {
    pub(super) fn forget(&mut self, session: SessionId) {
        self.announced.retain(|_, known| known.session != session);
        self.received.forget(session);
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
        self.announced.insert(channel, announced);
    }

    /// What sessions but this one were promised on an interface.
    fn others(&self, interface: SocketId, session: SessionId) -> Vec<Reservation> {
        let others = self.announced.values();
        let others =
            others.filter(|known| known.interface == interface && known.session != session);
        others.flat_map(|known| &known.promises).copied().collect()
    }

    /// The statement for a channel of a session, unless there is nothing new.
    fn beside(
        &mut self,
        now: Instant,
        (session, channel, interface): (SessionId, ChannelId, SocketId),
    ) -> Option<Control> {
        let promised = listed(now, self.others(interface, session));
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
        if !is_changed && last.is_some_and(|last| now.since(last.at) < STATED_EVERY) {
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

    /// Takes note of what a peer stated, and states it to the others. O(channels of the node).
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
        if self.sessions.len() < 2 {
            return;
        }
        let stated = &mut self.uplinks.downlinks.stated;
        stated.retain(|channel, _| self.owners.contains_key(channel));
        let channels: Vec<_> = self
            .sessions
            .iter()
            .flat_map(|(id, session)| session.channel_ids().map(|channel| (*id, channel)))
            .collect();
        for (id, channel) in channels {
            let Some(interface) = self.downlink(channel) else {
                continue;
            };
            let beside = self.uplinks.downlinks.beside(now, (id, channel, interface));
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

    fn promised(mbps: u64, age_s: u64) -> Vec<Promised> {
        vec![Promised {
            is_durable: false,
            age: Duration::from_secs(age_s),
            rate: Rate::from_mbps(mbps),
        }]
    }

    #[test]
    fn others_on_the_interface_are_stated_and_forgotten() {
        let mut downlinks = Downlinks::default();
        let at = Instant::from_secs;
        let interface = SocketId(3);
        let one = (SessionId(1), ChannelId(1), interface);
        let two = (SessionId(2), ChannelId(2), interface);
        let elsewhere = (SessionId(2), ChannelId(4), SocketId(9));
        downlinks.announce(at(100), one, &promised(12, 50));
        downlinks.received.add(at(100), interface, SessionId(1), 0);
        let Some(Control::Beside { promised: list, .. }) = downlinks.beside(at(100), two) else {
            panic!("it is stated");
        };
        // As old as the first statement, not as old as the peer claims.
        let young = Promised {
            age: Duration::ZERO,
            ..promised(12, 0)[0]
        };
        assert_eq!(list, [young]);
        assert_eq!(downlinks.beside(at(100), one), None);
        assert_eq!(downlinks.beside(at(100), elsewhere), None);
        downlinks.announce(at(102), one, &promised(12, 52));
        downlinks
            .received
            .add(at(102), interface, SessionId(1), 250_000);
        let stated = downlinks.beside(at(102), two);
        let Some(Control::Beside {
            rate,
            busy,
            promised: list,
            ..
        }) = stated
        else {
            panic!("it is stated again");
        };
        assert_eq!((rate, busy), (Rate::from_mbps(1), 1));
        assert_eq!(list[0].age, Duration::from_secs(2));
        assert_eq!(downlinks.beside(at(102), two), None);
        // An end is stated once.
        downlinks.announce(at(103), one, &[]);
        let Some(Control::Beside { promised: list, .. }) = downlinks.beside(at(103), two) else {
            panic!("the end is stated");
        };
        assert_eq!(list, []);
        assert_eq!(downlinks.beside(at(104), two), None);
    }

    #[test]
    fn statements_that_are_not_repeated_are_forgotten() {
        let mut downlinks = Downlinks::default();
        let at = Instant::from_secs;
        let interface = SocketId(3);
        let [one, two, three] =
            [1, 2, 3].map(|number| (SessionId(number), ChannelId(number), interface));
        downlinks.announce(at(100), one, &promised(12, 0));
        downlinks.announce(at(111), two, &promised(5, 0));
        let all = downlinks.others(interface, three.0);
        assert_eq!(all.iter().map(|one| one.bps).sum::<f64>(), 5e6);
        downlinks.forget(two.0);
        assert!(downlinks.others(interface, three.0).is_empty());
    }
}
