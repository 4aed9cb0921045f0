//! ADUs of a source until nobody needs them any more.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;

use crate::{Adu, Fields};

/// ADUs and bytes that are kept; a source waits with more.
const KEPT_ADUS: usize = 4_096;
const KEPT_BYTES: usize = 32 << 20;

/// ADUs of a source. They are numbered from 0, sent in order, and kept until they are acknowledged; those of an unreliable stream until they
/// are sent.
#[derive(Debug)]
pub struct Retained {
    is_reliable: bool,
    /// ADUs from `first` on.
    adus: VecDeque<Adu>,
    bytes: usize,
    first: u64,
    /// Number of the next ADU to send.
    next: u64,
}

/// Error of a node that asks for ADUs that are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it asks for ADU {asked} of {first} to {end}")]
pub struct OutOfRange {
    /// The ADU that it asks for.
    pub asked: u64,
    /// The first that is kept.
    pub first: u64,
    /// The next that will be made.
    pub end: u64,
}

impl Retained {
    /// Nothing yet.
    pub fn new(is_reliable: bool) -> Self {
        Self {
            is_reliable,
            adus: VecDeque::new(),
            bytes: 0,
            first: 0,
            next: 0,
        }
    }

    /// True if another ADU may be added.
    pub fn has_space(&self) -> bool {
        self.adus.is_empty() || (self.adus.len() < KEPT_ADUS && self.bytes < KEPT_BYTES)
    }

    /// Adds an ADU that was made at a time since the source's beginning, and returns its number.
    pub fn push(&mut self, fields: Fields, body: Bytes, made: Option<Duration>) -> u64 {
        let sequence = self.end();
        self.bytes += body.len();
        let mut adu = Adu::new(sequence, body);
        adu.fields = fields;
        adu.made = made;
        self.adus.push_back(adu);
        sequence
    }

    /// Number of the first ADU that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of the next ADU that will be added.
    pub fn end(&self) -> u64 {
        self.first + self.adus.len() as u64
    }

    /// Goes on with the ADU that a processing node asks for.
    ///
    /// # Errors
    /// It is not kept; nothing is then changed.
    pub fn resume(&mut self, next: u64) -> Result<(), OutOfRange> {
        let (first, end) = (self.first, self.end());
        if !(first..=end).contains(&next) {
            return Err(OutOfRange {
                asked: next,
                first,
                end,
            });
        }
        self.next = next;
        Ok(())
    }

    /// Number of the next ADU to send.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The next ADU to send; `None` if all were sent.
    pub fn to_send(&self) -> Option<&Adu> {
        self.get(self.next)
    }

    /// The ADU with a number; `None` if it is not kept, or was not made yet.
    pub fn get(&self, sequence: u64) -> Option<&Adu> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.adus.get(at)
    }

    /// The ADUs before this one were sent.
    pub fn sent(&mut self, next: u64) {
        self.next = next.min(self.end());
        if !self.is_reliable {
            self.acknowledge(next);
        }
    }

    /// Forgets the ADUs before this one, as far as they were sent.
    pub fn acknowledge(&mut self, next: u64) {
        let next = next.min(self.next);
        while self.first < next
            && let Some(adu) = self.adus.pop_front()
        {
            self.bytes -= adu.body.len();
            self.first += 1;
        }
    }
}
