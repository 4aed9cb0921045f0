//! Turns of streams: one order by precedence for what is due, one by deadlines for the rest.

use super::share::Nanos;

/// The key of a place in a [`Tournament`] that takes no part.
const OUT: u64 = u64::MAX;

/// Promised streams of a path that have something to send, by number on the path.
///
/// Numbers are given by precedence, so of those that are due the smallest goes first; the others go by
/// deadline, then by constraint, then by number. Nothing is rebuilt as time passes: each call changes one entry,
/// and moves those that have become due since, which is once per entry and packet. Memory: 34 bytes per entry.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    due: Numbers,
    later: Tournament,
    /// The place of each entry in the tournament, and the entry at each place.
    places: Vec<u32>,
    entries: Vec<u32>,
}

impl Turns {
    /// Of entries with these window constraints; none has anything to send.
    pub(super) fn new(constraints: &[f64]) -> Self {
        let count = constraints.len();
        let mut entries: Vec<u32> = (0..count as u32).collect();
        let constraint = |entry: &u32| constraints[*entry as usize];
        // Stable: equals stay in order of their numbers.
        entries.sort_by(|a, b| constraint(b).total_cmp(&constraint(a)));
        let mut places = vec![0; count];
        for (place, &entry) in entries.iter().enumerate() {
            places[entry as usize] = place as u32;
        }
        Self {
            due: Numbers::new(count),
            later: Tournament::new(count),
            places,
            entries,
        }
    }

    /// The entry has something to send, with this deadline: it is due if that lies before `horizon`.
    pub(super) fn enter(&mut self, entry: usize, deadline: Nanos, horizon: Nanos) {
        let key = (deadline + 0.5) as u64;
        let is_due = key < horizon as u64;
        self.due.set(entry, is_due);
        let key = if is_due { OUT } else { key };
        self.later.set(self.places[entry] as usize, key);
    }

    /// The entry has nothing to send.
    pub(super) fn leave(&mut self, entry: usize) {
        self.due.set(entry, false);
        self.later.set(self.places[entry] as usize, OUT);
    }

    pub(super) fn contains(&self, entry: usize) -> bool {
        self.due.contains(entry) || self.later.key(self.places[entry] as usize) != OUT
    }

    /// The share whose turn it is, and whether it is due. O(1) but for those that become due.
    pub(super) fn first(&mut self, horizon: Nanos) -> Option<(usize, bool)> {
        while let Some((place, _)) = self.later.first().filter(|first| first.1 < horizon as u64) {
            self.later.set(place, OUT);
            self.due.set(self.entries[place] as usize, true);
        }
        if let Some(entry) = self.due.first() {
            return Some((entry, true));
        }
        let (place, _) = self.later.first()?;
        Some((self.entries[place] as usize, false))
    }
}

/// A set of small numbers; the least is found in O(log₆₄ capacity).
#[derive(Clone, Debug)]
struct Numbers {
    /// The set, then what words of it are not empty, and so on up to a single word.
    levels: Vec<Vec<u64>>,
}

impl Numbers {
    fn new(capacity: usize) -> Self {
        let mut words = capacity.div_ceil(64).max(1);
        let mut levels = vec![vec![0; words]];
        while words > 1 {
            words = words.div_ceil(64);
            levels.push(vec![0; words]);
        }
        Self { levels }
    }

    fn set(&mut self, mut number: usize, is_in: bool) {
        let mut is_in = is_in;
        for level in &mut self.levels {
            let word = &mut level[number / 64];
            let before = *word;
            if is_in {
                *word |= 1 << (number % 64);
            } else {
                *word &= !(1 << (number % 64));
            }
            if (before != 0) == (*word != 0) {
                return;
            }
            is_in = *word != 0;
            number /= 64;
        }
    }

    fn contains(&self, number: usize) -> bool {
        self.levels[0][number / 64] >> (number % 64) & 1 == 1
    }

    fn first(&self) -> Option<usize> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let word = level[at];
            if word == 0 {
                return None;
            }
            at = at * 64 + word.trailing_zeros() as usize;
        }
        Some(at)
    }
}

/// The least of as many keys as there are places, and the first of equals; O(log places) to change one.
#[derive(Clone, Debug)]
struct Tournament {
    /// `nodes[1]` won; the parents of nodes 2i and 2i + 1 is node i; places are the second half.
    nodes: Vec<Node>,
    /// Nodes before the first place; a power of two.
    places_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Node {
    key: u64,
    place: u32,
}

impl Tournament {
    fn new(places: usize) -> Self {
        let places_at = places.next_power_of_two();
        let mut nodes = vec![Node { key: OUT, place: 0 }; 2 * places_at];
        for (place, node) in nodes[places_at..].iter_mut().enumerate() {
            node.place = place as u32;
        }
        for index in (1..places_at).rev() {
            nodes[index] = nodes[2 * index];
        }
        Self { nodes, places_at }
    }

    fn key(&self, place: usize) -> u64 {
        self.nodes[self.places_at + place].key
    }

    fn set(&mut self, place: usize, key: u64) {
        let mut index = self.places_at + place;
        if self.nodes[index].key == key {
            return;
        }
        self.nodes[index].key = key;
        while index > 1 {
            let left = self.nodes[index & !1];
            let right = self.nodes[index | 1];
            index /= 2;
            let winner = if right.key < left.key { right } else { left };
            if self.nodes[index] == winner {
                return;
            }
            self.nodes[index] = winner;
        }
    }

    fn first(&self) -> Option<(usize, u64)> {
        let Node { key, place } = self.nodes[1];
        (key != OUT).then_some((place as usize, key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COUNTS: [usize; 6] = [1, 2, 63, 65, 130, 4200];

    proptest! {
        /// As if all entries were looked at for each answer.
        #[test]
        fn the_first_is_that_of_a_plain_search(
            count in prop::sample::select(&COUNTS[..]),
            constraints in prop::collection::vec(prop::sample::select(&[0.5, 0.9, 1.0][..]), 4200),
            steps in prop::collection::vec((0..4200_usize, 0..3_u8, 0..2000_u64), 1..200),
        ) {
            let constraints = &constraints[..count];
            let mut turns = Turns::new(constraints);
            let mut deadlines: Vec<Option<f64>> = vec![None; count];
            let mut horizon = 0.0;
            for (entry, act, amount) in steps {
                let entry = entry % count;
                match act {
                    0 => {
                        turns.leave(entry);
                        deadlines[entry] = None;
                    }
                    1 => {
                        // Few values, so that there are equals.
                        let deadline = horizon + (amount / 20) as f64 - 30.0;
                        let deadline = deadline.max(0.0);
                        turns.enter(entry, deadline, horizon);
                        deadlines[entry] = Some(deadline);
                    }
                    _ => horizon += (amount / 50) as f64,
                }
                let due = deadlines.iter().position(|at| at.is_some_and(|at| at < horizon));
                let later = (0..count).filter(|&entry| deadlines[entry].is_some()).min_by(|&a, &b| {
                    deadlines[a]
                        .partial_cmp(&deadlines[b])
                        .unwrap()
                        .then(constraints[b].total_cmp(&constraints[a]))
                });
                let expected = due.map(|entry| (entry, true)).or(later.map(|entry| (entry, false)));
                prop_assert_eq!(turns.first(horizon), expected);
                prop_assert_eq!(turns.contains(entry), deadlines[entry].is_some());
            }
        }
    }
}
