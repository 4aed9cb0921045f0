//! Queue of one subscriber.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    adu::Adu,
    memory::{Account, Charge},
};

/// Seconds of a source of which it is remembered that ADUs were lost.
const LOST_SECONDS: usize = 60;

/// Bounds on a subscriber's queue, and what happens beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// True: nothing is lost, and the subscription ends when the queue is full. False: the oldest ADUs are lost.
    pub is_reliable: bool,
    /// ADUs in the queue.
    pub adus: usize,
    /// Bytes of their bodies.
    pub bytes: usize,
}

/// ADU of a derived stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The ADU.
    pub adu: Adu,
    /// Number of changes of the pipeline that the subscriber had made when it was derived.
    pub change: u32,
    /// True if no other ADU was derived after it from the same one of the source.
    pub is_last: bool,
}

/// Result of adding an ADU to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It is queued.
    Queued,
    /// The subscriber has lost ADUs, and can use no difference until the next ADU that needs none before.
    Broken,
    /// The queue of a reliable subscriber is full.
    Full,
}

/// ADUs for one subscriber.
///
/// Invariant: an ADU that needs the one before it stands behind that one, or that one was taken.
#[derive(Debug)]
pub(super) struct Queue {
    delivery: Delivery,
    account: Account,
    queued: VecDeque<(Derived, Charge)>,
    bytes: usize,
    /// Memory that what waits is charged by.
    held: usize,
    /// ADUs that were lost.
    pub(super) lost: u64,
    /// Bytes of their bodies.
    pub(super) lost_bytes: u64,
    /// Seconds of the source's time in which they were made; the last of those that nobody has asked for.
    lost_seconds: BTreeSet<u64>,
    /// True if the subscriber lacks the ADU before the next.
    is_broken: bool,
}

impl Queue {
    pub(super) fn new(delivery: Delivery, account: Account) -> Self {
        Self {
            delivery,
            account,
            queued: VecDeque::new(),
            bytes: 0,
            held: 0,
            lost: 0,
            lost_bytes: 0,
            lost_seconds: BTreeSet::new(),
            is_broken: true,
        }
    }

    /// The account that is charged for what waits.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Memory that what waits is charged by.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn is_reliable(&self) -> bool {
        self.delivery.is_reliable
    }

    pub(super) fn len(&self) -> usize {
        self.queued.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The next ADU comes from another derivation.
    pub(super) fn interrupt(&mut self) {
        self.is_broken = true;
    }

    /// Removes everything, which is out of date.
    pub(super) fn clear(&mut self) {
        self.queued.clear();
        (self.bytes, self.held) = (0, 0);
        self.is_broken = true;
    }

    /// The next ADU, and what its memory is charged by.
    pub(super) fn pop(&mut self) -> Option<(Derived, Charge)> {
        let next = self.queued.pop_front()?;
        self.bytes -= next.0.adu.body.len();
        self.held -= next.1.bytes();
        Some(next)
    }

    /// Room for an ADU, if there is some.
    fn room(&self, adu: &Adu) -> Option<Charge> {
        let has_room = self.queued.len() < self.delivery.adus
            && self.bytes.saturating_add(adu.body.len()) <= self.delivery.bytes;
        has_room.then(|| self.account.charge(adu.held_bytes()))?
    }

    pub(super) fn push(&mut self, adu: &Adu, change: u32, is_last: bool) -> Added {
        if self.is_broken && adu.needs_previous {
            self.lose_one(adu);
            return Added::Broken;
        }
        let room = match self.room(adu) {
            None if self.delivery.is_reliable => return Added::Full,
            None => self.make_room(adu),
            room => room,
        };
        let is_orphan = self.is_broken && adu.needs_previous;
        let Some(charge) = room.filter(|_| !is_orphan) else {
            self.lose_one(adu);
            self.is_broken = true;
            return Added::Broken;
        };
        self.is_broken = false;
        self.bytes += adu.body.len();
        self.held += charge.bytes();
        let derived = Derived {
            adu: adu.clone(),
            change,
            is_last,
        };
        self.queued.push_back((derived, charge));
        Added::Queued
    }

    fn make_room(&mut self, adu: &Adu) -> Option<Charge> {
        while self.lose_oldest() {
            if let Some(room) = self.room(adu) {
                return Some(room);
            }
        }
        None
    }

    /// Loses the oldest ADU, and those that nobody can use without it; false if there is none.
    pub(super) fn lose_oldest(&mut self) -> bool {
        let is_lost = self.lose();
        let is_orphan = |(next, _): &(Derived, Charge)| next.adu.needs_previous;
        while self.queued.front().is_some_and(is_orphan) {
            self.lose();
        }
        self.is_broken |= is_lost && self.queued.is_empty();
        is_lost
    }

    fn lose(&mut self) -> bool {
        let lost = self.pop();
        if let Some((lost, _)) = &lost {
            self.lose_one(&lost.adu);
        }
        lost.is_some()
    }

    fn lose_one(&mut self, adu: &Adu) {
        self.lost += 1;
        self.lost_bytes += adu.body.len() as u64;
        self.lost_seconds
            .extend(adu.made.map(|made| made.as_secs()));
        if self.lost_seconds.len() > LOST_SECONDS {
            self.lost_seconds.pop_first();
        }
    }

    /// Seconds of the source's time in which ADUs were made that were lost since the last call.
    pub(super) fn take_lost_seconds(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.lost_seconds)
    }
}
