//! Interests of other members: a member that could relay for them measures its link there.
//!
//! A node measures a few links only. In a large overlay, few relays would know their link to a given destination, and a
//! source could replace a way only by one that nobody has measured. So a source tells the nodes that it measures, and
//! these measure a few links more, within their own budget.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::Instant;

use super::Agent;
use crate::wire::{Frame, ShortId, record};

/// A node tells of so many of its destinations.
const TOLD_MAX: usize = 4;
/// … again after this.
const TELL: Duration = Duration::from_secs(30);
/// What was told holds for this long.
const HOLDS: Duration = Duration::from_secs(90);
/// Most links measured because others asked.
const ASKED_MAX: usize = 8;

/// Links that others asked this node to measure: who, where to, and until when; by places in the roster.
#[derive(Debug, Default)]
pub(super) struct Asked(BTreeMap<(usize, usize), Instant>);

impl Asked {
    /// Takes what `from` is interested in now, instead of what it was before; whether any of it is new.
    fn take(&mut self, from: usize, to: &[usize], now: Instant) -> bool {
        let to = &to[..to.len().min(TOLD_MAX)];
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

    /// Forgets what is over.
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
    /// Tells the nodes that this one measures where it sends to.
    pub(super) fn tell_interest(&mut self, now: Instant) {
        let wanted: Vec<usize> = self.wants.keys().copied().take(TOLD_MAX).collect();
        if wanted.is_empty() {
            return;
        }
        for at in self.probing.targets.clone() {
            let peer = &mut self.peers[at];
            if !peer.is_up() || now < peer.interest_at {
                continue;
            }
            peer.interest_at = now + TELL;
            let places = wanted.iter().filter(|&&to| to != at);
            let ids: Vec<ShortId> = places
                .map(|&to| self.member_table.entry(to).short)
                .collect();
            if !ids.is_empty() {
                self.queue(at, &Frame::Interest(ids));
            }
        }
    }

    /// There is a new destination: everybody is told anew.
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
                prop_assert!((0..40).all(|from| asked.0.keys().filter(|key| key.0 == from).count() <= TOLD_MAX));
            }
        }
    }
}
