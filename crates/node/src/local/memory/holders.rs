//! Account of what the applications hold, and the decisions: which may take in more, and which has to go.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// Part of the memory that each connection may have at any time, as a divisor; 128 connections have half of it.
const RESERVES: u64 = 256;

/// Kind of what a connection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::local) enum Part {
    /// Bytes of a frame that has arrived in part.
    Frame,
    /// ADUs that wait for their streams.
    Pending,
    /// Bytes that wait to be read by the application.
    Output,
}

/// Bytes of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bytes: u64,
    /// Time at which there were fewer last, or they began; `None` while the application is not to blame.
    moved: Option<Instant>,
}

/// A connection.
#[derive(Debug)]
struct Holder {
    user: u32,
    parts: [Held; 3],
    is_evicted: bool,
    evicted: Arc<Notify>,
}

impl Holder {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(|held| held.bytes).sum()
    }

    /// True if what the application is to finish or to read has not moved for so long. That its ADUs wait for a peer is no fault.
    fn is_stalled(&self, now: Instant, stall: Duration) -> bool {
        [Part::Frame, Part::Output].iter().any(|&part| {
            let held = self.parts[part as usize];
            held.bytes > 0 && held.moved.is_some_and(|moved| now - moved >= stall)
        })
    }
}

/// Account of the connections.
///
/// Invariant: `total` is the sum of what the holders have.
#[derive(Debug)]
pub(super) struct Holders {
    bytes_max: u64,
    total: u64,
    next: u64,
    holders: BTreeMap<u64, Holder>,
    /// Connections that wait for capacity, each once.
    queue: VecDeque<u64>,
    /// The one that may take in more although there is no plenty, and since when.
    turn: Option<(u64, Instant)>,
}

impl Holders {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            total: 0,
            next: 0,
            holders: BTreeMap::new(),
            queue: VecDeque::new(),
            turn: None,
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Adds a connection and returns its number.
    pub(super) fn add(&mut self, user: u32, evicted: Arc<Notify>) -> u64 {
        let number = self.next;
        self.next += 1;
        let holder = Holder {
            user,
            parts: Default::default(),
            is_evicted: false,
            evicted,
        };
        self.holders.insert(number, holder);
        number
    }

    /// Removes a connection with all that it holds.
    pub(super) fn remove(&mut self, number: u64) {
        if let Some(holder) = self.holders.remove(&number) {
            self.total -= holder.bytes();
        }
        self.queue.retain(|&waiting| waiting != number);
    }

    fn change(&mut self, number: u64, part: Part, now: Instant, bytes: impl FnOnce(u64) -> u64) {
        let Some(holder) = self.holders.get_mut(&number) else {
            return;
        };
        let held = &mut holder.parts[part as usize];
        let before = held.bytes;
        held.bytes = bytes(before);
        if held.bytes < before || before == 0 {
            held.moved = Some(now);
        }
        self.total = self.total - before + held.bytes;
        self.keep_bound(now);
    }

    pub(super) fn add_bytes(&mut self, number: u64, part: Part, bytes: u64, now: Instant) {
        self.change(number, part, now, |held| held + bytes);
    }

    pub(super) fn remove_bytes(&mut self, number: u64, part: Part, bytes: u64, now: Instant) {
        self.change(number, part, now, |held| held.saturating_sub(bytes));
    }

    /// Returns true if there are fewer than before.
    pub(super) fn set_bytes(&mut self, number: u64, part: Part, bytes: u64, now: Instant) -> bool {
        let before = self.total;
        self.change(number, part, now, |_| bytes);
        self.total < before
    }

    /// Sets the time since which the application is to blame for what it holds.
    pub(super) fn excuse(&mut self, number: u64, part: Part, since: Option<Instant>) {
        if let Some(holder) = self.holders.get_mut(&number) {
            holder.parts[part as usize].moved = since;
        }
    }

    /// Bytes from which on connections take turns.
    fn plenty(&self) -> u64 {
        self.bytes_max / 2
    }

    /// Bytes that each connection may have at any time.
    fn reserve(&self) -> u64 {
        self.bytes_max / RESERVES
    }

    /// True if the connection may take in more: there is plenty, it is its turn, it holds less than its reserve, or its user less than
    /// an equal share.
    pub(super) fn has_capacity(&self, number: u64) -> bool {
        let Some(holder) = self.holders.get(&number) else {
            return false;
        };
        let has_turn = self.turn.is_some_and(|(owner, _)| owner == number);
        if has_turn || self.total < self.plenty() || holder.bytes() < self.reserve() {
            return true;
        }
        let users: BTreeSet<u32> = self.holders.values().map(|holder| holder.user).collect();
        self.bytes_of(holder.user) < self.plenty() / users.len() as u64
    }

    fn bytes_of(&self, user: u32) -> u64 {
        let own = self.holders.values().filter(|holder| holder.user == user);
        own.map(Holder::bytes).sum()
    }

    /// Lets connections go until the others are within the bound.
    fn keep_bound(&mut self, now: Instant) {
        while self.total > self.bytes_max && self.total - self.leaving() > self.bytes_max {
            let stalled = self.largest(|holder| holder.is_stalled(now, super::STALL));
            let Some(number) = stalled.or_else(|| self.largest_of_largest_user()) else {
                return;
            };
            self.evict(number);
        }
    }

    /// Queues a connection that waits for capacity, lets those go that are stalled, and gives the turn to the next one in the queue if it
    /// is free: so every one that waits can finish what it has begun.
    pub(super) fn wait(&mut self, number: u64, now: Instant) {
        if !self.queue.contains(&number) {
            self.queue.push_back(number);
        }
        while let Some(number) = self.largest(|holder| holder.is_stalled(now, super::STALL)) {
            self.evict(number);
        }
        if let Some((owner, since)) = self.turn {
            let is_over = match self.holders.get(&owner) {
                None => true,
                Some(owner) => {
                    let has_finished = owner.bytes() < self.reserve();
                    owner.is_evicted || has_finished || now - since >= super::STALL
                }
            };
            if !is_over {
                return;
            }
        }
        self.turn = None;
        while let Some(next) = self.queue.pop_front() {
            if self.holders.contains_key(&next) {
                self.turn = Some((next, now));
                return;
            }
        }
    }

    /// Bytes of connections that were asked to close.
    fn leaving(&self) -> u64 {
        let leaving = self.holders.values().filter(|holder| holder.is_evicted);
        leaving.map(Holder::bytes).sum()
    }

    /// The connection that holds most, of those that have more than their reserve.
    fn largest(&self, is_chosen: impl Fn(&Holder) -> bool) -> Option<u64> {
        let reserve = self.reserve();
        let chosen = self.holders.iter().filter(|(_, holder)| {
            !holder.is_evicted && holder.bytes() >= reserve && is_chosen(holder)
        });
        let largest = chosen.max_by_key(|(_, holder)| holder.bytes());
        largest.map(|(&number, _)| number)
    }

    fn largest_of_largest_user(&self) -> Option<u64> {
        let staying = self.holders.values().filter(|holder| !holder.is_evicted);
        let users: BTreeSet<u32> = staying.map(|holder| holder.user).collect();
        let user = users.into_iter().max_by_key(|&user| self.bytes_of(user))?;
        self.largest(|holder| holder.user == user)
            .or_else(|| self.largest(|_| true))
    }

    fn evict(&mut self, number: u64) {
        if let Some(holder) = self.holders.get_mut(&number) {
            holder.is_evicted = true;
            holder.evicted.notify_one();
        }
    }

    /// Bytes of a connection that has to go; `None` if it may stay.
    pub(super) fn evicted(&self, number: u64) -> Option<u64> {
        let holder = self.holders.get(&number)?;
        holder.is_evicted.then(|| holder.bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: u64 = 256_000;
    const STALL: Duration = super::super::STALL;

    /// Connections of these users.
    fn holders<const N: usize>(users: [u32; N]) -> (Holders, [u64; N], Instant) {
        let mut holders = Holders::new(MAX);
        let numbers = users.map(|user| holders.add(user, Arc::default()));
        (holders, numbers, Instant::now())
    }

    fn gone<const N: usize>(holders: &Holders, numbers: [u64; N]) -> [bool; N] {
        numbers.map(|number| holders.evicted(number).is_some())
    }

    #[test]
    fn each_has_its_reserve_and_more_only_while_there_is_plenty() {
        let (mut holders, [one, other], now) = holders([1, 1]);
        holders.add_bytes(one, Part::Pending, MAX / 2 - 1, now);
        assert!(holders.has_capacity(one));
        holders.add_bytes(other, Part::Pending, 999, now);
        assert!(!holders.has_capacity(one));
        assert!(holders.has_capacity(other));
        holders.add_bytes(other, Part::Frame, 1, now);
        assert!(!holders.has_capacity(other));
        holders.remove_bytes(one, Part::Pending, 1_000, now);
        assert!(holders.has_capacity(one) && holders.has_capacity(other));
    }

    #[test]
    fn users_have_equal_shares() {
        let (mut holders, [one, again, other], now) = holders([1, 1, 2]);
        holders.add_bytes(one, Part::Pending, MAX / 4, now);
        holders.add_bytes(again, Part::Pending, MAX / 4, now);
        assert!(!holders.has_capacity(one) && !holders.has_capacity(again));
        // Many connections of one user take nothing of the share of another.
        holders.add_bytes(other, Part::Frame, MAX / 4 - 1, now);
        assert!(holders.has_capacity(other));
        holders.add_bytes(other, Part::Frame, 1, now);
        assert!(!holders.has_capacity(other));
    }

    #[test]
    fn beyond_the_bound_the_user_that_holds_most_pays() {
        let (mut holders, [one, again, other], now) = holders([1, 1, 2]);
        holders.add_bytes(one, Part::Output, 70_000, now);
        holders.add_bytes(again, Part::Output, 80_000, now);
        holders.add_bytes(other, Part::Output, 100_000, now);
        assert_eq!(gone(&holders, [one, again, other]), [false; 3]);
        holders.add_bytes(other, Part::Output, 10_000, now);
        assert_eq!(gone(&holders, [one, again, other]), [false, true, false]);
        // One is enough.
        holders.add_bytes(other, Part::Output, 1_000, now);
        assert_eq!(gone(&holders, [one, again, other]), [false, true, false]);
    }

    #[test]
    fn those_at_fault_pay_and_one_that_only_holds_more_does_not() {
        let (mut holders, [busy, deaf, half, waiting], now) = holders([1; 4]);
        holders.add_bytes(busy, Part::Pending, 100_000, now);
        holders.add_bytes(deaf, Part::Output, 20_000, now);
        holders.add_bytes(half, Part::Frame, 10_000, now);
        holders.add_bytes(waiting, Part::Frame, 5_000, now);
        holders.excuse(waiting, Part::Frame, None);
        let all = [busy, deaf, half, waiting];
        holders.wait(waiting, now + STALL / 2);
        assert_eq!(gone(&holders, all), [false; 4]);
        holders.wait(waiting, now + STALL);
        assert_eq!(gone(&holders, all), [false, true, true, false]);
    }

    #[test]
    fn those_that_wait_take_turns() {
        let (mut holders, [busy, one, other], now) = holders([1; 3]);
        holders.add_bytes(busy, Part::Pending, MAX / 2, now);
        holders.add_bytes(one, Part::Frame, 1_000, now);
        holders.add_bytes(other, Part::Frame, 1_000, now);
        for number in [one, other, one] {
            holders.excuse(number, Part::Frame, None);
            holders.wait(number, now);
        }
        assert!(holders.has_capacity(one) && !holders.has_capacity(other));
        holders.add_bytes(one, Part::Frame, 5_000, now);
        holders.wait(other, now);
        assert!(!holders.has_capacity(other));
        // It has finished.
        holders.set_bytes(one, Part::Frame, 0, now);
        holders.wait(other, now);
        assert!(holders.has_capacity(other));
        // One that does not finish is let go, and what waits for a peer only loses its turn.
        holders.excuse(other, Part::Frame, Some(now));
        holders.add_bytes(one, Part::Pending, 2_000, now);
        holders.wait(one, now + STALL);
        assert_eq!(gone(&holders, [busy, one, other]), [false, false, true]);
        assert!(holders.has_capacity(one));
        holders.wait(busy, now + STALL);
        assert!(holders.has_capacity(one) && !holders.has_capacity(busy));
        holders.wait(busy, now + STALL * 2);
        assert!(!holders.has_capacity(one) && holders.has_capacity(busy));
    }

    #[test]
    fn what_moves_is_not_stalled() {
        let (mut holders, [one, other], now) = holders([1; 2]);
        holders.add_bytes(one, Part::Output, 20_000, now);
        holders.remove_bytes(one, Part::Output, 1, now + STALL / 2);
        holders.add_bytes(one, Part::Output, 1, now + STALL - Duration::from_millis(1));
        holders.wait(other, now + STALL);
        assert_eq!(gone(&holders, [one]), [false]);
        holders.wait(other, now + STALL + STALL / 2);
        assert_eq!(gone(&holders, [one]), [true]);
    }

    proptest! {
        #[test]
        fn those_that_stay_are_within_the_bound(steps in proptest::collection::vec((0..6_u64, 0..3_usize, 0..MAX, any::<bool>()), 1..60)) {
            let (mut holders, numbers, now) = holders([1, 1, 1, 2, 2, 3]);
            for (number, part, bytes, is_more) in steps {
                let part = [Part::Frame, Part::Pending, Part::Output][part];
                if is_more {
                    holders.add_bytes(number, part, bytes, now);
                } else {
                    holders.remove_bytes(number, part, bytes, now);
                }
                let sum: u64 = holders.holders.values().map(Holder::bytes).sum();
                prop_assert_eq!(holders.total(), sum);
                prop_assert!(holders.total() - holders.leaving() <= MAX);
            }
            for number in numbers {
                holders.remove(number);
            }
            prop_assert_eq!(holders.total(), 0);
        }
    }
}
