//! An ADU that was just sent, beside those of the history, as objectives see it.

use anabranch_base::StreamId;
use anabranch_hose::{AduFact, Schedule, StreamFact};
use anabranch_spec::Slot;

use super::cycle::{Adu, Cycle, Outcome, Placed};

/// An ADU of a cycle in the slot that it took, with number 0, and those of the history, from 1 on.
#[derive(Clone, Copy, Debug)]
pub struct JustSent<'c> {
    /// The cycle.
    pub cycle: &'c Cycle,
    /// The ADU.
    pub adu: &'c Adu,
    /// Its slot.
    pub slot: &'c Slot,
}

impl<'c> JustSent<'c> {
    fn at(&self, number: u32) -> (&'c Adu, &'c Slot, Outcome) {
        match (number as usize).checked_sub(1) {
            None => (self.adu, self.slot, Outcome::Open),
            Some(past) => {
                let sent = &self.cycle.history[past];
                (&sent.adu, &sent.slot, sent.outcome)
            }
        }
    }

    /// The cycle, of which only streams are asked.
    fn streams(&self) -> Placed<'c> {
        Placed {
            cycle: self.cycle,
            slots: &[],
        }
    }
}

impl Schedule for JustSent<'_> {
    fn adus(&self) -> u32 {
        1 + self.cycle.history.len() as u32
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        let (adu, slot, outcome) = self.at(adu);
        self.cycle.of_adu(adu, Some(slot), outcome, fact)
    }

    fn stream(&self, stream: StreamId, fact: StreamFact) -> f64 {
        self.streams().stream(stream, fact)
    }

    fn labelled(&self, number: u32) -> Option<(StreamId, f64)> {
        self.streams().labelled(number)
    }

    fn correlated_loss(&self, one: u32, other: u32) -> f64 {
        let ((_, a, outcome_a), (_, b, outcome_b)) = (self.at(one), self.at(other));
        self.cycle
            .correlated_loss((Some(a), outcome_a), (Some(b), outcome_b))
    }
}
