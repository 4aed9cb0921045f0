//! Ours: the exact assignment under objectives over one ADU, then local search under the others.

use anabranch_base::{Seed, StreamId};
use anabranch_hose::{Faults, ObjectiveId, Objectives, Shape, Variable, syntax::ast::VariableKind};

use super::{
    Cycle, Placed, Planner, Schedule,
    local::{Local, Problem},
    prospects::Prospects,
    table::Table,
};

/// Most ADUs of a cycle in which the search moves all of the streams that objectives over several ADUs name, not only those in
/// contexts that may count: where there are few, it pays to try more.
const SMALL: usize = 16;

/// Objectives over one ADU are separable: what a schedule is worth under them is a sum over its pairs, and the best
/// schedule is found exactly by [`Matching`](crate::assign::Matching). An ADU is left out if every slot would do harm. Objectives over
/// several ADUs are then served by local search (`local.rs`); no schedule is worth less than where it
/// began.
///
/// A phantom's pairs count by its confidence, so that a slot that exists is not given up for one that may
/// not come.
///
/// Parts of the cycle that have not changed since the one before are not evaluated again, and the assignment begins from that one's; its utility is
/// what it would be from nothing.
///
/// O(changed ADUs × slot classes × objectives) evaluations, slots being of one class if nothing but their numbers
/// differs, at most [`EVALUATIONS_MAX`]; then what is left to assign; then at most `moves` attempts of the local search, and
/// [`BINDINGS_MAX`] bindings.
///
/// [`EVALUATIONS_MAX`]: super::EVALUATIONS_MAX
/// [`BINDINGS_MAX`]: super::BINDINGS_MAX
#[derive(Debug)]
pub struct Assign {
    moves: usize,
    table: Table,
    faults: Vec<(ObjectiveId, Faults)>,
    local: Local,
    /// ADUs in the order in which they look for a place, which decides between equals; it begins with another
    /// stream in each cycle.
    order: Vec<u32>,
    cycles: usize,
    /// ADUs that an objective over several may be about.
    concerned: Vec<u32>,
}

impl Default for Assign {
    fn default() -> Self {
        Self::new(Self::MOVES)
    }
}

impl Assign {
    /// Attempts of the local search in one cycle, unless stated otherwise.
    pub const MOVES: usize = 4_000;

    /// With at most so many attempts of the local search in one cycle.
    pub fn new(moves: usize) -> Self {
        Self {
            moves,
            table: Table::default(),
            faults: Vec::new(),
            local: Local::default(),
            order: Vec::new(),
            cycles: 0,
            concerned: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    fn rotate(&mut self, cycle: &Cycle) {
        let adus = &cycle.adus;
        let is_first = |at: &usize| *at == 0 || adus[*at].stream != adus[*at - 1].stream;
        let heads = || (0..adus.len()).filter(is_first);
        let streams = heads().count().max(1);
        let first = heads().nth(self.cycles % streams).unwrap_or(0);
        self.cycles += 1;
        self.order.clear();
        self.order
            .extend((first..adus.len()).chain(0..first).map(|at| at as u32));
    }

    /// Of ADUs of one stream that can change places at no cost, the earlier one takes the slot in which a
    /// packet arrives earlier.
    fn straighten(&self, cycle: &Cycle, schedule: &mut Schedule) {
        let arrival = |slot: u32| {
            let slot = &cycle.slots[slot as usize];
            slot.wait_ms + slot.round_trip_ms
        };
        // Insertion sort, within each stream.
        for at in 1..cycle.adus.len() {
            let mut later = at;
            for earlier in (0..at).rev() {
                if cycle.adus[earlier].stream != cycle.adus[later].stream {
                    break;
                }
                let (Some(a), Some(b)) = (schedule[earlier], schedule[later]) else {
                    break;
                };
                let order = |adu: usize| cycle.adus[adu].sequence;
                if order(earlier) > order(later) || arrival(b) >= arrival(a) {
                    break;
                }
                let (e, l, a, b) = (earlier, later, a as usize, b as usize);
                let is_cheap = || {
                    let now = self.table.value(e, a) + self.table.value(l, b);
                    let then = self.table.value(e, b) + self.table.value(l, a);
                    then >= now
                };
                if !cycle.fits(e, b) || !cycle.fits(l, a) || !is_cheap() {
                    break;
                }
                schedule.swap(earlier, later);
                later = earlier;
            }
        }
    }
}

/// True if an objective over several ADUs may be about those of the stream.
fn is_named(stream: StreamId, objectives: &Objectives) -> bool {
    let of_adus = |variable: &&Variable| variable.kind() == VariableKind::Adu;
    objectives.iter().any(|(_, objective)| {
        let mut variables = objective.variables().iter().filter(of_adus);
        objective.shape() == Shape::Combinatorial
            && variables.any(|variable| {
                let streams = variable.streams();
                streams.is_none_or(|streams| streams.binary_search(&stream).is_ok())
            })
    })
}

impl Planner for Assign {
    fn plan(&mut self, cycle: &Cycle, objectives: &mut Objectives, schedule: &mut Schedule) {
        schedule.clear();
        schedule.resize(cycle.adus.len(), None);
        objectives.begin(&Placed {
            cycle,
            slots: schedule,
        });
        self.faults.clear();
        self.rotate(cycle);
        (self.table).fill(cycle, objectives, &self.order, &mut self.faults);
        for (id, faults) in self.faults.drain(..) {
            objectives.note(id, faults);
        }
        for (adu, slot) in schedule.iter_mut().enumerate() {
            *slot = self.table.slot_of(adu);
        }
        self.straighten(cycle, schedule);
        if !objectives.are_combinatorial() {
            return;
        }
        let placed = Placed {
            cycle,
            slots: schedule,
        };
        objectives.narrow(&placed, &Prospects::of(cycle));
        self.concerned.clear();
        let count = cycle.adus.len();
        if count <= SMALL {
            let of_streams = |at: &u32| is_named(cycle.adus[*at as usize].stream, objectives);
            (self.concerned).extend((0..count as u32).filter(of_streams));
        } else {
            let waiting = |adu: &u32| (*adu as usize) < count;
            (self.concerned).extend(objectives.companions().filter(waiting));
        }
        self.concerned.sort_unstable();
        self.concerned.dedup();
        if !self.concerned.is_empty() {
            let mut problem = Problem {
                cycle,
                objectives,
                table: &self.table,
                concerned: &self.concerned,
            };
            let mut random = Seed(self.cycles as u64).stream("kicks");
            self.local
                .search(&mut problem, self.moves, &mut random, schedule);
        }
    }
}
