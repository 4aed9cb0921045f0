//! The order of members.
//!
//! Every node places all members on a circle, by a hash of their keys, and walks it over the live ones (as consistent
//! hashing does). It monitors the next two; it also keeps sessions with some further ones, half the circle away, a
//! quarter, an eighth …, so that updates need few steps (as Chord's fingers do). When a member comes or goes, only the
//! sessions beside it change.

use anabranch_base::NodeId;

/// Number of monitors that a node has.
pub(crate) const MONITORS: usize = 2;

#[derive(Debug, Clone)]
pub(crate) struct Ring {
    /// Places on the circle and the member at each, ascending.
    places: Vec<(u64, usize)>,
    /// Index of each member in `places`.
    position: Vec<usize>,
}

impl Ring {
    pub(crate) fn new(nodes: &[NodeId]) -> Self {
        let mut places: Vec<(u64, usize)> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (place(node), at))
            .collect();
        places.sort_unstable();
        let mut position = vec![0; nodes.len()];
        for (index, &(_, at)) in places.iter().enumerate() {
            position[at] = index;
        }
        Self { places, position }
    }

    /// The next `count` members after `from` for which `is_live` holds, `from` left out.
    pub(crate) fn successors<'a>(
        &'a self,
        from: usize,
        count: usize,
        is_live: impl Fn(usize) -> bool + 'a,
    ) -> impl Iterator<Item = usize> + 'a {
        let start = self.position[from];
        let n = self.places.len();
        (1..n)
            .map(move |step| self.places[(start + step) % n].1)
            .filter(move |&at| is_live(at))
            .take(count)
    }

    /// The `count` live members before `from`, the nearest first.
    pub(crate) fn predecessors<'a>(
        &'a self,
        from: usize,
        count: usize,
        is_live: impl Fn(usize) -> bool + 'a,
    ) -> impl Iterator<Item = usize> + 'a {
        let start = self.position[from];
        let n = self.places.len();
        (1..n)
            .map(move |step| self.places[(start + n - step) % n].1)
            .filter(move |&at| is_live(at))
            .take(count)
    }

    /// Members with which `from` keeps sessions, among `live` live members: those it monitors, then fingers.
    pub(crate) fn neighbours(
        &self,
        from: usize,
        live: usize,
        is_live: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let mut found: Vec<usize> = self.successors(from, MONITORS, &is_live).collect();
        let (own, _) = self.places[self.position[from]];
        let n = self.places.len();
        let mut distance = 1u64 << 63;
        // Nearer fingers would be among the successors anyway.
        let mut members_away = live / 2;
        while members_away > 2 * MONITORS {
            let target = own.wrapping_add(distance);
            let start = self.places.partition_point(|&(place, _)| place < target);
            let finger = (0..n)
                .map(|step| self.places[(start + step) % n].1)
                .find(|&at| is_live(at));
            if let Some(finger) = finger.filter(|at| *at != from && !found.contains(at)) {
                found.push(finger);
            }
            distance /= 2;
            members_away /= 2;
        }
        found
    }
}

/// FNV-1a over the key, mixed once more: the circle is uniform even if the keys are not.
fn place(node: &NodeId) -> u64 {
    let hash = node
        .public_key()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    let mixed = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ mixed >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(n: usize) -> Ring {
        let nodes: Vec<NodeId> = (0..n)
            .map(|at| {
                let mut key = [0; 32];
                key[..8].copy_from_slice(&(at as u64).to_be_bytes());
                NodeId::from_public_key(key)
            })
            .collect();
        Ring::new(&nodes)
    }

    #[test]
    fn monitor_and_monitored_agree() {
        let ring = ring(50);
        let is_live = |at: usize| at % 7 != 3;
        for at in (0..50).filter(|&at| is_live(at)) {
            for watched in ring.successors(at, MONITORS, is_live) {
                assert!(
                    ring.predecessors(watched, MONITORS, is_live)
                        .any(|monitor| monitor == at)
                );
            }
        }
    }

    #[test]
    fn all_are_reached_in_few_steps() {
        for (n, steps) in [(2, 1), (3, 1), (10, 3), (50, 4), (1000, 8)] {
            let ring = ring(n);
            let mut depth = vec![usize::MAX; n];
            let mut queue = std::collections::VecDeque::from([0]);
            depth[0] = 0;
            let all: Vec<Vec<usize>> = (0..n).map(|at| ring.neighbours(at, n, |_| true)).collect();
            let mut both: Vec<Vec<usize>> = all.clone();
            for (at, neighbours) in all.iter().enumerate() {
                neighbours.iter().for_each(|&other| both[other].push(at));
                assert!(neighbours.len() <= MONITORS + 10);
            }
            while let Some(at) = queue.pop_front() {
                for &next in &both[at] {
                    if depth[next] == usize::MAX {
                        depth[next] = depth[at] + 1;
                        queue.push_back(next);
                    }
                }
            }
            let most = depth.iter().max().unwrap();
            assert!(*most <= steps, "{n} nodes: {most} steps");
        }
    }

    #[test]
    fn a_member_that_goes_moves_few_sessions() {
        let ring = ring(200);
        let before: Vec<_> = (0..200)
            .map(|at| ring.neighbours(at, 200, |_| true))
            .collect();
        let after: Vec<_> = (0..200)
            .map(|at| ring.neighbours(at, 199, |at| at != 77))
            .collect();
        let moved = (0..200)
            .filter(|&at| at != 77 && before[at] != after[at])
            .count();
        assert!(moved <= 24, "{moved} nodes have other neighbours");
    }
}
