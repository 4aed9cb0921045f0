//! Queue of one subscriber.

use std::collections::VecDeque;

use crate::adu::Adu;

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
#[derive(Clone, Debug)]
pub(super) struct Queue {
    delivery: Delivery,
    queued: VecDeque<Derived>,
    bytes: usize,
    /// ADUs that were lost.
    pub(super) lost: u64,
    /// True if the subscriber lacks the ADU before the next.
    is_broken: bool,
}

impl Queue {
    pub(super) fn new(delivery: Delivery) -> Self {
        Self {
            delivery,
            queued: VecDeque::new(),
            bytes: 0,
            lost: 0,
            is_broken: true,
        }
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
        self.bytes = 0;
        self.is_broken = true;
    }

    pub(super) fn pop(&mut self) -> Option<Derived> {
        let next = self.queued.pop_front()?;
        self.bytes -= next.adu.body.len();
        Some(next)
    }

    fn has_room(&self, adu: &Adu) -> bool {
        self.queued.len() < self.delivery.adus
            && self.bytes.saturating_add(adu.body.len()) <= self.delivery.bytes
    }

    pub(super) fn push(&mut self, adu: &Adu, change: u32, is_last: bool) -> Added {
        if self.is_broken && adu.needs_previous {
            self.lost += 1;
            return Added::Broken;
        }
        if !self.has_room(adu) {
            if self.delivery.is_reliable {
                return Added::Full;
            }
            self.make_room(adu);
        }
        let is_orphan = self.is_broken && adu.needs_previous;
        if is_orphan || !self.has_room(adu) {
            self.lost += 1;
            self.is_broken = true;
            return Added::Broken;
        }
        self.is_broken = false;
        self.bytes += adu.body.len();
        self.queued.push_back(Derived {
            adu: adu.clone(),
            change,
            is_last,
        });
        Added::Queued
    }

    /// Loses the oldest ADUs, and those that nobody can use without them.
    fn make_room(&mut self, adu: &Adu) {
        while !self.has_room(adu) && self.lose() {
            while self
                .queued
                .front()
                .is_some_and(|next| next.adu.needs_previous)
            {
                self.lose();
            }
            self.is_broken = self.queued.is_empty();
        }
    }

    fn lose(&mut self) -> bool {
        let is_lost = self.pop().is_some();
        self.lost += u64::from(is_lost);
        is_lost
    }
}
