//! Interests of other members: a node that could relay for them measures its links to their destinations.
//!
//! A node measures only a few links. In a large overlay, few relays would know their link to a given destination, and a
//! source could replace a path only by one that no node has measured. So a source reports its destinations to the nodes
//! that it measures, and these measure a few more links, within their own budget.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::Instant;

use super::Agent;
use crate::members::Moves;
use crate::wire::{Frame, ShortId, record};

/// Most destinations that a node reports.
const REPORTED_MAX: usize = 4;
/// Interval at which it reports them again.
const REPORT_GAP: Duration = Duration::from_secs(30);
/// Time for which an interest that was reported holds.
const HOLDS: Duration = Duration::from_secs(90);
/// Most links measured because others asked.
const ASKED_MAX: usize = 8;

/// Links that other members asked this node to measure: requester and destination, by index in the member table, and
/// the expiry time.
#[derive(Debug, Default)]
pub(super) struct Asked(BTreeMap<(usize, usize), Instant>);

impl Asked {
    /// Replaces the interests of `from`. Returns true if any of them is new.
    fn take(&mut self, from: usize, to: &[usize], now: Instant) -> bool {
        let to = &to[..to.len().min(REPORTED_MAX)];
        self.0
            .retain(|&(asker, at), until| *until > now && (asker != from || to.contains(&at)));
        let mut is_new = false;
        for &at in to {
            let count = self.places().count();
            let is_known = self.places().any(|other| other == at);
            if is_known || count < ASKED_MAX {
                is_new |= self.0.insert((from, at), now + HOLDS).is_none();
            }
        }
        is_new
    }

    /// Follows the members to other places.
    pub(super) fn follow(&mut self, moves: &Moves) {
        moves.rekey(&mut self.0, Moves::pair);
    }

    /// Forgets expired interests.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, until| *until > now);
    }

    /// The other ends of the links, each once.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        let mut places: Vec<usize> = self.0.keys().map(|&(_, at)| at).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter()
    }
}

/// Most links that a node measures and publishes, when it measures `own` for itself.
pub(super) fn links_max(own: usize) -> usize {
    (own + ASKED_MAX).min(record::LINKS_MAX)
}

impl Agent {
    /// Reports its destinations to the nodes that this one measures.
    pub(super) fn report_interest(&mut self, now: Instant) {
        let wanted: Vec<usize> = self.wants.keys().copied().take(REPORTED_MAX).collect();
        if wanted.is_empty() {
            return;
        }
        for at in self.probing.targets.clone() {
            let peer = &mut self.peers[at];
            if !peer.is_up() || now < peer.interest_at {
                continue;
            }
            peer.interest_at = now + REPORT_GAP;
            let places = wanted.iter().filter(|&&to| to != at);
            let ids: Vec<ShortId> = places
                .map(|&to| self.member_table.entry(to).short)
                .collect();
            if !ids.is_empty() {
                self.queue(at, &Frame::Interest(ids));
            }
        }
    }

    /// Reports the destinations to all nodes again, because there is a new one.
    pub(super) fn interest_is_new(&mut self) {
        for peer in &mut self.peers {
            peer.interest_at = Instant::EPOCH;
        }
    }

    pub(super) fn receive_interest(&mut self, from: usize, ids: &[ShortId], now: Instant) {
        let mut places = Vec::new();
        for &id in ids {
            match self.member_table.find_short(id) {
                Some(at) if at == self.member_table.me || at == from => {}
                Some(at) => places.push(at),
                None => self.refused.strangers += 1,
            }
        }
        if self.probing.asked.take(from, &places, now) {
            self.probing_is_stale();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Instant {
        Instant::EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_asked_for_replaces_what_was_and_ends() {
        let mut asked = Asked::default();
        assert!(asked.take(1, &[5, 6], at(0)));
        assert!(!asked.take(1, &[6], at(10)), "it was known");
        assert!(asked.take(2, &[6], at(50)));
        assert_eq!(asked.places().collect::<Vec<_>>(), [6]);
        asked.expire(at(101));
        assert_eq!(
            asked.places().collect::<Vec<_>>(),
            [6],
            "the other still asks"
        );
        asked.expire(at(140));
        assert_eq!(asked.places().count(), 0);
    }

    proptest! {
        #[test]
        fn many_askers_get_no_more(asks in prop::collection::vec((0..40_usize, prop::collection::vec(0..60_usize, 0..9)), 1..200)) {
            let mut asked = Asked::default();
            for (second, (from, to)) in asks.iter().enumerate() {
                asked.take(*from, to, at(second as u64));
                prop_assert!(asked.places().count() <= ASKED_MAX);
                prop_assert!((0..40).all(|from| asked.0.keys().filter(|key| key.0 == from).count() <= REPORTED_MAX));
            }
        }
    }
}
