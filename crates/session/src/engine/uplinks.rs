//! Uplinks: what the sessions of a node carry, and were promised, over the same local sockets, so that no session is promised what
//! another one was.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch_admission::Kind;
use anabranch_base::{ChannelId, Instant, SessionId, SocketId};
use anabranch_channel::Channel;

use super::{Engine, probes::ProbeBudget};
use crate::{local::LocalDescription, session::Others};

/// Uplinks, each by its first socket. Key: node.
#[derive(Debug, Default)]
pub(super) struct Uplinks {
    /// Bytes acknowledged since the engine began.
    traffic: BTreeMap<SocketId, Traffic>,
    /// Those of sockets that carried something.
    of_sockets: BTreeMap<SocketId, SocketId>,
    /// Budget of probes.
    pub(super) probes: ProbeBudget,
}

#[derive(Debug, Default)]
struct Traffic {
    total_bytes: u64,
    /// Of the sessions that are open.
    by_session: BTreeMap<SessionId, Carried>,
}

#[derive(Clone, Copy, Debug)]
struct Carried {
    bytes: u64,
    /// Time of the last of them.
    at: Instant,
}

/// A session that carried nothing on an uplink for so long is not busy there.
const BUSY_FOR: Duration = Duration::from_secs(1);

impl Uplinks {
    fn add(&mut self, now: Instant, uplink: SocketId, session: SessionId, bytes: u64) {
        let traffic = self.traffic.entry(uplink).or_default();
        traffic.total_bytes += bytes;
        let none = Carried { bytes: 0, at: now };
        let carried = traffic.by_session.entry(session).or_insert(none);
        carried.bytes += bytes;
        carried.at = now;
    }

    /// Traffic of all sessions but this one: bytes so far, and the number of those that are busy. O(sessions of the uplink).
    fn beside(&self, now: Instant, uplink: SocketId, session: SessionId) -> (u64, usize) {
        self.traffic.get(&uplink).map_or((0, 0), |traffic| {
            let own = traffic.by_session.get(&session).map_or(0, |own| own.bytes);
            let others = traffic
                .by_session
                .iter()
                .filter(|(other, _)| **other != session);
            let busy = others.filter(|(_, carried)| now.since(carried.at) <= BUSY_FOR);
            (traffic.total_bytes - own, busy.count())
        })
    }

    /// Forgets which sockets belong together: their descriptions or meters changed.
    pub(super) fn forget_sockets(&mut self) {
        self.of_sockets.clear();
    }

    /// Forgets a session. What it carried still counts for the others: their measurements are differences.
    pub(super) fn forget(&mut self, session: SessionId) {
        for traffic in self.traffic.values_mut() {
            traffic.by_session.remove(&session);
        }
        // Nobody is left who compares.
        self.traffic
            .retain(|_, traffic| !traffic.by_session.is_empty());
    }
}

impl Engine {
    /// The uplink that a local socket belongs to, by its first socket: those of one interface, or of one meter, are one. O(sockets).
    fn uplink_of(&self, socket: SocketId) -> SocketId {
        let name = |description: &Arc<LocalDescription>| description.name.clone();
        let own = self.descriptions.get(&socket).and_then(name);
        let named = own.and_then(|own| {
            let mut all = self.descriptions.iter();
            all.find(|(_, other)| other.name.as_ref() == Some(&own))
        });
        let first = named.map_or(socket, |(first, _)| *first);
        self.quotas.account_of(first)
    }

    /// Notes that bytes of a session were acknowledged on a channel. O(log sessions).
    pub(super) fn note_acked(
        &mut self,
        now: Instant,
        id: ChannelId,
        session: SessionId,
        bytes: u64,
    ) {
        if bytes == 0 || self.sessions.len() < 2 {
            return;
        }
        let Some(socket) = self.endpoint.peek(id).map(Channel::socket) else {
            return;
        };
        let uplink = match self.uplinks.of_sockets.get(&socket) {
            Some(uplink) => *uplink,
            None => {
                let uplink = self.uplink_of(socket);
                self.uplinks.of_sockets.insert(socket, uplink);
                uplink
            }
        };
        self.uplinks.add(now, uplink, session, bytes);
    }

    /// Shows a session its neighbours before it answers for capacity: at the end of its windows, and before a stream is admitted.
    /// O(promised streams of the node).
    pub(super) fn brief(&mut self, now: Instant, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if self.sessions.len() == 1 && !session.has_neighbours() {
            return;
        }
        let paths: Vec<SocketId> = session
            .sockets()
            .map(|socket| self.uplink_of(socket))
            .collect();
        let mut others: BTreeMap<SocketId, Others> = BTreeMap::new();
        for &uplink in &paths {
            let others = others.entry(uplink).or_default();
            (others.acked_bytes, others.busy) = self.uplinks.beside(now, uplink, id);
        }
        for (_, session) in self.sessions.iter().filter(|(other, _)| **other != id) {
            let is_behind = session.is_behind_on_promises();
            for (socket, reservation) in session.reservations() {
                let Some(others) = others.get_mut(&self.uplink_of(socket)) else {
                    continue;
                };
                others.are_behind |= is_behind && reservation.standing.kind != Kind::Waiting;
                others.reserved.push(reservation);
            }
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.set_neighbours(now, &paths, &others);
        }
    }

    /// Briefs a session whose windows of capacity end now.
    pub(super) fn brief_at_window(&mut self, now: Instant, id: SessionId) {
        if (self.sessions.get(&id)).is_some_and(|session| session.is_window_over(now)) {
            self.brief(now, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_carried_is_counted_until_nobody_is_left() {
        let [one, two, three] = [1, 2, 3].map(SessionId);
        let (first, second) = (SocketId(1), SocketId(2));
        let mut uplinks = Uplinks::default();
        let at = Instant::from_secs;
        uplinks.add(at(1), first, one, 100);
        uplinks.add(at(3), first, two, 30);
        uplinks.add(at(3), second, two, 7);
        assert_eq!(uplinks.beside(at(3), first, one), (30, 1));
        assert_eq!(uplinks.beside(at(3), first, three), (130, 1));
        assert_eq!(uplinks.beside(at(5), second, two), (0, 0));
        // The total does not fall when a session ends.
        uplinks.forget(two);
        assert_eq!(uplinks.beside(at(3), first, one), (30, 0));
        uplinks.forget(one);
        assert!(uplinks.traffic.is_empty());
    }
}
