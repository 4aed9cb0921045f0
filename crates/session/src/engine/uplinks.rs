//! Uplinks: what the sessions of a node carry, and were promised, over the same local sockets, so that no session is promised what
//! another one was; and far ends, where what other nodes promised to the same peer takes their place (`downlinks.rs`).

use std::{collections::BTreeMap, sync::Arc};

use anabranch_admission::Reservation;
use anabranch_base::{ChannelId, Instant, SessionId, SocketId};
use anabranch_channel::Channel;
use anabranch_metering::Quotas;

use super::{Engine, downlinks::Downlinks, levels::Levels, probes::ProbeBudget, traffic::Traffic};
use crate::{local::LocalDescription, reservations::Reservations, session::OnUplink};

/// Descriptions of the local sockets.
type Descriptions = BTreeMap<SocketId, Arc<LocalDescription>>;

/// Uplinks, each by its first socket. Key: node.
#[derive(Debug, Default)]
pub(super) struct Uplinks {
    /// Bytes acknowledged since the engine began.
    sent: Traffic,
    /// Statements of peers on what they promised to this node.
    pub(super) downlinks: Downlinks,
    /// Those of the sockets in use.
    of_sockets: BTreeMap<SocketId, SocketId>,
    /// Promises of all sessions, where there are any.
    reserved: BTreeMap<SocketId, Arc<Reservations>>,
    /// Promises changed since, or the uplinks that they are on.
    is_stale: bool,
    /// Only memory for a briefing.
    on_uplinks: Vec<OnUplink>,
    /// Equal rates of busy sessions.
    pub(super) levels: Levels,
    /// Budget of probes.
    pub(super) probes: ProbeBudget,
}

impl Uplinks {
    /// Forgets which sockets belong together: their descriptions or meters changed.
    pub(super) fn forget_sockets(&mut self) {
        self.of_sockets.clear();
        self.levels.forget_sockets();
        self.is_stale = true;
    }

    /// The uplink that a local socket belongs to, by its first socket: those of one interface, or of one meter, are one. O(sockets)
    /// at the first call for a socket.
    pub(super) fn of_socket(
        &mut self,
        socket: SocketId,
        descriptions: &Descriptions,
        quotas: &Quotas,
    ) -> SocketId {
        let of_sockets = self.of_sockets.entry(socket);
        *of_sockets.or_insert_with(|| {
            let own = descriptions.get(&socket);
            let own = own.and_then(|description| description.name.as_ref());
            let named = own.and_then(|own| {
                let mut all = descriptions.iter();
                all.find(|(_, other)| other.name.as_ref() == Some(own))
            });
            let first = named.map_or(socket, |(first, _)| *first);
            quotas.account_of(first)
        })
    }

    /// Takes note of all promises, on each uplink in the order of sessions. Lists that did not change stay in use.
    fn reserve(&mut self, lists: &BTreeMap<SocketId, Vec<Reservation>>) {
        self.reserved.retain(|uplink, _| lists.contains_key(uplink));
        for (&uplink, list) in lists {
            let known = self.reserved.get(&uplink);
            if known.is_none_or(|known| **known.all() != **list) {
                let list = Arc::new(Reservations::of(list));
                self.reserved.insert(uplink, list);
            }
        }
    }

    /// Forgets a session. What it carried still counts for the others: their measurements are differences.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.is_stale = true;
        self.sent.forget(session);
        self.downlinks.forget(session);
    }
}

impl Engine {
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
        let (descriptions, quotas) = (&self.descriptions, &self.quotas);
        let uplink = self.uplinks.of_socket(socket, descriptions, quotas);
        self.uplinks.sent.add(now, uplink, session, bytes);
        self.note_busy(now, uplink, (id, session));
    }

    /// Shows a session its neighbours before it answers for capacity: at the end of its windows, and before a stream is admitted.
    /// O(sessions · paths), and after a change of promises O(promised streams of the node).
    pub(super) fn brief(&mut self, now: Instant, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if self.sessions.len() == 1 && !session.has_neighbours() && !session.has_far_ends() {
            return;
        }
        self.follow_promises();
        let mut on_uplinks = std::mem::take(&mut self.uplinks.on_uplinks);
        let (sessions, uplinks) = (&self.sessions, &mut self.uplinks);
        let (descriptions, quotas) = (&self.descriptions, &self.quotas);
        let is_behind = |(other, has_promise): (SessionId, bool)| {
            let other = sessions.get(&other);
            has_promise && other.is_some_and(|other| other.is_behind_on_promises())
        };
        let paths = sessions.get(&id).into_iter().flat_map(|one| one.ends(now));
        on_uplinks.extend(paths.map(|(socket, far)| {
            let uplink = uplinks.of_socket(socket, descriptions, quotas);
            let reserved = uplinks.reserved.get(&uplink);
            let reserved = reserved.filter(|reserved| reserved.others(id).next().is_some());
            let reserved_bps = reserved.map_or(0.0, |reserved| reserved.others_bps(id));
            if let Some(far) = far.filter(|far| far.reserved_bps > reserved_bps) {
                return OnUplink {
                    uplink: far.interface,
                    acked_bytes: far.bytes,
                    busy: far.busy,
                    are_behind: false,
                    promised: Some(far.promised),
                };
            }
            let (acked_bytes, busy) = uplinks.sent.beside(now, uplink, id);
            OnUplink {
                uplink,
                acked_bytes,
                busy,
                are_behind: reserved.is_some_and(|reserved| reserved.others(id).any(is_behind)),
                promised: reserved.cloned(),
            }
        }));
        if let Some(session) = self.sessions.get_mut(&id) {
            session.set_neighbours(now, &on_uplinks);
        }
        on_uplinks.clear();
        self.uplinks.on_uplinks = on_uplinks;
    }

    /// Brings the lists of promises up to date.
    fn follow_promises(&mut self) {
        for session in self.sessions.values_mut() {
            self.uplinks.is_stale |= session.publish();
        }
        if !std::mem::take(&mut self.uplinks.is_stale) {
            return;
        }
        let mut lists: BTreeMap<SocketId, Vec<Reservation>> = BTreeMap::new();
        for session in self.sessions.values() {
            for &(socket, reservation) in session.published() {
                let (descriptions, quotas) = (&self.descriptions, &self.quotas);
                let uplink = self.uplinks.of_socket(socket, descriptions, quotas);
                lists.entry(uplink).or_default().push(reservation);
            }
        }
        self.uplinks.reserve(&lists);
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
    use anabranch_admission::{Kind, Standing};

    use super::*;

    #[test]
    fn a_list_that_did_not_change_stays_in_use() {
        let one = |session: u64, bps: f64| Reservation {
            standing: Standing {
                kind: Kind::Renewable,
                since: Instant::from_secs(session),
                session: SessionId(session),
            },
            tenant: None,
            bps,
        };
        let (first, second) = (SocketId(1), SocketId(2));
        let mut uplinks = Uplinks::default();
        let mut lists = BTreeMap::from([
            (first, vec![one(1, 10.0), one(2, 20.0)]),
            (second, vec![one(1, 30.0)]),
        ]);
        uplinks.reserve(&lists);
        let before = uplinks.reserved.clone();
        lists.insert(second, vec![one(1, 31.0)]);
        uplinks.reserve(&lists);
        assert!(Arc::ptr_eq(&before[&first], &uplinks.reserved[&first]));
        assert_eq!(uplinks.reserved[&second].all()[0].bps, 31.0);
        lists.remove(&first);
        uplinks.reserve(&lists);
        assert_eq!(uplinks.reserved.keys().collect::<Vec<_>>(), [&second]);
    }

    #[test]
    fn sockets_of_one_name_are_one_uplink_until_they_are_described_anew() {
        let named = |name: &str| {
            Arc::new(LocalDescription {
                name: Some(name.into()),
                ..LocalDescription::default()
            })
        };
        let quotas = Quotas::new(1_500);
        let (first, second) = (SocketId(1), SocketId(2));
        let mut descriptions = Descriptions::from([(first, named("lte")), (second, named("lte"))]);
        let mut uplinks = Uplinks::default();
        assert_eq!(uplinks.of_socket(second, &descriptions, &quotas), first);
        descriptions.insert(second, named("wifi"));
        assert!(!uplinks.is_stale);
        uplinks.forget_sockets();
        assert!(uplinks.is_stale);
        assert_eq!(uplinks.of_socket(second, &descriptions, &quotas), second);
    }
}
