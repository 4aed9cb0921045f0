//! What each ADU is worth in each slot by itself.

use anabranch_hose::{AduFact, Faults, ObjectiveId, Objectives};

use super::{Cycle, Slot, cycle::Alone};
use crate::assign::Utility;

/// Where an objective about latency is indifferent, what it is about goes the quicker way, and the older first: steps
/// of quickness, and of age.
const STEPS: usize = 16;

/// What each ADU is worth in each class of slots, objectives over one ADU alone.
#[derive(Debug, Default)]
pub(super) struct Table {
    values: Vec<f64>,
    /// The class of each slot, and the first slot of each class.
    class: Vec<u32>,
    first: Vec<u32>,
    /// Classes of those that differ in nothing but when they come and whether: the first slot of each, of which of
    /// them each class is, and what an ADU gains in each.
    timeless: Vec<u32>,
    timeless_of: Vec<u32>,
    gains: Vec<f64>,
    /// Classes, the quickest first.
    ranked: Vec<u32>,
    /// How quick each class is, of [`STEPS`] steps.
    quickness: Vec<Utility>,
    /// How much each ADU is to be preferred for a quick slot; 0: no objective is about its latency.
    hurry: Vec<Utility>,
}

impl Table {
    pub(super) fn fill(
        &mut self,
        cycle: &Cycle,
        objectives: &Objectives,
        faults: &mut Vec<(ObjectiveId, Faults)>,
    ) {
        self.class.clear();
        self.first.clear();
        for slot in &cycle.slots {
            let like = |&first: &u32| cycle.slots[first as usize].is_like(slot);
            let class = self.first.iter().position(like).unwrap_or_else(|| {
                self.first.push(self.class.len() as u32);
                self.first.len() - 1
            });
            self.class.push(class as u32);
        }
        self.timeless.clear();
        self.timeless_of.clear();
        for &first in &self.first {
            let slot = &cycle.slots[first as usize];
            let like = |&known: &u32| cycle.slots[known as usize].is_like_in_time(slot);
            let of = self.timeless.iter().position(like).unwrap_or_else(|| {
                self.timeless.push(first);
                self.timeless.len() - 1
            });
            self.timeless_of.push(of as u32);
        }
        let classes = self.first.len();
        self.values.clear();
        self.values.resize(cycle.adus.len() * classes, 0.0);
        self.rank(cycle);
        for single in objectives.singles() {
            let reads = single.objective.reads();
            let is_timed = reads.iter().any(is_about_time);
            let is_waiting = |fact: &AduFact| matches!(fact, AduFact::Latency | AduFact::Late);
            let depends_on_wait = reads.iter().any(is_waiting);
            let mut fault = Faults::NONE;
            for &adu in single.adus {
                // Those of the history are where they are.
                let Some(row) = self
                    .values
                    .chunks_exact_mut(classes.max(1))
                    .nth(adu as usize)
                else {
                    break;
                };
                if is_timed {
                    self.hurry[adu as usize] = 1;
                }
                let mut gain = |slot: &Slot| {
                    let alone = Alone { cycle, slot };
                    single.objective.gain(&alone, adu, &mut fault)
                };
                let slots = self.first.iter().map(|&first| &cycle.slots[first as usize]);
                if depends_on_wait {
                    for (value, slot) in row.iter_mut().zip(slots) {
                        *value += gain(slot) * slot.confidence;
                    }
                    continue;
                }
                self.gains.clear();
                let timeless = self.timeless.iter();
                self.gains
                    .extend(timeless.map(|&first| gain(&cycle.slots[first as usize])));
                for ((value, slot), &of) in row.iter_mut().zip(slots).zip(&self.timeless_of) {
                    *value += self.gains[of as usize] * slot.confidence;
                }
            }
            if !fault.is_empty() {
                faults.push((single.id, fault));
            }
        }
        self.age(cycle);
    }

    /// Finds how quick the classes are.
    fn rank(&mut self, cycle: &Cycle) {
        let arrival = |class: u32| {
            let slot = &cycle.slots[self.first[class as usize] as usize];
            slot.wait_ms + slot.round_trip_ms
        };
        self.ranked.clear();
        self.ranked.extend(0..self.first.len() as u32);
        self.ranked
            .sort_unstable_by(|&a, &b| arrival(a).total_cmp(&arrival(b)));
        self.quickness.clear();
        self.quickness.resize(self.first.len(), 0);
        let mut rank = 0;
        for (place, &class) in self.ranked.iter().enumerate() {
            // Equally quick ones share a rank.
            if place > 0 && arrival(class) > arrival(self.ranked[place - 1]) {
                rank = place;
            }
            self.quickness[class as usize] = STEPS.saturating_sub(1 + rank) as Utility;
        }
        self.hurry.clear();
        self.hurry.resize(cycle.adus.len(), 0);
    }

    /// Of those in a hurry, the first of a stream is in the greatest.
    fn age(&mut self, cycle: &Cycle) {
        let mut before = (None, 0);
        for (adu, hurry) in cycle.adus.iter().zip(&mut self.hurry) {
            let place = if before.0 == Some(adu.stream) {
                before.1 + 1
            } else {
                0
            };
            before = (Some(adu.stream), place);
            *hurry *= STEPS.saturating_sub(place).max(1) as Utility;
        }
    }

    /// By which ties are broken.
    pub(super) fn tie(&self, adu: usize, slot: usize) -> Utility {
        self.hurry[adu] * self.quickness[self.class[slot] as usize]
    }

    pub(super) fn value(&self, adu: usize, slot: usize) -> f64 {
        self.values[adu * self.first.len() + self.class[slot] as usize]
    }

    /// Of an ADU where it is, if anywhere.
    pub(super) fn of(&self, adu: u32, slot: Option<u32>) -> f64 {
        slot.map_or(0.0, |slot| self.value(adu as usize, slot as usize))
    }
}

fn is_about_time(fact: &AduFact) -> bool {
    matches!(fact, AduFact::Latency | AduFact::Late | AduFact::Jitter)
}
