//! Places of a rendezvous: the node that waits at each, and the one that has reached it. No sockets, no clock.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use anabranch_base::{Instant, NodeId};

use super::message::Refusal;
use crate::codes::Place;

/// Places that may be taken at a time.
pub const PLACES_MAX: usize = 512;
/// Time for which a place is kept; a node that has met another by then stays connected to it.
pub const LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Messages that a node may send to another, of which the exchange behind a code needs two.
pub const MESSAGES_MAX: u32 = 8;

/// A connection of a node to the rendezvous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guest(pub u64);

#[derive(Debug)]
struct Waiting {
    guest: Guest,
    reached_by: Option<Guest>,
    until: Instant,
}

#[derive(Debug)]
struct Pair {
    other: Guest,
    said: u32,
}

/// The table. Every call takes `now`, which never decreases. A guest is at one place at most.
#[derive(Debug, Default)]
pub struct Table {
    places: BTreeMap<Place, Waiting>,
    /// Guests that wait to meet a node that they name, by their own node and the other one.
    meets: BTreeMap<(NodeId, NodeId), Guest>,
    /// Guests that wait for whoever calls their node, the oldest first. None is empty.
    attending: BTreeMap<NodeId, VecDeque<(u16, Guest)>>,
    pairs: BTreeMap<Guest, Pair>,
}

impl Table {
    /// Lets a guest wait at a place.
    ///
    /// # Errors
    /// It is taken, all are taken, or the guest is at a place already.
    pub fn wait(&mut self, now: Instant, guest: Guest, place: Place) -> Result<(), Refusal> {
        if self.is_engaged(guest) {
            return Err(Refusal::OutOfPlace);
        }
        if self.places.contains_key(&place) {
            return Err(Refusal::Taken);
        }
        if self.places.len() >= PLACES_MAX {
            return Err(Refusal::Full);
        }
        let waiting = Waiting {
            guest,
            reached_by: None,
            until: now + LIFETIME,
        };
        self.places.insert(place, waiting);
        Ok(())
    }

    /// Brings a guest together with the one that waits at a place, which it returns.
    ///
    /// # Errors
    /// Nobody waits there, another guest was first, or this guest is at a place already.
    pub fn reach(&mut self, guest: Guest, place: Place) -> Result<Guest, Refusal> {
        if self.is_engaged(guest) {
            return Err(Refusal::OutOfPlace);
        }
        let waiting = self.places.get_mut(&place).ok_or(Refusal::Nobody)?;
        if waiting.reached_by.is_some() {
            return Err(Refusal::Busy);
        }
        waiting.reached_by = Some(guest);
        let waiter = waiting.guest;
        self.join(guest, waiter);
        Ok(waiter)
    }

    /// Brings a guest of the node `own` together with one of `other` that wants to meet `own`, and returns that; `None`: it waits for
    /// one. Of several guests of a node that want the same, the last counts.
    ///
    /// # Errors
    /// The guest is at a place, or waits for another node.
    pub fn meet(
        &mut self,
        guest: Guest,
        own: NodeId,
        other: NodeId,
    ) -> Result<Option<Guest>, Refusal> {
        if own == other || self.is_engaged(guest) {
            return Err(Refusal::OutOfPlace);
        }
        match self.meets.remove(&(other, own)) {
            Some(waiter) => {
                self.join(guest, waiter);
                Ok(Some(waiter))
            }
            None => {
                self.meets.insert((own, other), guest);
                Ok(None)
            }
        }
    }

    /// Lets a guest of the node `own` wait for one that calls it. Several programs with the key of one node are told apart by a port.
    ///
    /// # Errors
    /// The guest is at a place, or waits already.
    pub fn attend(&mut self, guest: Guest, own: NodeId, port: u16) -> Result<(), Refusal> {
        if self.is_engaged(guest) {
            return Err(Refusal::OutOfPlace);
        }
        self.attending
            .entry(own)
            .or_default()
            .push_back((port, guest));
        Ok(())
    }

    /// Brings a guest of the node `own` together with the oldest one of `other` that attends with this port, or with any if it is 0. Returns
    /// that one, which attends no more.
    ///
    /// # Errors
    /// None attends, or the guest is at a place or waits.
    pub fn call(
        &mut self,
        guest: Guest,
        own: NodeId,
        other: NodeId,
        port: u16,
    ) -> Result<Guest, Refusal> {
        if own == other || self.is_engaged(guest) {
            return Err(Refusal::OutOfPlace);
        }
        let waiting = self.attending.get_mut(&other).ok_or(Refusal::Nobody)?;
        let mut ports = waiting.iter();
        let index = ports.position(|(with, _)| port == 0 || *with == port);
        let removed = index.and_then(|index| waiting.remove(index));
        let (_, attendee) = removed.ok_or(Refusal::Nobody)?;
        if waiting.is_empty() {
            self.attending.remove(&other);
        }
        self.join(guest, attendee);
        Ok(attendee)
    }

    fn join(&mut self, one: Guest, other: Guest) {
        for (one, other) in [(one, other), (other, one)] {
            self.pairs.insert(one, Pair { other, said: 0 });
        }
    }

    /// The guest that this one is together with.
    pub fn other(&self, guest: Guest) -> Option<Guest> {
        self.pairs.get(&guest).map(|pair| pair.other)
    }

    /// Counts a message, and returns its receiver.
    ///
    /// # Errors
    /// The guest is alone, or has sent too many.
    pub fn say(&mut self, guest: Guest) -> Result<Guest, Refusal> {
        let pair = self.pairs.get_mut(&guest).ok_or(Refusal::OutOfPlace)?;
        pair.said += 1;
        match pair.said <= MESSAGES_MAX {
            true => Ok(pair.other),
            false => Err(Refusal::TooMuch),
        }
    }

    /// Parts two guests, and returns the other one. The one that waits keeps its place.
    pub fn part(&mut self, guest: Guest) -> Option<Guest> {
        let other = self.pairs.remove(&guest)?.other;
        self.pairs.remove(&other);
        for waiting in self.places.values_mut() {
            if waiting.reached_by == Some(guest) || waiting.reached_by == Some(other) {
                waiting.reached_by = None;
            }
        }
        Some(other)
    }

    /// Removes a guest that has gone; returns the one that it was together with.
    pub fn leave(&mut self, guest: Guest) -> Option<Guest> {
        let other = self.part(guest);
        self.places.retain(|_, waiting| waiting.guest != guest);
        self.meets.retain(|_, waiting| *waiting != guest);
        self.attending.retain(|_, waiting| {
            waiting.retain(|(_, waiting)| *waiting != guest);
            !waiting.is_empty()
        });
        other
    }

    /// Frees places whose time is over; returns the guests that wait there alone.
    pub fn expire(&mut self, now: Instant) -> Vec<Guest> {
        let over = self.places.values().filter(|waiting| waiting.until <= now);
        let alone = over
            .filter(|waiting| waiting.reached_by.is_none())
            .map(|waiting| waiting.guest);
        let alone = alone.collect();
        self.places.retain(|_, waiting| waiting.until > now);
        alone
    }

    /// True if the guest is at a place, waits for a node, or is together with another guest.
    fn is_engaged(&self, guest: Guest) -> bool {
        self.places.values().any(|waiting| waiting.guest == guest)
            || self.meets.values().any(|waiting| *waiting == guest)
            || self
                .attending
                .values()
                .flatten()
                .any(|(_, waiting)| *waiting == guest)
            || self.pairs.contains_key(&guest)
    }
}

#[cfg(test)]
mod tests;
