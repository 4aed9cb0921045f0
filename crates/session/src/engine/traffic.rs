//! Bytes that the sessions of a node exchange over each of its interfaces.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, SessionId, SocketId};

/// A session that carried nothing over an interface for so long is not busy there.
const BUSY_FOR: Duration = Duration::from_secs(1);

/// Bytes since the engine began, in one direction. Key: node.
#[derive(Debug, Default)]
pub(super) struct Traffic(BTreeMap<SocketId, OfInterface>);

#[derive(Debug, Default)]
struct OfInterface {
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

impl Traffic {
    pub(super) fn add(
        &mut self,
        now: Instant,
        interface: SocketId,
        session: SessionId,
        bytes: u64,
    ) {
        let traffic = self.0.entry(interface).or_default();
        traffic.total_bytes += bytes;
        let none = Carried { bytes: 0, at: now };
        let carried = traffic.by_session.entry(session).or_insert(none);
        carried.bytes += bytes;
        carried.at = now;
    }

    /// Traffic of all sessions but this one: bytes so far, and the number of those that are busy. O(sessions of the interface).
    pub(super) fn beside(
        &self,
        now: Instant,
        interface: SocketId,
        session: SessionId,
    ) -> (u64, usize) {
        self.0.get(&interface).map_or((0, 0), |traffic| {
            let own = traffic.by_session.get(&session).map_or(0, |own| own.bytes);
            let others = traffic
                .by_session
                .iter()
                .filter(|(other, _)| **other != session);
            let busy = others.filter(|(_, carried)| now.since(carried.at) <= BUSY_FOR);
            (traffic.total_bytes - own, busy.count())
        })
    }

    /// Forgets a session. What it carried still counts for the others: their measurements are differences.
    pub(super) fn forget(&mut self, session: SessionId) {
        for traffic in self.0.values_mut() {
            traffic.by_session.remove(&session);
        }
        // Nobody is left who compares.
        self.0.retain(|_, traffic| !traffic.by_session.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_carried_is_counted_until_nobody_is_left() {
        let [one, two, three] = [1, 2, 3].map(SessionId);
        let (first, second) = (SocketId(1), SocketId(2));
        let mut traffic = Traffic::default();
        let at = Instant::from_secs;
        traffic.add(at(1), first, one, 100);
        traffic.add(at(3), first, two, 30);
        traffic.add(at(3), second, two, 7);
        assert_eq!(traffic.beside(at(3), first, one), (30, 1));
        assert_eq!(traffic.beside(at(3), first, three), (130, 1));
        assert_eq!(traffic.beside(at(5), second, two), (0, 0));
        // The total does not fall when a session ends.
        traffic.forget(two);
        assert_eq!(traffic.beside(at(3), first, one), (30, 0));
        traffic.forget(one);
        assert!(traffic.0.is_empty());
    }
}
