//! Worth of one ADU in the slots of a cycle, by the objectives over it alone.

use anabranch_hose::{Faults, ObjectiveId, Objectives, evaluate::Batch};

use super::{
    Cycle,
    cycle::{Alone, Spots},
};
use crate::assign::{Utility, utility};
use anabranch_spec::Slot;

/// Worth of one ADU in each class of slots.
#[derive(Debug, Default)]
pub(super) struct Worths {
    batch: Batch,
    gains: Vec<f64>,
    sums: Vec<f64>,
    pub(super) utilities: Vec<Utility>,
    /// With what breaks ties.
    pub(super) biased: Vec<Utility>,
    /// The ADU it is.
    pub(super) of: Option<u32>,
}

impl Worths {
    /// Finds what an ADU is worth in each of these slots by the objectives at these places.
    pub(super) fn fill(
        &mut self,
        spots: &Spots<'_>,
        concerns: &[u32],
        objectives: &Objectives,
        faults: &mut Vec<(ObjectiveId, Faults)>,
    ) {
        self.of = Some(spots.adu);
        self.sums.clear();
        self.sums.resize(spots.slots.len(), 0.0);
        self.gains.resize(spots.slots.len(), 0.0);
        for &place in concerns {
            let (id, objective) = objectives.at(place);
            let mut fault = Faults::NONE;
            objective.gains(spots, &mut self.batch, &mut self.gains, &mut fault);
            let slots = spots.slots.iter();
            let slots = slots.map(|&slot| &spots.cycle.slots[slot as usize]);
            for ((sum, gain), slot) in self.sums.iter_mut().zip(&self.gains).zip(slots) {
                *sum += gain * slot.confidence;
            }
            if !fault.is_empty() {
                faults.push((id, fault));
            }
        }
        self.utilities.clear();
        self.utilities
            .extend(self.sums.iter().map(|&sum| utility(sum)));
    }
}

/// Worth that objectives over an ADU alone add in one slot.
pub(super) fn sum_of(
    cycle: &Cycle,
    adu: u32,
    slot: &Slot,
    concerns: &[u32],
    objectives: &Objectives,
    faults: &mut Vec<(ObjectiveId, Faults)>,
) -> f64 {
    let mut sum = 0.0;
    for &place in concerns {
        let (id, objective) = objectives.at(place);
        let mut fault = Faults::NONE;
        sum += objective.gain(&Alone { cycle, slot }, adu, &mut fault) * slot.confidence;
        if !fault.is_empty() {
            faults.push((id, fault));
        }
    }
    sum
}
