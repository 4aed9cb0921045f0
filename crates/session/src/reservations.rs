//! Promises of all sessions of a node on one uplink: a list that the sessions share, and that is made again only when one of them has
//! changed.

use std::sync::{Arc, OnceLock};

use anabranch_admission::{Kind, Reservation};
use anabranch_base::SessionId;

/// Part of what was promised by which a session's share exceeds it: no controller takes exactly its share.
const HEADROOM: f64 = 1.05;

/// Promises in force on an uplink, and those that are waited for. Key: uplink.
#[derive(Debug)]
pub(crate) struct Reservations {
    /// By session, then in the order of its streams.
    all: Arc<[Reservation]>,
    /// The sessions with any, ascending, and whether a promise of theirs is in force.
    sessions: Vec<(SessionId, bool)>,
    /// In order of precedence: place of the session, and the rate with headroom in bits per second.
    by_precedence: Vec<(usize, f64)>,
    /// Sums of the rates of all but one session, by its place, and last of all sessions; each is added up at the first question.
    beside_bps: Box<[OnceLock<f64>]>,
}

impl Reservations {
    /// Those of a list that is ordered by session. O(n log n).
    pub(crate) fn of(all: &[Reservation]) -> Self {
        let mut sessions: Vec<(SessionId, bool)> = Vec::new();
        let mut places = Vec::with_capacity(all.len());
        for one in all {
            let session = one.standing.session;
            if sessions.last().is_none_or(|(last, _)| *last != session) {
                sessions.push((session, false));
            }
            let place = sessions.len() - 1;
            sessions[place].1 |= one.standing.kind != Kind::Waiting;
            places.push((one.standing, place, with_headroom(one)));
        }
        places.sort_by_key(|(standing, ..)| *standing);
        let by_precedence = places.into_iter().map(|(_, place, bps)| (place, bps));
        Self {
            all: all.into(),
            beside_bps: (0..=sessions.len()).map(|_| OnceLock::new()).collect(),
            sessions,
            by_precedence: by_precedence.collect(),
        }
    }

    /// By session, then in the order of its streams.
    pub(crate) fn all(&self) -> &Arc<[Reservation]> {
        &self.all
    }

    /// In order of precedence: place of the session, and the rate with headroom in bits per second.
    pub(crate) fn by_precedence(&self) -> &[(usize, f64)] {
        &self.by_precedence
    }

    /// Rate of all promises but those of the session with this place, with headroom, in bits per second. O(promises) at the first
    /// question.
    pub(crate) fn beside_bps(&self, own: Option<usize>) -> f64 {
        let is_other = |(whose, _): &&(usize, f64)| Some(*whose) != own;
        let sum = || -> f64 {
            let others = self.by_precedence.iter().filter(is_other);
            others.map(|(_, bps)| bps).sum()
        };
        *self.beside_bps[own.unwrap_or(self.sessions.len())].get_or_init(sum)
    }

    /// Rate of the promises in force of all sessions but this one, in bits per second. O(promises).
    pub(crate) fn others_bps(&self, session: SessionId) -> f64 {
        let counts = |one: &&Reservation| {
            one.standing.session != session && one.standing.kind != Kind::Waiting
        };
        self.all.iter().filter(counts).map(|one| one.bps).sum()
    }

    /// Number of sessions that have places.
    pub(crate) fn places(&self) -> usize {
        self.sessions.len()
    }

    /// Place of a session; `None`: it has no promises here.
    pub(crate) fn place(&self, session: SessionId) -> Option<usize> {
        let place = self.sessions.binary_search_by_key(&session, |(of, _)| *of);
        place.ok()
    }

    /// Sessions beside this one, and whether a promise of theirs is in force.
    pub(crate) fn others(&self, session: SessionId) -> impl Iterator<Item = (SessionId, bool)> {
        let sessions = self.sessions.iter().copied();
        sessions.filter(move |(other, _)| *other != session)
    }
}

fn with_headroom(one: &Reservation) -> f64 {
    match one.standing.kind {
        Kind::Durable | Kind::Renewable => HEADROOM * one.bps,
        Kind::Waiting => one.bps,
    }
}

#[cfg(test)]
mod tests {
    use anabranch_admission::Standing;
    use anabranch_base::Instant;

    use super::*;

    #[test]
    fn sessions_have_places_and_promises_an_order() {
        let one = |session: u64, kind: Kind, since: u64, bps: f64| Reservation {
            standing: Standing {
                kind,
                since: Instant::from_secs(since),
                session: SessionId(session),
            },
            tenant: None,
            bps,
        };
        let reservations = Reservations::of(&[
            one(2, Kind::Renewable, 7, 100.0),
            one(2, Kind::Waiting, 0, 10.0),
            one(5, Kind::Waiting, 0, 20.0),
            one(7, Kind::Durable, 9, 200.0),
            one(7, Kind::Renewable, 3, 300.0),
        ]);
        assert_eq!(reservations.places(), 3);
        assert_eq!(reservations.place(SessionId(7)), Some(2));
        assert_eq!(reservations.place(SessionId(3)), None);
        let others: Vec<_> = reservations.others(SessionId(2)).collect();
        assert_eq!(others, [(SessionId(5), false), (SessionId(7), true)]);
        let order = [(2, 210.0), (2, 315.0), (0, 105.0), (0, 10.0), (1, 20.0)];
        assert_eq!(reservations.by_precedence(), order);
        assert_eq!(reservations.all().len(), 5);
        for _ in 0..2 {
            assert_eq!(reservations.beside_bps(Some(2)), 135.0);
            assert_eq!(reservations.beside_bps(None), 660.0);
        }
    }
}
