//! Greatest utility: by exhaustive search, and for larger instances by branch and bound.

mod bounds;

use anabranch_hose::Objectives;
use anabranch_sched::objective::{Cycle, Placed, Schedule};

pub(super) use bounds::best_by_bounds;

/// Exhaustive search over every schedule. Exponential in the number of ADUs.
pub(super) fn best(cycle: &Cycle, objectives: &mut Objectives) -> f64 {
    let mut schedule = vec![None; cycle.adus.len()];
    objectives.begin(&Placed {
        cycle,
        slots: &schedule,
    });
    place(cycle, objectives, &mut schedule, 0)
}

fn place(cycle: &Cycle, objectives: &mut Objectives, schedule: &mut Schedule, adu: usize) -> f64 {
    if adu == schedule.len() {
        let placed = Placed {
            cycle,
            slots: schedule,
        };
        return objectives.utility(&placed);
    }
    let mut best = place(cycle, objectives, schedule, adu + 1);
    for slot in 0..cycle.slots.len() as u32 {
        if !schedule[..adu].contains(&Some(slot)) {
            schedule[adu] = Some(slot);
            best = best.max(place(cycle, objectives, schedule, adu + 1));
        }
    }
    schedule[adu] = None;
    best
}
