//! Ours: the exact assignment under objectives over one ADU, then local search under the others.

use anabranch_hose::{AduFact, Faults, ObjectiveId, Objectives, Shape};

use super::{
    Cycle, Placed, Planner, Schedule, Slot,
    cycle::{Adu, Alone},
};
use crate::assign::{Matching, UTILITY_MAX, Utility, utility};

/// What ties are broken by, in millionths; all of it is less than a thousandth of a unit.
///
/// An ADU nobody has an objective for is sent, and rather in a slot that exists than in one that is expected.
const SENT: Utility = 400;
const SENT_LATER: Utility = 200;
/// What having the last turn takes from being sent now.
const TURN_MAX: Utility = 150;
/// Where an objective about latency is indifferent, what it is about goes the quicker way, and the older first: steps
/// of quickness, and of age.
const STEPS: usize = 16;

/// Objectives over one ADU are separable: what a schedule is worth under them is a sum over its pairs, and the best
/// schedule is found exactly by [`Matching`]. An ADU is left out if every slot would do harm. Objectives over
/// several ADUs are then served by local search: an ADU moves to a free slot, two ADUs change places, or one is
/// left out, as long as the whole gains; no schedule is worth less than where the search began.
///
/// A phantom's pairs count by its confidence, so that a slot that exists is not given up for one that may
/// not come.
///
/// O(ADUs × slot classes × objectives) evaluations, slots being of one class if nothing but their numbers
/// differs; then an assignment; then at most `moves` attempts of the local search.
#[derive(Debug)]
pub struct Assign {
    moves: usize,
    matching: Matching,
    table: Table,
    faults: Vec<(ObjectiveId, Faults)>,
    /// The ADU of each slot.
    occupants: Vec<Option<u32>>,
    /// ADUs in the order in which they look for a place, which decides between equals; it begins with another
    /// stream in each cycle.
    order: Vec<u32>,
    cycles: usize,
}

/// What each ADU is worth in each class of slots, objectives over one ADU alone.
#[derive(Debug, Default)]
struct Table {
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
    fn fill(
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
    fn tie(&self, adu: usize, slot: usize) -> Utility {
        self.hurry[adu] * self.quickness[self.class[slot] as usize]
    }

    fn value(&self, adu: usize, slot: usize) -> f64 {
        self.values[adu * self.first.len() + self.class[slot] as usize]
    }

    /// Of an ADU where it is, if anywhere.
    fn of(&self, adu: u32, slot: Option<u32>) -> f64 {
        slot.map_or(0.0, |slot| self.value(adu as usize, slot as usize))
    }
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
            matching: Matching::new(),
            table: Table::default(),
            faults: Vec::new(),
            occupants: Vec::new(),
            order: Vec::new(),
            cycles: 0,
        }
    }

    fn assign(&mut self, cycle: &Cycle, schedule: &mut Schedule) {
        self.matching.clear();
        for _ in 0..cycle.slots.len() {
            self.matching.add_column(|_| 0);
        }
        self.rotate(cycle);
        let turns = cycle.adus.iter().map(|adu| adu.turn).max();
        let turns = Utility::from(turns.unwrap_or(0).max(1));
        for &row in &self.order {
            let (row, table) = (row as usize, &self.table);
            self.matching.add_row(0, |column| {
                if !cycle.fits(row, column) {
                    return -UTILITY_MAX;
                }
                let sent = if cycle.slots[column].is_phantom() {
                    SENT_LATER
                } else {
                    SENT - TURN_MAX * Utility::from(cycle.adus[row].turn) / turns
                };
                utility(table.value(row, column)) + sent + table.tie(row, column)
            });
        }
        for (place, &row) in self.order.iter().enumerate() {
            let column = self.matching.column_of(place);
            schedule[row as usize] = column.map(|column| column as u32);
        }
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
                    continue;
                }
                let (Some(a), Some(b)) = (schedule[earlier], schedule[later]) else {
                    break;
                };
                let order = |adu: usize| cycle.adus[adu].sequence;
                let (e, l, a_at, b_at) = (earlier, later, a as usize, b as usize);
                let now = self.table.value(e, a_at) + self.table.value(l, b_at);
                let then = self.table.value(e, b_at) + self.table.value(l, a_at);
                let fits = cycle.fits(e, b_at) && cycle.fits(l, a_at);
                if order(e) > order(l) || arrival(b) >= arrival(a) || then < now || !fits {
                    break;
                }
                schedule.swap(earlier, later);
                later = earlier;
            }
        }
    }

    /// Moves that gain something, until none does or attempts run out.
    fn search(
        &mut self,
        cycle: &Cycle,
        objectives: &mut Objectives,
        concerned: &[u32],
        schedule: &mut Schedule,
    ) {
        self.occupants.clear();
        self.occupants.resize(cycle.slots.len(), None);
        for (adu, slot) in schedule.iter().enumerate() {
            if let Some(slot) = slot {
                self.occupants[*slot as usize] = Some(adu as u32);
            }
        }
        let mut left = self.moves;
        // ADUs in a row that found nothing better.
        let mut settled = 0;
        for &adu in concerned.iter().cycle() {
            let mut has_gained = false;
            for to in (0..cycle.slots.len() as u32).map(Some).chain([None]) {
                if left == 0 {
                    return;
                }
                if schedule[adu as usize] != to {
                    left -= 1;
                    has_gained |= self.try_move(cycle, objectives, schedule, adu, to);
                }
            }
            settled = if has_gained { 0 } else { settled + 1 };
            if settled >= concerned.len() {
                return;
            }
        }
    }

    /// Takes an ADU to another slot, its occupant to where the ADU was, and back again if that gains nothing; whether
    /// it gained.
    fn try_move(
        &mut self,
        cycle: &Cycle,
        objectives: &mut Objectives,
        schedule: &mut Schedule,
        adu: u32,
        to: Option<u32>,
    ) -> bool {
        let from = schedule[adu as usize];
        let other = to.and_then(|to| self.occupants[to as usize]);
        let fits = |adu: u32, slot: Option<u32>| {
            slot.is_none_or(|slot| cycle.fits(adu as usize, slot as usize))
        };
        if !fits(adu, to) || other.is_some_and(|other| !fits(other, from)) {
            return false;
        }
        let pair = [adu, other.unwrap_or(adu)];
        let movers = &pair[..1 + usize::from(other.is_some())];
        let mut worth = |table: &Table, schedule: &Schedule| {
            let placed = Placed {
                cycle,
                slots: schedule,
            };
            let alone: f64 = (movers.iter())
                .map(|&adu| table.of(adu, schedule[adu as usize]))
                .sum();
            alone + objectives.combinatorial_involving(&placed, movers)
        };
        let before = worth(&self.table, schedule);
        schedule[adu as usize] = to;
        if let Some(other) = other {
            schedule[other as usize] = from;
        }
        let after = worth(&self.table, schedule);
        if after > before + 1e-9 * before.abs().max(1.0) {
            for (slot, adu) in [(to, Some(adu)), (from, other)] {
                if let Some(slot) = slot {
                    self.occupants[slot as usize] = adu;
                }
            }
            return true;
        }
        schedule[adu as usize] = from;
        if let Some(other) = other {
            schedule[other as usize] = to;
        }
        false
    }
}

fn is_about_time(fact: &AduFact) -> bool {
    matches!(fact, AduFact::Latency | AduFact::Late | AduFact::Jitter)
}

/// ADUs that an objective over several may be about.
fn concerned(cycle: &Cycle, objectives: &Objectives) -> Vec<u32> {
    let is_concerned = |adu: &Adu| {
        objectives.iter().any(|(_, objective)| {
            let mut variables = objective.variables().iter();
            objective.shape() == Shape::Combinatorial
                && variables.any(|variable| {
                    let streams = variable.streams();
                    streams.is_none_or(|streams| streams.binary_search(&adu.stream).is_ok())
                })
        })
    };
    let adus = cycle.adus.iter().enumerate();
    let concerned = adus.filter(|(_, adu)| is_concerned(adu));
    concerned.map(|(at, _)| at as u32).collect()
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
        self.table.fill(cycle, objectives, &mut self.faults);
        for (id, faults) in self.faults.drain(..) {
            objectives.note(id, faults);
        }
        self.assign(cycle, schedule);
        self.straighten(cycle, schedule);
        let concerned = concerned(cycle, objectives);
        if !concerned.is_empty() {
            self.search(cycle, objectives, &concerned, schedule);
        }
    }
}
