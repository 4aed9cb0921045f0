//! The published search: the best of some random schedules.

use anabranch_base::Random;
use anabranch_hose::Objectives;

use super::{BINDINGS_MAX, Cycle, Placed, Planner, Schedule};

/// The published `random-walk` scheduler: each of `walk_length` schedules pairs shuffled slots with shuffled
/// ADUs; the first of the greatest utility is taken [Horde Figures 6-4, 6-5]. With a length of 1 it is the
/// randomised round-robin of S0, whatever the objectives. It leaves no ADU out for its own good, and does not
/// look at the confidence of phantoms, as published.
///
/// Ours: an ADU that does not fit the slot that it was paired with is not sent. Published were slots and ADUs of one
/// size.
#[derive(Debug)]
pub struct RandomWalk {
    walk_length: usize,
    random: Random,
    slots: Vec<u32>,
    adus: Vec<u32>,
    candidate: Schedule,
}

impl RandomWalk {
    /// The published number of schedules.
    pub const WALK_LENGTH: usize = 25;

    /// Looks at `walk_length` schedules, at least one.
    pub fn new(walk_length: usize, random: Random) -> Self {
        Self {
            walk_length: walk_length.max(1),
            random,
            slots: Vec::new(),
            adus: Vec::new(),
            candidate: Vec::new(),
        }
    }

    fn candidate(&mut self, cycle: &Cycle) {
        shuffle(&mut self.slots, &mut self.random);
        shuffle(&mut self.adus, &mut self.random);
        self.candidate.fill(None);
        for (&slot, &adu) in self.slots.iter().zip(&self.adus) {
            if cycle.fits(adu as usize, slot as usize) {
                self.candidate[adu as usize] = Some(slot);
            }
        }
    }
}

impl Planner for RandomWalk {
    fn plan(&mut self, cycle: &Cycle, objectives: &mut Objectives, schedule: &mut Schedule) {
        self.slots.clear();
        self.slots.extend(0..cycle.slots.len() as u32);
        self.adus.clear();
        self.adus.extend(0..cycle.adus.len() as u32);
        self.candidate.resize(cycle.adus.len(), None);
        schedule.clear();
        schedule.resize(cycle.adus.len(), None);

        objectives.begin(&Placed {
            cycle,
            slots: schedule,
        });
        let mut best = f64::NEG_INFINITY;
        for walk in 0..self.walk_length {
            if objectives.tried() >= BINDINGS_MAX {
                break;
            }
            self.candidate(cycle);
            let placed = Placed {
                cycle,
                slots: &self.candidate,
            };
            let utility = objectives.utility(&placed);
            if walk == 0 || utility > best {
                best = utility;
                schedule.copy_from_slice(&self.candidate);
            }
        }
    }
}

/// Fisher and Yates.
fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at as u64 + 1) as usize);
    }
}
