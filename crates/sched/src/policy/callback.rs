//! Callback policy: the application decides about each slot.

use std::fmt;

use anabranch_hose::Objectives;

use super::planned::{Planned, Walk};
use crate::{
    objective::{Adu, Cycle, Planner, Schedule},
    scheduler::AnyScheduler,
};
use anabranch_spec::Slot;

/// An application that decides itself which ADU takes which slot [Horde §3.2].
pub trait Callback: Send {
    /// The index of the one of these ADUs that takes the slot, if any does. They are those that wait, streams' shares and
    /// priorities kept, of each stream in its order; none twice. What fits no slot, or may not use its channel, is
    /// shown all the same, and waits when it is chosen.
    fn choose(&mut self, slot: &Slot, adus: &[Adu]) -> Option<usize>;
}

impl<F: FnMut(&Slot, &[Adu]) -> Option<usize> + Send> Callback for F {
    fn choose(&mut self, slot: &Slot, adus: &[Adu]) -> Option<usize> {
        self(slot, adus)
    }
}

/// A scheduler that asks `callback` about each slot that exists. Promised streams come first; objectives do not
/// matter.
pub fn by_callback(callback: Box<dyn Callback>) -> AnyScheduler {
    let asking = Asking { callback };
    let planned = Planned::by_cycles(Box::new(asking), Walk::AT_ONCE);
    AnyScheduler::Plans(Box::new(planned))
}

struct Asking {
    callback: Box<dyn Callback>,
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking")
    }
}

impl Planner for Asking {
    fn plan(&mut self, cycle: &Cycle, _: &mut Objectives, schedule: &mut Schedule) {
        schedule.clear();
        schedule.resize(cycle.adus.len(), None);
        for (at, slot) in cycle.slots.iter().enumerate() {
            if slot.is_phantom() {
                continue;
            }
            let chosen = self.callback.choose(slot, &cycle.adus);
            if let Some(adu) = chosen.filter(|&adu| adu < cycle.adus.len())
                && schedule[adu].is_none()
                && cycle.fits(adu, at)
            {
                schedule[adu] = Some(at as u32);
            }
        }
    }
}
