//! The greatest utility by branch and bound.
//!
//! If objectives are over at most two ADUs, the utility of a schedule is quadratic: the utility of each ADU alone in its slot,
//! and that of each pair in its two. With x = 1 for "this ADU in this slot" that is a quadratic assignment, a mixed-integer
//! program; it is solved by depth-first search under the bound of Gilmore and Lawler [Lawler, Management Science 1963]: half of
//! the most that a pair may add counts for each of the two, and a linear assignment of the rest is no worse than any schedule
//! of it.

use anabranch_hose::Objectives;
use anabranch_sched::{
    assign::{Matching, utility},
    objective::{Cycle, Placed},
};

/// Nodes after which the search gives up.
const NODES_MAX: u64 = 400_000;
/// Smallest improvement of a bound that counts: [`Matching`] counts in millionths.
const EQUAL: f64 = 1e-3;

/// A utility as a quadratic form. Placements, an ADU in a slot, are numbered by ADU, then slot.
struct Quadratic {
    adus: usize,
    slots: usize,
    /// Utility of the schedule that sends nothing.
    base: f64,
    alone: Vec<f64>,
    /// Utility beyond the sum of both alone; 0 for two placements that exclude each other.
    pairs: Vec<f64>,
}

impl Quadratic {
    fn of(cycle: &Cycle, objectives: &mut Objectives) -> Self {
        let (adus, slots) = (cycle.adus.len(), cycle.slots.len());
        let count = adus * slots;
        let mut schedule = vec![None; adus];
        let mut worth = |placements: &[usize]| {
            schedule.fill(None);
            for placement in placements {
                schedule[placement / slots] = Some((placement % slots) as u32);
            }
            let placed = Placed {
                cycle,
                slots: &schedule,
            };
            if placements.is_empty() {
                objectives.begin(&placed);
            }
            objectives.utility(&placed)
        };
        let base = worth(&[]);
        let alone: Vec<f64> = (0..count).map(|at| worth(&[at]) - base).collect();
        let mut pairs = vec![0.0; count * count];
        for one in 0..count {
            for other in one + 1..count {
                if one / slots != other / slots && one % slots != other % slots {
                    let both = worth(&[one, other]) - base - alone[one] - alone[other];
                    pairs[one * count + other] = both;
                    pairs[other * count + one] = both;
                }
            }
        }
        Self {
            adus,
            slots,
            base,
            alone,
            pairs,
        }
    }

    fn pair(&self, one: usize, other: usize) -> f64 {
        self.pairs[one * self.alone.len() + other]
    }
}

/// The search.
struct Search<'q> {
    form: &'q Quadratic,
    /// ADUs, starting with those whose slots differ most.
    order: Vec<usize>,
    placed: Vec<usize>,
    is_taken: Vec<bool>,
    matching: Matching,
    best: f64,
    nodes: u64,
}

impl Search<'_> {
    /// Utility that a placement adds with those already made, and at most with the others.
    fn optimistic(&self, depth: usize, placement: usize) -> f64 {
        let form = self.form;
        let (adu, slot) = (placement / form.slots, placement % form.slots);
        let made: f64 = self
            .placed
            .iter()
            .map(|&one| form.pair(placement, one))
            .sum();
        let others = self.order[depth..].iter().filter(|&&other| other != adu);
        let hoped: f64 = others
            .map(|other| {
                let free = (0..form.slots).filter(|&at| at != slot && !self.is_taken[at]);
                free.map(|at| form.pair(placement, other * form.slots + at))
                    .fold(0.0, f64::max)
            })
            .sum();
        form.alone[placement] + made + hoped / 2.0
    }

    /// Upper bound on what any completion of this schedule adds.
    fn bound(&mut self, depth: usize) -> f64 {
        let form = self.form;
        let free: Vec<usize> = (0..form.slots)
            .filter(|&slot| !self.is_taken[slot])
            .collect();
        self.matching.clear();
        for _ in &free {
            self.matching.add_column(|_| 0);
        }
        for &adu in &self.order[depth..] {
            let values: Vec<i64> = free
                .iter()
                .map(|slot| utility(self.optimistic(depth, adu * form.slots + slot)))
                .collect();
            self.matching.add_row(0, |column| values[column]);
        }
        self.matching.utility() as f64 / 1e6
    }

    /// Tries everything from here; `so_far` is the utility of the placements made. False if it gave up.
    fn go(&mut self, depth: usize, so_far: f64) -> bool {
        self.best = self.best.max(so_far);
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return false;
        }
        if depth == self.order.len() || so_far + self.bound(depth) <= self.best + EQUAL {
            return true;
        }
        let (form, adu) = (self.form, self.order[depth]);
        let mut choices: Vec<(f64, usize)> = (0..form.slots)
            .filter(|&slot| !self.is_taken[slot])
            .map(|slot| adu * form.slots + slot)
            .map(|placement| (self.optimistic(depth, placement), placement))
            .collect();
        choices.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, placement) in choices {
            let made: f64 = self
                .placed
                .iter()
                .map(|&one| form.pair(placement, one))
                .sum();
            let slot = placement % form.slots;
            self.placed.push(placement);
            self.is_taken[slot] = true;
            let is_done = self.go(depth + 1, so_far + form.alone[placement] + made);
            self.is_taken[slot] = false;
            self.placed.pop();
            if !is_done {
                return false;
            }
        }
        self.go(depth + 1, so_far)
    }
}

/// Greatest utility of instances whose objectives are over at most two ADUs, given that of some schedule; `None` if the search
/// was given up.
pub(in crate::experiments::assign_gap) fn best_by_bounds(
    cycle: &Cycle,
    objectives: &mut Objectives,
    known: f64,
) -> Option<f64> {
    let form = Quadratic::of(cycle, objectives);
    let spread = |adu: &usize| {
        let row = &form.alone[adu * form.slots..][..form.slots];
        row.iter()
            .fold(0.0, |most: f64, value| most.max(value.abs()))
    };
    let mut order: Vec<usize> = (0..form.adus).collect();
    order.sort_by(|a, b| spread(b).total_cmp(&spread(a)));
    let mut search = Search {
        form: &form,
        order,
        placed: Vec::new(),
        is_taken: vec![false; form.slots],
        matching: Matching::new(),
        best: (known - form.base).max(0.0),
        nodes: 0,
    };
    let is_done = search.go(0, 0.0);
    is_done.then_some(form.base + search.best)
}
