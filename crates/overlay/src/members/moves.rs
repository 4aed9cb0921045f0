//! Places of members in a member table that takes over from another one.

use std::collections::BTreeMap;

/// New place of each member that stays, by its former place.
#[derive(Debug)]
pub(crate) struct Moves(pub(super) Vec<Option<usize>>);

impl Moves {
    /// The new place of the member that was at `before`; `None`: it is no longer a member.
    pub(crate) fn of(&self, before: usize) -> Option<usize> {
        self.0.get(before).copied().flatten()
    }

    /// The former and the new places of the members that stay.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        let places = self.0.iter().enumerate();
        places.filter_map(|(before, now)| Some((before, (*now)?)))
    }

    /// The new places of several nodes; `None` if one of them is no longer a member.
    pub(crate) fn all(&self, before: &[usize]) -> Option<Vec<usize>> {
        before.iter().map(|&at| self.of(at)).collect()
    }

    /// A link between two places.
    pub(crate) fn pair(&self, (from, to): (usize, usize)) -> Option<(usize, usize)> {
        Some((self.of(from)?, self.of(to)?))
    }

    /// Replaces the keys of a table as `of` says; entries for which it returns `None` are removed.
    pub(crate) fn rekey<K: Ord + Copy, V>(
        &self,
        table: &mut BTreeMap<K, V>,
        of: impl Fn(&Self, K) -> Option<K>,
    ) {
        let moved = std::mem::take(table).into_iter();
        *table = moved
            .filter_map(|(key, value)| Some((of(self, key)?, value)))
            .collect();
    }

    /// Replaces places in a list; those of members that are gone are removed.
    pub(crate) fn apply(&self, places: &mut Vec<usize>) {
        let moved = places.iter().filter_map(|&at| self.of(at)).collect();
        *places = moved;
    }
}
